/* pool.c - see pool.h.
 *
 * One lock guards the lists and the workers' states. A worker holds it only between two mails. */
#include "sink/smtp/pool.h"

#include "base/alloc.h"
#include "sink/smtp/link.h"

#include <signal.h>
#include <time.h>

enum { GOODBYE_MS = 500 };

struct worker {
    struct ob_smtp_pool *pool;
    bool started; /* the loop's thread's to know: there is a thread to join */
    bool alive;   /* with the lock: that thread still works */
    pthread_t thread;
    struct ob_smtp_link link;
    struct ob_smtp_job *job; /* under way */
};

struct ob_smtp_pool {
    const struct ob_smtp_config *config;
    const struct outbox_sink_host *host;
    pthread_mutex_t lock;
    pthread_cond_t work, gone; /* something to do, or to end; a worker has ended */
    struct ob_list waiting, done;
    size_t waiting_count;
    int idle, alive;
    bool closing;
    struct worker workers[];
};

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

struct ob_smtp_job *ob_smtp_job_new(uint64_t handle)
{
    struct ob_smtp_job *job = ob_calloc(1, sizeof *job);
    if (!job)
        return NULL;
    ob_list_init(&job->node);
    job->handle = handle;
    ob_smtp_mail_init(&job->mail);
    return job;
}

void ob_smtp_job_free(struct ob_smtp_job *job)
{
    if (!job)
        return;
    ob_list_remove(&job->node);
    ob_smtp_mail_fini(&job->mail);
    ob_free(job);
}

static void jobs_free(struct ob_list *list)
{
    OB_LIST_EACH_SAFE (it, list)
        ob_smtp_job_free(OB_CONTAINER(it, struct ob_smtp_job, node));
}

static struct ob_smtp_job *jobs_find(struct ob_list *list, uint64_t handle)
{
    OB_LIST_EACH (it, list) {
        struct ob_smtp_job *job = OB_CONTAINER(it, struct ob_smtp_job, node);
        if (job->handle == handle)
            return job;
    }
    return NULL;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void time_after(struct timespec *at, int64_t us)
{
    clock_gettime(CLOCK_MONOTONIC, at);
    at->tv_sec += us / 1000000;
    at->tv_nsec += us % 1000000 * 1000;
    if (at->tv_nsec >= 1000000000) {
        at->tv_sec++;
        at->tv_nsec -= 1000000000;
    }
}

/* With the lock: the next job; NULL if there was none for so long that the connection should be closed. */
static struct ob_smtp_job *next_job(struct ob_smtp_pool *pool)
{
    struct timespec until;
    bool late = false;
    time_after(&until, pool->config->idle_us);
    while (!pool->closing) {
        struct ob_list *node = ob_list_shift(&pool->waiting);
        if (node) {
            pool->waiting_count--;
            return OB_CONTAINER(node, struct ob_smtp_job, node);
        }
        if (late)
            return NULL;
        pool->idle++;
        late = pthread_cond_timedwait(&pool->work, &pool->lock, &until) != 0;
        pool->idle--;
    }
    return NULL;
}

/* With the lock: passes the finished job to the loop. */
static void job_report(struct ob_smtp_pool *pool, struct ob_smtp_job *job)
{
    if (atomic_load(&job->cancelled) || pool->closing) {
        ob_smtp_job_free(job);
        return;
    }
    ob_list_push(&pool->done, &job->node);
    pool->host->wake(pool->host->ctx);
}

/* With the lock, but not while it waits for the server. */
static void part(struct worker *worker)
{
    pthread_mutex_unlock(&worker->pool->lock);
    ob_smtp_link_close(&worker->link);
    pthread_mutex_lock(&worker->pool->lock);
}

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct ob_smtp_pool *pool = worker->pool;
    pthread_mutex_lock(&pool->lock);
    do {
        while ((worker->job = next_job(pool))) {
            pthread_mutex_unlock(&pool->lock);
            ob_smtp_link_run(&worker->link, worker->job);
            pthread_mutex_lock(&pool->lock);
            job_report(pool, worker->job);
            worker->job = NULL;
            if (worker->link.worn)
                part(worker);
        }
        part(worker);
    } while (!ob_list_empty(&pool->waiting) && !pool->closing); /* what came meanwhile counted on this worker */
    worker->alive = false;
    pool->alive--;
    pthread_cond_signal(&pool->gone);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void worker_join(struct worker *worker)
{
    if (!worker->started)
        return;
    pthread_join(worker->thread, NULL);
    ob_smtp_link_fini(&worker->link);
    worker->started = false;
}

/* With the lock. Signals are the loop's thread's to handle. */
static bool worker_start(struct ob_smtp_pool *pool)
{
    struct worker *worker = NULL;
    for (int i = 0; i < pool->config->connections && !worker; i++)
        if (!pool->workers[i].alive)
            worker = &pool->workers[i];
    if (!worker)
        return false;
    worker_join(worker);
    if (!ob_smtp_link_init(&worker->link, pool->config))
        return false;
    sigset_t all, before;
    sigfillset(&all);
    worker->pool = pool;
    worker->started = worker->alive = true;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&worker->thread, NULL, work, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) {
        pool->alive++;
        return true;
    }
    worker->started = worker->alive = false;
    ob_smtp_link_fini(&worker->link);
    return false;
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

ob_smtp_pool *ob_smtp_pool_new(const struct ob_smtp_config *config, const struct outbox_sink_host *host)
{
    ob_smtp_pool *pool = ob_calloc(1, sizeof *pool + (size_t)config->connections * sizeof pool->workers[0]);
    pthread_condattr_t monotonic;
    if (!pool)
        return NULL;
    pool->config = config;
    pool->host = host;
    ob_list_init(&pool->waiting);
    ob_list_init(&pool->done);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, &monotonic);
    pthread_cond_init(&pool->gone, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return pool;
}

void ob_smtp_pool_free(ob_smtp_pool *pool)
{
    struct timespec until;
    if (!pool)
        return;
    time_after(&until, GOODBYE_MS * INT64_C(1000));
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    for (int i = 0; i < pool->config->connections; i++)
        if (pool->workers[i].job)
            ob_smtp_link_abort(&pool->workers[i].link, true);
    pthread_cond_broadcast(&pool->work);
    while (pool->alive && pthread_cond_timedwait(&pool->gone, &pool->lock, &until) == 0)
        ;
    for (int i = 0; i < pool->config->connections; i++)
        if (pool->workers[i].alive)
            ob_smtp_link_abort(&pool->workers[i].link, true);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->config->connections; i++)
        worker_join(&pool->workers[i]);
    jobs_free(&pool->waiting);
    jobs_free(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->gone);
    pthread_mutex_destroy(&pool->lock);
    ob_free(pool);
}

bool ob_smtp_pool_add(ob_smtp_pool *pool, struct ob_smtp_job *job)
{
    job->since_us = pool->host->now_us(pool->host->ctx);
    pthread_mutex_lock(&pool->lock);
    ob_list_push(&pool->waiting, &job->node);
    pool->waiting_count++;
    if (pool->waiting_count > (size_t)pool->idle)
        worker_start(pool);
    bool ok = pool->alive > 0;
    if (!ok) {
        ob_list_remove(&job->node);
        pool->waiting_count--;
    }
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    return ok;
}

void ob_smtp_pool_cancel(ob_smtp_pool *pool, uint64_t handle)
{
    pthread_mutex_lock(&pool->lock);
    struct ob_smtp_job *job = jobs_find(&pool->waiting, handle);
    if (job)
        pool->waiting_count--;
    else
        job = jobs_find(&pool->done, handle);
    ob_smtp_job_free(job);
    for (int i = 0; !job && i < pool->config->connections; i++) {
        struct worker *worker = &pool->workers[i];
        if (!worker->job || worker->job->handle != handle)
            continue;
        atomic_store(&worker->job->cancelled, true);
        ob_smtp_link_abort(&worker->link, false);
        break;
    }
    pthread_mutex_unlock(&pool->lock);
}

struct ob_smtp_job *ob_smtp_pool_late(ob_smtp_pool *pool, int64_t since_us, int64_t *oldest_us)
{
    struct ob_smtp_job *job = NULL;
    pthread_mutex_lock(&pool->lock);
    if (!ob_list_empty(&pool->waiting))
        job = OB_CONTAINER(pool->waiting.next, struct ob_smtp_job, node);
    *oldest_us = job ? job->since_us : INT64_MAX;
    if (job && job->since_us > since_us)
        job = NULL;
    if (job) {
        ob_list_remove(&job->node);
        pool->waiting_count--;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

struct ob_smtp_job *ob_smtp_pool_take(ob_smtp_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct ob_list *node = ob_list_shift(&pool->done);
    pthread_mutex_unlock(&pool->lock);
    return node ? OB_CONTAINER(node, struct ob_smtp_job, node) : NULL;
}
