/* generation.c - see generation.h. */
#include "daemon/generation_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "sink/registry.h"

#include <stdio.h>
#include <string.h>

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
    struct ob_sink_instance *same = ob_generation_same_sink(generation, sink, ops);
    if (same) {
        generation->instances[i] = ob_sink_instance_share(same);
        generation->kept++;
        return OUTBOX_OK;
    }
    struct ob_sink_instance_settings instance = {.sink = sink,
                                                 .ops = ops,
                                                 .loop = generation->set.loop,
                                                 .log = generation->set.log,
                                                 .ctx = generation->set.table,
                                                 .done = ob_store_loop_verdict};
    code = ob_sink_instance_open(&instance, &generation->instances[i], &cause);
    if (code)
        return ob_error_set(err, code == OUTBOX_INVALID ? OUTBOX_CONFIG : code, "%s:%d: sinks.%s: %s", sink->file,
                            sink->line, sink->name, cause.text);
    return OUTBOX_OK;
}

static void observe_report(struct ob_generation *generation, size_t i, const struct ob_maintenance_report *report)
{
    struct ob_metrics *metrics = generation->set.metrics;
    const char *store = generation->set.config->stores[i].name;
    struct ob_series *series = ob_metrics_store(metrics, store);
    ob_series_set(series, OB_METRIC_leader, report->leads);
    if (report->controlled) {
        ob_series_set(series, OB_METRIC_paused, (double)report->pause_count);
        if (generation->store_loops[i])
            ob_series_set(series, OB_METRIC_unrouted_topics,
                          (double)ob_store_loop_unrouted_lanes(generation->store_loops[i]));
    }
    if (!report->leads)
        ob_metrics_set_gauges(metrics, store, NULL, 0);
    else if (report->counted)
        ob_metrics_set_gauges(metrics, store, report->gauges, report->gauges_count);
}

static void on_report(uv_async_t *wake)
{
    struct ob_generation *generation = wake->data;
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        const struct ob_maintenance_report *report =
            generation->maintenances[i] ? ob_maintenance_report(generation->maintenances[i]) : NULL;
        if (!report)
            continue;
        if (generation->store_loops[i])
            ob_store_loop_control(generation->store_loops[i], report);
        observe_report(generation, i, report);
        generation->set.reported(generation->set.ctx, (int)i, report);
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
    generation->instances = ob_calloc(config->sink_count + 1, sizeof *generation->instances);
    generation->store_loops = ob_calloc(config->store_count + 1, sizeof *generation->store_loops);
    generation->maintenances = ob_calloc(config->store_count + 1, sizeof *generation->maintenances);
    generation->observers = ob_calloc(config->store_count + 1, sizeof *generation->observers);
    generation->traces = ob_calloc(config->store_count + 1, sizeof *generation->traces);
    generation->heirs = ob_calloc(config->sink_count + 1, sizeof *generation->heirs);
    generation->store_heirs = ob_calloc(config->store_count + 1, sizeof *generation->store_heirs);
    generation->told = ob_calloc(config->store_count + 1, sizeof *generation->told);
    generation->taken = ob_calloc(config->sink_count + 1, sizeof *generation->taken);
    bool ok = generation->instances && generation->store_loops && generation->maintenances && generation->observers &&
              generation->heirs && generation->store_heirs && generation->taken && generation->told &&
              generation->traces;
    enum outbox_code code = ok ? OUTBOX_OK : ob_error_nomem(err);
    if (!code && uv_async_init(settings->loop, &generation->wake, on_report))
        code = ob_error_set(err, OUTBOX_INTERNAL, "cannot watch for reports");
    generation->open = !code;
    generation->wake.data = generation;
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
    if (generation->set.tracer)
        generation->traces[i] = ob_tracer_view_new(generation->set.tracer, config, config->stores[i].name);
    struct ob_observer_settings settings = {.metrics = generation->set.metrics,
                                            .log = generation->set.log,
                                            .store = config->stores[i].name,
                                            .traces = generation->traces[i],
                                            .sinks = names,
                                            .sink_count = (int)config->sink_count};
    generation->observers[i] = ob_observer_new(&settings);
    ob_free(names);
    bool traced = !generation->set.tracer || generation->traces[i];
    return generation->observers[i] && traced ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- start ---- */

static struct ob_relay_now relay_now(const struct ob_generation *generation, size_t i)
{
    struct ob_store_loop *store_loop = generation->store_loops[i];
    return (struct ob_relay_now){.config = generation->set.config,
                                 .observer = generation->observers[i],
                                 .machine = ob_engine_machine(ob_store_loop_engine(store_loop)),
                                 .enabled = ob_store_loop_enabled(store_loop),
                                 .wall_us = ob_clock_wall_us(),
                                 .boot_us = ob_clock_boot_us()};
}

static enum outbox_code open_store_loop(struct ob_generation *generation, size_t i, struct outbox_error *err)
{
    struct ob_store_loop_settings store_loop = {
        .config = generation->set.config,
        .index = (int)i,
        .instances = generation->instances,
        .async = ob_generation_same_store(generation, &generation->set.config->stores[i]),
        .table = generation->set.table,
        .cap = generation->set.cap,
        .loop = generation->set.loop,
        .log = generation->set.log,
        .worker = generation->claims_by,
        .process = generation->set.worker,
        .note = ob_observer_note,
        .note_ctx = generation->observers[i],
        .traces = generation->traces[i]};
    return ob_store_loop_open(&store_loop, &generation->store_loops[i], err);
}

enum outbox_code ob_generation_start(struct ob_generation *generation, struct outbox_error *err)
{
    const struct ob_config *config = generation->set.config;
    enum outbox_code code = OUTBOX_OK;
    /* What the previous generation has in flight is claimed under its name and unknown to this one: a claim under the
     * same name would overtake it (see core/schedule.h). */
    snprintf(generation->claims_by, sizeof generation->claims_by, "%s.%u", generation->set.worker,
             generation->set.number);
    for (size_t i = 0; i < config->store_count && !code; i++) {
        struct ob_maintenance_settings maintenance = ob_generation_maintenance(generation, i);
        code = open_observer(generation, i, err);
        if (!code)
            code = open_store_loop(generation, i, err);
        if (!code && !ob_generation_same_maintenance(generation, i)) {
            struct ob_relay_now now = relay_now(generation, i);
            char *info = ob_relay_info_text(&now);
            maintenance.info = info;
            ob_metrics_figures(generation->set.metrics, maintenance.store->name, &maintenance.done);
            code = info ? ob_maintenance_start(&maintenance, &generation->maintenances[i], err) : ob_error_nomem(err);
            ob_free(info);
        }
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
        if (generation->store_loops[i])
            ob_engine_stop(ob_store_loop_engine(generation->store_loops[i]), grace_us);
}

bool ob_generation_stopped(const struct ob_generation *generation)
{
    for (size_t i = 0; i < generation->set.config->store_count; i++)
        if (generation->store_loops[i] && !ob_engine_stopped(ob_store_loop_engine(generation->store_loops[i])))
            return false;
    return true;
}

/* Tells the store what changed of this relay, and every few seconds how fast it is. */
static void tell_store(struct ob_generation *generation, size_t i)
{
    struct ob_relay_now now = relay_now(generation, i);
    char *info = generation->maintenances[i] ? ob_relay_info_news(&generation->told[i], &now) : NULL;
    if (info)
        ob_maintenance_tell(generation->maintenances[i], info);
    if (generation->maintenances[i]) {
        struct ob_figures done;
        ob_metrics_figures(generation->set.metrics, generation->set.config->stores[i].name, &done);
        ob_maintenance_done(generation->maintenances[i], &done);
    }
}

void ob_generation_tick(struct ob_generation *generation)
{
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        if (!generation->store_loops[i])
            continue;
        struct ob_engine *engine = ob_store_loop_engine(generation->store_loops[i]);
        struct ob_machine_stats stats;
        struct ob_async_store_state async;
        ob_machine_stats(ob_engine_machine(engine), &stats);
        ob_engine_store_state(engine, &async);
        ob_observer_tick(generation->observers[i], &stats, generation->drains ? NULL : &async);
        if (generation->drains)
            continue;
        tell_store(generation, i);
        bool ready = async.connected && async.fault.code == OUTBOX_OK;
        ob_health_set_store(generation->set.health, config->stores[i].name, ready,
                            ready              ? NULL
                            : async.fault.code ? async.fault.text
                                               : "not connected yet");
    }
}

static void free_all(struct ob_generation *generation)
{
    ob_free(generation->heirs);
    ob_free(generation->store_heirs);
    ob_free(generation->taken);
    ob_free(generation->observers);
    ob_free(generation->traces);
    ob_free(generation->told);
    ob_free(generation->instances);
    ob_free(generation->store_loops);
    ob_free(generation->maintenances);
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
    if (generation->maintenances && generation->set.before)
        ob_generation_leave_maintenance(generation, generation->set.before->set.config);
    for (size_t i = 0; generation->maintenances && i < config->store_count; i++)
        ob_maintenance_dismiss(generation->maintenances[i]);
    for (size_t i = 0; generation->maintenances && i < config->store_count; i++)
        ob_maintenance_stop(generation->maintenances[i]);
    for (size_t i = 0; generation->told && i < config->store_count; i++)
        ob_free(generation->told[i].text);
    for (size_t i = 0; generation->store_loops && i < config->store_count; i++) {
        if (generation->observers && generation->observers[i])
            ob_observer_flush(generation->observers[i]);
        ob_store_loop_close(generation->store_loops[i]);
        generation->store_loops[i] = NULL;
        if (generation->observers)
            ob_observer_free(generation->observers[i]);
        if (generation->traces)
            ob_tracer_view_free(generation->traces[i]);
    }
    for (size_t i = 0; generation->instances && i < config->sink_count; i++)
        ob_sink_instance_close(generation->instances[i]);
    if (generation->open)
        uv_close((uv_handle_t *)&generation->wake, on_closed);
    else
        free_all(generation);
}

void ob_generation_hurry(struct ob_generation *generation, bool unrouted)
{
    for (size_t i = 0; i < generation->set.config->store_count; i++)
        if (generation->maintenances[i])
            ob_maintenance_hurry(generation->maintenances[i], unrouted);
}

int64_t ob_generation_turn(struct ob_generation *generation)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < generation->set.config->store_count; i++) {
        int64_t at = generation->store_loops[i] ? ob_store_loop_turn(generation->store_loops[i]) : INT64_MAX;
        due = at < due ? at : due;
    }
    return due;
}

int64_t ob_generation_due(const struct ob_generation *generation)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < generation->set.config->store_count; i++) {
        struct ob_store_loop *store_loop = generation->store_loops[i];
        int64_t at = store_loop ? ob_engine_due_us(ob_store_loop_engine(store_loop)) : INT64_MAX;
        due = at < due ? at : due;
    }
    return due;
}

struct ob_store_loop *ob_generation_store_loop(struct ob_generation *generation, int store)
{
    return generation->store_loops[store];
}
