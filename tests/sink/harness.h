/* harness.h - a host for one adapter on a libuv loop of its own: opens a sink, hands it messages, gathers its verdicts.
 * C tests use it directly, tests in Python through the program sink-drive.
 *
 *     struct harness *h = harness_open("null", NULL, 0, &err);
 *     uint64_t one = harness_send(h, &HARNESS_MESSAGE("orders.paid", "{}", .key = "order-1", .seq = 1));
 *     assert_true(harness_wait(h, 5000));
 *     assert_int_equal(harness_verdict(h, one)->outcome, OUTBOX_SINK_ACCEPTED);
 *     assert_true(harness_close(h));
 *
 * Options are written as in a configuration ("timeout" "10s") and completed by the adapter's table. Messages are copied
 * and freed with their verdict, and the host with the sink, so that an adapter that uses one too long is found. One
 * thread. */
#ifndef HARNESS_H
#define HARNESS_H

#include <outbox/sink.h>

#include <string.h>
#include <uv.h>

struct harness;

struct harness_verdict {
    uint64_t handle;
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool unreachable, local, cancelled, stray; /* stray: an answer nobody waited for */
    char *code, *text, *reference, *output;
    int64_t not_before_us, elapsed_us;
};

/* A message; further fields by name. Id, attempt and limits are made up where they are zero. */
#define HARNESS_MESSAGE(topic_, payload_, ...) \
    ((struct outbox_delivery){.size = sizeof(struct outbox_delivery), \
                              .name_space = "default", \
                              .topic = (topic_), \
                              .payload = (payload_), \
                              .payload_len = strlen(payload_), \
                              ##__VA_ARGS__})

/* kind may be the path of a shared object. NULL after it filled err. */
struct harness *harness_open(const char *kind, const struct outbox_sink_option *options, size_t count,
                             struct outbox_error *err);
/* What is called with every verdict as it comes, and with every line the sink logs; both may be NULL. */
void harness_watch(struct harness *h, void *ctx, void (*verdict)(void *ctx, const struct harness_verdict *verdict),
                   void (*log)(void *ctx, enum outbox_log_level level, const char *text));
uv_loop_t *harness_loop(struct harness *h);
const struct outbox_sink_ops *harness_ops(const struct harness *h);
outbox_sink *harness_sink(struct harness *h); /* for tests that look inside */

/* Handles count from 1. */
uint64_t harness_send(struct harness *h, const struct outbox_delivery *msg);
/* One call of deliver. follows may be NULL. Returns the first handle; the others are next to it. */
uint64_t harness_send_many(struct harness *h, const struct outbox_delivery *msgs, const bool *follows, size_t count);
void harness_cancel(struct harness *h, uint64_t handle);
/* 0 when the sink has no ping. */
uint64_t harness_ping(struct harness *h);

/* Runs the loop until everything is answered; false when the deadline came first. */
bool harness_wait(struct harness *h, int64_t deadline_ms);
/* Runs the loop for a while, whatever is out. */
void harness_run(struct harness *h, int64_t ms);
/* The host's clock jumps ahead: pauses that a sink counts by it are over, timers of the loop are not. */
void harness_skip(struct harness *h, int64_t ms);
size_t harness_pending(const struct harness *h);
/* NULL: not answered. Of several answers the first. */
const struct harness_verdict *harness_verdict(const struct harness *h, uint64_t handle);
size_t harness_strays(const struct harness *h);
const char *harness_outcome_name(enum outbox_sink_outcome outcome);

/* Closes the sink and then the loop. False when the sink left something in the loop. Accepts NULL. */
bool harness_close(struct harness *h);

#endif
