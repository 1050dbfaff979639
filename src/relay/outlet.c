/* outlet.c - see outlet.h. What a sink is offered, and nothing else: it never sees the engine. */
#include "relay/outlet.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "lib/versioned.h"

struct ob_outlet {
    struct ob_outlet_settings set;
    struct outbox_sink_host host;
    outbox_sink *sink;
    uv_async_t wake;
};

static void on_done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct ob_outlet *outlet = ctx;
    struct outbox_verdict given = OUTBOX_VERDICT_INIT;
    if (!ob_take_versioned(&given, sizeof given, verdict)) {
        given = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
        given.outcome = OUTBOX_SINK_UNKNOWN;
        given.code = "bad_verdict";
        given.text = "the verdict of the sink has no size; it begins as OUTBOX_VERDICT_INIT";
    }
    outlet->set.done(outlet->set.ctx, handle, &given);
}

static void on_wake(void *ctx)
{
    struct ob_outlet *outlet = ctx;
    uv_async_send(&outlet->wake);
}

static void on_async(uv_async_t *wake)
{
    struct ob_outlet *outlet = wake->data;
    if (outlet->sink && outlet->set.ops->step)
        outlet->set.ops->step(outlet->sink);
}

static int64_t on_now(void *ctx)
{
    (void)ctx;
    return ob_clock_boot_us();
}

static void on_log(void *ctx, enum outbox_log_level level, const char *text)
{
    static const enum ob_log_level levels[] = {OB_LOG_DEBUG, OB_LOG_INFO, OB_LOG_WARN, OB_LOG_ERROR};
    const struct ob_outlet *outlet = ctx;
    ob_log(outlet->set.log, levels[level], text, OB_STR("destination", outlet->set.sink->name));
}

static void on_closed(uv_handle_t *handle)
{
    ob_free(handle->data);
}

enum outbox_code ob_outlet_open(const struct ob_outlet_settings *settings, struct ob_outlet **out,
                                struct outbox_error *err)
{
    struct ob_outlet *outlet = ob_calloc(1, sizeof *outlet);
    *out = NULL;
    if (!outlet)
        return ob_error_nomem(err);
    outlet->set = *settings;
    outlet->host = (struct outbox_sink_host){.size = sizeof outlet->host,
                                             .ctx = outlet,
                                             .loop = settings->loop,
                                             .done = on_done,
                                             .wake = on_wake,
                                             .now_us = on_now,
                                             .log = on_log,
                                             .name = settings->sink->name,
                                             .timeout_us = settings->sink->dest.timeout_us};
    int failed = uv_async_init(settings->loop, &outlet->wake, on_async);
    if (failed) {
        ob_free(outlet);
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot wake sinks: %s", uv_strerror(failed));
    }
    outlet->wake.data = outlet;
    enum outbox_code code =
        settings->ops->open(settings->sink->options, settings->sink->option_count, &outlet->host, &outlet->sink, err);
    if (code) {
        outlet->sink = NULL; /* whatever it was set to: there is nothing to close */
        ob_outlet_close(outlet);
    } else {
        *out = outlet;
    }
    return code;
}

void ob_outlet_close(struct ob_outlet *outlet)
{
    if (!outlet)
        return;
    if (outlet->sink)
        outlet->set.ops->close(outlet->sink);
    outlet->sink = NULL;
    uv_close((uv_handle_t *)&outlet->wake, on_closed);
}

void ob_outlet_deliver(struct ob_outlet *outlet, const struct outbox_sink_item *items, size_t count)
{
    outlet->set.ops->deliver(outlet->sink, items, count);
}

void ob_outlet_cancel(struct ob_outlet *outlet, uint64_t handle)
{
    outlet->set.ops->cancel(outlet->sink, handle);
}

bool ob_outlet_probe(struct ob_outlet *outlet, uint64_t handle)
{
    if (!outlet->set.ops->probe)
        return false;
    outlet->set.ops->probe(outlet->sink, handle);
    return true;
}

const struct outbox_sink_ops *ob_outlet_ops(const struct ob_outlet *outlet)
{
    return outlet->set.ops;
}
