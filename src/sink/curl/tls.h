/* tls.h - sets the TLS options of a sink on a handle of libcurl. */
#ifndef OB_SINK_CURL_TLS_H
#define OB_SINK_CURL_TLS_H

#include "sink/common/tls.h"

#include <curl/curl.h>

/* The texts of tls are copied by libcurl. False: out of memory, or libcurl does not support it. */
bool ob_curl_tls(CURL *easy, const struct ob_tls *tls) OUTBOX_MUST_CHECK;

#endif
