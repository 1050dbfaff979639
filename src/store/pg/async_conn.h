/* async_conn.h - one connection to PostgreSQL that never waits: libpq, non-blocking, in pipeline mode.
 *
 *   CLOSED ──a request──▶ RESOLVING ──an address──▶ CONNECTING ──connected──▶ SETTING UP ──the session is set──▶ READY
 *      ▲                   │                         │                        │                                │
 *      └──failed, too late, or lost: every request fails, exactly once────────┴────────────────────────────────┘
 *
 * Requests are sent in the order in which they arrive, each followed by its own sync: each is one transaction, of one statement
 * or a few, and its failure does not affect the next one. Requests that arrive before READY follow the set-up in the same pipeline. A statement is
 * prepared with its first execution, in the same round trip.
 *
 * Nothing blocks, not even resolving a host name (dial.h). One thread. Must not know what a request is about. */
#ifndef OB_STORE_PG_ASYNC_CONN_H
#define OB_STORE_PG_ASYNC_CONN_H

#include "store/pg/dial.h"
#include "store/pg/request.h"

enum { OB_PG_REQUESTS_MAX = 4 };

/* What all connections of an async store have in common. Borrowed. */
struct ob_pg_conn_common {
    char *conninfo, *application, *schema, *worker;
    char *sql[OB_PG_STMT_COUNT]; /* rendered; only the statements that are used */
    bool relaxed;                /* commits need not be on disk */
    const struct ob_log *log;
};

enum ob_pg_async_conn_step { OB_PG_CLOSED, OB_PG_RESOLVING, OB_PG_CONNECTING, OB_PG_SETTING_UP, OB_PG_READY };

struct ob_pg_async_conn {
    const struct ob_pg_conn_common *common;
    const char *name; /* for logs */
    int64_t limit_us; /* after which the server cancels a statement; 0: the server's default */
    enum ob_pg_async_conn_step step;
    struct ob_pg_dial *dial; /* while RESOLVING */
    PGconn *conn;            /* from CONNECTING on */
    PostgresPollingStatusType connecting;
    bool flushing;   /* there is unsent output */
    int empties;     /* how often in a row libpq had no result */
    int turn;        /* which of several hosts to try first */
    uint64_t number; /* in the names of prepared statements: unique, even behind a pooler */
    unsigned epoch;  /* likewise, so that stale names are never reused */
    bool unnamed;    /* a pooler shares our prepared statements with others: never prepare */
    bool prepared[OB_PG_STMT_COUNT];
    struct ob_pg_request *requests[OB_PG_REQUESTS_MAX]; /* in their order; those that are SENT come first */
    size_t count;
    uint64_t dials, connects; /* so far */
};

void ob_pg_async_conn_init(struct ob_pg_async_conn *async_conn, const struct ob_pg_conn_common *common,
                           const char *name);
/* Pending requests are dropped, not answered. */
void ob_pg_async_conn_fini(struct ob_pg_async_conn *async_conn);

/* The request is sent now, or once connected. At most OB_PG_REQUESTS_MAX may be pending. */
void ob_pg_async_conn_send(struct ob_pg_async_conn *async_conn, struct ob_pg_request *request);
/* Does what can be done without waiting. ready: the socket has an event. */
void ob_pg_async_conn_step(struct ob_pg_async_conn *async_conn, bool ready, int64_t now_us);
/* A file descriptor with events of poll(2); -1 when there is none. */
int ob_pg_async_conn_fd(const struct ob_pg_async_conn *async_conn, short *events);
/* When to call step even without an event, on the boot-time clock; INT64_MAX: never. */
int64_t ob_pg_async_conn_due_us(const struct ob_pg_async_conn *async_conn);

#endif
