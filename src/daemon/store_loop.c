/* store_loop.c - see store_loop.h. Handles are tagged in deliver and cancel, and untagged in ob_store_loop_verdict,
 * nowhere else. */
#include "daemon/store_loop_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/payload_check.h"
#include "config/route.h"
#include "sink/shortage.h"

#include <string.h>

enum { TAG_SHIFT = 20 };
static const uint64_t tag_mask = (uint64_t)OB_STORE_LOOP_MAX << TAG_SHIFT;

/* ---- what the engine asks for ---- */

static int route(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    const struct ob_store_loop *store_loop = ctx;
    int found = ob_route_find(store_loop->set.config, msg);
    if (found < 0)
        return -1;
    *patience = &store_loop->set.config->routes[found].patience;
    return store_loop->set.config->routes[found].sink;
}

/* code: OUTBOX_INVALID, the payload is invalid; OUTBOX_NOMEM, a shortage; OUTBOX_OK, it only follows one of these. */
static void refuse(struct ob_store_loop *store_loop, const struct outbox_sink_item *item, enum outbox_code code,
                   const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID;
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_NOT_SENT;
    verdict.code = wrong ? "schema" : code ? "out_of_memory" : NULL;
    verdict.text = wrong ? text : NULL;
    verdict.not_before_us = wrong || !code ? -1 : OB_SHORTAGE_US;
    verdict.local = true;
    ob_engine_verdict(store_loop->engine, item->handle, &verdict);
}

/* Hands over the valid items, in pieces: an invalid item is dead at once, and later ones of its key wait (S12). */
static void deliver(void *ctx, int sink, const struct outbox_sink_item *items, size_t count)
{
    struct ob_store_loop *store_loop = ctx;
    struct ob_sink_instance *instance = store_loop->set.instances[sink];
    size_t ready = 0;
    bool broken = false; /* the previous item was not handed over */
    for (size_t i = 0; i < count; i++) {
        char why[400];
        if (items[i].follows && broken) {
            refuse(store_loop, &items[i], OUTBOX_OK, NULL);
            continue;
        }
        enum outbox_code code = store_loop->checks_payloads
                                    ? ob_payload_check(store_loop->set.config, items[i].msg, why, sizeof why)
                                    : OUTBOX_OK;
        broken = code != OUTBOX_OK;
        if (broken) {
            refuse(store_loop, &items[i], code, why);
            continue;
        }
        store_loop->items[ready] = items[i];
        store_loop->items[ready++].handle |= store_loop->tag;
    }
    if (ready > 0)
        ob_sink_instance_deliver(instance, store_loop->items, ready);
}

static void cancel(void *ctx, int sink, uint64_t handle)
{
    struct ob_store_loop *store_loop = ctx;
    ob_sink_instance_cancel(store_loop->set.instances[sink], handle | store_loop->tag);
}

/* ---- life ---- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ob_engine_step(((struct ob_store_loop *)poll->data)->engine);
}

static enum outbox_code open_store(struct ob_store_loop *store_loop, struct outbox_error *err)
{
    const struct ob_config *config = store_loop->set.config;
    const struct ob_config_store *store = &config->stores[store_loop->set.index];
    struct ob_async_store_options async = {.url = store->url,
                                           .schema = store->schema,
                                           .application = "outbox relay",
                                           .worker = store_loop->set.process,
                                           .timeout_us = ob_engine_timeout_us(config->relay.lease_us),
                                           .fallback_us = config->relay.poll_us,
                                           .polling = store->polling,
                                           .relaxed = store->relaxed,
                                           .log = store_loop->set.log};
    store_loop->async = ob_shared_store_ref(store_loop->set.async);
    return store_loop->async ? OUTBOX_OK : ob_shared_store_open(&async, &store_loop->async, err);
}

static enum outbox_code take_number(struct ob_store_loop *store_loop, struct outbox_error *err)
{
    struct ob_store_loop_table *table = store_loop->set.table;
    for (int i = 1; i <= OB_STORE_LOOP_MAX; i++) {
        int number = (table->last + i - 1) % OB_STORE_LOOP_MAX + 1;
        if (table->at[number])
            continue;
        table->at[number] = store_loop;
        table->last = number;
        store_loop->tag = (uint64_t)number << TAG_SHIFT;
        return OUTBOX_OK;
    }
    return ob_error_set(err, OUTBOX_CONFIG, "a relay serves at most %d stores", OB_STORE_LOOP_MAX);
}

static void give_number_back(struct ob_store_loop *store_loop)
{
    if (store_loop->tag)
        store_loop->set.table->at[store_loop->tag >> TAG_SHIFT] = NULL;
    store_loop->tag = 0;
}

static enum outbox_code start(struct ob_store_loop *store_loop, struct outbox_error *err)
{
    const struct ob_config *config = store_loop->set.config;
    struct ob_engine_settings engine = {.machine = config->relay,
                                        .shared = store_loop->async,
                                        .worker = store_loop->set.worker,
                                        .ctx = store_loop,
                                        .deliver = deliver,
                                        .cancel = cancel,
                                        .lanes = ob_store_loop_choose_lanes,
                                        .log = store_loop->set.log};
    engine.machine.sinks = store_loop->sinks;
    engine.machine.sink_count = (int)config->sink_count;
    engine.machine.route = route;
    engine.machine.route_ctx = store_loop;
    engine.machine.note = store_loop->set.note;
    engine.machine.note_ctx = store_loop->set.note_ctx;
    engine.machine.trace = store_loop->set.traces ? ob_tracer_begin : NULL;
    engine.machine.trace_ctx = store_loop->set.traces;
    engine.machine.seed = (uint64_t)ob_clock_wall_us() ^ (uint64_t)(uintptr_t)store_loop;
    return ob_engine_new(&engine, &store_loop->engine, err);
}

enum outbox_code ob_store_loop_open(const struct ob_store_loop_settings *settings, struct ob_store_loop **out,
                                    struct outbox_error *err)
{
    const struct ob_config *config = settings->config;
    struct ob_store_loop *store_loop = ob_calloc(1, sizeof *store_loop);
    *out = NULL;
    if (!store_loop)
        return ob_error_nomem(err);
    store_loop->set = *settings;
    store_loop->sinks = ob_calloc(config->sink_count + 1, sizeof *store_loop->sinks);
    store_loop->tuned = ob_calloc(config->sink_count + 1, sizeof *store_loop->tuned);
    store_loop->paused = ob_calloc(config->sink_count + 1, sizeof *store_loop->paused);
    store_loop->items = ob_calloc((size_t)config->relay.max_messages + 1, sizeof *store_loop->items);
    bool made = ob_store_loop_lanes_init(store_loop);
    made = made && store_loop->sinks && store_loop->tuned && store_loop->paused && store_loop->items;
    for (size_t i = 0; i < config->route_count; i++)
        store_loop->checks_payloads |= config->routes[i].compiled != NULL;
    enum outbox_code code = made ? OUTBOX_OK : ob_error_nomem(err);
    if (made) {
        for (size_t i = 0; i < config->sink_count; i++)
            ob_store_loop_sink_init(store_loop, (int)i, &store_loop->sinks[i]);
        memcpy(store_loop->tuned, store_loop->sinks, config->sink_count * sizeof *store_loop->sinks);
        code = take_number(store_loop, err);
    }
    if (!code)
        code = open_store(store_loop, err);
    if (!code)
        code = start(store_loop, err);
    if (!code && uv_poll_init(settings->loop, &store_loop->poll, ob_engine_fd(store_loop->engine)) == 0) {
        store_loop->polling = true;
        store_loop->poll.data = store_loop;
        uv_poll_start(&store_loop->poll, UV_READABLE, on_readable);
        /* Nothing is sent until the store has reported what operators want: see store_loop_control.c. */
        for (size_t i = 0; i < config->sink_count; i++)
            ob_store_loop_pause(store_loop, (int)i, true);
    } else if (!code) {
        code = ob_error_set(err, OUTBOX_INTERNAL, "cannot watch the store's connections");
    }
    if (code)
        ob_store_loop_close(store_loop);
    else
        *out = store_loop;
    return code;
}

static void free_all(struct ob_store_loop *store_loop)
{
    ob_engine_free(store_loop->engine);
    ob_shared_store_unref(store_loop->async);
    ob_store_loop_lanes_fini(store_loop);
    ob_free(store_loop->sinks);
    ob_free(store_loop->tuned);
    ob_free(store_loop->paused);
    ob_free(store_loop->items);
    ob_free(store_loop);
}

static void on_closed(uv_handle_t *handle)
{
    free_all(handle->data);
}

void ob_store_loop_close(struct ob_store_loop *store_loop)
{
    if (!store_loop)
        return;
    give_number_back(store_loop); /* later verdicts of sinks are dropped */
    if (!store_loop->polling) {
        free_all(store_loop);
        return;
    }
    uv_close((uv_handle_t *)&store_loop->poll, on_closed);
    ob_engine_free(store_loop->engine); /* now, because a successor may need the store's lock */
    ob_shared_store_unref(store_loop->async);
    store_loop->engine = NULL;
    store_loop->async = NULL;
}

int64_t ob_store_loop_turn(struct ob_store_loop *store_loop)
{
    /* A verdict given within deliver requires another step at once; a few of these are done here, then others have their
     * turn. */
    int64_t due = ob_engine_due_us(store_loop->engine);
    for (int i = 0; i < 8 && due <= ob_clock_boot_us(); i++) {
        ob_engine_step(store_loop->engine);
        due = ob_engine_due_us(store_loop->engine);
    }
    return due;
}

struct ob_engine *ob_store_loop_engine(struct ob_store_loop *store_loop)
{
    return store_loop->engine;
}

struct ob_shared_store *ob_store_loop_store(struct ob_store_loop *store_loop)
{
    return store_loop->async;
}

/* A sink may answer late, and a faulty sink may return any handle. */
void ob_store_loop_verdict(void *table, uint64_t handle, const struct outbox_verdict *verdict)
{
    const struct ob_store_loop_table *loops = table;
    struct ob_store_loop *store_loop = loops->at[(handle & tag_mask) >> TAG_SHIFT];
    if (store_loop)
        ob_engine_verdict(store_loop->engine, handle & ~tag_mask, verdict);
}
