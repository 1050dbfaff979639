/* line.c - the SQLite store without waiting: see core/line.h. This is the host's side; line.h tells of the other.
 *
 * Nothing here touches the file, and the mutex is never held over a callback. */
#include "store/sqlite/line.h"

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

static struct ob_sqlite_line *line_of(struct ob_line *base)
{
    return (struct ob_sqlite_line *)(void *)base;
}

/* The mutex is not part of what a const line promises. */
static struct ob_sqlite_line *line_of_const(const struct ob_line *base)
{
    return (struct ob_sqlite_line *)(uintptr_t)base;
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

/* NULL stays NULL; *ok becomes false when memory ran out. */
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

/* ---- asking ---- */

static void ask(struct ob_sqlite_line *line, enum ob_sqlite_kind kind, struct ob_sqlite_job *job,
                struct outbox_settle *items, int64_t timeout_us)
{
    int64_t now_us = ob_clock_boot_us();
    assert(!line->asks[kind].job && !line->asks[kind].nomem);
    line->asks[kind].job = job;
    line->asks[kind].nomem = !job;
    line->asks[kind].items = items;
    line->asks[kind].deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    if (!job)
        return;
    pthread_mutex_lock(&line->mutex);
    line->waiting[kind] = job;
    pthread_mutex_unlock(&line->mutex);
    ring(line->to_worker);
}

static void line_claim(struct ob_line *base, const struct outbox_claim *want, int64_t timeout_us)
{
    ask(line_of(base), OB_SQLITE_CLAIM, claim_new(want), NULL, timeout_us);
}

static void line_settle(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    ask(line_of(base), OB_SQLITE_SETTLE, settle_new(OB_SQLITE_SETTLE, items, count), items, timeout_us);
}

static void line_extend(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    struct ob_sqlite_job *job = settle_new(OB_SQLITE_EXTEND, items, count);
    if (job)
        job->lease_us = lease_us;
    ask(line_of(base), OB_SQLITE_EXTEND, job, items, timeout_us);
}

/* ---- answers ---- */

static void tell(struct ob_sqlite_line *line, enum ob_sqlite_kind kind, const struct outbox_error *err,
                 struct outbox_batch *batch)
{
    const struct ob_line_host *host = &line->host;
    line->asks[kind].job = NULL;
    line->asks[kind].nomem = false;
    switch (kind) {
    case OB_SQLITE_CLAIM: host->claimed(host->ctx, err->code, err, batch); break;
    case OB_SQLITE_SETTLE: host->settled(host->ctx, err->code, err); break;
    default: host->extended(host->ctx, err->code, err); break;
    }
}

static void tell_done(struct ob_sqlite_line *line, struct ob_sqlite_job *job)
{
    struct outbox_error err = job->err;
    struct outbox_batch *batch = job->batch;
    for (size_t i = 0; i < job->count && !err.code; i++) {
        line->asks[job->kind].items[i].result = job->items[i].result;
        line->asks[job->kind].items[i].dead = job->items[i].dead;
    }
    enum ob_sqlite_kind kind = job->kind;
    job->batch = NULL;
    ob_sqlite_job_free(job);
    tell(line, kind, &err, batch);
}

/* Takes the job that is out back, or leaves it to the worker that has it; false when it is done just now. */
static bool abandon(struct ob_sqlite_line *line, enum ob_sqlite_kind kind)
{
    struct ob_sqlite_job *job = line->asks[kind].job, *waited = NULL;
    pthread_mutex_lock(&line->mutex);
    bool done = line->done[kind] == job;
    if (line->waiting[kind] == job) {
        waited = job;
        line->waiting[kind] = NULL;
    } else if (!done) {
        job->abandoned = true;
    }
    pthread_mutex_unlock(&line->mutex);
    ob_sqlite_job_free(waited);
    return !done;
}

static void step_kind(struct ob_sqlite_line *line, enum ob_sqlite_kind kind, int64_t now_us)
{
    struct outbox_error err;
    pthread_mutex_lock(&line->mutex);
    struct ob_sqlite_job *job = line->done[kind];
    line->done[kind] = NULL;
    pthread_mutex_unlock(&line->mutex);
    if (job) {
        tell_done(line, job);
    } else if (line->asks[kind].nomem) {
        ob_error_nomem(&err);
        tell(line, kind, &err, NULL);
    } else if (line->asks[kind].job && now_us >= line->asks[kind].deadline_us && abandon(line, kind)) {
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the file did not answer in time: somebody else is writing to it");
        tell(line, kind, &err, NULL);
    }
}

/* ---- for the host ---- */

static void line_step(struct ob_line *base)
{
    struct ob_sqlite_line *line = line_of(base);
    uint64_t rings;
    ssize_t got = read(line->to_host, &rings, sizeof rings);
    (void)got;
    int64_t now_us = ob_clock_boot_us();
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++)
        step_kind(line, (enum ob_sqlite_kind)kind, now_us);
    pthread_mutex_lock(&line->mutex);
    bool woken = line->woken;
    line->woken = false;
    pthread_mutex_unlock(&line->mutex);
    if (woken)
        line->host.woken(line->host.ctx);
}

static int line_fd(const struct ob_line *base)
{
    return line_of_const(base)->to_host;
}

static int64_t line_due_us(const struct ob_line *base)
{
    const struct ob_sqlite_line *line = line_of_const(base);
    int64_t due_us = INT64_MAX;
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++) {
        if (line->asks[kind].nomem)
            return 0;
        if (line->asks[kind].job && line->asks[kind].deadline_us < due_us)
            due_us = line->asks[kind].deadline_us;
    }
    return due_us;
}

static void line_state(const struct ob_line *base, struct ob_line_state *state)
{
    struct ob_sqlite_line *line = line_of_const(base);
    pthread_mutex_lock(&line->mutex);
    *state = line->state;
    pthread_mutex_unlock(&line->mutex);
}

/* ---- life ---- */

static void line_close(struct ob_line *base)
{
    if (!base)
        return;
    struct ob_sqlite_line *line = line_of(base);
    atomic_store(&line->closing, true);
    if (line->started) {
        ring(line->to_worker);
        pthread_join(line->thread, NULL);
    }
    for (int kind = 0; kind < OB_SQLITE_KINDS; kind++) {
        ob_sqlite_job_free(line->waiting[kind]);
        ob_sqlite_job_free(line->done[kind]);
    }
    if (line->to_host >= 0)
        close(line->to_host);
    if (line->to_worker >= 0)
        close(line->to_worker);
    pthread_mutex_destroy(&line->mutex);
    ob_free(line->path);
    ob_free(line->worker);
    ob_free(line);
}

static void line_pace(struct ob_line *base, int64_t fallback_us)
{
    struct ob_sqlite_line *line = (struct ob_sqlite_line *)base;
    atomic_store(&line->fallback_us, fallback_us);
}

static const struct ob_line_ops ops = {
    .kind = "sqlite",
    .close = line_close,
    .claim = line_claim,
    .settle = line_settle,
    .extend = line_extend,
    .fd = line_fd,
    .due_us = line_due_us,
    .step = line_step,
    .state = line_state,
    .pace = line_pace,
};

/* What a relaxed line writes survives a crash of the process; the url's own word counts more. */
static char *path_of(const struct ob_line_options *options)
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

/* Signals are the host's business: the worker takes none. */
static int start(struct ob_sqlite_line *line)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&line->thread, NULL, ob_sqlite_line_work, line);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    line->started = !failed;
    return failed;
}

static ob_code equip(struct ob_sqlite_line *line, const struct ob_line_options *options, struct outbox_error *err)
{
    struct ob_sqlite_target target;
    line->path = path_of(options);
    line->worker = options->worker ? ob_strdup(options->worker) : NULL;
    if (!line->path || (options->worker && !line->worker))
        return ob_error_nomem(err);
    ob_code code = ob_sqlite_target_parse(line->path, &target, err);
    if (code)
        return code;
    line->busy_ms = target.busy_ms;
    ob_sqlite_target_fini(&target);
    line->to_host = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    line->to_worker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int failed = line->to_host < 0 || line->to_worker < 0 ? errno : start(line);
    return failed ? ob_error_set(err, OUTBOX_INTERNAL, "cannot start the store's thread: %s", strerror(failed))
                  : OUTBOX_OK;
}

ob_code ob_sqlite_line_open(const struct ob_line_options *options, struct ob_line **out, struct outbox_error *err)
{
    *out = NULL;
    struct ob_sqlite_line *line = ob_calloc(1, sizeof *line);
    if (!line)
        return ob_error_nomem(err);
    line->base.ops = &ops;
    line->host = options->host;
    line->fallback_us = options->fallback_us > 0 ? options->fallback_us : FALLBACK_US;
    line->polling = line->state.polling = options->polling;
    line->to_host = line->to_worker = -1;
    pthread_mutex_init(&line->mutex, NULL);
    ob_code code = equip(line, options, err);
    if (code)
        line_close(&line->base);
    else
        *out = &line->base;
    return code;
}
