/* station.c - see station.h.
 *
 * Lanes. The store is asked for all lanes but those that would only come to be given back: lanes whose one destination is
 * shut (its breaker is open, it is paused, full or limited), and lanes that no route leads from, when such messages are to
 * wait. A lane that is not known yet is claimed like any other; what comes of it is sorted out by the core. Where there are very
 * many such lanes the store is told the routes instead, so that no claim is longer for the topics there are. */
#include "relay/station.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "relay/route.h"
#include "sink/shortage.h"

#include <string.h>

enum { LANES_FEW = 64, LANES_PER_RULE = 4 };
enum { TAG_SHIFT = 20, UNROUTED = -1, BY_HEADERS = -2, UNROUTED_TOLD = 10 };
static const uint64_t tag_mask = (uint64_t)OB_STATION_MAX << TAG_SHIFT;

struct lane {
    struct outbox_lane name;
    int dest; /* or UNROUTED, BY_HEADERS */
};

struct ob_station {
    struct ob_station_settings set;
    uint64_t tag; /* its number, as handles carry it; 0: it has none */
    struct ob_shared_line *line;
    struct ob_engine *engine;
    uv_poll_t poll;
    bool polling;                   /* the handle is open */
    struct ob_dest_settings *dests; /* as configured */
    struct ob_dest_settings *tuned; /* as they are now */
    bool *paused;
    bool enabled, heeded;
    struct outbox_sink_item *items; /* tagged, of the delivery under way */
    struct ob_arena names;          /* of the lanes */
    struct outbox_lane *lanes;      /* by destination: those of UNROUTED first, of BY_HEADERS last */
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
    const struct ob_station *station = ctx;
    int found = ob_route_find(station->set.config, msg);
    return found < 0 ? -1 : station->set.config->routes[found].sink;
}

/* code: OUTBOX_INVALID, what is wrong with it; OUTBOX_NOMEM, a shortage; OUTBOX_OK, it only follows one of these. */
static void refuse(struct ob_station *station, const struct outbox_sink_item *item, enum outbox_code code,
                   const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID;
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_NOT_SENT;
    verdict.code = wrong ? "schema" : code ? "out_of_memory" : NULL;
    verdict.text = wrong ? text : NULL;
    verdict.not_before_us = wrong || !code ? -1 : OB_SHORTAGE_US;
    verdict.local = true;
    ob_engine_verdict(station->engine, item->handle, &verdict);
}

/* Hands over what is valid, in pieces: what is not valid is dead at once, and what follows it in its key waits (S12). */
static void deliver(void *ctx, int dest, const struct outbox_sink_item *items, size_t count)
{
    struct ob_station *station = ctx;
    struct ob_outlet *outlet = station->set.outlets[dest];
    size_t ready = 0;
    bool broken = false; /* the one before was not handed over */
    for (size_t i = 0; i < count; i++) {
        char why[400];
        if (items[i].follows && broken) {
            refuse(station, &items[i], OUTBOX_OK, NULL);
            continue;
        }
        enum outbox_code code =
            station->set.valid ? station->set.valid(station->set.valid_ctx, items[i].msg, why, sizeof why) : OUTBOX_OK;
        broken = code != OUTBOX_OK;
        if (broken) {
            refuse(station, &items[i], code, why);
            continue;
        }
        station->items[ready] = items[i];
        station->items[ready++].handle |= station->tag;
    }
    if (ready > 0)
        ob_outlet_deliver(outlet, station->items, ready);
}

static void cancel(void *ctx, int dest, uint64_t handle)
{
    struct ob_station *station = ctx;
    ob_outlet_cancel(station->set.outlets[dest], handle | station->tag);
}

static size_t first_lane(const struct ob_station *station, int dest)
{
    return dest == UNROUTED ? 0 : station->ends[dest];
}

static size_t lanes_of(const struct ob_station *station, int dest)
{
    return station->ends ? station->ends[dest + 1] - first_lane(station, dest) : 0;
}

/* What the routes say of any lane. A route that asks for headers takes some messages of its lanes, and leaves the others to
 * those behind it. rest: lanes that no route leads from are left out too. */
static size_t make_rules(struct ob_station *station, const bool *shut, bool rest)
{
    const struct ob_config *config = station->set.config;
    size_t count = 0, end = 0;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        if (route->header_count && shut[route->sink])
            continue;
        station->rules[count++] = (struct outbox_lane_rule){route->name_space, route->topic, shut[route->sink]};
        end = shut[route->sink] ? count : end;
    }
    if (rest) {
        station->rules[count++] = (struct outbox_lane_rule){NULL, NULL, true};
        end = count;
    }
    return end; /* what is behind the last skip says nothing */
}

static void choose_lanes(void *ctx, bool only, const bool *shut, struct outbox_claim *claim)
{
    static const struct outbox_lane none = {"", ""}; /* no lane has these names */
    struct ob_station *station = ctx;
    const struct ob_config *config = station->set.config;
    bool waits = !only && !config->relay.unrouted_dead && lanes_of(station, UNROUTED) > 0;
    size_t count = 0, most = LANES_FEW + LANES_PER_RULE * config->route_count;
    for (int dest = UNROUTED; dest < (int)config->sink_count; dest++) {
        bool named = dest == UNROUTED ? waits : shut[dest] != only;
        size_t some = named ? lanes_of(station, dest) : 0;
        if (count + some > most) {
            claim->rules = station->rules;
            claim->rule_count = make_rules(station, shut, only || waits);
            return;
        }
        for (size_t i = 0; i < some; i++)
            station->chosen[count++] = station->lanes[first_lane(station, dest) + i];
    }
    if (only) {
        claim->only = count > 0 ? station->chosen : &none;
        claim->only_count = count > 0 ? count : 1;
    } else {
        claim->skip = station->chosen;
        claim->skip_count = count;
    }
}

/* ---- lanes ---- */

static bool was_told(const struct ob_station *station, const struct outbox_lane *name)
{
    for (size_t i = 0; i < station->told_count; i++)
        if (strcmp(station->told[i].topic, name->topic) == 0 &&
            strcmp(station->told[i].name_space, name->name_space) == 0)
            return true;
    return false;
}

/* Messages that wait for a route wait in silence: they are not even claimed. So the first such lanes are told of, each
 * once, and that there are more. */
static void tell_unrouted(struct ob_station *station, const struct lane *lanes, size_t count)
{
    const struct ob_config *config = station->set.config;
    const char *store = config->stores[station->set.index].name;
    for (size_t i = 0; i < count && !station->told_all && !config->relay.unrouted_dead; i++) {
        const struct outbox_lane *name = &lanes[i].name;
        if (lanes[i].dest != UNROUTED || was_told(station, name))
            continue;
        struct outbox_lane copy = {ob_arena_strdup(&station->told_names, name->name_space),
                                   ob_arena_strdup(&station->told_names, name->topic)};
        station->told_all = station->told_count == UNROUTED_TOLD || !copy.name_space || !copy.topic;
        if (station->told_all) {
            ob_log(station->set.log, OB_LOG_WARN, "no route leads from further topics: outbox doctor names them",
                   OB_STR("store", store));
            return;
        }
        station->told[station->told_count++] = copy;
        ob_log(station->set.log, OB_LOG_WARN, "no route leads from this topic: its messages wait",
               OB_STR("store", store), OB_STR("namespace", name->name_space), OB_STR("topic", name->topic));
    }
}

/* The lanes by destination; ends has room for one of each, UNROUTED and BY_HEADERS included. */
static void sort_lanes(const struct lane *made, size_t count, int sinks, struct outbox_lane *sorted, size_t *ends)
{
    size_t *at = ends; /* while they are counted: where the next one of each goes */
    for (size_t i = 0; i < count; i++)
        at[made[i].dest == BY_HEADERS ? sinks + 1 : made[i].dest + 1]++;
    for (int i = 0, sum = 0; i < sinks + 2; i++) {
        int some = (int)at[i];
        at[i] = (size_t)sum;
        sum += some;
    }
    for (size_t i = 0; i < count; i++)
        sorted[at[made[i].dest == BY_HEADERS ? sinks + 1 : made[i].dest + 1]++] = made[i].name;
}

void ob_station_lanes(struct ob_station *station, const struct outbox_lane *lanes, size_t count)
{
    int sinks = (int)station->set.config->sink_count;
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
        made[i].dest = ok ? ob_route_lane(station->set.config, lanes[i].name_space, lanes[i].topic) : UNROUTED;
        unrouted += ok && made[i].dest == UNROUTED;
    }
    if (!ok) { /* the lanes of before will do */
        ob_arena_fini(&names);
        ob_free(made);
        ob_free(sorted);
        ob_free(ends);
        return;
    }
    tell_unrouted(station, made, count);
    sort_lanes(made, count, sinks, sorted, ends);
    ob_free(made);
    ob_arena_fini(&station->names);
    ob_free(station->lanes);
    ob_free(station->ends);
    station->names = names;
    station->lanes = sorted;
    station->ends = ends;
    station->unrouted = unrouted;
}

bool ob_station_heeded(const struct ob_station *station)
{
    return station->heeded;
}

void ob_station_set_heeded(struct ob_station *station)
{
    station->heeded = true;
}

bool ob_station_enable(struct ob_station *station, bool enabled)
{
    bool changed = station->enabled != enabled;
    station->enabled = enabled;
    return changed;
}

bool ob_station_enabled(const struct ob_station *station)
{
    return station->heeded ? station->enabled : station->set.config->enabled;
}

bool ob_station_pause(struct ob_station *station, int dest, bool paused)
{
    if (station->paused[dest] == paused)
        return false;
    station->paused[dest] = paused;
    ob_engine_pause(station->engine, dest, paused);
    return true;
}

/* Caps and rates are those of the process: every store gets its part. */
static int part(int whole, size_t stores)
{
    int share = whole / (int)stores;
    return share > 0 ? share : 1;
}

/* There are no more descriptors than that. */
static void cap(const struct ob_station *station, struct ob_dest_settings *dest)
{
    int most = station->set.cap > 0 ? part(station->set.cap, station->set.config->store_count) : dest->concurrency;
    dest->concurrency = dest->concurrency < most ? dest->concurrency : most;
    dest->batch = dest->batch < dest->concurrency ? dest->batch : dest->concurrency;
}

bool ob_station_tune(struct ob_station *station, int dest, const struct ob_dest_settings *settings)
{
    struct ob_dest_settings *now = &station->tuned[dest], wanted = *settings;
    cap(station, &wanted);
    if (now->rate_count == wanted.rate_count && now->rate_period_us == wanted.rate_period_us &&
        now->concurrency == wanted.concurrency)
        return false;
    if (ob_relay_tune(ob_engine_core(station->engine), dest, &wanted, NULL))
        return false;
    *now = wanted;
    return true;
}

const struct ob_dest_settings *ob_station_configured(const struct ob_station *station, int dest)
{
    return &station->dests[dest];
}

size_t ob_station_unrouted_lanes(const struct ob_station *station)
{
    return station->unrouted;
}

/* ---- life ---- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ob_engine_step(((struct ob_station *)poll->data)->engine);
}

static void dest_init(const struct ob_station *station, int i, struct ob_dest_settings *dest)
{
    const struct ob_config *config = station->set.config;
    *dest = ob_dest_settings(&config->sinks[i].dest);
    dest->max_attempts = config->sinks[i].max_attempts;
    if (!ob_outlet_ops(station->set.outlets[i])->keeps_order)
        dest->run = 1;
    dest->concurrency = part(dest->concurrency, config->store_count);
    if (dest->rate_count > 0)
        dest->rate_period_us *= (int64_t)config->store_count;
    cap(station, dest);
}

static enum outbox_code open_line(struct ob_station *station, struct outbox_error *err)
{
    const struct ob_config *config = station->set.config;
    const struct ob_config_store *store = &config->stores[station->set.index];
    struct ob_line_options line = {.url = store->url,
                                   .schema = store->schema,
                                   .application = "outbox relay",
                                   .worker = station->set.process,
                                   .timeout_us = ob_engine_timeout_us(config->relay.lease_us),
                                   .fallback_us = config->relay.poll_us,
                                   .polling = store->polling,
                                   .relaxed = store->relaxed,
                                   .log = station->set.log};
    station->line = ob_shared_line_ref(station->set.line);
    return station->line ? OUTBOX_OK : ob_shared_line_open(&line, &station->line, err);
}

static enum outbox_code take_number(struct ob_station *station, struct outbox_error *err)
{
    struct ob_station_table *table = station->set.table;
    for (int i = 1; i <= OB_STATION_MAX; i++) {
        int number = (table->last + i - 1) % OB_STATION_MAX + 1;
        if (table->at[number])
            continue;
        table->at[number] = station;
        table->last = number;
        station->tag = (uint64_t)number << TAG_SHIFT;
        return OUTBOX_OK;
    }
    return ob_error_set(err, OUTBOX_CONFIG, "a relay serves %d stores at most", OB_STATION_MAX);
}

static void give_number_back(struct ob_station *station)
{
    if (station->tag)
        station->set.table->at[station->tag >> TAG_SHIFT] = NULL;
    station->tag = 0;
}

static enum outbox_code start(struct ob_station *station, struct outbox_error *err)
{
    const struct ob_config *config = station->set.config;
    struct ob_engine_settings engine = {.relay = config->relay,
                                        .shared = station->line,
                                        .worker = station->set.worker,
                                        .ctx = station,
                                        .deliver = deliver,
                                        .cancel = cancel,
                                        .lanes = choose_lanes,
                                        .log = station->set.log};
    engine.relay.dests = station->dests;
    engine.relay.dest_count = (int)config->sink_count;
    engine.relay.route = route;
    engine.relay.route_ctx = station;
    engine.relay.note = station->set.note;
    engine.relay.note_ctx = station->set.note_ctx;
    engine.relay.seed = (uint64_t)ob_clock_wall_us() ^ (uint64_t)(uintptr_t)station;
    return ob_engine_new(&engine, &station->engine, err);
}

enum outbox_code ob_station_open(const struct ob_station_settings *settings, struct ob_station **out,
                                 struct outbox_error *err)
{
    const struct ob_config *config = settings->config;
    struct ob_station *station = ob_calloc(1, sizeof *station);
    *out = NULL;
    if (!station)
        return ob_error_nomem(err);
    station->set = *settings;
    ob_arena_init(&station->names, 0);
    ob_arena_init(&station->told_names, 0);
    station->dests = ob_calloc(config->sink_count + 1, sizeof *station->dests);
    station->tuned = ob_calloc(config->sink_count + 1, sizeof *station->tuned);
    station->paused = ob_calloc(config->sink_count + 1, sizeof *station->paused);
    station->items = ob_calloc((size_t)config->relay.window + 1, sizeof *station->items);
    station->chosen = ob_calloc(LANES_FEW + LANES_PER_RULE * config->route_count, sizeof *station->chosen);
    station->rules = ob_calloc(config->route_count + 1, sizeof *station->rules);
    bool made =
        station->dests && station->tuned && station->paused && station->items && station->chosen && station->rules;
    enum outbox_code code = made ? OUTBOX_OK : ob_error_nomem(err);
    if (made) {
        for (size_t i = 0; i < config->sink_count; i++)
            dest_init(station, (int)i, &station->dests[i]);
        memcpy(station->tuned, station->dests, config->sink_count * sizeof *station->dests);
        code = take_number(station, err);
    }
    if (!code)
        code = open_line(station, err);
    if (!code)
        code = start(station, err);
    if (!code && uv_poll_init(settings->loop, &station->poll, ob_engine_fd(station->engine)) == 0) {
        station->polling = true;
        station->poll.data = station;
        uv_poll_start(&station->poll, UV_READABLE, on_readable);
        /* Until the store has told what operators want, nothing is sent: see heed.c. */
        for (size_t i = 0; i < config->sink_count; i++)
            ob_station_pause(station, (int)i, true);
    } else if (!code) {
        code = ob_error_set(err, OUTBOX_INTERNAL, "cannot watch the store's connections");
    }
    if (code)
        ob_station_close(station);
    else
        *out = station;
    return code;
}

static void free_all(struct ob_station *station)
{
    ob_engine_free(station->engine);
    ob_shared_line_unref(station->line);
    ob_arena_fini(&station->names);
    ob_arena_fini(&station->told_names);
    ob_free(station->lanes);
    ob_free(station->ends);
    ob_free(station->chosen);
    ob_free(station->rules);
    ob_free(station->dests);
    ob_free(station->tuned);
    ob_free(station->paused);
    ob_free(station->items);
    ob_free(station);
}

static void on_closed(uv_handle_t *handle)
{
    free_all(handle->data);
}

void ob_station_close(struct ob_station *station)
{
    if (!station)
        return;
    give_number_back(station); /* a sink that answers from here on finds nobody */
    if (!station->polling) {
        free_all(station);
        return;
    }
    uv_close((uv_handle_t *)&station->poll, on_closed);
    ob_engine_free(station->engine); /* now: whoever comes next to this store may need its lock */
    ob_shared_line_unref(station->line);
    station->engine = NULL;
    station->line = NULL;
}

int64_t ob_station_turn(struct ob_station *station)
{
    /* A verdict given within deliver asks for another step at once; a few of them, then others have their turn. */
    int64_t due = ob_engine_due_us(station->engine);
    for (int i = 0; i < 8 && due <= ob_clock_boot_us(); i++) {
        ob_engine_step(station->engine);
        due = ob_engine_due_us(station->engine);
    }
    return due;
}

struct ob_engine *ob_station_engine(struct ob_station *station)
{
    return station->engine;
}

struct ob_shared_line *ob_station_line(struct ob_station *station)
{
    return station->line;
}

/* A sink may answer late, and a sink that is wrong may answer anything. */
void ob_station_table_verdict(const struct ob_station_table *table, uint64_t handle,
                              const struct outbox_verdict *verdict)
{
    struct ob_station *station = table->at[(handle & tag_mask) >> TAG_SHIFT];
    if (station)
        ob_engine_verdict(station->engine, handle & ~tag_mask, verdict);
}
