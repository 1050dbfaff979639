/* http_outcome.h - what the end of an HTTP request means for the message. Decided by codes alone: libcurl's result, the
 * status, and whether a request may have left. No I/O; any thread. */
#ifndef OB_SINK_CURL_HTTP_OUTCOME_H
#define OB_SINK_CURL_HTTP_OUTCOME_H

#include <outbox/sink.h>

/* What an operator says of statuses 100 to 599: 0 where our own rules stand, else the outcome plus one. */
struct ob_http_rules {
    unsigned char at[600];
};

/* "404": "retry", or a whole class, "4xx": "retry". An exact status wins over its class, in whatever order. */
enum outbox_code ob_http_rules_set(struct ob_http_rules *rules, const char *status, const char *outcome,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;

struct ob_http_end {
    int curl;                   /* a CURLcode */
    int status;                 /* 0: there was no answer */
    bool sent, resent, starved; /* as in struct ob_curl_call */
    bool refused;               /* the guard let no address pass */
    bool whole;                 /* of the answer nothing is missing but what we would not read */
    bool cut;                   /* we stopped reading: the answer is too long */
    bool flooded;               /* as in struct ob_curl_call */
    bool keyed;                 /* an Idempotency-Key went along */
    bool own_address;           /* the URL is the message's own, not the sink's */
    int64_t retry_after_s;      /* 0: none */
    int64_t patience_us;        /* the most that a Retry-After may ask for */
};

struct ob_curl_call;
/* What libcurl knows of a call that ended: curl, status, sent, resent, starved, refused, flooded and retry_after_s. headed: all
 * headers of the answer came; without them a success does not count as an answer. */
void ob_http_end_init(struct ob_http_end *end, const struct ob_curl_call *call, int result, bool headed);

/* How long the receiver asks to be left alone, as far as that is granted; -1: it does not say. */
int64_t ob_http_patience_us(const struct ob_http_end *end);

/* Fills outcome, scope, unreachable, code (into `code`) and not_before_us; text and reference are the caller's. */
void ob_http_judge(const struct ob_http_rules *rules, const struct ob_http_end *end, char code[32],
                   struct outbox_verdict *verdict);

#endif
