/* apply_control.c - see apply_control.h. The news tell how things are, not what changed: what is not named any more is as configured. */
#include "daemon/apply_control.h"

#include <string.h>

static bool named(const struct ob_maintenance_report *news, const char *sink)
{
    for (size_t i = 0; i < news->paused_count; i++)
        if (strcmp(news->paused[i], sink) == 0)
            return true;
    return false;
}

static const struct ob_tuning *tuned(const struct ob_maintenance_report *news, enum ob_tuning_kind kind,
                                     const char *sink)
{
    for (size_t i = 0; i < news->tuning_count; i++)
        if (news->tunings[i].kind == kind && strcmp(news->tunings[i].sink, sink) == 0)
            return &news->tunings[i];
    return NULL;
}

static void control_sink(struct ob_store_loop *store_loop, const struct ob_config *config, int sink,
                         const struct ob_maintenance_report *news, bool enabled, const struct ob_log *log)
{
    const char *name = config->sinks[sink].name;
    bool paused = named(news, name), first = !ob_store_loop_controlled(store_loop);
    bool changed = ob_store_loop_pause(store_loop, sink, paused || !enabled);
    if (enabled && (first ? paused : changed))
        ob_log(log, OB_LOG_INFO, paused ? "sink paused by an operator" : "sink resumed", OB_STR("sink", name));
    struct ob_sink_settings settings = *ob_store_loop_configured(store_loop, sink);
    const struct ob_tuning *rate = tuned(news, OB_TUNE_RATE, name), *cap = tuned(news, OB_TUNE_CONCURRENCY, name);
    if (rate) {
        settings.rate_count = rate->number;
        settings.rate_period_us = rate->period_us;
    }
    if (cap) {
        settings.concurrency = (int)cap->number;
        if (settings.batch > settings.concurrency)
            settings.batch = settings.concurrency;
    }
    if (ob_store_loop_tune(store_loop, sink, &settings))
        ob_log(log, OB_LOG_INFO, "sink tuned", OB_STR("sink", name),
               OB_STR("rate", rate ? rate->value : "as configured"),
               OB_STR("concurrency", cap ? cap->value : "as configured"));
}

void ob_apply_control(struct ob_store_loop *store_loop, const struct ob_config *config,
                      const struct ob_maintenance_report *news, const struct ob_log *log)
{
    if (!news->controlled)
        return;
    ob_store_loop_lanes(store_loop, news->lanes, news->lane_count);
    const struct ob_tuning *on = tuned(news, OB_TUNE_ENABLED, ""), *poll = tuned(news, OB_TUNE_POLL, ""),
                           *batch = tuned(news, OB_TUNE_BATCH, "");
    bool enabled = on ? on->number != 0 : config->enabled;
    bool changed = ob_store_loop_enable(store_loop, enabled);
    if (changed || (!enabled && !ob_store_loop_controlled(store_loop)))
        ob_log(log, OB_LOG_INFO, enabled ? "claiming" : "disabled: nothing is claimed");
    if (ob_engine_pace(ob_store_loop_engine(store_loop), batch ? (int)batch->number : config->relay.claim_limit,
                       poll ? poll->number : config->relay.poll_us))
        ob_log(log, OB_LOG_INFO, "pace tuned", OB_STR("batch", batch ? batch->value : "as configured"),
               OB_STR("poll", poll ? poll->value : "as configured"));
    for (size_t i = 0; i < config->sink_count; i++)
        control_sink(store_loop, config, (int)i, news, enabled, log);
    ob_store_loop_set_controlled(store_loop);
}
