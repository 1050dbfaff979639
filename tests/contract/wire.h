/* wire.h - an async store, and what it answered: for the tests that are its host. */
#ifndef CONTRACT_WIRE_H
#define CONTRACT_WIRE_H

#include "suite.h"

#include "core/async_store.h"

enum { KINDS = 3, PATIENCE_US = 20000000, TIMEOUT_US = 10000000 };
enum kind { CLAIM, SETTLE_, EXTEND };

struct wire {
    struct fx *fx;
    struct ob_async_store *async;
    bool out[KINDS];
    int answers[KINDS], wakes;
    enum outbox_code codes[KINDS]; /* of the last answers */
    char texts[KINDS][256];
    outbox_batch *batch; /* of the last claim; freed with the next, or with the wire */
};

/* Kept; its application is "line". */
struct wire *wire_new(struct fx *fx, const char *url, const char *schema, const char *worker);
struct wire *wire_to(struct fx *fx);
#define wire(fx) wire_to(AT(fx))
struct ob_async_store_host wire_host(struct wire *wire);
void wire_free(void *wire);
/* Closes it, whatever is out. */
void cut(struct wire *wire);

/* One turn of a host's loop, max_us at most. */
void turn(struct wire *wire, int64_t max_us);
/* Until all that was asked is answered. */
void hear_out(struct wire *wire);

void ask_claim_(struct wire *wire, struct outbox_claim want, int64_t timeout_us);
#define ask_claim(wire, timeout_us, ...) \
    ask_claim_(wire, \
               (struct outbox_claim){.size = sizeof(struct outbox_claim), \
                                     .worker = "line", \
                                     .limit = 100, \
                                     .lease_us = 30 * SECOND, \
                                     .run = 1, \
                                     __VA_ARGS__}, \
               timeout_us)
void ask_settle(struct wire *wire, struct outbox_settle *items, size_t count, int64_t timeout_us);
void ask_extend(struct wire *wire, struct outbox_settle *items, size_t count, int64_t timeout_us);

void expect_code_(struct fx *fx, struct wire *wire, enum kind kind, enum outbox_code code);
#define expect_code(wire, kind, code) expect_code_(AT((wire)->fx), wire, kind, code)

/* Claims n by the async store, and returns what a settle of them is made of; kept. */
struct outbox_settle *async_take_(struct fx *fx, struct wire *wire, size_t n);
#define async_take(wire, n) async_take_(AT((wire)->fx), wire, n)

#endif
