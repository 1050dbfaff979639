/* tls_fault.h - why a TLS handshake failed, for sinks whose libraries only say that it did. A certificate that is rejected
 * is a configuration problem; a handshake that fails in any other way counts as no connection. */
#ifndef OB_SINK_BROKER_TLS_FAULT_H
#define OB_SINK_BROKER_TLS_FAULT_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>

/* Whether an error from OpenSSL's queue means that we rejected the peer's certificate, or the peer ours. The peer's alerts
 * have reason codes of their own. */
static inline bool ob_tls_rejects(unsigned long error)
{
    int reason = ERR_GET_REASON(error), alert = reason - SSL_AD_REASON_OFFSET;
    return reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
           (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) || alert == SSL_AD_UNKNOWN_CA ||
           alert == SSL_AD_CERTIFICATE_REQUIRED;
}

#endif
