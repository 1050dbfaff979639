/* async_store.c - the SQLite store without waiting: see core/async_store.h. This is the host's side; async_store.h describes
 * both.
 *
 * Nothing here accesses the file, and the mutex is never held during a callback. */
#include "store/sqlite/async_store.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/batch.h"
#include "core/claim_copy.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FALLBACK_US = 500000 };

static struct ob_sqlite_async *async_of(struct ob_async_store *base)
{
    return (struct ob_sqlite_async *)(void *)base;
}

/* Locking the mutex does not count as changing a const async store. */
static struct ob_sqlite_async *async_of_const(const struct ob_async_store *base)
{
    return (struct ob_sqlite_async *)(uintptr_t)base;
}

static void ring(int fd)
{
    uint64_t one = 1;
    ssize_t sent = write(fd, &one, sizeof one);
    (void)sent;
}

/* ---- jobs ---- */

void ob_sqlite_job_free(struct ob_sqlite_job *job)
{
    if (!job)
        return;
    if (job->batch)
        job->batch->free(job->batch);
    ob_arena_fini(&job->arena);
    ob_free(job);
}

static struct ob_sqlite_job *job_new(enum ob_sqlite_kind kind)
{
    struct ob_sqlite_job *job = ob_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->kind = kind;
    ob_arena_init(&job->arena, 0);
    return job;
}

/* NULL stays NULL; sets *ok to false if memory runs out. */
static const char *keep(struct ob_sqlite_job *job, const char *text, bool *ok)
{
    const char *copy = text && *ok ? ob_arena_strdup(&job->arena, text) : NULL;
    *ok = *ok && (copy || !text);
    return copy;
}

static struct ob_sqlite_job *claim_new(const struct outbox_claim *want)
{
    struct ob_sqlite_job *job = job_new(OB_SQLITE_CLAIM);
    if (job && ob_claim_copy(&job->arena, want, &job->want))
        return job;
    ob_sqlite_job_free(job);
    return NULL;
}

static struct ob_sqlite_job *settle_new(enum ob_sqlite_kind kind, const struct outbox_settle *items, size_t count)
{
    struct ob_sqlite_job *job = job_new(kind);
    if (!job)
        return NULL;
    job->items = ob_arena_calloc(&job->arena, count + 1, sizeof *job->items);
    job->count = count;
    bool ok = job->items != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        job->items[i] = items[i];
        job->items[i].code = keep(job, items[i].code, &ok);
        job->items[i].error = keep(job, items[i].error, &ok);
        job->items[i].reference = keep(job, items[i].reference, &ok);
        job->items[i].output = keep(job, items[i].output, &ok);
    }
    if (ok)
        return job;
    ob_sqlite_job_free(job);
    return NULL;
}

/* ---- requests ---- */

static void ask(struct ob_sqlite_async *async, enum ob_sqlite_kind kind, struct ob_sqlite_job *job,
                struct outbox_settle *items, int64_t timeout_us)
{
    int64_t now_us = ob_clock_boot_us();
    assert(!async->asks[kind].job && !async->asks[kind].nomem);
    async->asks[kind].job = job;
    async->asks[kind].nomem = !job;
    async->asks[kind].items = items;
    async->asks[kind].deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    if (!job)
        return;
    pthread_mutex_lock(&async->mutex);
    async->waiting[kind] = job;
    pthread_mutex_unlock(&async->mutex);
    ring(async->to_worker);
}

static void async_claim(struct ob_async_store *base, const struct outbox_claim *want, int64_t timeout_us)
{
    ask(async_of(base), OB_SQLITE_CLAIM, claim_new(want), NULL, timeout_us);
}

static void async_settle(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    ask(async_of(base), OB_SQLITE_SETTLE, settle_new(OB_SQLITE_SETTLE, items, count), items, timeout_us);
}

static void async_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                         int64_t timeout_us)
{
    struct ob_sqlite_job *job = settle_new(OB_SQLITE_EXTEND, items, count);
    if (job)
        job->lease_us = lease_us;
    ask(async_of(base), OB_SQLITE_EXTEND, job, items, timeout_us);
}

/* ---- answers ---- */

static void tell(struct ob_sqlite_async *async, enum ob_sqlite_kind kind, const struct outbox_error *err,
                 struct outbox_batch *batch)
{
    const struct ob_async_store_host *host = &async->host;
    async->asks[kind].job = NULL;
    async->asks[kind].nomem = false;
    switch (kind) {
    case OB_SQLITE_CLAIM: host->claimed(host->ctx, err->code, err, batch); break;
    case OB_SQLITE_SETTLE: host->settled(host->ctx, err->code, err); break;
    default: host->extended(host->ctx, err->code, err); break;
    }
}

static void tell_done(struct ob_sqlite_async *async, struct ob_sqlite_job *job)
{
    struct outbox_error err = job->err;
    struct outbox_batch *batch = job->batch;
    for (size_t i = 0; i < job->count && !err.code; i++) {
        async->asks[job->kind].items[i].result = job->items[i].result;
        async->asks[job->kind].items[i].dead = job->items[i].dead;
    }
    enum ob_sqlite_kind kind = job->kind;
    job->batch = NULL;
    ob_sqlite_job_free(job);
    tell(async, kind, &err, batch);
}

/* Takes back the job under way, or leaves it to the worker that runs it; false if it has just finished. */
static bool abandon(struct ob_sqlite_async *async, enum ob_sqlite_kind kind)
{
    struct ob_sqlite_job *job = async->asks[kind].job, *waited = NULL;
    pthread_mutex_lock(&async->mutex);
    bool done = async->done[kind] == job;
    if (async->waiting[kind] == job) {
        waited = job;
        async->waiting[kind] = NULL;
    } else if (!done) {
        job->abandoned = true;
    }
    pthread_mutex_unlock(&async->mutex);
    ob_sqlite_job_free(waited);
    return !done;
}

static void step_kind(struct ob_sqlite_async *async, enum ob_sqlite_kind kind, int64_t now_us)
{
    struct outbox_error err;
    pthread_mutex_lock(&async->mutex);
    struct ob_sqlite_job *job = async->done[kind];
    async->done[kind] = NULL;
    pthread_mutex_unlock(&async->mutex);
    if (job) {
        tell_done(async, job);
    } else if (async->asks[kind].nomem) {
        ob_error_nomem(&err);
        tell(async, kind, &err, NULL);
    } else if (async->asks[kind].job && now_us >= async->asks[kind].deadline_us && abandon(async, kind)) {
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the database file is busy: another process is writing to it");
        tell(async, kind, &err, NULL);
    }
}

/* ---- for the host ---- */

static void async_step(struct ob_async_store *base)
{
    struct ob_sqlite_async *async = async_of(base);
    uint64_t rings;
    ssize_t got = read(async->to_host, &rings, sizeof rings);
    (void)got;
    int64_t now_us = ob_clock_boot_us();
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++)
        step_kind(async, (enum ob_sqlite_kind)kind, now_us);
    pthread_mutex_lock(&async->mutex);
    bool woken = async->woken;
    async->woken = false;
    pthread_mutex_unlock(&async->mutex);
    if (woken)
        async->host.woken(async->host.ctx);
}

static int async_fd(const struct ob_async_store *base)
{
    return async_of_const(base)->to_host;
}

static int64_t async_due_us(const struct ob_async_store *base)
{
    const struct ob_sqlite_async *async = async_of_const(base);
    int64_t due_us = INT64_MAX;
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++) {
        if (async->asks[kind].nomem)
            return 0;
        if (async->asks[kind].job && async->asks[kind].deadline_us < due_us)
            due_us = async->asks[kind].deadline_us;
    }
    return due_us;
}

static void async_state(const struct ob_async_store *base, struct ob_async_store_state *state)
{
    struct ob_sqlite_async *async = async_of_const(base);
    pthread_mutex_lock(&async->mutex);
    *state = async->state;
    pthread_mutex_unlock(&async->mutex);
}

/* ---- life ---- */

static void async_close(struct ob_async_store *base)
{
    if (!base)
        return;
    struct ob_sqlite_async *async = async_of(base);
    atomic_store(&async->closing, true);
    if (async->started) {
        ring(async->to_worker);
        pthread_join(async->thread, NULL);
    }
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++) {
        ob_sqlite_job_free(async->waiting[kind]);
        ob_sqlite_job_free(async->done[kind]);
    }
    if (async->to_host >= 0)
        close(async->to_host);
    if (async->to_worker >= 0)
        close(async->to_worker);
    pthread_mutex_destroy(&async->mutex);
    ob_free(async->path);
    ob_free(async->worker);
    ob_free(async);
}

static void async_pace(struct ob_async_store *base, int64_t fallback_us)
{
    struct ob_sqlite_async *async = (struct ob_sqlite_async *)base;
    atomic_store(&async->fallback_us, fallback_us);
}

static const struct ob_async_store_ops ops = {
    .kind = "sqlite",
    .close = async_close,
    .claim = async_claim,
    .settle = async_settle,
    .extend = async_extend,
    .fd = async_fd,
    .due_us = async_due_us,
    .step = async_step,
    .state = async_state,
    .pace = async_pace,
};

/* A relaxed store's commits survive a crash of the process, not of the system; a setting in the URL takes precedence. */
static char *path_of(const struct ob_async_store_options *options)
{
    struct ob_buf path = OB_BUF_INIT;
    const char *url = options->url, *query = strchr(url, '?');
    ob_buf_puts(&path, url);
    if (options->relaxed && !(query && strstr(query, "synchronous=")))
        ob_buf_puts(&path, query ? "&synchronous=normal" : "?synchronous=normal");
    char *text = ob_buf_take(&path);
    ob_buf_fini(&path);
    return text;
}

/* Signals are for the host: the worker blocks all of them. */
static int start(struct ob_sqlite_async *async)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&async->thread, NULL, ob_sqlite_async_work, async);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    async->started = !failed;
    return failed;
}

static ob_code equip(struct ob_sqlite_async *async, const struct ob_async_store_options *options,
                     struct outbox_error *err)
{
    struct ob_sqlite_target target;
    async->path = path_of(options);
    async->worker = options->worker ? ob_strdup(options->worker) : NULL;
    if (!async->path || (options->worker && !async->worker))
        return ob_error_nomem(err);
    ob_code code = ob_sqlite_target_parse(async->path, &target, err);
    if (code)
        return code;
    async->busy_ms = target.busy_ms;
    ob_sqlite_target_fini(&target);
    async->to_host = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    async->to_worker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int failed = async->to_host < 0 || async->to_worker < 0 ? errno : start(async);
    return failed ? ob_error_set(err, OUTBOX_INTERNAL, "cannot start the store's thread: %s", strerror(failed))
                  : OUTBOX_OK;
}

ob_code ob_sqlite_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                             struct outbox_error *err)
{
    *out = NULL;
    struct ob_sqlite_async *async = ob_calloc(1, sizeof *async);
    if (!async)
        return ob_error_nomem(err);
    async->base.ops = &ops;
    async->host = options->host;
    async->fallback_us = options->fallback_us > 0 ? options->fallback_us : FALLBACK_US;
    async->polling = async->state.polling = options->polling;
    async->to_host = async->to_worker = -1;
    pthread_mutex_init(&async->mutex, NULL);
    ob_code code = equip(async, options, err);
    if (code)
        async_close(&async->base);
    else
        *out = &async->base;
    return code;
}
