/* sink_ping.c - see sink_ping.h. All sinks are pinged at once, on a temporary loop. */
#include "config/sink_ping.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/sink_instance.h"
#include "sink/registry.h"

struct asked {
    struct ob_sink_instance *instance;
    bool open; /* not answered yet */
};

struct round {
    const struct ob_config *config;
    struct asked *asked; /* one per sink */
    size_t left;
    bool waiting; /* all pings were started */
    int64_t began_us;
    uv_loop_t loop;
    uv_timer_t timer;
    void (*tell)(void *ctx, const struct ob_ping *ping);
    void *ctx;
};

static void tell(struct round *round, size_t i, enum ob_ping_state state, const struct outbox_verdict *verdict,
                 const char *error)
{
    round->tell(round->ctx, &(struct ob_ping){.sink = &round->config->sinks[i],
                                              .state = state,
                                              .verdict = verdict,
                                              .error = error,
                                              .took_us = ob_clock_boot_us() - round->began_us});
}

/* Handles start at 1: a sink may treat 0 as none. */
static void on_answer(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct round *round = ctx;
    if (handle < 1 || handle > round->config->sink_count || !round->asked[handle - 1].open)
        return;
    round->asked[handle - 1].open = false;
    tell(round, handle - 1, verdict->outcome == OUTBOX_SINK_ACCEPTED ? OB_PING_WELL : OB_PING_SICK, verdict, NULL);
    if (--round->left == 0 && round->waiting)
        uv_stop(&round->loop);
}

static void on_timeout(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static bool open_sink(struct round *round, size_t i)
{
    const struct ob_config_sink *sink = &round->config->sinks[i];
    if (sink->broken)
        return false;
    struct ob_sink_instance_settings settings = {.sink = sink, .loop = &round->loop, .ctx = round, .done = on_answer};
    struct outbox_error err = {0};
    enum outbox_code code = ob_sink_load(sink->kind, sink->library, &settings.ops, &err);
    if (!code)
        code = ob_sink_instance_open(&settings, &round->asked[i].instance, &err);
    if (code)
        tell(round, i, OB_PING_CLOSED, NULL, err.text);
    return !code;
}

static void ask(struct round *round, size_t i)
{
    if (!open_sink(round, i))
        return;
    round->asked[i].open = true;
    round->left++;
    if (!ob_sink_instance_ping(round->asked[i].instance, i + 1)) {
        round->asked[i].open = false;
        round->left--;
        tell(round, i, OB_PING_CANNOT, NULL, NULL);
    }
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static enum outbox_code begin(struct round *round, struct outbox_error *err)
{
    round->began_us = ob_clock_boot_us();
    round->asked = ob_calloc(round->config->sink_count + 1, sizeof *round->asked);
    if (!round->asked)
        return ob_error_nomem(err);
    if (uv_loop_init(&round->loop) == 0)
        return OUTBOX_OK;
    ob_free(round->asked);
    return ob_error_set(err, OUTBOX_INTERNAL, "cannot create an event loop");
}

static void end(struct round *round)
{
    for (size_t i = 0; i < round->config->sink_count; i++) {
        if (round->asked[i].open)
            tell(round, i, OB_PING_SILENT, NULL, NULL);
        round->asked[i].open = false;
        ob_sink_instance_close(round->asked[i].instance);
    }
    uv_walk(&round->loop, close_handle, NULL);
    uv_run(&round->loop, UV_RUN_DEFAULT);
    uv_loop_close(&round->loop);
    ob_free(round->asked);
}

enum outbox_code ob_ping_settings(const struct ob_config *config, void (*tell_fn)(void *ctx, const struct ob_ping *),
                                  void *ctx, struct outbox_error *err)
{
    struct round round = {.config = config, .tell = tell_fn, .ctx = ctx};
    enum outbox_code code = begin(&round, err);
    if (code)
        return code;
    for (size_t i = 0; i < config->sink_count; i++)
        open_sink(&round, i);
    end(&round);
    return OUTBOX_OK;
}

enum outbox_code ob_ping_sinks(const struct ob_config *config, int64_t timeout_us,
                               void (*tell_fn)(void *ctx, const struct ob_ping *ping), void *ctx,
                               struct outbox_error *err)
{
    struct round round = {.config = config, .tell = tell_fn, .ctx = ctx};
    enum outbox_code code = begin(&round, err);
    if (code)
        return code;
    uv_timer_init(&round.loop, &round.timer);
    uv_timer_start(&round.timer, on_timeout, (uint64_t)timeout_us / 1000, 0);
    for (size_t i = 0; i < config->sink_count; i++)
        ask(&round, i);
    round.waiting = true;
    if (round.left > 0)
        uv_run(&round.loop, UV_RUN_DEFAULT);
    end(&round);
    return OUTBOX_OK;
}
