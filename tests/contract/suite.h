/* suite.h - the words that contract tests are written in.
 *
 * A test is a function of a struct fx: one fresh outbox and a handle to it. Helpers assert; a failing one blames the
 * line of the test that called it. Everything a helper hands out lives until the test ends and is freed for it, also
 * when the test fails half-way. */
#ifndef CONTRACT_SUITE_H
#define CONTRACT_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

/* The helpers give defaults which a test overrides by name: that is the point of them. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define DEFAULT_PAYLOAD "{\"n\": 1}"
#define TENANT_A "0a0a0a0a-1111-4222-8333-444444444444"
#define TENANT_B "0b0b0b0b-1111-4222-8333-444444444444"
#define SECOND 1000000LL
#define HOUR (3600 * SECOND)
#define PATIENCE (20 * SECOND) /* until a test that waits gives up */

struct fx;
struct kept;

struct contract_test {
    const char *name; /* the requirement ids it proves, a colon, and the behaviour */
    void (*run)(struct fx *fx);
    unsigned needs; /* abilities */
};

struct fx {
    const struct contract_test *test;
    char place[PLACE_MAX];
    struct ob_store *store;
    struct outbox_error err; /* of the last call */
    const char *file;        /* who called the helper that is running */
    int line;
    bool is_child;      /* a process of its own: failures go to stderr */
    unsigned epoch;     /* of the back doors, when this handle was opened */
    struct kept **kept; /* freed when the test ends, shared by all handles of the test */
};

/* For the few lines of a test that a store cannot follow; a whole test says it in its `needs`. */
static inline bool store_has(enum ability ability)
{
    return !fixture_lacks(ability);
}

struct fx *fx_at(struct fx *fx, const char *file, int line);
#define AT(fx) fx_at(fx, __FILE__, __LINE__)

/* Says what went wrong at the test's line, and ends the test. */
void blame(struct fx *fx, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Hands ptr over: released when the test ends, last in first out. Returns ptr. */
void *keep(struct fx *fx, void *ptr, void (*release)(void *));
/* n times the same letter; kept. */
char *repeat_text(struct fx *fx, char c, size_t n);
char *keep_text(struct fx *fx, const char *text); /* a copy; NULL stays NULL */
void fx_fini(struct fx *fx);                      /* releases all that was kept */
void fx_open(struct fx *fx);                      /* the place is set: opens the store */
/* A store may remember how far its claims got, and look behind that only now and then. Where a back door has put
 * something behind it, the handle is opened anew, so that no test has to wait. */
void fx_refresh(struct fx *fx);

/* A second handle to the same outbox: another worker, another producer. */
struct fx *another_(struct fx *fx);
#define another(fx) another_(AT(fx))

/* ---- producers: put(fx, .topic = "mail", .key = "k") ------------------------------------------------------------- */

#define MSG(...) \
    ((struct outbox_message){.size = sizeof(struct outbox_message), .priority = -1, .topic = "t", __VA_ARGS__})
struct outbox_receipt put_(struct fx *fx, struct outbox_message msg);
#define put(fx, ...) put_(AT(fx), MSG(__VA_ARGS__))
/* The enqueue must fail with this code, and no table may change. */
void refuse_(struct fx *fx, enum outbox_code code, struct outbox_message msg);
#define refuse(fx, code, ...) refuse_(AT(fx), code, MSG(__VA_ARGS__))
/* Fills in the payload when there is none. */
void complete(struct outbox_message *msg);

void check_(struct fx *fx, enum outbox_code code, enum outbox_code wanted, const char *what);
/* One operation of the store that must succeed: ok(fx, commit). */
#define ok(fx, op, ...) check_(AT(fx), ((fx)->store->ops->op)((fx)->store, ##__VA_ARGS__, &(fx)->err), OUTBOX_OK, #op)
/* ... and one that must fail with a code: fails(fx, OUTBOX_INVALID, configure, "ns", "x", "y"). */
#define fails(fx, code, op, ...) \
    check_(AT(fx), ((fx)->store->ops->op)((fx)->store, ##__VA_ARGS__, &(fx)->err), code, #op)

/* ---- workers ----------------------------------------------------------------------------------------------------- */

#define WANT(...) \
    ((struct outbox_claim){.size = sizeof(struct outbox_claim), \
                           .limit = 100, \
                           .lease_us = 30 * SECOND, \
                           .run = 1, \
                           .worker = "w1", \
                           __VA_ARGS__})
outbox_batch *claim_(struct fx *fx, struct outbox_claim want);
#define claim(fx, ...) claim_(AT(fx), WANT(__VA_ARGS__))
/* Exactly n, or the test fails. Several claims may be needed: a store may remember where it found work and look
 * elsewhere only now and then. Where one claim must do, a test says claim. */
outbox_batch *claim_n_(struct fx *fx, size_t n, struct outbox_claim want);
#define claim_n(fx, n, ...) claim_n_(AT(fx), n, WANT(__VA_ARGS__))
/* Nothing may be there to claim. Asked on a handle of its own, which remembers nothing of earlier claims. */
void claim_none_(struct fx *fx, struct outbox_claim want);
#define claim_none(fx, ...) claim_none_(AT(fx), WANT(__VA_ARGS__))
/* There may be more: takes one. */
const struct outbox_delivery *take_(struct fx *fx, struct outbox_claim want);
#define take(fx, ...) take_(AT(fx), WANT(.limit = 1, __VA_ARGS__))
/* The claim must fail with this code and change nothing. */
void refuse_claim_(struct fx *fx, enum outbox_code code, struct outbox_claim want);
#define refuse_claim(fx, code, ...) refuse_claim_(AT(fx), code, WANT(__VA_ARGS__))

/* What to say of a claimed message. A function, because msg may be a claim. */
static inline struct outbox_settle settle_item(const struct outbox_delivery *msg, struct outbox_settle item)
{
    item.id = msg->id;
    item.token = msg->token;
    return item;
}
#define SETTLE(msg, ...) settle_item(msg, (struct outbox_settle){.delay_us = -1, .latency_us = -1, __VA_ARGS__})
/* Settles; the result must be OUTBOX_SETTLED. Returns whether the message is dead now. */
bool settle_(struct fx *fx, struct outbox_settle item);
#define settle(fx, msg, ...) settle_(AT(fx), SETTLE(msg, __VA_ARGS__))
#define ack(fx, msg) ((void)settle(fx, msg, .outcome = OUTBOX_DELIVERED))
void ack_all_(struct fx *fx, outbox_batch *batch); /* in one call */
#define ack_all(fx, batch) ack_all_(AT(fx), batch)
/* Again at once, unless the attempts are spent. */
#define nack(fx, msg) settle(fx, msg, .outcome = OUTBOX_RETRY, .code = "c", .error = "e", .delay_us = 0)
#define give_back(fx, msg) ((void)settle(fx, msg, .outcome = OUTBOX_RELEASED, .delay_us = 0))
/* The result must be this one, and no table may change. */
void settle_refused_(struct fx *fx, enum outbox_settled result, struct outbox_settle item);
#define settle_refused(fx, result, msg, ...) settle_refused_(AT(fx), result, SETTLE(msg, __VA_ARGS__))
/* Sends one, then claims and fails it for good: a dead letter. */
struct outbox_uuid make_dead_(struct fx *fx, struct outbox_message msg);
#define make_dead(fx, ...) make_dead_(AT(fx), MSG(__VA_ARGS__))

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* The row of the view `messages`, payload included; the test fails when there is none. */
const struct ob_message_row *look_(struct fx *fx, struct outbox_uuid id);
#define look(fx, id) look_(AT(fx), id)
/* "pending attempts 1 spent 1", "processing attempts 1 spent 1 by w1", "dead attempts 5 spent 5", "none". */
void expect_state_(struct fx *fx, struct outbox_uuid id, const char *wanted);
#define expect_state(fx, id, wanted) expect_state_(AT(fx), id, wanted)
/* One "number outcome worker code" each, oldest first: "1 lost w1; 2 retry w2 http_503; 3 open w1". */
void expect_attempts_(struct fx *fx, struct outbox_uuid id, const char *wanted);
#define expect_attempts(fx, id, wanted) expect_attempts_(AT(fx), id, wanted)
/* One "action actor reason" each, oldest first: "retry ann fixed". */
void expect_acts_(struct fx *fx, const struct outbox_uuid *id, const char *wanted);
#define expect_acts(fx, id, wanted) expect_acts_(AT(fx), id, wanted)
/* The row of one attempt; the test fails when there is none. */
const struct ob_attempt_row *attempt_(struct fx *fx, struct outbox_uuid id, int number);
#define attempt_of(fx, id, number) attempt_(AT(fx), id, number)

size_t count_(struct fx *fx, struct ob_filter filter);
#define count(fx, ...) count_(AT(fx), (struct ob_filter){.limit = 100000, __VA_ARGS__})
#define count_status(fx, status) count(fx, .status_plus_1 = (status) + 1)
/* Sums of the status rows of a namespace and topic; NULL: of all. */
struct ob_status_row status_of_(struct fx *fx, const char *name_space, const char *topic);
#define status_of(fx, name_space, topic) status_of_(AT(fx), name_space, topic)

const char *digest(struct fx *fx);                  /* kept */
const char *scalar(struct fx *fx, const char *sql); /* kept */
void expect_unchanged_(struct fx *fx, const char *before, const char *what);
#define expect_unchanged(fx, before, what) expect_unchanged_(AT(fx), before, what)

void expire(struct fx *fx, struct outbox_uuid id);
void expire_all(struct fx *fx);
void make_due(struct fx *fx, struct outbox_uuid id);
/* All that befell the message was so many days ago. Ids hold their time, so it has another one afterwards. */
void make_old(struct fx *fx, struct outbox_uuid *id, int days);
const char *uuid_text(struct fx *fx, struct outbox_uuid id);
bool uuid_equal(struct outbox_uuid a, struct outbox_uuid b);
#define assert_same_id(a, b) assert_true(uuid_equal(a, b))

int64_t now_us(void);        /* the wall clock; the database runs on this machine */
void until_us(int64_t when); /* lets the clock reach a time; never a means to wait for somebody else */
void tick(void);             /* the clock moves on by more than any store's resolution */

#endif
