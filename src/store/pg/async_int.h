/* async_int.h - what the files of the async store share: async_store.c (sockets, waking, life), async_claim.c, async_settle.c,
 * async_eject.c. */
#ifndef OB_STORE_PG_ASYNC_INT_H
#define OB_STORE_PG_ASYNC_INT_H

#include "core/async_store.h"
#include "store/pg/async_conn.h"
#include "store/pg/bundle.h"
#include "store/pg/log.h"

enum { OB_PG_CLAIMS, OB_PG_SETTLES, OB_PG_BELL, OB_PG_SOCKETS };

/* A socket as it is registered with epoll. */
struct ob_pg_watch {
    int fd;
    short events;
    uint64_t dials;
};

/* A claim of the host, and what is known of where to look first: see async_claim.c. */
struct ob_pg_claiming {
    enum { OB_PG_CLAIM_NONE, OB_PG_CLAIM_TAKE, OB_PG_CLAIM_PAGE, OB_PG_CLAIM_QUEUE, OB_PG_CLAIM_REBASE } step;
    struct ob_pg_request take, page, queue, rebase;
    int limit;
    bool filtered;
    bool takes;                                  /* windows can serve it */
    bool took, looked;                           /* the log, or the queue, was asked for it already */
    bool again;                                  /* it is one for a reason of our own, see wake_us */
    bool reread, rebased;                        /* likewise, the page a second time; the log was begun anew */
    struct ob_pg_taken taken;                    /* by it */
    struct ob_pg_terms terms;                    /* of what was taken */
    bool refused;                                /* this login may not take windows */
    bool last_took;                              /* which of the two was asked last */
    bool log_stirred, queue_stirred;             /* something may be new there */
    bool log_more, log_busy, queue_more, queued; /* as the last answers said */
    int hints;                                   /* takes in a row that looked at one shard only */
    int64_t queue_looked_us;
    int64_t queue_pause_us; /* until it is asked again though nothing stirs there */
    int64_t backoff_us;     /* before the next look at a log that others keep busy */
};

/* A settle or extend of the host: see async_settle.c. */
struct ob_pg_settling {
    enum { OB_PG_SETTLE_NONE, OB_PG_SETTLE_WAITS, OB_PG_SETTLE_SENT } step; /* waits: for an eject */
    struct ob_pg_request request;
    struct outbox_settle *items; /* the host's */
    size_t count;
    int64_t deadline_us, lease_us;
    enum ob_pg_words words;
    struct ob_pg_bundle bundle;
};

struct ob_pg_async {
    struct ob_async_store base; /* first: the ops find us by a cast */
    struct ob_async_store_host host;
    struct ob_pg_conn_common common; /* owns its texts */
    struct ob_pg_async_conn conns[OB_PG_BELL];
    struct ob_pg_doorbell *doorbell;
    struct ob_pg_watch watches[OB_PG_SOCKETS];
    int epoll;
    int64_t timeout_us; /* of requests that the host does not know of */
    int64_t fallback_us;
    int64_t looked_us; /* the last claim, or call of woken */
    int64_t wake_us;   /* when to look again at the log or the queue; INT64_MAX: no reason */
    bool woken_again;  /* the host was woken for such a reason only, or because we are busy */

    struct ob_pg_log log;
    struct ob_pg_claiming claiming;
    struct ob_pg_settling settling, extending;
    struct ob_pg_request eject;
    struct ob_pg_bundle ejected;

    bool connected;
    uint64_t wakeups;
    struct outbox_error fault, doorbell_fault;
};

static inline struct ob_pg_async *ob_pg_async_of(struct ob_async_store *base)
{
    return (struct ob_pg_async *)(void *)base;
}

/* ---- async_store.c ---- */

/* Sends a request whose parts are complete; without memory it fails at once. */
void ob_pg_async_send(struct ob_pg_async *async, int conn, struct ob_pg_request *request);
/* An answer came, or none: whether the store is reachable. */
void ob_pg_async_heard(struct ob_pg_async *async, const struct outbox_error *err);
/* The deadline of a request that may take so long. */
int64_t ob_pg_async_deadline(int64_t timeout_us);

/* ---- async_claim.c ---- */

void ob_pg_async_claim(struct ob_async_store *base, const struct outbox_claim *want, int64_t timeout_us);
/* Something may be new: where the next claim has to look. */
void ob_pg_async_stir(struct ob_pg_async *async, bool log, bool queue);
/* A window of this store was closed. */
void ob_pg_async_window_closed(struct ob_pg_async *async);
/* Whether an answer has come. */
bool ob_pg_async_claim_ready(const struct ob_pg_async *async);
void ob_pg_async_claim_go_on(struct ob_pg_async *async);
void ob_pg_async_claim_fini(struct ob_pg_async *async);

/* ---- async_settle.c ---- */

void ob_pg_async_settle(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t timeout_us);
void ob_pg_async_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us);
/* When there is something to go on with: 0 after an answer, or the time of an eject or timeout; INT64_MAX: nothing. */
int64_t ob_pg_async_settle_due_us(const struct ob_pg_async *async);
void ob_pg_async_settle_go_on(struct ob_pg_async *async, int64_t now_us);
/* Fails one that waits for an eject. */
void ob_pg_settling_fail(struct ob_pg_settling *settling, const struct outbox_error *err);
void ob_pg_async_settle_fini(struct ob_pg_async *async);

/* ---- async_eject.c ---- */

/* Whether an eject must wait: for another one, or for a settle of windows. */
bool ob_pg_async_eject_waits(const struct ob_pg_async *async);
/* Ejects the windows that are due, if it need not wait. */
void ob_pg_async_eject(struct ob_pg_async *async, int64_t now_us);
void ob_pg_async_ejected(struct ob_pg_async *async, int64_t now_us);

#endif
