/* async_store.h - a store as a relay uses it: requests are answered later, and no call blocks.
 *
 * One claim, one settle and one extend can be under way at the same time. Each is answered exactly once, from within step, by
 * success or failure. This holds also when the store is unreachable or slow: after timeout_us the request fails with
 * OUTBOX_UNREACHABLE, and it is unknown whether the store carried it out. The async store connects when it gets a request; the
 * caller decides how long to wait before the next one (core/schedule.h).
 *
 * Wake-ups: the async store calls woken when there may be work, fallback polls included, and only then. The caller then claims.
 *
 * A host's loop waits until fd becomes readable or due_us is reached, and then calls step. One thread. */
#ifndef OB_CORE_ASYNC_STORE_H
#define OB_CORE_ASYNC_STORE_H

#include <outbox/outbox.h>

struct outbox_batch;
struct ob_async_store;

/* The callbacks of the host, called only from step. err is valid for the duration of the call. */
struct ob_async_store_host {
    void *ctx;
    void (*claimed)(void *ctx, enum outbox_code code, const struct outbox_error *err,
                    struct outbox_batch *batch); /* the host owns the batch; NULL after a failure */
    void (*settled)(void *ctx, enum outbox_code code, const struct outbox_error *err); /* results are in the items */
    void (*extended)(void *ctx, enum outbox_code code, const struct outbox_error *err);
    void (*woken)(void *ctx);
};

/* The state of the async store, for logs, metrics and readiness. */
struct ob_async_store_state {
    bool connected;            /* the last answer or event was not a failure */
    bool polling;              /* wake-ups are impossible (the connection goes through a pooler): it polls */
    uint64_t connects;         /* connections made so far */
    uint64_t wakeups;          /* how often woken was called because a producer rang */
    struct outbox_error fault; /* why the async store does not work, for display; .code OUTBOX_OK: it works */
};

struct ob_async_store_ops {
    const char *kind;                            /* "postgresql", "sqlite" */
    void (*close)(struct ob_async_store *async); /* requests under way get no answer; accepts a half-open one */
    /* want is copied. */
    void (*claim)(struct ob_async_store *async, const struct outbox_claim *want, int64_t timeout_us);
    /* The host owns the items and must not change them before the answer; results are written into them. */
    void (*settle)(struct ob_async_store *async, struct outbox_settle *items, size_t count, int64_t timeout_us);
    void (*extend)(struct ob_async_store *async, struct outbox_settle *items, size_t count, int64_t lease_us,
                   int64_t timeout_us);
    int (*fd)(const struct ob_async_store *async);         /* the same descriptor for the async store's whole life */
    int64_t (*due_us)(const struct ob_async_store *async); /* on the boot-time clock; INT64_MAX: never */
    void (*step)(struct ob_async_store *async);
    void (*state)(const struct ob_async_store *async, struct ob_async_store_state *state);
    void (*pace)(struct ob_async_store *async, int64_t fallback_us); /* changes the time between fallback polls */
};

struct ob_async_store {
    const struct ob_async_store_ops *ops;
};

struct ob_log;

struct ob_async_store_options {
    const char *url, *schema, *application; /* copied */
    const char *worker;       /* copied: only claims under a name with this prefix are settled; NULL: any */
    int64_t timeout_us;       /* usual timeout of its requests; 0: not known */
    int64_t fallback_us;      /* maximum time between polls when nobody rings; 0: 500 ms */
    bool polling;             /* never listen for rings */
    bool relaxed;             /* commits of claims and settles need not be on disk when answered */
    const struct ob_log *log; /* borrowed; NULL: none */
    struct ob_async_store_host host;
};

#endif
