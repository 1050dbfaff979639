/* dispatcher.h - delivery inside your own program: the relay's core, with your callback in place of a sink.
 *
 *     static void deliver(void *ctx, struct outbox_task *task, const struct outbox_delivery *msg)
 *     {
 *         struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
 *         verdict.outcome = publish(msg->topic, msg->payload, msg->payload_len) ? OUTBOX_SINK_ACCEPTED : OUTBOX_SINK_RETRY;
 *         outbox_task_done(task, &verdict);
 *     }
 *
 *     struct outbox_dispatch options = OUTBOX_DISPATCH_INIT;
 *     options.url = "sqlite:shop.db";
 *     options.deliver = deliver;
 *     outbox_dispatcher *dispatcher;
 *     if (outbox_dispatcher_new(&options, &dispatcher, &err) || outbox_dispatcher_start(dispatcher, &err)) ...
 *     ...
 *     outbox_dispatcher_stop(dispatcher);   // finishes deliveries in progress, gives the other messages back
 *     outbox_dispatcher_free(dispatcher);
 *
 * There are two ways to run it. outbox_dispatcher_start gives it a thread of its own. Or your own loop waits until
 * outbox_dispatcher_fd is readable, for outbox_dispatcher_timeout_ms at most, and calls outbox_dispatcher_step.
 *
 * The callback runs on that thread. It answers each task exactly once with outbox_task_done: at once, or later from the same
 * thread (with a thread of its own, that is from within another callback). A callback that blocks delays everything: stay well
 * below half of the lease, or answer later. A task that is not answered within the timeout counts as OUTBOX_SINK_UNKNOWN.
 *
 * Threads: call all functions except outbox_dispatcher_cancel and outbox_dispatcher_stats from one thread at a time. */
#ifndef OUTBOX_DISPATCHER_H
#define OUTBOX_DISPATCHER_H

#include <outbox/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct outbox_dispatcher outbox_dispatcher;
struct outbox_task; /* one message that you were asked to deliver */

/* Delivers one message. msg is borrowed until the task is answered. */
typedef void outbox_deliver_fn(void *ctx, struct outbox_task *task, const struct outbox_delivery *msg);
/* Takes one log line, without a newline. */
typedef void outbox_log_fn(void *ctx, enum outbox_log_level level, const char *line);

/* How to dispatch. Initialise it with OUTBOX_DISPATCH_INIT; url and deliver are required. A 0 means the default. */
struct outbox_dispatch {
    size_t size;
    const char *url, *schema; /* as for outbox_open */
    const char *worker;       /* unique among running workers; NULL: made from host name and process id */
    bool disabled;            /* claim nothing: messages stay in the store until another run delivers them */
    outbox_deliver_fn *deliver;
    void *ctx;                 /* passed to deliver and log */
    const char *name_space;    /* NULL: every namespace */
    const char *const *topics; /* NULL: every topic; requires name_space */
    size_t topic_count;
    int batch;                       /* messages claimed at once; default 100 */
    int concurrency;                 /* tasks at the same time, for callbacks that answer later; default 1 */
    int max_attempts;                /* 0: the message's own limit; otherwise the lower of the two */
    enum outbox_log_level log_level; /* lines below it are not logged; OUTBOX_DISPATCH_INIT sets OUTBOX_LOG_INFO */
    int64_t lease_us;                /* default 30 s */
    int64_t poll_us;                 /* default 500 ms; above a third of the lease it logs a warning */
    int64_t timeout_us;              /* for one task; default 10 s */
    int64_t grace_us;                /* for tasks in progress when it stops; default 5 s */
    int64_t retry_base_us;           /* the first delay between attempts; default 1 s */
    int64_t retry_cap_us;            /* the longest; default 30 min */
    int64_t rate_per_s;              /* tasks begun per second; 0: no limit */
    outbox_log_fn *log;              /* NULL: no log */
};
#define OUTBOX_DISPATCH_INIT \
    { \
        .size = sizeof(struct outbox_dispatch), .log_level = OUTBOX_LOG_INFO \
    }

/* Numbers since the start. Initialise it with OUTBOX_DISPATCHER_STATS_INIT. */
struct outbox_dispatcher_stats {
    size_t size;
    bool connected;      /* the store answered the last request */
    int held, in_flight; /* messages claimed and not settled; of these, tasks in progress */
    uint64_t claimed, delivered, retried, failed, released, lost;
};
#define OUTBOX_DISPATCHER_STATS_INIT \
    { \
        .size = sizeof(struct outbox_dispatcher_stats) \
    }

/* Makes a dispatcher that does not run yet. The store need not be reachable. Text in options is copied. On success *dispatcher
 * is yours to free; otherwise it is NULL. Fails with OUTBOX_INVALID, OUTBOX_UNSUPPORTED when this build lacks the store,
 * OUTBOX_NOMEM, OUTBOX_INTERNAL. */
OUTBOX_API enum outbox_code outbox_dispatcher_new(const struct outbox_dispatch *options, outbox_dispatcher **dispatcher,
                                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Stops it first if it runs. Tasks that are not answered yet stay valid: answer each of them, which frees it. */
OUTBOX_API void outbox_dispatcher_free(outbox_dispatcher *dispatcher);

/* Reports the outcome of a task and frees it; NULL: OUTBOX_SINK_ACCEPTED. What verdict points to is copied. */
OUTBOX_API void outbox_task_done(struct outbox_task *task, const struct outbox_verdict *verdict);

/* ---- on a thread of its own ---- */

/* Fails with OUTBOX_INVALID when it runs or has ended, OUTBOX_INTERNAL when there can be no thread. */
OUTBOX_API enum outbox_code outbox_dispatcher_start(outbox_dispatcher *dispatcher,
                                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Cancels it and waits until it has ended. Does nothing if it was not started. */
OUTBOX_API void outbox_dispatcher_stop(outbox_dispatcher *dispatcher);

/* ---- in your loop ---- */

/* A descriptor that becomes readable when there is something to do. It belongs to the dispatcher: never read or close it. */
OUTBOX_API int outbox_dispatcher_fd(const outbox_dispatcher *dispatcher);
/* How long to wait at most, as for poll(2): -1 means without limit. Ask again after every step. */
OUTBOX_API int outbox_dispatcher_timeout_ms(const outbox_dispatcher *dispatcher);
/* Does what is due without blocking, except in your callback. False when it has ended after a cancel. */
OUTBOX_API bool outbox_dispatcher_step(outbox_dispatcher *dispatcher);

/* ---- both ---- */

/* Asks it to end: to finish the tasks in progress and give back the other messages. From any thread or signal handler. */
OUTBOX_API void outbox_dispatcher_cancel(outbox_dispatcher *dispatcher);
/* Fills stats. From any thread. */
OUTBOX_API void outbox_dispatcher_stats(outbox_dispatcher *dispatcher, struct outbox_dispatcher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
