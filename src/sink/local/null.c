/* null.c - the sink that accepts everything at once and keeps nothing: for benchmarks, and for unwanted topics.
 *
 * It answers from within deliver, on the loop's thread. It keeps no state but its host. */
#include "base/alloc.h"
#include "base/error.h"

#include <outbox/sink.h>

struct outbox_sink {
    const struct outbox_sink_host *host;
};

extern const struct outbox_sink_ops ob_sink_null;

static enum outbox_code null_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    (void)options;
    (void)count;
    *sink = ob_calloc(1, sizeof **sink);
    if (!*sink)
        return ob_error_nomem(err);
    (*sink)->host = host;
    return OUTBOX_OK;
}

static void accept(outbox_sink *sink, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_ACCEPTED;
    sink->host->done(sink->host->ctx, handle, &verdict);
}

static void null_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        accept(sink, items[i].handle);
}

static void null_cancel(outbox_sink *sink, uint64_t handle)
{
    (void)sink;
    (void)handle;
}

static void null_close(outbox_sink *sink)
{
    ob_free(sink);
}

static const struct outbox_sink_setting settings[] = {{0}};

const struct outbox_sink_ops ob_sink_null = {
    OUTBOX_SINK_OPS_HEAD,  .kind = "null",      .also = "none noop discard devnull blackhole",
    .keeps_order = true,   .open = null_open,   .deliver = null_deliver,
    .cancel = null_cancel, .close = null_close, .settings = settings,
    .ping = accept,        .descriptors = 2,    .summary = "accepts every message and keeps nothing",
    .protocol = "local",
};
