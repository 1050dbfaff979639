/* generation.c - see generation.h. */
#include "relay/generation_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "relay/heed.h"
#include "relay/valid.h"
#include "sink/registry.h"

#include <stdio.h>
#include <string.h>

static void on_verdict(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    ob_station_table_verdict(ctx, handle, verdict);
}

/* ---- sinks ---- */

static enum outbox_code open_sink(struct ob_generation *generation, size_t i, struct outbox_error *err)
{
    const struct ob_config_sink *sink = &generation->set.config->sinks[i];
    const struct outbox_sink_ops *ops = NULL;
    struct outbox_error cause = {0};
    enum outbox_code code = ob_sink_load(sink->kind, sink->library, &ops, &cause);
    if (code)
        return ob_error_set(err, code == OUTBOX_INVALID ? OUTBOX_CONFIG : code, "%s:%d: sinks.%s: %s", sink->file,
                            sink->line, sink->name, cause.text);
    struct ob_outlet *same = ob_generation_same_outlet(generation, sink, ops);
    if (same) {
        generation->outlets[i] = ob_outlet_share(same);
        generation->kept++;
        return OUTBOX_OK;
    }
    struct ob_outlet_settings outlet = {.sink = sink,
                                        .ops = ops,
                                        .loop = generation->set.loop,
                                        .log = generation->set.log,
                                        .ctx = generation->set.table,
                                        .done = on_verdict};
    code = ob_outlet_open(&outlet, &generation->outlets[i], &cause);
    if (code)
        return ob_error_set(err, code == OUTBOX_INVALID ? OUTBOX_CONFIG : code, "%s:%d: sinks.%s: %s", sink->file,
                            sink->line, sink->name, cause.text);
    return OUTBOX_OK;
}

static enum outbox_code payload_valid(void *ctx, const struct outbox_delivery *msg, char *why, size_t size)
{
    const struct ob_generation *generation = ctx;
    return ob_valid_check(generation->set.config, msg, why, size);
}

static void observe_news(struct ob_generation *generation, size_t i, const struct ob_keeper_news *news)
{
    struct ob_metrics *metrics = generation->set.metrics;
    const char *store = generation->set.config->stores[i].name;
    struct ob_series *series = ob_metrics_store(metrics, store);
    ob_series_set(series, OB_METRIC_leader, news->leads);
    if (news->controlled) {
        ob_series_set(series, OB_METRIC_paused, (double)news->pause_count);
        if (generation->stations[i])
            ob_series_set(series, OB_METRIC_unrouted_topics,
                          (double)ob_station_unrouted_lanes(generation->stations[i]));
    }
    if (!news->leads)
        ob_metrics_set_gauges(metrics, store, NULL, 0);
    else if (news->counted)
        ob_metrics_set_gauges(metrics, store, news->gauges, news->gauges_count);
}

static void on_news(uv_async_t *wake)
{
    struct ob_generation *generation = wake->data;
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        const struct ob_keeper_news *news = generation->keepers[i] ? ob_keeper_news(generation->keepers[i]) : NULL;
        if (!news)
            continue;
        if (generation->stations[i])
            ob_heed(generation->stations[i], config, news, generation->set.log);
        observe_news(generation, i, news);
        generation->set.news(generation->set.ctx, (int)i, news);
    }
}

enum outbox_code ob_generation_open(const struct ob_generation_settings *settings, struct ob_generation **out,
                                    struct outbox_error *err)
{
    const struct ob_config *config = settings->config;
    struct ob_generation *generation = ob_calloc(1, sizeof *generation);
    *out = NULL;
    if (!generation)
        return ob_error_nomem(err);
    generation->set = *settings;
    generation->outlets = ob_calloc(config->sink_count + 1, sizeof *generation->outlets);
    generation->stations = ob_calloc(config->store_count + 1, sizeof *generation->stations);
    generation->keepers = ob_calloc(config->store_count + 1, sizeof *generation->keepers);
    generation->observers = ob_calloc(config->store_count + 1, sizeof *generation->observers);
    generation->heirs = ob_calloc(config->sink_count + 1, sizeof *generation->heirs);
    generation->store_heirs = ob_calloc(config->store_count + 1, sizeof *generation->store_heirs);
    generation->taken = ob_calloc(config->sink_count + 1, sizeof *generation->taken);
    bool ok = generation->outlets && generation->stations && generation->keepers && generation->observers &&
              generation->heirs && generation->store_heirs && generation->taken;
    enum outbox_code code = ok ? OUTBOX_OK : ob_error_nomem(err);
    if (!code && uv_async_init(settings->loop, &generation->wake, on_news))
        code = ob_error_set(err, OUTBOX_INTERNAL, "cannot hear of news");
    generation->open = !code;
    generation->wake.data = generation;
    for (size_t i = 0; i < config->route_count; i++)
        generation->validates |= config->routes[i].compiled != NULL;
    for (size_t i = 0; i < config->sink_count && !code; i++)
        code = open_sink(generation, i, err);
    if (code)
        ob_generation_close(generation);
    else
        *out = generation;
    return code;
}

static enum outbox_code open_observer(struct ob_generation *generation, size_t i, struct outbox_error *err)
{
    const struct ob_config *config = generation->set.config;
    const char **names = ob_calloc(config->sink_count + 1, sizeof *names);
    if (!names)
        return ob_error_nomem(err);
    for (size_t n = 0; n < config->sink_count; n++)
        names[n] = config->sinks[n].name;
    struct ob_observer_settings settings = {.metrics = generation->set.metrics,
                                            .log = generation->set.log,
                                            .store = config->stores[i].name,
                                            .destinations = names,
                                            .destination_count = (int)config->sink_count};
    generation->observers[i] = ob_observer_new(&settings);
    ob_free(names);
    return generation->observers[i] ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- start ---- */

static enum outbox_code open_station(struct ob_generation *generation, size_t i, struct outbox_error *err)
{
    struct ob_station_settings station = {.config = generation->set.config,
                                          .index = (int)i,
                                          .outlets = generation->outlets,
                                          .line =
                                              ob_generation_same_line(generation, &generation->set.config->stores[i]),
                                          .table = generation->set.table,
                                          .cap = generation->set.cap,
                                          .loop = generation->set.loop,
                                          .log = generation->set.log,
                                          .worker = generation->claims_by,
                                          .process = generation->set.worker,
                                          .valid = generation->validates ? payload_valid : NULL,
                                          .valid_ctx = generation,
                                          .note = ob_observer_note,
                                          .note_ctx = generation->observers[i]};
    return ob_station_open(&station, &generation->stations[i], err);
}

enum outbox_code ob_generation_start(struct ob_generation *generation, struct outbox_error *err)
{
    const struct ob_config *config = generation->set.config;
    enum outbox_code code = OUTBOX_OK;
    /* What the generation before has out is out under its name, and unknown to this one: a claim under the same name would
     * pass it (see core/schedule.h). */
    snprintf(generation->claims_by, sizeof generation->claims_by, "%s.%u", generation->set.worker,
             generation->set.number);
    for (size_t i = 0; i < config->store_count && !code; i++) {
        struct ob_keeper_settings keeper = ob_generation_keeper(generation, i);
        code = open_observer(generation, i, err);
        if (!code)
            code = open_station(generation, i, err);
        if (!code && !ob_generation_same_keeper(generation, i))
            code = ob_keeper_start(&keeper, &generation->keepers[i], err);
    }
    if (!code)
        ob_generation_take_over(generation);
    else if (generation->set.before)
        ob_generation_show_series(generation->set.before);
    return code;
}

size_t ob_generation_kept_sinks(const struct ob_generation *generation)
{
    return generation->kept;
}

/* ---- while it runs ---- */

void ob_generation_stop(struct ob_generation *generation, int64_t grace_us)
{
    for (size_t i = 0; i < generation->set.config->store_count; i++)
        if (generation->stations[i])
            ob_engine_stop(ob_station_engine(generation->stations[i]), grace_us);
}

bool ob_generation_stopped(const struct ob_generation *generation)
{
    for (size_t i = 0; i < generation->set.config->store_count; i++)
        if (generation->stations[i] && !ob_engine_stopped(ob_station_engine(generation->stations[i])))
            return false;
    return true;
}

void ob_generation_tick(struct ob_generation *generation)
{
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        if (!generation->stations[i])
            continue;
        struct ob_engine *engine = ob_station_engine(generation->stations[i]);
        struct ob_relay_stats stats;
        struct ob_line_state line;
        ob_relay_stats(ob_engine_core(engine), &stats);
        ob_engine_line_state(engine, &line);
        ob_observer_tick(generation->observers[i], &stats, generation->drains ? NULL : &line);
        if (generation->drains)
            continue;
        bool ready = line.connected && line.fault.code == OUTBOX_OK;
        ob_health_set_store(generation->set.health, config->stores[i].name, ready,
                            ready             ? NULL
                            : line.fault.code ? line.fault.text
                                              : "not connected yet");
    }
}

static void free_all(struct ob_generation *generation)
{
    ob_free(generation->heirs);
    ob_free(generation->store_heirs);
    ob_free(generation->taken);
    ob_free(generation->observers);
    ob_free(generation->outlets);
    ob_free(generation->stations);
    ob_free(generation->keepers);
    ob_free(generation);
}

static void on_closed(uv_handle_t *handle)
{
    free_all(handle->data);
}

void ob_generation_close(struct ob_generation *generation)
{
    if (!generation)
        return;
    const struct ob_config *config = generation->set.config;
    if (generation->started)
        ob_generation_tick(generation);
    if (generation->keepers && generation->set.before)
        ob_generation_leave_keepers(generation, generation->set.before->set.config);
    for (size_t i = 0; generation->keepers && i < config->store_count; i++)
        ob_keeper_dismiss(generation->keepers[i]);
    for (size_t i = 0; generation->keepers && i < config->store_count; i++)
        ob_keeper_stop(generation->keepers[i]);
    for (size_t i = 0; generation->stations && i < config->store_count; i++) {
        if (generation->observers && generation->observers[i])
            ob_observer_flush(generation->observers[i]);
        ob_station_close(generation->stations[i]);
        generation->stations[i] = NULL;
        if (generation->observers)
            ob_observer_free(generation->observers[i]);
    }
    for (size_t i = 0; generation->outlets && i < config->sink_count; i++)
        ob_outlet_close(generation->outlets[i]);
    if (generation->open)
        uv_close((uv_handle_t *)&generation->wake, on_closed);
    else
        free_all(generation);
}

void ob_generation_hurry(struct ob_generation *generation)
{
    for (size_t i = 0; i < generation->set.config->store_count; i++)
        if (generation->keepers[i])
            ob_keeper_hurry(generation->keepers[i]);
}

int64_t ob_generation_turn(struct ob_generation *generation)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < generation->set.config->store_count; i++) {
        int64_t at = generation->stations[i] ? ob_station_turn(generation->stations[i]) : INT64_MAX;
        due = at < due ? at : due;
    }
    return due;
}

int64_t ob_generation_due(const struct ob_generation *generation)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < generation->set.config->store_count; i++) {
        struct ob_station *station = generation->stations[i];
        int64_t at = station ? ob_engine_due_us(ob_station_engine(station)) : INT64_MAX;
        due = at < due ? at : due;
    }
    return due;
}

const struct ob_config *ob_generation_config(const struct ob_generation *generation)
{
    return generation->set.config;
}

struct ob_station *ob_generation_station(struct ob_generation *generation, int store)
{
    return generation->stations[store];
}
