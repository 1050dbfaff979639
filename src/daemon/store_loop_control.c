/* store_loop_control.c - applies what operators set in the store: pauses, and settings changed while it runs.
 *
 * A report describes the current state, not changes: whatever it does not name is as configured. */
#include "daemon/store_loop_int.h"

#include <string.h>

/* Caps and rates are per process: every store gets a share. */
static int part(int whole, size_t stores)
{
    int share = whole / (int)stores;
    return share > 0 ? share : 1;
}

/* Limits the concurrency to what the descriptors allow. */
static void cap(const struct ob_store_loop *store_loop, struct ob_sink_settings *sink)
{
    int most =
        store_loop->set.cap > 0 ? part(store_loop->set.cap, store_loop->set.config->store_count) : sink->concurrency;
    sink->concurrency = sink->concurrency < most ? sink->concurrency : most;
    sink->batch = sink->batch < sink->concurrency ? sink->batch : sink->concurrency;
}

void ob_store_loop_sink_init(const struct ob_store_loop *store_loop, int i, struct ob_sink_settings *sink)
{
    const struct ob_config *config = store_loop->set.config;
    *sink = ob_sink_settings(&config->sinks[i].delivery);
    if (!ob_sink_instance_ops(store_loop->set.instances[i])->keeps_order)
        sink->run = 1;
    sink->concurrency = part(sink->concurrency, config->store_count);
    if (sink->rate_count > 0)
        sink->rate_period_us *= (int64_t)config->store_count;
    cap(store_loop, sink);
}

void ob_store_loop_pause(struct ob_store_loop *store_loop, int sink, bool paused)
{
    if (store_loop->paused[sink] == paused)
        return;
    store_loop->paused[sink] = paused;
    ob_engine_pause(store_loop->engine, sink, paused);
}

bool ob_store_loop_controlled(const struct ob_store_loop *store_loop)
{
    return store_loop->controlled;
}

bool ob_store_loop_paused(const struct ob_store_loop *store_loop, int sink)
{
    return store_loop->paused[sink];
}

static bool tune(struct ob_store_loop *store_loop, int sink, const struct ob_sink_settings *settings)
{
    struct ob_sink_settings *now = &store_loop->tuned[sink], wanted = *settings;
    cap(store_loop, &wanted);
    if (now->rate_count == wanted.rate_count && now->rate_period_us == wanted.rate_period_us &&
        now->concurrency == wanted.concurrency)
        return false;
    if (ob_machine_tune(ob_engine_machine(store_loop->engine), sink, &wanted, NULL))
        return false;
    *now = wanted;
    return true;
}

static bool named(const struct ob_maintenance_report *report, const char *sink)
{
    for (size_t i = 0; i < report->paused_count; i++)
        if (strcmp(report->paused[i], sink) == 0)
            return true;
    return false;
}

static const struct ob_tuning *tuned(const struct ob_maintenance_report *report, enum ob_tuning_kind kind,
                                     const char *sink)
{
    for (size_t i = 0; i < report->tuning_count; i++)
        if (report->tunings[i].kind == kind && strcmp(report->tunings[i].sink, sink) == 0)
            return &report->tunings[i];
    return NULL;
}

static void control_sink(struct ob_store_loop *store_loop, int sink, const struct ob_maintenance_report *report,
                         bool enabled)
{
    const struct ob_log *log = store_loop->set.log;
    const char *name = store_loop->set.config->sinks[sink].name;
    bool paused = named(report, name), first = !store_loop->controlled;
    bool changed = store_loop->paused[sink] != (paused || !enabled);
    ob_store_loop_pause(store_loop, sink, paused || !enabled);
    if (enabled && (first ? paused : changed))
        ob_log(log, OB_LOG_INFO, paused ? "sink paused" : "sink resumed", OB_STR("sink", name));
    struct ob_sink_settings settings = store_loop->sinks[sink];
    const struct ob_tuning *rate = tuned(report, OB_TUNE_RATE, name), *cap = tuned(report, OB_TUNE_CONCURRENCY, name);
    if (rate) {
        settings.rate_count = rate->number;
        settings.rate_period_us = rate->period_us;
    }
    if (cap) {
        settings.concurrency = (int)cap->number;
        if (settings.batch > settings.concurrency)
            settings.batch = settings.concurrency;
    }
    if (tune(store_loop, sink, &settings))
        ob_log(log, OB_LOG_INFO, "sink tuned", OB_STR("sink", name),
               OB_STR("rate", rate ? rate->value : "as configured"),
               OB_STR("concurrency", cap ? cap->value : "as configured"));
}

void ob_store_loop_control(struct ob_store_loop *store_loop, const struct ob_maintenance_report *report)
{
    const struct ob_config *config = store_loop->set.config;
    const struct ob_log *log = store_loop->set.log;
    if (!report->controlled)
        return;
    ob_store_loop_lanes(store_loop, report->lanes, report->lane_count);
    const struct ob_tuning *on = tuned(report, OB_TUNE_ENABLED, ""), *poll = tuned(report, OB_TUNE_POLL, ""),
                           *batch = tuned(report, OB_TUNE_BATCH, "");
    bool enabled = on ? on->number != 0 : config->enabled;
    if (store_loop->enabled != enabled || (!enabled && !store_loop->controlled))
        ob_log(log, OB_LOG_INFO, enabled ? "claiming started" : "claiming stopped: relay disabled");
    store_loop->enabled = enabled;
    if (ob_engine_pace(store_loop->engine, batch ? (int)batch->number : config->relay.claim_limit,
                       poll ? poll->number : config->relay.poll_us))
        ob_log(log, OB_LOG_INFO, "pace tuned", OB_STR("batch", batch ? batch->value : "as configured"),
               OB_STR("poll", poll ? poll->value : "as configured"));
    for (size_t i = 0; i < config->sink_count; i++)
        control_sink(store_loop, (int)i, report, enabled);
    store_loop->controlled = true;
}

bool ob_store_loop_enabled(const struct ob_store_loop *store_loop)
{
    return store_loop->controlled ? store_loop->enabled : store_loop->set.config->enabled;
}
