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
 *     outbox_dispatcher_stop(dispatcher);   // finishes what is out, gives the rest back
 *     outbox_dispatcher_free(dispatcher);
 *
 * Two ways to run it: start gives it a thread of its own; or your loop waits for outbox_dispatcher_fd to become readable,
 * outbox_dispatcher_timeout_ms at most, and calls outbox_dispatcher_step.
 *
 * The callback is called on that thread. It answers each task once: at once, or later, and then from the same thread (with a
 * thread of its own, that is from within a callback). A callback that blocks holds everything up: keep it well below half
 * of the lease, or answer later. A task that is not answered within the timeout is given up as unknown.
 *
 * All functions but outbox_dispatcher_cancel belong to one thread at a time. */
#ifndef OUTBOX_DISPATCHER_H
#define OUTBOX_DISPATCHER_H

#include <outbox/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct outbox_dispatcher outbox_dispatcher;
struct outbox_task; /* one message that you were asked to deliver */

/* msg is borrowed until the task is answered. */
typedef void outbox_deliver_fn(void *ctx, struct outbox_task *task, const struct outbox_delivery *msg);
typedef void outbox_log_fn(void *ctx, enum outbox_log_level level, const char *line);

struct outbox_dispatch {
    size_t size;
    const char *url, *schema; /* as for outbox_open */
    const char *worker;       /* shown as locked_by; NULL: host and process */
    bool disabled;            /* claim nothing: messages gather until it is enabled (V4, V17) */
    outbox_deliver_fn *deliver;
    void *ctx;
    const char *name_space;    /* NULL: every namespace */
    const char *const *topics; /* NULL: every topic; needs name_space */
    size_t topic_count;
    int batch;             /* messages claimed at once. 100 */
    int concurrency;       /* tasks out at once; above 1 is for callbacks that answer later. 1 */
    int max_attempts;      /* 0: the message's own limit; otherwise the lower of the two */
    int64_t lease_us;      /* 30 s */
    int64_t poll_us;       /* 500 ms; at most a third of the lease, or there is a warning (M15) */
    int64_t timeout_us;    /* of a task; 10 s */
    int64_t grace_us;      /* for what is out when it stops; 5 s */
    int64_t retry_base_us; /* 1 s */
    int64_t retry_cap_us;  /* 5 min */
    int64_t rate_per_s;    /* tasks begun in a second; 0: no limit */
    outbox_log_fn *log;    /* NULL: nothing is told */
    enum outbox_log_level log_level;
};
#define OUTBOX_DISPATCH_INIT \
    { \
        .size = sizeof(struct outbox_dispatch), .log_level = OUTBOX_LOG_INFO \
    }

struct outbox_dispatcher_stats {
    size_t size;
    uint64_t claimed, delivered, retried, failed, released, lost;
    int held, out;
    bool connected; /* the store answered the last time */
};

/* The store need not be reachable yet. Texts are copied. */
OUTBOX_API enum outbox_code outbox_dispatcher_new(const struct outbox_dispatch *options, outbox_dispatcher **dispatcher,
                                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Stops it first when it runs. */
OUTBOX_API void outbox_dispatcher_free(outbox_dispatcher *dispatcher);

/* Says how a task went; NULL: accepted. The task is gone afterwards. */
OUTBOX_API void outbox_task_done(struct outbox_task *task, const struct outbox_verdict *verdict);

/* ---- on a thread of its own ---- */

OUTBOX_API enum outbox_code outbox_dispatcher_start(outbox_dispatcher *dispatcher,
                                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Cancels, and waits for the end. */
OUTBOX_API void outbox_dispatcher_stop(outbox_dispatcher *dispatcher);

/* ---- in your loop ---- */

OUTBOX_API int outbox_dispatcher_fd(const outbox_dispatcher *dispatcher);
OUTBOX_API int outbox_dispatcher_timeout_ms(const outbox_dispatcher *dispatcher); /* as for poll(2): -1 is for ever */
/* False when it has ended after a cancel. */
OUTBOX_API bool outbox_dispatcher_step(outbox_dispatcher *dispatcher);

/* ---- both ---- */

/* Asks it to end: finish what is out, give back the rest. From any thread, and from a signal handler. */
OUTBOX_API void outbox_dispatcher_cancel(outbox_dispatcher *dispatcher);
OUTBOX_API void outbox_dispatcher_stats(outbox_dispatcher *dispatcher, struct outbox_dispatcher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
