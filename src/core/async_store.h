/* async_store.h - a store as a relay uses it: asked now, answered later, nothing waits.
 *
 * A claim, a settle and an extend can be out at the same time, one of each. Every one is answered exactly once, from
 * within step, by success or failure; also when the store cannot be reached, and also when it is slow: after timeout_us
 * it fails with OUTBOX_UNREACHABLE, and what the store did with it is not known. The async store connects by itself when it is
 * asked for something; how long to wait before asking again is the caller's business (core/schedule.h).
 *
 * Wake-ups: while the async store is listening it calls woken whenever there may be work, no sooner and never without reason;
 * fallback looks included. The caller claims then.
 *
 * A host's loop waits for fd to become readable, until due_us, and then calls step. One thread. */
#ifndef OB_CORE_ASYNC_STORE_H
#define OB_CORE_ASYNC_STORE_H

#include <outbox/outbox.h>

struct outbox_batch;
struct ob_async_store;

/* Whom to tell. All are called from step only. err is valid for the call. */
struct ob_async_store_host {
    void *ctx;
    void (*claimed)(void *ctx, enum outbox_code code, const struct outbox_error *err,
                    struct outbox_batch *batch); /* the batch is the host's to free; NULL after a failure */
    void (*settled)(void *ctx, enum outbox_code code, const struct outbox_error *err); /* results stand in the items */
    void (*extended)(void *ctx, enum outbox_code code, const struct outbox_error *err);
    void (*woken)(void *ctx);
};

/* How the async store stands, for logs, metrics and readiness. */
struct ob_async_store_state {
    bool connected;    /* the last thing we heard was no failure */
    bool polling;      /* no wake-up is possible here (a pooler is in between): it looks by itself */
    uint64_t connects; /* connections made so far */
    uint64_t wakeups;  /* times woken was called because somebody rang */
    struct outbox_error
        fault; /* .code OUTBOX_OK: none; otherwise what keeps the async store from working, for people */
};

struct ob_async_store_ops {
    const char *kind;                            /* "postgresql", "sqlite" */
    void (*close)(struct ob_async_store *async); /* what is out is never answered; accepts what is half open */
    /* want is copied. */
    void (*claim)(struct ob_async_store *async, const struct outbox_claim *want, int64_t timeout_us);
    /* items are the host's, and stay as they are until the answer; results are written there. */
    void (*settle)(struct ob_async_store *async, struct outbox_settle *items, size_t count, int64_t timeout_us);
    void (*extend)(struct ob_async_store *async, struct outbox_settle *items, size_t count, int64_t lease_us,
                   int64_t timeout_us);
    int (*fd)(const struct ob_async_store *async); /* one descriptor, the same for the async store's whole life */
    int64_t (*due_us)(const struct ob_async_store *async); /* of the boot-time clock; INT64_MAX: never */
    void (*step)(struct ob_async_store *async);
    void (*state)(const struct ob_async_store *async, struct ob_async_store_state *state);
    void (*pace)(struct ob_async_store *async, int64_t fallback_us); /* another time between looks, from now on */
};

struct ob_async_store {
    const struct ob_async_store_ops *ops;
};

struct ob_log;

struct ob_async_store_options {
    const char *url, *schema, *application; /* copied */
    const char *worker;                     /* copied: only claims under a name that begins so are settled; NULL: any */
    int64_t timeout_us;                     /* of its requests, as a rule; 0: not known */
    int64_t fallback_us;                    /* between looks when nobody rings, at most; 0: 500 ms */
    bool polling;                           /* never listen */
    bool relaxed;                           /* commits of claims and settles need not be on disk when answered */
    const struct ob_log *log;               /* borrowed; NULL: none */
    struct ob_async_store_host host;
};

#endif
