/* dispatcher.c - see outbox/dispatcher.h: an engine with one sink, the callback.
 *
 * A task can outlive its flight in the engine: after a timeout, or after the dispatcher is freed, the program may still use
 * it and its message. So a task owns a copy of its message, and only its answer frees it.
 *
 * Threads: everything runs on one thread, the caller's or the dispatcher's own; cancel only writes to an eventfd, and stats
 * are a copy under a lock. */
#include <outbox/dispatcher.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/versioned.h"
#include "core/message_copy.h"
#include "core/verdict.h"
#include "lib/engine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct outbox_task {
    struct outbox_dispatcher *dispatcher; /* NULL: freed meanwhile */
    uint64_t handle;                      /* 0: given up by the engine */
    struct ob_list node;
    struct outbox_delivery *msg;
};

struct outbox_dispatcher {
    struct outbox_dispatch set; /* its texts are not used after new */
    struct ob_log log;
    struct ob_engine *engine;
    char *name_space;
    struct outbox_lane *lanes; /* the lanes that it serves; NULL: all */
    char **topics;
    size_t lane_count;
    struct ob_list tasks;
    int fd, cancel_fd;
    bool cancelled, ended;
    bool running; /* has a thread */
    pthread_t thread;
    pthread_mutex_t lock; /* guards stats */
    struct outbox_dispatcher_stats stats;
};

/* ---- tasks ---- */

static void task_free(struct outbox_task *task)
{
    ob_list_remove(&task->node);
    ob_free(task->msg);
    ob_free(task);
}

void outbox_task_done(struct outbox_task *task, const struct outbox_verdict *verdict)
{
    const struct outbox_verdict given = ob_verdict_take(verdict);
    if (task->dispatcher && task->handle)
        ob_engine_verdict(task->dispatcher->engine, task->handle, &given);
    task_free(task);
}

static void no_memory(struct outbox_dispatcher *dispatcher, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = 100000;
    ob_engine_verdict(dispatcher->engine, handle, &verdict);
}

static void deliver(void *ctx, int sink, const struct outbox_sink_item *items, size_t count)
{
    struct outbox_dispatcher *dispatcher = ctx;
    (void)sink;
    for (size_t i = 0; i < count; i++) {
        struct outbox_task *task = ob_calloc(1, sizeof *task);
        size_t bytes;
        struct outbox_delivery *msg = task ? ob_message_copy(items[i].msg, &bytes) : NULL;
        if (!msg) {
            ob_free(task);
            no_memory(dispatcher, items[i].handle);
            continue;
        }
        *task = (struct outbox_task){.dispatcher = dispatcher, .handle = items[i].handle, .msg = msg};
        ob_list_push(&dispatcher->tasks, &task->node);
        dispatcher->set.deliver(dispatcher->set.ctx, task, msg);
    }
}

static void cancel(void *ctx, int sink, uint64_t handle)
{
    struct outbox_dispatcher *dispatcher = ctx;
    (void)sink;
    OB_LIST_EACH (it, &dispatcher->tasks) {
        struct outbox_task *task = OB_CONTAINER(it, struct outbox_task, node);
        if (task->handle == handle)
            task->handle = 0;
    }
}

static void choose_lanes(void *ctx, bool only, const bool *shut, struct outbox_claim *claim)
{
    const struct outbox_dispatcher *dispatcher = ctx;
    (void)only;
    (void)shut; /* there is only one sink: while it is shut nothing is claimed */
    if (dispatcher->lane_count > 0) {
        claim->only = dispatcher->lanes;
        claim->only_count = dispatcher->lane_count;
    } else {
        claim->name_space = dispatcher->name_space;
    }
}

static int route(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    (void)patience;
    (void)ctx;
    (void)msg;
    return 0;
}

static void write_log(void *ctx, enum ob_log_level level, const char *line, size_t len)
{
    const struct outbox_dispatcher *dispatcher = ctx;
    (void)len;
    dispatcher->set.log(dispatcher->set.ctx, (enum outbox_log_level)level, line);
}

/* ---- life ---- */

static enum outbox_code copy_lanes(struct outbox_dispatcher *dispatcher, const struct outbox_dispatch *set,
                                   struct outbox_error *err)
{
    if (set->topic_count > 0 && !set->name_space)
        return ob_error_set(err, OUTBOX_INVALID, "topics require a name_space");
    if (set->name_space && !(dispatcher->name_space = ob_strdup(set->name_space)))
        return ob_error_nomem(err);
    if (set->topic_count == 0)
        return OUTBOX_OK;
    dispatcher->lanes = ob_calloc(set->topic_count, sizeof *dispatcher->lanes);
    dispatcher->topics = ob_calloc(set->topic_count, sizeof *dispatcher->topics);
    if (!dispatcher->lanes || !dispatcher->topics)
        return ob_error_nomem(err);
    for (size_t i = 0; i < set->topic_count; i++) {
        if (!(dispatcher->topics[i] = ob_strdup(set->topics[i])))
            return ob_error_nomem(err);
        dispatcher->lanes[i] = (struct outbox_lane){dispatcher->name_space, dispatcher->topics[i]};
        dispatcher->lane_count++;
    }
    return OUTBOX_OK;
}

static enum outbox_code open_fds(struct outbox_dispatcher *dispatcher, struct outbox_error *err)
{
    dispatcher->fd = epoll_create1(EPOLL_CLOEXEC);
    dispatcher->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event readable = {.events = EPOLLIN};
    if (dispatcher->fd < 0 || dispatcher->cancel_fd < 0 ||
        epoll_ctl(dispatcher->fd, EPOLL_CTL_ADD, dispatcher->cancel_fd, &readable) ||
        (dispatcher->engine && epoll_ctl(dispatcher->fd, EPOLL_CTL_ADD, ob_engine_fd(dispatcher->engine), &readable)))
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot watch descriptors: %s", strerror(errno));
    return OUTBOX_OK;
}

static enum outbox_code open_engine(struct outbox_dispatcher *dispatcher, const struct outbox_dispatch *set,
                                    struct outbox_error *err)
{
    char worker[OB_WORKER_NAME];
    ob_worker_name(set->worker, worker);
    struct ob_sink_settings sink = {.concurrency = set->concurrency > 0 ? set->concurrency : 1,
                                    .batch = 1,
                                    .run = 1,
                                    .timeout_us = set->timeout_us,
                                    .rate_count = set->rate_per_s,
                                    .rate_period_us = 1000000,
                                    .retry = {.base_us = set->retry_base_us, .cap_us = set->retry_cap_us},
                                    .breaker = {.threshold = -1}};
    int batch = set->batch > 0 ? set->batch : 100;
    struct ob_engine_settings engine = {.machine = {.max_messages = batch * 2,
                                                    .claim_limit = batch,
                                                    .prefetch = true,
                                                    .concurrency = sink.concurrency,
                                                    .lease_us = set->lease_us,
                                                    .poll_us = set->poll_us,
                                                    .sinks = &sink,
                                                    .sink_count = 1,
                                                    .route = route,
                                                    .seed = (uint64_t)ob_clock_wall_us()},
                                        .async = {.url = set->url,
                                                  .schema = set->schema,
                                                  .application = "outbox dispatcher",
                                                  .fallback_us = set->poll_us,
                                                  .log = set->log ? &dispatcher->log : NULL},
                                        .worker = worker,
                                        .ctx = dispatcher,
                                        .deliver = deliver,
                                        .cancel = cancel,
                                        .lanes = choose_lanes,
                                        .max_attempts = set->max_attempts,
                                        .log = set->log ? &dispatcher->log : NULL};
    int64_t lease = set->lease_us ? set->lease_us : 30000000, poll = set->poll_us ? set->poll_us : 500000;
    if (poll > lease / 3)
        ob_log(engine.log, OB_LOG_WARN, "poll interval is longer than a third of the lease",
               OB_INT("poll_ms", poll / 1000), OB_INT("lease_ms", lease / 1000));
    return ob_engine_new(&engine, &dispatcher->engine, err);
}

enum outbox_code outbox_dispatcher_new(const struct outbox_dispatch *options, outbox_dispatcher **out,
                                       struct outbox_error *err)
{
    struct outbox_dispatch set = OUTBOX_DISPATCH_INIT;
    if (!out || !options)
        return ob_error_set(err, OUTBOX_INVALID, "%s is NULL", out ? "options" : "dispatcher");
    *out = NULL;
    if (!ob_take_versioned(&set, sizeof set, options))
        return ob_error_set(err, OUTBOX_INVALID, "options has no size; initialise it with OUTBOX_DISPATCH_INIT");
    if (!set.url || !set.deliver)
        return ob_error_set(err, OUTBOX_INVALID, "options.%s is NULL", set.url ? "deliver" : "url");
    struct outbox_dispatcher *dispatcher = ob_calloc(1, sizeof *dispatcher);
    if (!dispatcher)
        return ob_error_nomem(err);
    dispatcher->set = set;
    dispatcher->fd = dispatcher->cancel_fd = -1;
    dispatcher->log = (struct ob_log){.level = (enum ob_log_level)set.log_level, .write = write_log, .ctx = dispatcher};
    ob_list_init(&dispatcher->tasks);
    pthread_mutex_init(&dispatcher->lock, NULL);
    enum outbox_code code = copy_lanes(dispatcher, &set, err);
    if (!code && !set.disabled)
        code = open_engine(dispatcher, &set, err);
    if (!code)
        code = open_fds(dispatcher, err);
    if (code)
        outbox_dispatcher_free(dispatcher);
    else
        *out = dispatcher;
    return code;
}

void outbox_dispatcher_free(outbox_dispatcher *dispatcher)
{
    if (!dispatcher)
        return;
    outbox_dispatcher_stop(dispatcher);
    OB_LIST_EACH_SAFE (it, &dispatcher->tasks) { /* the program frees them by answering */
        OB_CONTAINER(it, struct outbox_task, node)->dispatcher = NULL;
        ob_list_remove(it);
    }
    ob_engine_free(dispatcher->engine);
    if (dispatcher->fd >= 0)
        close(dispatcher->fd);
    if (dispatcher->cancel_fd >= 0)
        close(dispatcher->cancel_fd);
    for (size_t i = 0; i < dispatcher->lane_count; i++)
        ob_free(dispatcher->topics[i]);
    ob_free(dispatcher->topics);
    ob_free(dispatcher->lanes);
    ob_free(dispatcher->name_space);
    pthread_mutex_destroy(&dispatcher->lock);
    ob_free(dispatcher);
}

/* ---- running ---- */

int outbox_dispatcher_fd(const outbox_dispatcher *dispatcher)
{
    return dispatcher->fd;
}

int outbox_dispatcher_timeout_ms(const outbox_dispatcher *dispatcher)
{
    int64_t due = dispatcher->engine ? ob_engine_due_us(dispatcher->engine) : INT64_MAX;
    if (due == INT64_MAX)
        return -1;
    int64_t wait = due - ob_clock_boot_us();
    if (wait <= 0)
        return 0;
    return wait > 3600000000 ? 3600000 : (int)((wait + 999) / 1000);
}

static void note_stats(struct outbox_dispatcher *dispatcher)
{
    struct ob_machine_stats stats;
    struct ob_async_store_state async;
    ob_machine_stats(ob_engine_machine(dispatcher->engine), &stats);
    ob_engine_store_state(dispatcher->engine, &async);
    pthread_mutex_lock(&dispatcher->lock);
    dispatcher->stats = (struct outbox_dispatcher_stats){.claimed = stats.claimed,
                                                         .delivered = stats.delivered,
                                                         .retried = stats.retried + stats.unknown,
                                                         .failed = stats.failed,
                                                         .released = stats.released,
                                                         .lost = stats.lost,
                                                         .held = stats.held,
                                                         .in_flight = stats.in_flight,
                                                         .connected = async.connected};
    pthread_mutex_unlock(&dispatcher->lock);
}

static void hear_cancel(struct outbox_dispatcher *dispatcher)
{
    uint64_t count;
    if (read(dispatcher->cancel_fd, &count, sizeof count) != sizeof count || dispatcher->cancelled)
        return;
    dispatcher->cancelled = true;
    if (dispatcher->engine)
        ob_engine_stop(dispatcher->engine, dispatcher->set.grace_us ? dispatcher->set.grace_us : 5000000);
    else
        dispatcher->ended = true;
}

bool outbox_dispatcher_step(outbox_dispatcher *dispatcher)
{
    hear_cancel(dispatcher);
    if (!dispatcher->engine || dispatcher->ended)
        return !dispatcher->ended;
    ob_engine_step(dispatcher->engine);
    dispatcher->ended = ob_engine_stopped(dispatcher->engine);
    note_stats(dispatcher);
    return !dispatcher->ended;
}

static void *run(void *ctx)
{
    struct outbox_dispatcher *dispatcher = ctx;
    while (outbox_dispatcher_step(dispatcher)) {
        struct pollfd fd = {.fd = dispatcher->fd, .events = POLLIN};
        poll(&fd, 1, outbox_dispatcher_timeout_ms(dispatcher));
    }
    return NULL;
}

enum outbox_code outbox_dispatcher_start(outbox_dispatcher *dispatcher, struct outbox_error *err)
{
    if (dispatcher->running) /* then `ended` belongs to the thread */
        return ob_error_set(err, OUTBOX_INVALID, "the dispatcher is already running");
    if (dispatcher->ended)
        return ob_error_set(err, OUTBOX_INVALID, "the dispatcher has ended");
    int failed = pthread_create(&dispatcher->thread, NULL, run, dispatcher);
    if (failed)
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot start a thread: %s", strerror(failed));
    dispatcher->running = true;
    return OUTBOX_OK;
}

void outbox_dispatcher_cancel(outbox_dispatcher *dispatcher)
{
    static const uint64_t one = 1;
    ssize_t written = write(dispatcher->cancel_fd, &one, sizeof one);
    (void)written; /* it fails only if the eventfd is full, and then it is cancelled already */
}

void outbox_dispatcher_stop(outbox_dispatcher *dispatcher)
{
    if (!dispatcher || !dispatcher->running)
        return;
    outbox_dispatcher_cancel(dispatcher);
    pthread_join(dispatcher->thread, NULL);
    dispatcher->running = false;
}

void outbox_dispatcher_stats(outbox_dispatcher *dispatcher, struct outbox_dispatcher_stats *stats)
{
    pthread_mutex_lock(&dispatcher->lock);
    struct outbox_dispatcher_stats now = dispatcher->stats;
    pthread_mutex_unlock(&dispatcher->lock);
    if (ob_size_is_sane(stats->size))
        ob_give_versioned(stats, &now, sizeof now);
}
