/* request.h - a message as a request: its header lines and its body. Nothing from a message is sent unchecked. The memory
 * is reused for the next message. Thread: the loop's; no I/O. */
#ifndef OB_SINK_HTTP_REQUEST_H
#define OB_SINK_HTTP_REQUEST_H

#include "base/buf.h"
#include "sink/http/config.h"

struct ob_http_request {
    struct curl_slist *head; /* for CURLOPT_HTTPHEADER: the message's lines, then those of the configuration */
    const void *body;        /* the payload itself, or a text that we made */
    size_t body_len;
    bool keyed;          /* there is an Idempotency-Key */
    char *url;           /* from the message; NULL: it has none */
    const char *problem; /* if it cannot be built: a stable code */
    struct ob_headers headers;
    struct ob_buf lines, text; /* each line ends with a NUL */
    struct curl_slist *nodes;
    size_t node_room;
};

void ob_http_request_init(struct ob_http_request *request);
/* now_s: seconds since 1970. OUTBOX_INVALID: this message can never be sent as it is. */
enum outbox_code ob_http_request_build(struct ob_http_request *request, const struct ob_http_config *config,
                                       const struct outbox_delivery *msg, int64_t now_s,
                                       struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_http_request_fini(struct ob_http_request *request);

#endif
