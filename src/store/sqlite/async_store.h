/* async_store.h - what the two halves of an async store on SQLite share: the host's side (async_store.c) and
 * the worker's thread (async_work.c).
 *
 * SQLite's calls block, so they are made on a separate thread, one for each async store. A job is passed from the host to the
 * worker and back; the side that has it owns it:
 *
 *   asked ──▶ waiting ──worker takes it──▶ running ──▶ done ──step──▶ told, freed
 *                └──too late: freed           └──too late: abandoned, the worker frees it
 *
 * A job works on copies: the host may free its data once it was told that the job timed out. */
#ifndef OB_STORE_SQLITE_ASYNC_STORE_H
#define OB_STORE_SQLITE_ASYNC_STORE_H

#include "base/arena.h"
#include "core/async_store.h"
#include "store/sqlite/sqlite.h"

#include <pthread.h>
#include <stdatomic.h>

/* In order of precedence: record what was delivered, then extend the leases held, then claim more. */
enum ob_sqlite_kind { OB_SQLITE_SETTLE, OB_SQLITE_EXTEND, OB_SQLITE_CLAIM, OB_SQLITE_KINDS };

struct ob_sqlite_job {
    enum ob_sqlite_kind kind;
    struct ob_arena arena;    /* holds the copies */
    struct outbox_claim want; /* of a claim */
    struct outbox_settle *items;
    size_t count;
    int64_t lease_us;
    bool abandoned; /* the answer is no longer wanted; guarded by the mutex */
    struct outbox_error err;
    struct outbox_batch *batch;
};

void ob_sqlite_job_free(struct ob_sqlite_job *job);

struct ob_sqlite_async {
    struct ob_async_store base; /* first: the ops find us by a cast */
    char *path;                 /* with settings, as ob_sqlite_open takes it */
    char *worker;               /* see ob_async_store_options; NULL: none */
    int busy_ms;
    bool polling;
    _Atomic int64_t fallback_us; /* set by the host while the thread waits */
    int to_host, to_worker;      /* eventfds */
    pthread_t thread;
    bool started;
    atomic_bool closing;

    pthread_mutex_t mutex; /* guards what follows */
    struct ob_sqlite_job *waiting[OB_SQLITE_KINDS], *done[OB_SQLITE_KINDS], *running;
    bool woken; /* there may be work */
    struct ob_async_store_state state;

    /* the host's */
    struct ob_async_store_host host;
    struct {
        struct ob_sqlite_job *job; /* under way; NULL: none. Owned by the side that has it. */
        bool nomem;                /* or it could not be created */
        struct outbox_settle *items;
        int64_t deadline_us;
    } asks[OB_SQLITE_KINDS];

    /* the worker's */
    struct ob_store *store; /* NULL: not open */
    struct ob_sqlite_lock *lock;
    bool told; /* the host knows that there may be work, and has not claimed since */
};

/* The worker's thread; arg is the async store. */
void *ob_sqlite_async_work(void *arg);

#endif
