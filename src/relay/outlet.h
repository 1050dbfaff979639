/* outlet.h - a sink at work: the adapter that was configured, opened on the relay's loop.
 *
 * Verdicts come through `done`, on the loop's thread, possibly before deliver returns. Closing takes a turn of the loop:
 * the outlet frees itself then.
 *
 * An outlet depends on nothing of the configuration that it was opened from: a reload that does not change a sink goes on
 * with its outlet, and so with its connections. */
#ifndef OB_RELAY_OUTLET_H
#define OB_RELAY_OUTLET_H

#include "relay/config.h"

#include <uv.h>

struct ob_outlet;

struct ob_outlet_settings {
    const struct ob_config_sink *sink; /* copied */
    const struct outbox_sink_ops *ops;
    uv_loop_t *loop;
    const struct ob_log *log;
    void *ctx;
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict);
};

enum outbox_code ob_outlet_open(const struct ob_outlet_settings *settings, struct ob_outlet **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* One more who uses it, and closes it. */
struct ob_outlet *ob_outlet_share(struct ob_outlet *outlet);
/* The last one to close it really does. */
void ob_outlet_close(struct ob_outlet *outlet);
/* Whether opening this sink now would make the same outlet again: kind, options, timeout, and the files it reads. */
bool ob_outlet_is(const struct ob_outlet *outlet, const struct ob_config_sink *sink, const struct outbox_sink_ops *ops);

void ob_outlet_deliver(struct ob_outlet *outlet, const struct outbox_sink_item *items, size_t count);
void ob_outlet_cancel(struct ob_outlet *outlet, uint64_t handle);
/* False when this kind of sink cannot be probed. */
bool ob_outlet_probe(struct ob_outlet *outlet, uint64_t handle);
const struct outbox_sink_ops *ob_outlet_ops(const struct ob_outlet *outlet);

#endif
