/* tls_fault.h - why a TLS handshake failed, for sinks whose libraries only say that it did. A certificate that is rejected
 * is a matter of the set-up; a handshake that ends in any other way is as good as no connection. */
#ifndef OB_SINK_BROKER_TLS_FAULT_H
#define OB_SINK_BROKER_TLS_FAULT_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>

/* An error of OpenSSL's queue: did we reject the other side's certificate, or it ours? Its alerts have numbers of their
 * own. */
static inline bool ob_tls_rejects(unsigned long error)
{
    int reason = ERR_GET_REASON(error), alert = reason - SSL_AD_REASON_OFFSET;
    return reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
           (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) || alert == SSL_AD_UNKNOWN_CA ||
           alert == SSL_AD_CERTIFICATE_REQUIRED;
}

#endif
