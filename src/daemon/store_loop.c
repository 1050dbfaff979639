/* store_loop.c - see store_loop.h.
 *
 * Lanes. The store is asked for all lanes but those that would only come to be given back: lanes whose one sink is
 * shut (its breaker is open, it is paused, full or limited), and lanes that no route leads from, when such messages are to
 * wait. A lane that is not known yet is claimed like any other; what comes of it is sorted out by the core. Where there are very
 * many such lanes the store is told the routes instead, so that no claim is longer for the topics there are. */
#include "daemon/store_loop.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/route.h"
#include "sink/shortage.h"

#include <string.h>

enum { LANES_FEW = 64, LANES_PER_RULE = 4 };
enum { TAG_SHIFT = 20, UNROUTED = -1, BY_HEADERS = -2, UNROUTED_TOLD = 10 };
static const uint64_t tag_mask = (uint64_t)OB_STORE_LOOP_MAX << TAG_SHIFT;

struct lane {
    struct outbox_lane name;
    int sink; /* or UNROUTED, BY_HEADERS */
};

struct ob_store_loop {
    struct ob_store_loop_settings set;
    uint64_t tag; /* its number, as handles carry it; 0: it has none */
    struct ob_shared_store *async;
    struct ob_engine *engine;
    uv_poll_t poll;
    bool polling;                   /* the handle is open */
    struct ob_sink_settings *sinks; /* as configured */
    struct ob_sink_settings *tuned; /* as they are now */
    bool *paused;
    bool enabled, controlled;
    struct outbox_sink_item *items; /* tagged, of the delivery under way */
    struct ob_arena names;          /* of the lanes */
    struct outbox_lane *lanes;      /* by sink: those of UNROUTED first, of BY_HEADERS last */
    size_t *ends;                   /* where the lanes of each end, UNROUTED included */
    size_t unrouted;
    struct outbox_lane *chosen;     /* of the last claim, and room for it */
    struct outbox_lane_rule *rules; /* likewise */
    struct ob_arena told_names;
    struct outbox_lane told[UNROUTED_TOLD]; /* lanes without a route that the log has named */
    size_t told_count;
    bool told_all; /* it says no more of them */
};

/* ---- what the engine asks for ---- */

static int route(void *ctx, const struct outbox_delivery *msg)
{
    const struct ob_store_loop *store_loop = ctx;
    int found = ob_route_find(store_loop->set.config, msg);
    return found < 0 ? -1 : store_loop->set.config->routes[found].sink;
}

/* code: OUTBOX_INVALID, what is wrong with it; OUTBOX_NOMEM, a shortage; OUTBOX_OK, it only follows one of these. */
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

/* Hands over what is valid, in pieces: what is not valid is dead at once, and what follows it in its key waits (S12). */
static void deliver(void *ctx, int sink, const struct outbox_sink_item *items, size_t count)
{
    struct ob_store_loop *store_loop = ctx;
    struct ob_sink_instance *instance = store_loop->set.instances[sink];
    size_t ready = 0;
    bool broken = false; /* the one before was not handed over */
    for (size_t i = 0; i < count; i++) {
        char why[400];
        if (items[i].follows && broken) {
            refuse(store_loop, &items[i], OUTBOX_OK, NULL);
            continue;
        }
        enum outbox_code code = store_loop->set.valid ? store_loop->set.valid(store_loop->set.payload_check_ctx,
                                                                              items[i].msg, why, sizeof why)
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

static size_t first_lane(const struct ob_store_loop *store_loop, int sink)
{
    return sink == UNROUTED ? 0 : store_loop->ends[sink];
}

static size_t lanes_of(const struct ob_store_loop *store_loop, int sink)
{
    return store_loop->ends ? store_loop->ends[sink + 1] - first_lane(store_loop, sink) : 0;
}

/* What the routes say of any lane. A route that asks for headers takes some messages of its lanes, and leaves the others to
 * those behind it. rest: lanes that no route leads from are left out too. */
static size_t make_rules(struct ob_store_loop *store_loop, const bool *shut, bool rest)
{
    const struct ob_config *config = store_loop->set.config;
    size_t count = 0, end = 0;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        if (route->header_count && shut[route->sink])
            continue;
        store_loop->rules[count++] = (struct outbox_lane_rule){route->name_space, route->topic, shut[route->sink]};
        end = shut[route->sink] ? count : end;
    }
    if (rest) {
        store_loop->rules[count++] = (struct outbox_lane_rule){NULL, NULL, true};
        end = count;
    }
    return end; /* what is behind the last skip says nothing */
}

static void choose_lanes(void *ctx, bool only, const bool *shut, struct outbox_claim *claim)
{
    static const struct outbox_lane none = {"", ""}; /* no lane has these names */
    struct ob_store_loop *store_loop = ctx;
    const struct ob_config *config = store_loop->set.config;
    bool waits = !only && !config->relay.unrouted_dead && lanes_of(store_loop, UNROUTED) > 0;
    size_t count = 0, most = LANES_FEW + LANES_PER_RULE * config->route_count;
    for (int sink = UNROUTED; sink < (int)config->sink_count; sink++) {
        bool named = sink == UNROUTED ? waits : shut[sink] != only;
        size_t some = named ? lanes_of(store_loop, sink) : 0;
        if (count + some > most) {
            claim->rules = store_loop->rules;
            claim->rule_count = make_rules(store_loop, shut, only || waits);
            return;
        }
        for (size_t i = 0; i < some; i++)
            store_loop->chosen[count++] = store_loop->lanes[first_lane(store_loop, sink) + i];
    }
    if (only) {
        claim->only = count > 0 ? store_loop->chosen : &none;
        claim->only_count = count > 0 ? count : 1;
    } else {
        claim->skip = store_loop->chosen;
        claim->skip_count = count;
    }
}

/* ---- lanes ---- */

static bool was_told(const struct ob_store_loop *store_loop, const struct outbox_lane *name)
{
    for (size_t i = 0; i < store_loop->told_count; i++)
        if (strcmp(store_loop->told[i].topic, name->topic) == 0 &&
            strcmp(store_loop->told[i].name_space, name->name_space) == 0)
            return true;
    return false;
}

/* Messages that wait for a route wait in silence: they are not even claimed. So the first such lanes are told of, each
 * once, and that there are more. */
static void tell_unrouted(struct ob_store_loop *store_loop, const struct lane *lanes, size_t count)
{
    const struct ob_config *config = store_loop->set.config;
    const char *store = config->stores[store_loop->set.index].name;
    for (size_t i = 0; i < count && !store_loop->told_all && !config->relay.unrouted_dead; i++) {
        const struct outbox_lane *name = &lanes[i].name;
        if (lanes[i].sink != UNROUTED || was_told(store_loop, name))
            continue;
        struct outbox_lane copy = {ob_arena_strdup(&store_loop->told_names, name->name_space),
                                   ob_arena_strdup(&store_loop->told_names, name->topic)};
        store_loop->told_all = store_loop->told_count == UNROUTED_TOLD || !copy.name_space || !copy.topic;
        if (store_loop->told_all) {
            ob_log(store_loop->set.log, OB_LOG_WARN, "no route leads from further topics: outbox doctor names them",
                   OB_STR("store", store));
            return;
        }
        store_loop->told[store_loop->told_count++] = copy;
        ob_log(store_loop->set.log, OB_LOG_WARN, "no route leads from this topic: its messages wait",
               OB_STR("store", store), OB_STR("namespace", name->name_space), OB_STR("topic", name->topic));
    }
}

/* The lanes by sink; ends has room for one of each, UNROUTED and BY_HEADERS included. */
static void sort_lanes(const struct lane *made, size_t count, int sinks, struct outbox_lane *sorted, size_t *ends)
{
    size_t *at = ends; /* while they are counted: where the next one of each goes */
    for (size_t i = 0; i < count; i++)
        at[made[i].sink == BY_HEADERS ? sinks + 1 : made[i].sink + 1]++;
    for (int i = 0, sum = 0; i < sinks + 2; i++) {
        int some = (int)at[i];
        at[i] = (size_t)sum;
        sum += some;
    }
    for (size_t i = 0; i < count; i++)
        sorted[at[made[i].sink == BY_HEADERS ? sinks + 1 : made[i].sink + 1]++] = made[i].name;
}

void ob_store_loop_lanes(struct ob_store_loop *store_loop, const struct outbox_lane *lanes, size_t count)
{
    int sinks = (int)store_loop->set.config->sink_count;
    struct lane *made = ob_calloc(count + 1, sizeof *made);
    struct outbox_lane *sorted = ob_calloc(count + 1, sizeof *sorted);
    size_t *ends = ob_calloc((size_t)sinks + 2, sizeof *ends);
    struct ob_arena names;
    ob_arena_init(&names, 0);
    size_t unrouted = 0;
    bool ok = made && sorted && ends;
    for (size_t i = 0; ok && i < count; i++) {
        made[i].name.name_space = ob_arena_strdup(&names, lanes[i].name_space);
        made[i].name.topic = ob_arena_strdup(&names, lanes[i].topic);
        ok = made[i].name.name_space && made[i].name.topic;
        made[i].sink = ok ? ob_route_lane(store_loop->set.config, lanes[i].name_space, lanes[i].topic) : UNROUTED;
        unrouted += ok && made[i].sink == UNROUTED;
    }
    if (!ok) { /* the lanes of before will do */
        ob_arena_fini(&names);
        ob_free(made);
        ob_free(sorted);
        ob_free(ends);
        return;
    }
    tell_unrouted(store_loop, made, count);
    sort_lanes(made, count, sinks, sorted, ends);
    ob_free(made);
    ob_arena_fini(&store_loop->names);
    ob_free(store_loop->lanes);
    ob_free(store_loop->ends);
    store_loop->names = names;
    store_loop->lanes = sorted;
    store_loop->ends = ends;
    store_loop->unrouted = unrouted;
}

bool ob_store_loop_controlled(const struct ob_store_loop *store_loop)
{
    return store_loop->controlled;
}

void ob_store_loop_set_controlled(struct ob_store_loop *store_loop)
{
    store_loop->controlled = true;
}

bool ob_store_loop_enable(struct ob_store_loop *store_loop, bool enabled)
{
    bool changed = store_loop->enabled != enabled;
    store_loop->enabled = enabled;
    return changed;
}

bool ob_store_loop_enabled(const struct ob_store_loop *store_loop)
{
    return store_loop->controlled ? store_loop->enabled : store_loop->set.config->enabled;
}

bool ob_store_loop_pause(struct ob_store_loop *store_loop, int sink, bool paused)
{
    if (store_loop->paused[sink] == paused)
        return false;
    store_loop->paused[sink] = paused;
    ob_engine_pause(store_loop->engine, sink, paused);
    return true;
}

bool ob_store_loop_paused(const struct ob_store_loop *store_loop, int sink)
{
    return store_loop->paused[sink];
}

/* Caps and rates are those of the process: every store gets its part. */
static int part(int whole, size_t stores)
{
    int share = whole / (int)stores;
    return share > 0 ? share : 1;
}

/* There are no more descriptors than that. */
static void cap(const struct ob_store_loop *store_loop, struct ob_sink_settings *sink)
{
    int most =
        store_loop->set.cap > 0 ? part(store_loop->set.cap, store_loop->set.config->store_count) : sink->concurrency;
    sink->concurrency = sink->concurrency < most ? sink->concurrency : most;
    sink->batch = sink->batch < sink->concurrency ? sink->batch : sink->concurrency;
}

bool ob_store_loop_tune(struct ob_store_loop *store_loop, int sink, const struct ob_sink_settings *settings)
{
    struct ob_sink_settings *now = &store_loop->tuned[sink], wanted = *settings;
    cap(store_loop, &wanted);
    if (now->rate_count == wanted.rate_count && now->rate_period_us == wanted.rate_period_us &&
        now->concurrency == wanted.concurrency)
        return false;
    if (ob_machine_tune(ob_engine_core(store_loop->engine), sink, &wanted, NULL))
        return false;
    *now = wanted;
    return true;
}

const struct ob_sink_settings *ob_store_loop_configured(const struct ob_store_loop *store_loop, int sink)
{
    return &store_loop->sinks[sink];
}

size_t ob_store_loop_unrouted_lanes(const struct ob_store_loop *store_loop)
{
    return store_loop->unrouted;
}

/* ---- life ---- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ob_engine_step(((struct ob_store_loop *)poll->data)->engine);
}

static void dest_init(const struct ob_store_loop *store_loop, int i, struct ob_sink_settings *sink)
{
    const struct ob_config *config = store_loop->set.config;
    *sink = ob_sink_settings(&config->sinks[i].delivery);
    sink->max_attempts = config->sinks[i].max_attempts;
    if (!ob_sink_instance_ops(store_loop->set.instances[i])->keeps_order)
        sink->run = 1;
    sink->concurrency = part(sink->concurrency, config->store_count);
    if (sink->rate_count > 0)
        sink->rate_period_us *= (int64_t)config->store_count;
    cap(store_loop, sink);
}

static enum outbox_code open_line(struct ob_store_loop *store_loop, struct outbox_error *err)
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
    return ob_error_set(err, OUTBOX_CONFIG, "a relay serves %d stores at most", OB_STORE_LOOP_MAX);
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
                                        .lanes = choose_lanes,
                                        .log = store_loop->set.log};
    engine.machine.sinks = store_loop->sinks;
    engine.machine.sink_count = (int)config->sink_count;
    engine.machine.route = route;
    engine.machine.route_ctx = store_loop;
    engine.machine.note = store_loop->set.note;
    engine.machine.note_ctx = store_loop->set.note_ctx;
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
    ob_arena_init(&store_loop->names, 0);
    ob_arena_init(&store_loop->told_names, 0);
    store_loop->sinks = ob_calloc(config->sink_count + 1, sizeof *store_loop->sinks);
    store_loop->tuned = ob_calloc(config->sink_count + 1, sizeof *store_loop->tuned);
    store_loop->paused = ob_calloc(config->sink_count + 1, sizeof *store_loop->paused);
    store_loop->items = ob_calloc((size_t)config->relay.max_messages + 1, sizeof *store_loop->items);
    store_loop->chosen = ob_calloc(LANES_FEW + LANES_PER_RULE * config->route_count, sizeof *store_loop->chosen);
    store_loop->rules = ob_calloc(config->route_count + 1, sizeof *store_loop->rules);
    bool made = store_loop->sinks && store_loop->tuned && store_loop->paused && store_loop->items &&
                store_loop->chosen && store_loop->rules;
    enum outbox_code code = made ? OUTBOX_OK : ob_error_nomem(err);
    if (made) {
        for (size_t i = 0; i < config->sink_count; i++)
            dest_init(store_loop, (int)i, &store_loop->sinks[i]);
        memcpy(store_loop->tuned, store_loop->sinks, config->sink_count * sizeof *store_loop->sinks);
        code = take_number(store_loop, err);
    }
    if (!code)
        code = open_line(store_loop, err);
    if (!code)
        code = start(store_loop, err);
    if (!code && uv_poll_init(settings->loop, &store_loop->poll, ob_engine_fd(store_loop->engine)) == 0) {
        store_loop->polling = true;
        store_loop->poll.data = store_loop;
        uv_poll_start(&store_loop->poll, UV_READABLE, on_readable);
        /* Until the store has told what operators want, nothing is sent: see apply_control.c. */
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
    ob_arena_fini(&store_loop->names);
    ob_arena_fini(&store_loop->told_names);
    ob_free(store_loop->lanes);
    ob_free(store_loop->ends);
    ob_free(store_loop->chosen);
    ob_free(store_loop->rules);
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
    give_number_back(store_loop); /* a sink that answers from here on finds nobody */
    if (!store_loop->polling) {
        free_all(store_loop);
        return;
    }
    uv_close((uv_handle_t *)&store_loop->poll, on_closed);
    ob_engine_free(store_loop->engine); /* now: whoever comes next to this store may need its lock */
    ob_shared_store_unref(store_loop->async);
    store_loop->engine = NULL;
    store_loop->async = NULL;
}

int64_t ob_store_loop_turn(struct ob_store_loop *store_loop)
{
    /* A verdict given within deliver asks for another step at once; a few of them, then others have their turn. */
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

/* A sink may answer late, and a sink that is wrong may answer anything. */
void ob_store_loop_table_verdict(const struct ob_store_loop_table *table, uint64_t handle,
                                 const struct outbox_verdict *verdict)
{
    struct ob_store_loop *store_loop = table->at[(handle & tag_mask) >> TAG_SHIFT];
    if (store_loop)
        ob_engine_verdict(store_loop->engine, handle & ~tag_mask, verdict);
}
