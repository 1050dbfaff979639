/* generation_next.c - the handover from one generation to the next: what a reload keeps, and how the old one ends. */
#include "daemon/generation_int.h"

#include "core/sink_state.h"

#include <string.h>

enum { DRAIN_MARGIN_US = 1000000 };

static int find_sink(const struct ob_config *config, const char *name)
{
    for (size_t i = 0; i < config->sink_count; i++)
        if (strcmp(config->sinks[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int find_store(const struct ob_config *config, const char *name)
{
    for (size_t i = 0; i < config->store_count; i++)
        if (strcmp(config->stores[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- what is kept ---- */

struct ob_sink_instance *ob_generation_same_sink(const struct ob_generation *generation,
                                                 const struct ob_config_sink *sink, const struct outbox_sink_ops *ops)
{
    const struct ob_generation *before = generation->set.before;
    int i = before ? find_sink(before->set.config, sink->name) : -1;
    return i >= 0 && ob_sink_instance_is(before->instances[i], sink, ops) ? before->instances[i] : NULL;
}

struct ob_shared_store *ob_generation_same_store(const struct ob_generation *generation,
                                                 const struct ob_config_store *store)
{
    const struct ob_generation *before = generation->set.before;
    int i = before ? find_store(before->set.config, store->name) : -1;
    if (i < 0 || !before->store_loops[i])
        return NULL;
    const struct ob_config_store *was = &before->set.config->stores[i];
    bool schema = store->schema && was->schema ? strcmp(store->schema, was->schema) == 0 : store->schema == was->schema;
    return strcmp(store->url, was->url) == 0 && schema && store->polling == was->polling &&
                   store->relaxed == was->relaxed
               ? ob_store_loop_store(before->store_loops[i])
               : NULL;
}

struct ob_maintenance_settings ob_generation_maintenance(struct ob_generation *generation, size_t i)
{
    const struct ob_config *config = generation->set.config;
    return (struct ob_maintenance_settings){.config = config,
                                            .store = &config->stores[i],
                                            .log = generation->set.log,
                                            .worker = generation->set.worker,
                                            .wake = &generation->wake,
                                            .state = config->enabled ? "running" : "disabled"};
}

struct ob_maintenance **ob_generation_same_maintenance(struct ob_generation *generation, size_t i)
{
    struct ob_generation *before = generation->set.before;
    struct ob_maintenance_settings settings = ob_generation_maintenance(generation, i);
    int j = before ? find_store(before->set.config, settings.store->name) : -1;
    bool same = j >= 0 && before->maintenances[j] && ob_maintenance_serves(before->maintenances[j], &settings);
    return same ? &before->maintenances[j] : NULL;
}

/* ---- the handover ---- */

void ob_generation_show_series(struct ob_generation *generation)
{
    const struct ob_config *config = generation->set.config;
    struct ob_metrics *metrics = generation->set.metrics;
    ob_metrics_retire(metrics);
    for (size_t i = 0; i < config->store_count; i++) {
        ob_metrics_store(metrics, config->stores[i].name);
        for (size_t n = 0; n < config->sink_count; n++)
            ob_metrics_sink(metrics, config->stores[i].name, config->sinks[n].name);
    }
}

/* The state of the sinks is kept, and so are pauses and tunings: operators need not repeat them. */
static void take_over_store_loop(struct ob_generation *generation, size_t i)
{
    struct ob_generation *before = generation->set.before;
    const struct ob_config *config = generation->set.config;
    int was = find_store(before->set.config, config->stores[i].name);
    struct ob_store_loop *from = was >= 0 ? before->store_loops[was] : NULL;
    if (!from)
        return;
    struct ob_machine *machine = ob_engine_machine(ob_store_loop_engine(generation->store_loops[i]));
    for (size_t n = 0; n < config->sink_count; n++) {
        int sink = find_sink(before->set.config, config->sinks[n].name);
        if (sink < 0 || before->instances[sink] != generation->instances[n])
            continue;
        ob_machine_inherit(machine, (int)n, ob_engine_machine(ob_store_loop_engine(from)), sink);
        ob_observer_inherit(generation->observers[i], (int)n, before->observers[was], sink);
    }
    if (ob_store_loop_store(from) == ob_store_loop_store(generation->store_loops[i])) {
        struct ob_async_store_state async;
        ob_engine_store_state(ob_store_loop_engine(from), &async);
        ob_observer_begin(generation->observers[i], &async);
    }
}

static void take_over_maintenance(struct ob_generation *generation, size_t i)
{
    struct ob_maintenance **same = generation->maintenances[i] ? NULL : ob_generation_same_maintenance(generation, i);
    struct ob_maintenance_settings settings = ob_generation_maintenance(generation, i);
    if (!same)
        return;
    generation->told[i].stamp = 0; /* the next tick tells what this generation is */
    generation->maintenances[i] = *same;
    *same = NULL;
    ob_maintenance_move(generation->maintenances[i], &settings);
    const struct ob_maintenance_report *control = ob_maintenance_control(generation->maintenances[i]);
    if (control)
        ob_store_loop_control(generation->store_loops[i], control);
}

void ob_generation_leave_maintenance(struct ob_generation *generation, const struct ob_config *other)
{
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        ob_maintenance_leave(generation->maintenances[i], find_store(other, config->stores[i].name) < 0);
        generation->maintenances[i] = NULL;
    }
}

/* Stops claiming and finishes what is in flight: no delivery takes longer than the timeout of its sink. */
static void drain(struct ob_generation *generation, const struct ob_config *heir)
{
    const struct ob_config *config = generation->set.config;
    int64_t longest_us = 0;
    generation->drains = true;
    for (size_t i = 0; i < config->store_count; i++) {
        if (generation->observers[i])
            ob_observer_retire(generation->observers[i]);
    }
    ob_generation_leave_maintenance(generation, heir);
    for (size_t i = 0; i < config->sink_count; i++) {
        int64_t timeout_us = ob_sink_settings(&config->sinks[i].delivery).timeout_us;
        longest_us = timeout_us > longest_us ? timeout_us : longest_us;
    }
    ob_generation_stop(generation, longest_us + DRAIN_MARGIN_US);
}

void ob_generation_take_over(struct ob_generation *generation)
{
    struct ob_generation *before = generation->set.before;
    ob_generation_show_series(generation);
    if (before) {
        ob_generation_tick(before);
        for (size_t i = 0; i < generation->set.config->store_count; i++) {
            take_over_store_loop(generation, i);
            take_over_maintenance(generation, i);
        }
        drain(before, generation->set.config);
    }
    ob_health_forget_stores(generation->set.health);
    ob_generation_tick(generation);
    generation->started = true;
    generation->set.before = NULL; /* it may be freed before this one */
}

/* ---- what is still in flight ---- */

/* Looked up once per heir: several reloads may follow each other. */
static void find_heirs(struct ob_generation *generation, const struct ob_generation *heir)
{
    const struct ob_config *config = generation->set.config;
    if (generation->heir == heir->set.number)
        return;
    generation->heir = heir->set.number;
    for (size_t i = 0; i < config->sink_count; i++)
        generation->heirs[i] = find_sink(heir->set.config, config->sinks[i].name);
    for (size_t i = 0; i < config->store_count; i++)
        generation->store_heirs[i] = find_store(heir->set.config, config->stores[i].name);
}

/* Adds what it has in flight for the store that has the index `store` in its heir. */
static void add_out(const struct ob_generation *generation, int store, int *taken)
{
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < config->store_count; i++) {
        if (generation->store_heirs[i] != store || !generation->store_loops[i])
            continue;
        const struct ob_machine *machine = ob_engine_machine(ob_store_loop_engine(generation->store_loops[i]));
        for (size_t n = 0; n < config->sink_count; n++)
            if (generation->heirs[n] >= 0)
                taken[generation->heirs[n]] += ob_machine_out(machine, (int)n);
    }
}

void ob_generation_count_out(struct ob_generation *generation, struct ob_generation *const *draining, size_t count)
{
    const struct ob_config *config = generation->set.config;
    for (size_t i = 0; i < count; i++)
        find_heirs(draining[i], generation);
    for (size_t store = 0; store < config->store_count; store++) {
        memset(generation->taken, 0, config->sink_count * sizeof *generation->taken);
        for (size_t i = 0; i < count; i++)
            add_out(draining[i], (int)store, generation->taken);
        for (size_t n = 0; n < config->sink_count; n++)
            ob_engine_taken(ob_store_loop_engine(generation->store_loops[store]), (int)n, generation->taken[n]);
    }
}
