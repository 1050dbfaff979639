/* receiver.h - the receiver of `outbox dev`: takes webhooks on the loopback interface and answers as it is told, so that somebody can see
 * retries, breakers and dead letters without a service of their own.
 *
 * POST to any path is a delivery. GET /answer says how it answers, PUT /answer with one of the words changes it; a request that
 * a page of another site sent (it has an Origin) is refused. Not for production: there is no authentication. */
#ifndef OB_DAEMON_RECEIVER_H
#define OB_DAEMON_RECEIVER_H

#include <outbox/outbox.h>
#include <stdbool.h>
#include <stddef.h>

/* X(NAME, "word", HTTP status, "what happens") */
#define OB_RECEIVER_ANSWERS(X) \
    X(OK, "ok", 204, "accepts everything") \
    X(FAIL, "fail", 500, "an error of the receiver: retried later") \
    X(REFUSE, "refuse", 422, "refuses the message: it becomes a dead letter") \
    X(LIMIT, "limit", 429, "too many requests: asks to come back in two seconds") \
    X(SLOW, "slow", 204, "accepts everything, after three seconds") \
    X(DOWN, "down", 0, "closes the connection without an answer")

enum ob_receiver_answer {
#define OB_RECEIVER_ENUM(name, word, status, text) OB_RECEIVER_##name,
    OB_RECEIVER_ANSWERS(OB_RECEIVER_ENUM)
#undef OB_RECEIVER_ENUM
};

/* One request. Texts are borrowed, NULL where there is none, and not to be trusted. */
struct ob_receiver_delivery {
    const char *topic, *key, *id, *attempt;
    const char *body;
    size_t len;
    int status; /* what it was answered; 0: nothing */
};

struct ob_receiver;
struct ob_receiver_options {
    enum ob_receiver_answer answer;
    void (*delivered)(void *ctx,
                      const struct ob_receiver_delivery *delivery); /* on threads of the receiver, one at a time */
    void (*changed)(void *ctx, enum ob_receiver_answer answer);     /* by PUT /answer; likewise */
    void *ctx;
};

enum outbox_code ob_receiver_start(const struct ob_receiver_options *options, struct ob_receiver **out,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_receiver_stop(struct ob_receiver *receiver); /* NULL is accepted */
int ob_receiver_port(const struct ob_receiver *receiver);
/* From any thread. */
void ob_receiver_set(struct ob_receiver *receiver, enum ob_receiver_answer answer);

bool ob_receiver_find(const char *word, size_t len, enum ob_receiver_answer *answer); /* false: no such word */
const char *ob_receiver_word(enum ob_receiver_answer answer);
const char *ob_receiver_text(enum ob_receiver_answer answer); /* what happens */

#endif
