/* generation.c - see generation.h. */
#include "relay/generation.h"

#include "base/alloc.h"
#include "base/error.h"
#include "relay/route.h"
#include "sink/registry.h"

#include <stdio.h>
#include <string.h>

struct ob_generation {
    struct ob_generation_settings set;
    struct ob_outlet **outlets;   /* one a sink */
    struct ob_station **stations; /* one a store */
    bool started;
};

static void on_verdict(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct ob_generation *generation = ctx;
    size_t store = (size_t)ob_station_of(handle);
    /* A sink may answer late, and a sink that is wrong may answer anything. */
    if (store < generation->set.config->store_count && generation->stations[store])
        ob_station_verdict(generation->stations[store], handle, verdict);
}

static enum outbox_code open_sink(struct ob_generation *generation, size_t i, struct outbox_error *err)
{
    const struct ob_config_sink *sink = &generation->set.config->sinks[i];
    const struct outbox_sink_ops *ops = NULL;
    struct outbox_error cause = {0};
    enum outbox_code code = ob_sink_load(sink->kind, sink->library, &ops, &cause);
    if (code)
        return ob_error_set(err, code, "%s:%d: sinks.%s: %s", sink->file, sink->line, sink->name, cause.text);
    struct ob_outlet_settings outlet = {.sink = sink,
                                        .ops = ops,
                                        .loop = generation->set.loop,
                                        .log = generation->set.log,
                                        .ctx = generation,
                                        .done = on_verdict};
    code = ob_outlet_open(&outlet, &generation->outlets[i], &cause);
    if (code)
        return ob_error_set(err, code, "%s:%d: sinks.%s: %s", sink->file, sink->line, sink->name, cause.text);
    return OUTBOX_OK;
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
    enum outbox_code code = generation->outlets && generation->stations ? OUTBOX_OK : ob_error_nomem(err);
    for (size_t i = 0; i < config->sink_count && !code; i++)
        code = open_sink(generation, i, err);
    if (code)
        ob_generation_close(generation);
    else
        *out = generation;
    return code;
}

enum outbox_code ob_generation_start(struct ob_generation *generation, struct outbox_error *err)
{
    const struct ob_config *config = generation->set.config;
    enum outbox_code code = OUTBOX_OK;
    for (size_t i = 0; i < config->store_count && !code; i++) {
        struct ob_station_settings station = {.config = config,
                                              .index = (int)i,
                                              .outlets = generation->outlets,
                                              .loop = generation->set.loop,
                                              .log = generation->set.log,
                                              .worker = generation->set.worker,
                                              .note = generation->set.note,
                                              .note_ctx = generation->set.note_ctxs[i]};
        code = ob_station_open(&station, &generation->stations[i], err);
    }
    generation->started = !code;
    return code;
}

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

void ob_generation_close(struct ob_generation *generation)
{
    if (!generation)
        return;
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; generation->stations && i < config->store_count; i++) {
        struct ob_station *station = generation->stations[i];
        generation->stations[i] = NULL; /* a sink that answers while it is closed finds nobody */
        ob_station_close(station);
    }
    for (size_t i = 0; generation->outlets && i < config->sink_count; i++)
        ob_outlet_close(generation->outlets[i]);
    ob_free(generation->outlets);
    ob_free(generation->stations);
    ob_free(generation);
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

const struct ob_config *ob_generation_config(const struct ob_generation *generation)
{
    return generation->set.config;
}

struct ob_station *ob_generation_station(struct ob_generation *generation, int store)
{
    return generation->stations[store];
}
