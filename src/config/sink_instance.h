/* sink_instance.h - a configured sink, opened on the relay's loop.
 *
 * Verdicts come through `done`, on the loop's thread, possibly before deliver returns. Closing takes a turn of the loop,
 * after which the sink instance frees itself. It may be closed from within `done`: the sink itself is closed after its
 * call has returned, so adapters need not handle that case. After close there are no more verdicts.
 *
 * A sink instance keeps no reference to the configuration that it was opened from: a reload that does not change a sink
 * keeps its sink instance, and so its connections. */
#ifndef OB_CONFIG_SINK_INSTANCE_H
#define OB_CONFIG_SINK_INSTANCE_H

#include "config/config.h"

#include <uv.h>

struct ob_sink_instance;

struct ob_sink_instance_settings {
    const struct ob_config_sink *sink; /* copied */
    const struct outbox_sink_ops *ops;
    uv_loop_t *loop;
    const struct ob_log *log;
    void *ctx;
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict);
};

enum outbox_code ob_sink_instance_open(const struct ob_sink_instance_settings *settings, struct ob_sink_instance **out,
                                       struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Adds a user, who must close it too. */
struct ob_sink_instance *ob_sink_instance_share(struct ob_sink_instance *instance);
/* The last user's call closes it. */
void ob_sink_instance_close(struct ob_sink_instance *instance);
/* Whether opening this sink now would give an identical sink instance: kind, options, timeout, and the files that it
 * reads. */
bool ob_sink_instance_is(const struct ob_sink_instance *instance, const struct ob_config_sink *sink,
                         const struct outbox_sink_ops *ops);

void ob_sink_instance_deliver(struct ob_sink_instance *instance, const struct outbox_sink_item *items, size_t count);
void ob_sink_instance_cancel(struct ob_sink_instance *instance, uint64_t handle);
/* False when this kind of sink cannot be pinged. */
bool ob_sink_instance_ping(struct ob_sink_instance *instance, uint64_t handle);
const struct outbox_sink_ops *ob_sink_instance_ops(const struct ob_sink_instance *instance);

#endif
