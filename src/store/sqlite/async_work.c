/* async_work.c - the thread that accesses the file for an async store: see async_store.h.
 *
 * Between jobs it waits for other connections' commits (wait.c); a new job ends that wait through the eventfd. The store is
 * opened when the thread starts, and again after an error of the file. The relay's lock is held from the first opening to the
 * end. */
#include "store/sqlite/async_store.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/batch.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_FIRST_US = 100, BUSY_FIRST_TRIES = 200, BUSY_STEP_US = 2000, SETTLE_PART = 100 };

static void ring(int fd)
{
    uint64_t one = 1;
    ssize_t sent = write(fd, &one, sizeof one); /* a full counter is readable too */
    (void)sent;
}

static void heard(struct ob_sqlite_async *async, const struct outbox_error *err)
{
    bool works = err->code == OUTBOX_OK || err->code == OUTBOX_BUSY ||
                 (ob_code_class(err->code) == OUTBOX_CLASS_CALLER && err->code != OUTBOX_LOCKED);
    pthread_mutex_lock(&async->mutex);
    async->state.connected = works;
    if (works)
        async->state.fault = (struct outbox_error){.code = OUTBOX_OK};
    else
        async->state.fault = *err;
    pthread_mutex_unlock(&async->mutex);
}

/* ---- the file ---- */

/* SQLite's own busy handler cannot be interrupted: closing would wait as long as another process holds the lock. It also tries
 * too seldom: a producer that commits all the time leaves the lock for a few microseconds in a millisecond. */
static int busy(void *ctx, int times)
{
    struct ob_sqlite_async *async = ctx;
    int late = times - BUSY_FIRST_TRIES;
    int64_t waited_us = late < 0 ? (int64_t)times * BUSY_FIRST_US
                                 : (int64_t)BUSY_FIRST_TRIES * BUSY_FIRST_US + (int64_t)late * BUSY_STEP_US;
    if (atomic_load(&async->closing) || waited_us >= (int64_t)async->busy_ms * 1000)
        return 0;
    struct timespec step = {.tv_nsec = (late < 0 ? BUSY_FIRST_US : BUSY_STEP_US) * 1000L};
    nanosleep(&step, NULL);
    return 1;
}

static void close_file(struct ob_sqlite_async *async)
{
    if (async->store)
        async->store->ops->close(async->store);
    async->store = NULL;
}

static ob_code open_file(struct ob_sqlite_async *async, struct outbox_error *err)
{
    if (async->store)
        return OUTBOX_OK;
    ob_code code = ob_sqlite_open(async->path, false, &async->store, err);
    if (!code && !async->lock)
        code = ob_sqlite_relay_lock(async->path, &async->lock, err);
    if (code) {
        close_file(async);
        return code;
    }
    struct ob_sqlite_store *store = ob_sqlite_store_of(async->store);
    sqlite3_busy_handler(store->db, busy, async);
    store->watch.interrupt = async->to_worker;
    store->worker = async->worker;
    pthread_mutex_lock(&async->mutex);
    async->state.connects++;
    pthread_mutex_unlock(&async->mutex);
    return OUTBOX_OK;
}

/* After an error of the file itself it is opened again: it may have been replaced. */
static void part(struct ob_sqlite_async *async, const struct outbox_error *err)
{
    if (err->code && (ob_code_class(err->code) == OUTBOX_CLASS_OPERATOR || err->code == OUTBOX_UNREACHABLE))
        close_file(async);
}

/* ---- jobs ---- */

/* Releases messages whose claim was abandoned: none of them was sent. */
static void give_back(struct ob_sqlite_async *async, struct outbox_batch *batch)
{
    struct outbox_settle *items = ob_calloc(batch->size, sizeof *items);
    struct outbox_error err;
    for (size_t i = 0; items && i < batch->size; i++)
        items[i] = (struct outbox_settle){
            .id = batch->items[i].id, .token = batch->items[i].token, .outcome = OUTBOX_RELEASED, .latency_us = -1};
    if (items && batch->size && async->store->ops->settle(async->store, items, batch->size, &err))
        part(async, &err); /* their leases will expire */
    ob_free(items);
}

/* In parts: each is safe from a crash as soon as it commits, and no other writer waits long for the lock. */
static ob_code settle(struct ob_store *store, struct ob_sqlite_job *job, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    for (size_t at = 0; at < job->count && !code; at += SETTLE_PART) {
        size_t left = job->count - at;
        code = store->ops->settle(store, job->items + at, left < SETTLE_PART ? left : SETTLE_PART, err);
    }
    return code;
}

static void run(struct ob_sqlite_async *async, struct ob_sqlite_job *job)
{
    struct outbox_error *err = &job->err;
    ob_code code = open_file(async, err);
    struct ob_store *store = async->store;
    if (!code)
        ob_sqlite_store_of(store)->pace.urgent = job->kind != OB_SQLITE_CLAIM;
    if (!code && job->kind == OB_SQLITE_CLAIM)
        code = store->ops->claim(store, &job->want, &job->batch, err);
    else if (!code && job->kind == OB_SQLITE_SETTLE)
        code = settle(store, job, err);
    else if (!code)
        code = store->ops->extend(store, job->items, job->count, job->lease_us, err);
    if (code)
        part(async, err);
    else
        *err = (struct outbox_error){.code = OUTBOX_OK};
    if (job->kind == OB_SQLITE_CLAIM)
        async->told = false;
    heard(async, err);
}

/* With `most` OB_SQLITE_CLAIM, claims are not taken. */
static struct ob_sqlite_job *take(struct ob_sqlite_async *async, int most)
{
    uint64_t rings;
    ssize_t got = read(async->to_worker, &rings, sizeof rings);
    (void)got;
    struct ob_sqlite_job *job = NULL;
    pthread_mutex_lock(&async->mutex);
    for (int kind = 0; kind < most && !job; kind++) {
        job = async->waiting[kind];
        async->waiting[kind] = NULL;
    }
    async->running = job;
    pthread_mutex_unlock(&async->mutex);
    return job;
}

static void hand_over(struct ob_sqlite_async *async, struct ob_sqlite_job *job)
{
    pthread_mutex_lock(&async->mutex);
    bool abandoned = job->abandoned;
    if (!abandoned)
        async->done[job->kind] = job;
    async->running = NULL;
    pthread_mutex_unlock(&async->mutex);
    if (!abandoned) {
        ring(async->to_host);
        return;
    }
    if (job->batch && async->store)
        give_back(async, job->batch);
    ob_sqlite_job_free(job);
}

/* ---- waiting for work ---- */

/* True if there is a job or the thread is to end; false after the timeout. */
static bool doze(struct ob_sqlite_async *async, int64_t us)
{
    struct pollfd fd = {.fd = async->to_worker, .events = POLLIN};
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    return ppoll(&fd, 1, &time, NULL) != 0;
}

static void wait_for_work(struct ob_sqlite_async *async)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    bool rang = false;
    if (async->told || async->polling || open_file(async, &err)) {
        if (err.code)
            heard(async, &err);
        if (doze(async, async->fallback_us))
            return;
    } else if (async->store->ops->wait(async->store, async->fallback_us, &rang, &err)) {
        heard(async, &err);
        part(async, &err);
        if (doze(async, async->fallback_us))
            return;
    } else if (!rang && doze(async, 0)) {
        return;
    }
    pthread_mutex_lock(&async->mutex);
    async->woken = true;
    async->state.wakeups += rang;
    pthread_mutex_unlock(&async->mutex);
    async->told = true;
    ring(async->to_host);
}

void *ob_sqlite_async_work(void *arg)
{
    struct ob_sqlite_async *async = arg;
    while (!atomic_load(&async->closing)) {
        /* After a claim the write lock is left to others for a while; meanwhile there may be something to settle. */
        int64_t pause_us = async->store ? ob_sqlite_pace_left(&ob_sqlite_store_of(async->store)->pace) : 0;
        struct ob_sqlite_job *job = take(async, pause_us ? OB_SQLITE_CLAIM : OB_SQLITE_KINDS);
        if (!job && pause_us) {
            doze(async, pause_us);
        } else if (job) {
            run(async, job);
            hand_over(async, job);
        } else if (!atomic_load(&async->closing)) {
            wait_for_work(async);
        }
    }
    close_file(async);
    ob_sqlite_relay_unlock(async->lock);
    return NULL;
}
