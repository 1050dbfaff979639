/* harness.c - see harness.h. */
#include "harness.h"

#include "setting.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "core/message_copy.h"
#include "core/verdict.h"
#include "sink/plugin.h"
#include "sink/registry.h"

#include <stdlib.h>

enum { CLOSE_MS = 5000 };

struct slot {
    struct outbox_delivery *msg; /* NULL: answered, or a ping */
    int64_t sent_us;
    bool out, cancelled, answered;
    struct harness_verdict verdict;
};

struct harness {
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    bool timed_out;
    int64_t skipped_us;
    struct outbox_sink_host *host; /* allocated, to be gone with the sink */
    const struct outbox_sink_ops *ops;
    outbox_sink *sink;
    struct ob_arena arena;
    struct slot *slots;
    size_t count, room, pending, strays;
    void *ctx;
    void (*on_verdict)(void *ctx, const struct harness_verdict *verdict);
    void (*on_log)(void *ctx, enum outbox_log_level level, const char *text);
};

/* ---- what the host offers ---- */

static char *copied(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void verdict_fini(struct harness_verdict *verdict)
{
    free(verdict->code);
    free(verdict->text);
    free(verdict->reference);
    free(verdict->output);
}

static void host_done(void *ctx, uint64_t handle, const struct outbox_verdict *theirs)
{
    struct harness *h = ctx;
    const struct outbox_verdict taken = ob_verdict_take(theirs), *given = &taken;
    struct slot *slot = handle >= 1 && handle <= h->count ? &h->slots[handle - 1] : NULL;
    struct harness_verdict verdict = {.handle = handle,
                                      .outcome = given->outcome,
                                      .scope = given->scope,
                                      .unreachable = given->unreachable,
                                      .local = given->local,
                                      .cancelled = slot && slot->cancelled,
                                      .stray = !slot || !slot->out,
                                      .code = copied(given->code),
                                      .text = copied(given->text),
                                      .reference = copied(given->reference),
                                      .output = copied(given->output),
                                      .not_before_us = given->not_before_us,
                                      .elapsed_us = slot ? ob_clock_mono_us() - slot->sent_us : 0};
    if (!verdict.stray) {
        slot->out = false;
        slot->answered = true;
        slot->verdict = verdict;
        ob_free(slot->msg);
        slot->msg = NULL;
        h->pending--;
    } else if (!verdict.cancelled) {
        h->strays++;
    }
    if (h->on_verdict)
        h->on_verdict(h->ctx, &verdict);
    if (verdict.stray)
        verdict_fini(&verdict);
    if (h->pending == 0)
        uv_stop(&h->loop);
}

static void host_wake(void *ctx)
{
    uv_async_send(&((struct harness *)ctx)->wake);
}

static int64_t host_now_us(void *ctx)
{
    return ob_clock_mono_us() + ((struct harness *)ctx)->skipped_us;
}

static void host_log(void *ctx, enum outbox_log_level level, const char *text)
{
    struct harness *h = ctx;
    if (h->on_log)
        h->on_log(h->ctx, level, text);
}

static void on_wake(uv_async_t *async)
{
    struct harness *h = async->data;
    if (h->sink && h->ops->step)
        h->ops->step(h->sink);
}

/* ---- opening ---- */

static void loop_init(struct harness *h)
{
    int bad = uv_loop_init(&h->loop);
    bad = bad || uv_async_init(&h->loop, &h->wake, on_wake);
    bad = bad || uv_timer_init(&h->loop, &h->timer);
    if (bad)
        abort();
    h->wake.data = h->timer.data = h;
}

static enum outbox_code open_sink(struct harness *h, const char *kind, const struct outbox_sink_option *given,
                                  size_t count, struct outbox_error *err)
{
    const struct outbox_sink_option *options;
    enum outbox_code code = ob_sink_load(kind, NULL, &h->ops, err);
    if (!code)
        code = ob_settings_complete(h->ops->settings, given, count, &h->arena, &options, &count, err);
    if (!code)
        code = ob_sink_open(h->ops, options, count, h->host, &h->sink, err);
    return code;
}

struct harness *harness_open(const char *kind, const struct outbox_sink_option *options, size_t count,
                             struct outbox_error *err)
{
    struct harness *h = calloc(1, sizeof *h);
    if (!h || !(h->host = malloc(sizeof *h->host)))
        abort();
    loop_init(h);
    ob_arena_init(&h->arena, 0);
    *h->host = (struct outbox_sink_host){.size = sizeof *h->host,
                                         .ctx = h,
                                         .loop = &h->loop,
                                         .done = host_done,
                                         .wake = host_wake,
                                         .now_us = host_now_us,
                                         .log = host_log,
                                         .name = "test"};
    if (open_sink(h, kind, options, count, err)) {
        h->sink = NULL; /* as the relay: an open that failed is not closed */
        harness_close(h);
        return NULL;
    }
    return h;
}

void harness_watch(struct harness *h, void *ctx, void (*verdict)(void *ctx, const struct harness_verdict *verdict),
                   void (*log)(void *ctx, enum outbox_log_level level, const char *text))
{
    h->ctx = ctx;
    h->on_verdict = verdict;
    h->on_log = log;
}

uv_loop_t *harness_loop(struct harness *h)
{
    return &h->loop;
}

const struct outbox_sink_ops *harness_ops(const struct harness *h)
{
    return h->ops;
}

outbox_sink *harness_sink(struct harness *h)
{
    return h->sink;
}

/* ---- sending ---- */

static uint64_t slot_new(struct harness *h)
{
    if (h->count == h->room) {
        h->room = h->room ? h->room * 2 : 64;
        h->slots = realloc(h->slots, h->room * sizeof *h->slots);
        if (!h->slots)
            abort();
    }
    h->slots[h->count] = (struct slot){.sent_us = ob_clock_mono_us(), .out = true};
    h->pending++;
    return ++h->count;
}

static void id_make_up(struct outbox_uuid *id, uint64_t handle)
{
    static const struct outbox_uuid none;
    if (ob_uuid_compare(id, &none) != 0)
        return;
    uint8_t chance[10] = {0};
    for (int i = 0; i < 8; i++)
        chance[9 - i] = (uint8_t)(handle >> (8 * i));
    ob_uuid_v7(id, ob_clock_wall_us() / 1000, chance);
}

uint64_t harness_send_many(struct harness *h, const struct outbox_delivery *msgs, const bool *follows, size_t count)
{
    struct outbox_sink_item *items = calloc(count + 1, sizeof *items);
    uint64_t first = h->count + 1;
    if (!items)
        abort();
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        uint64_t handle = slot_new(h);
        struct outbox_delivery *msg = ob_message_copy(&msgs[i], &bytes);
        if (!msg)
            abort();
        id_make_up(&msg->id, handle);
        msg->attempt = msg->attempt ? msg->attempt : 1;
        msg->spent = msg->spent ? msg->spent : msg->attempt;
        msg->max_attempts = msg->max_attempts ? msg->max_attempts : 5;
        msg->created_at_us = msg->created_at_us ? msg->created_at_us : ob_clock_wall_us();
        h->slots[handle - 1].msg = msg;
        items[i] = (struct outbox_sink_item){.handle = handle, .msg = msg, .follows = follows && follows[i]};
    }
    if (!ob_sink_deliver(h->ops, h->sink, items, count))
        abort();
    free(items);
    return first;
}

uint64_t harness_send(struct harness *h, const struct outbox_delivery *msg)
{
    return harness_send_many(h, msg, NULL, 1);
}

void harness_cancel(struct harness *h, uint64_t handle)
{
    struct slot *slot = handle >= 1 && handle <= h->count ? &h->slots[handle - 1] : NULL;
    if (!slot || !slot->out)
        return;
    slot->cancelled = true;
    h->ops->cancel(h->sink, handle);
    if (!slot->out) /* the sink answered all the same */
        return;
    slot->out = false;
    ob_free(slot->msg);
    slot->msg = NULL;
    h->pending--;
}

uint64_t harness_ping(struct harness *h)
{
    if (!h->ops->ping)
        return 0;
    uint64_t handle = slot_new(h);
    h->ops->ping(h->sink, handle);
    return handle;
}

/* ---- running ---- */

static void on_time(uv_timer_t *timer)
{
    struct harness *h = timer->data;
    h->timed_out = true;
    uv_stop(&h->loop);
}

static void run_for(struct harness *h, int64_t ms, bool until_answered)
{
    h->timed_out = false;
    uv_update_time(&h->loop);
    uv_timer_start(&h->timer, on_time, (uint64_t)(ms > 0 ? ms : 0), 0);
    while (!h->timed_out && (h->pending > 0 || !until_answered))
        uv_run(&h->loop, UV_RUN_DEFAULT);
    uv_timer_stop(&h->timer);
}

bool harness_wait(struct harness *h, int64_t deadline_ms)
{
    run_for(h, deadline_ms, true);
    return h->pending == 0;
}

void harness_run(struct harness *h, int64_t ms)
{
    run_for(h, ms, false);
}

void harness_skip(struct harness *h, int64_t ms)
{
    h->skipped_us += ms * 1000;
}

size_t harness_pending(const struct harness *h)
{
    return h->pending;
}

const struct harness_verdict *harness_verdict(const struct harness *h, uint64_t handle)
{
    return handle >= 1 && handle <= h->count && h->slots[handle - 1].answered ? &h->slots[handle - 1].verdict : NULL;
}

size_t harness_strays(const struct harness *h)
{
    return h->strays;
}

const char *harness_outcome_name(enum outbox_sink_outcome outcome)
{
    static const char *const names[] = {
        [OUTBOX_SINK_ACCEPTED] = "accepted", [OUTBOX_SINK_RETRY] = "retry",     [OUTBOX_SINK_LIMITED] = "limited",
        [OUTBOX_SINK_TERMINAL] = "terminal", [OUTBOX_SINK_BLOCKED] = "blocked", [OUTBOX_SINK_UNKNOWN] = "unknown",
        [OUTBOX_SINK_NOT_SENT] = "not_sent",
    };
    return (unsigned)outcome < sizeof names / sizeof names[0] ? names[outcome] : "none of the outcomes";
}

/* ---- closing ---- */

bool harness_close(struct harness *h)
{
    if (!h)
        return true;
    if (h->sink)
        h->ops->close(h->sink);
    h->sink = NULL;
    /* Valid until close returns: a sink that asks it later falls over, with a sanitizer or without. */
    explicit_bzero(h->host, sizeof *h->host);
    free(h->host);
    h->host = NULL;
    for (size_t i = 0; i < h->count; i++) {
        ob_free(h->slots[i].msg);
        verdict_fini(&h->slots[i].verdict);
    }
    uv_close((uv_handle_t *)&h->wake, NULL);
    int64_t until = ob_clock_mono_us() + CLOSE_MS * 1000LL;
    uv_timer_start(&h->timer, on_time, CLOSE_MS, 0); /* a loop with only left-over handles would never return */
    uv_unref((uv_handle_t *)&h->timer);
    while (uv_run(&h->loop, UV_RUN_ONCE) && ob_clock_mono_us() < until)
        ;
    bool clean = !uv_loop_alive(&h->loop);
    uv_close((uv_handle_t *)&h->timer, NULL);
    uv_run(&h->loop, UV_RUN_NOWAIT);
    clean = uv_loop_close(&h->loop) == 0 && clean;
    ob_arena_fini(&h->arena);
    free(h->slots);
    if (clean) /* otherwise what is left still points here */
        free(h);
    return clean;
}
