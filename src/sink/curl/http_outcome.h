/* http_outcome.h - what the result of an HTTP request means for the message. Decided by codes alone: libcurl's result, the
 * status, and whether a request may have been sent. No I/O; any thread. */
#ifndef OB_SINK_CURL_HTTP_OUTCOME_H
#define OB_SINK_CURL_HTTP_OUTCOME_H

#include <outbox/sink.h>

/* The configured outcomes of statuses 100 to 599: 0 where our own rules apply, else the outcome plus one. */
struct ob_http_rules {
    unsigned char at[600];
};

/* "404": "retry", or a whole class, "4xx": "retry". An exact status takes precedence over its class, in any order. */
enum outbox_code ob_http_rules_set(struct ob_http_rules *rules, const char *status, const char *outcome,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;

struct ob_http_end {
    int curl;                   /* a CURLcode */
    int status;                 /* 0: there was no answer */
    bool sent, resent, starved; /* as in struct ob_curl_call */
    bool refused;               /* the guard let no address pass */
    bool whole;                 /* nothing of the answer is missing, except what we chose not to read */
    bool cut;                   /* we stopped reading: the answer is too long */
    bool flooded;               /* as in struct ob_curl_call */
    bool keyed;                 /* an Idempotency-Key was sent */
    bool own_address;           /* the URL is the message's own, not the sink's */
    int64_t retry_after_s;      /* 0: none */
    int64_t patience_us;        /* the longest Retry-After that is honoured */
};

struct ob_curl_call;
/* Fills in what libcurl knows of a finished call: curl, status, sent, resent, starved, refused, flooded and retry_after_s.
 * headed: all headers of the answer came; without them a success does not count as an answer. */
void ob_http_end_init(struct ob_http_end *end, const struct ob_curl_call *call, int result, bool headed);

/* How long the receiver asks us to wait, limited to patience_us; -1: it does not say. */
int64_t ob_http_patience_us(const struct ob_http_end *end);

/* Fills outcome, scope, unreachable, code (into `code`) and not_before_us; the caller sets text and reference. */
void ob_http_judge(const struct ob_http_rules *rules, const struct ob_http_end *end, char code[32],
                   struct outbox_verdict *verdict);

#endif
