/* heed.c - see heed.h. The news tell how things are, not what changed: what is not named any more is as configured. */
#include "relay/heed.h"

#include <string.h>

static bool named(const struct ob_keeper_news *news, const char *destination)
{
    for (size_t i = 0; i < news->paused_count; i++)
        if (strcmp(news->paused[i], destination) == 0)
            return true;
    return false;
}

static const struct ob_tuning *tuned(const struct ob_keeper_news *news, enum ob_tuning_kind kind,
                                     const char *destination)
{
    for (size_t i = 0; i < news->tuning_count; i++)
        if (news->tunings[i].kind == kind && strcmp(news->tunings[i].destination, destination) == 0)
            return &news->tunings[i];
    return NULL;
}

static void heed_destination(struct ob_station *station, const struct ob_config *config, int dest,
                             const struct ob_keeper_news *news, bool enabled, const struct ob_log *log)
{
    const char *name = config->sinks[dest].name;
    bool paused = named(news, name), first = !ob_station_heeded(station);
    bool changed = ob_station_pause(station, dest, paused || !enabled);
    if (enabled && (first ? paused : changed))
        ob_log(log, OB_LOG_INFO, paused ? "destination paused by an operator" : "destination resumed",
               OB_STR("destination", name));
    struct ob_dest_settings settings = *ob_station_configured(station, dest);
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
    if (ob_station_tune(station, dest, &settings))
        ob_log(log, OB_LOG_INFO, "destination tuned", OB_STR("destination", name),
               OB_STR("rate", rate ? rate->value : "as configured"),
               OB_STR("concurrency", cap ? cap->value : "as configured"));
}

void ob_heed(struct ob_station *station, const struct ob_config *config, const struct ob_keeper_news *news,
             const struct ob_log *log)
{
    if (!news->controlled)
        return;
    ob_station_lanes(station, news->lanes, news->lane_count);
    const struct ob_tuning *on = tuned(news, OB_TUNE_ENABLED, ""), *poll = tuned(news, OB_TUNE_POLL, ""),
                           *batch = tuned(news, OB_TUNE_BATCH, "");
    bool enabled = on ? on->number != 0 : config->enabled;
    bool changed = ob_station_enable(station, enabled);
    if (changed || (!enabled && !ob_station_heeded(station)))
        ob_log(log, OB_LOG_INFO, enabled ? "claiming" : "disabled: nothing is claimed");
    if (ob_engine_pace(ob_station_engine(station), batch ? (int)batch->number : config->relay.claim_limit,
                       poll ? poll->number : config->relay.poll_us))
        ob_log(log, OB_LOG_INFO, "pace tuned", OB_STR("batch", batch ? batch->value : "as configured"),
               OB_STR("poll", poll ? poll->value : "as configured"));
    for (size_t i = 0; i < config->sink_count; i++)
        heed_destination(station, config, (int)i, news, enabled, log);
    ob_station_set_heeded(station);
}
