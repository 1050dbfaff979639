/* answer.h - an answer while it is received: keeps only as much of it as is used. Thread: the loop's. */
#ifndef OB_SINK_HTTP_ANSWER_H
#define OB_SINK_HTTP_ANSWER_H

#include "base/buf.h"
#include "sink/http/config.h"

struct ob_http_answer {
    const struct ob_http_config *config; /* borrowed */
    struct ob_buf body;                  /* the beginning of the body */
    size_t received, header_bytes;
    bool headed;  /* all headers came, up to the empty line */
    bool cut;     /* longer than the part that we read */
    bool garbage; /* too many bytes of headers */
    char reference[256];
    struct ob_buf text; /* of the verdict */
    char *output;       /* JSON; owned */
};

void ob_http_answer_init(struct ob_http_answer *answer, const struct ob_http_config *config);
void ob_http_answer_fini(struct ob_http_answer *answer);
/* For the next request. */
void ob_http_answer_reset(struct ob_http_answer *answer);

/* CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION; data is the answer. */
size_t ob_http_answer_body(char *bytes, size_t size, size_t count, void *data);
size_t ob_http_answer_header(char *bytes, size_t size, size_t count, void *data);

/* Adds text, reference and output to the verdict; they are borrowed from the answer. error: libcurl's error text. */
void ob_http_answer_describe(struct ob_http_answer *answer, const struct ob_http_end *end, const char *error,
                             struct outbox_verdict *verdict);

#endif
