/* outlet.h - a sink at work: the adapter that was configured, opened on the relay's loop.
 *
 * Verdicts come through `done`, on the loop's thread, possibly before deliver returns. Closing takes a turn of the loop:
 * the outlet frees itself then. */
#ifndef OB_RELAY_OUTLET_H
#define OB_RELAY_OUTLET_H

#include "relay/config.h"

#include <uv.h>

struct ob_outlet;

struct ob_outlet_settings {
    const struct ob_config_sink *sink; /* borrowed until the outlet is closed */
    const struct outbox_sink_ops *ops;
    uv_loop_t *loop;
    const struct ob_log *log;
    void *ctx;
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict);
};

enum outbox_code ob_outlet_open(const struct ob_outlet_settings *settings, struct ob_outlet **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_outlet_close(struct ob_outlet *outlet);

void ob_outlet_deliver(struct ob_outlet *outlet, const struct outbox_sink_item *items, size_t count);
void ob_outlet_cancel(struct ob_outlet *outlet, uint64_t handle);
/* False when this kind of sink cannot be probed. */
bool ob_outlet_probe(struct ob_outlet *outlet, uint64_t handle);
const struct outbox_sink_ops *ob_outlet_ops(const struct ob_outlet *outlet);

#endif
