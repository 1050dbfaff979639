/* metrics.c - the registry: series of atomic words, found by name. The page is written in metrics_page.c.
 *
 * A series has room for every value of every metric, including those that it never uses: this wastes a kilobyte, but
 * makes every position a constant. */
#include "daemon/metrics_int.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>

static const int places[OB_METRIC_COUNT] = {
#define OUTBOX_METRIC(id, ...) OB_PLACE_##id,
#include "metrics.def"
#undef OUTBOX_METRIC
};

int ob_metric_place(enum ob_metric metric)
{
    return places[metric];
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

void ob_series_add_to(struct ob_series *series, enum ob_metric metric, int which, uint64_t count)
{
    if (series)
        atomic_fetch_add_explicit(&series->values[places[metric] + which], count, memory_order_relaxed);
}

void ob_series_add(struct ob_series *series, enum ob_metric metric, uint64_t count)
{
    ob_series_add_to(series, metric, 0, count);
}

static void set_place(struct ob_series *series, int place, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    atomic_store_explicit(&series->values[place], bits, memory_order_relaxed);
}

void ob_series_set(struct ob_series *series, enum ob_metric metric, double value)
{
    if (series)
        set_place(series, places[metric], value);
}

void ob_series_shift(struct ob_series *series, enum ob_metric metric, double by)
{
    if (!series)
        return;
    double value;
    uint64_t bits = atomic_load_explicit(&series->values[places[metric]], memory_order_relaxed);
    memcpy(&value, &bits, sizeof value);
    set_place(series, places[metric], value + by);
}

void ob_series_set_state(struct ob_series *series, enum ob_metric metric, int which)
{
    for (int i = 0; series && i < OB_METRICS_STATES; i++)
        set_place(series, places[metric] + i, i == which);
}

void ob_series_observe(struct ob_series *series, enum ob_metric metric, int64_t duration_us)
{
    if (!series)
        return;
    int64_t us = duration_us > 0 ? duration_us : 0; /* clocks may differ */
    double seconds = (double)us / 1e6;
    int bucket = 0;
    while (bucket < OB_METRICS_BUCKETS && seconds > ob_latency_bounds[bucket])
        bucket++;
    ob_series_add_to(series, metric, bucket, 1);
    ob_series_add_to(series, metric, OB_METRICS_SUM, (uint64_t)us);
}

/* ---- series ------------------------------------------------------------------------------------------------------ */

static void series_free(struct ob_series *series)
{
    if (!series)
        return;
    ob_free(series->store);
    ob_free(series->sink);
    ob_free(series);
}

static struct ob_series *series_new(const char *store, const char *sink)
{
    struct ob_series *series = ob_calloc(1, sizeof *series);
    if (!series)
        return NULL;
    series->store = store ? ob_strdup(store) : NULL;
    series->sink = sink ? ob_strdup(sink) : NULL;
    if ((store && !series->store) || (sink && !series->sink)) {
        series_free(series);
        return NULL;
    }
    if (sink)
        ob_series_set_state(series, OB_METRIC_breaker, 0);
    return series;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const char *text_of(const char *label)
{
    return label ? label : "";
}

/* Sorted, so that the order on the page is stable. */
static bool before(const struct ob_series *a, const struct ob_series *b)
{
    int order = strcmp(text_of(a->store), text_of(b->store));
    return order < 0 || (order == 0 && strcmp(text_of(a->sink), text_of(b->sink)) < 0);
}

static struct ob_series *find_or_make(struct ob_metrics *metrics, const char *store, const char *sink)
{
    struct ob_series **link;
    for (struct ob_series *series = metrics->list; series; series = series->next)
        if (same(series->store, store) && same(series->sink, sink))
            return series;
    struct ob_series *made = series_new(store, sink);
    if (!made)
        return NULL;
    for (link = &metrics->list; *link && before(*link, made); link = &(*link)->next)
        ;
    made->next = *link;
    *link = made;
    return made;
}

static struct ob_series *show(struct ob_metrics *metrics, const char *store, const char *sink)
{
    pthread_mutex_lock(&metrics->lock);
    struct ob_series *series = find_or_make(metrics, store, sink);
    if (series)
        series->shown = true;
    pthread_mutex_unlock(&metrics->lock);
    return series;
}

struct ob_series *ob_metrics_process(struct ob_metrics *metrics)
{
    return metrics->process;
}

struct ob_series *ob_metrics_store(struct ob_metrics *metrics, const char *store)
{
    return show(metrics, store, NULL);
}

struct ob_series *ob_metrics_sink(struct ob_metrics *metrics, const char *store, const char *sink)
{
    return show(metrics, store, sink);
}

void ob_metrics_retire(struct ob_metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    for (struct ob_series *series = metrics->list; series; series = series->next)
        series->shown = false;
    pthread_mutex_unlock(&metrics->lock);
}

static uint64_t count_of(struct ob_series *series, enum ob_metric metric, int which)
{
    return atomic_load_explicit(&series->values[places[metric] + which], memory_order_relaxed);
}

void ob_metrics_figures(struct ob_metrics *metrics, const char *store, struct ob_figures *figures)
{
    static const enum outbox_outcome failures[] = {OUTBOX_RETRY, OUTBOX_FAILED, OUTBOX_LIMITED, OUTBOX_BLOCKED,
                                                   OUTBOX_UNKNOWN};
    memset(figures, 0, sizeof *figures);
    pthread_mutex_lock(&metrics->lock);
    for (struct ob_series *series = metrics->list; series; series = series->next) {
        if (!same(series->store, store))
            continue;
        if (!series->sink) {
            figures->delivered += count_of(series, OB_METRIC_delivered, 0);
            figures->dead += count_of(series, OB_METRIC_dead_letters, 0);
            continue;
        }
        for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
            figures->failed += count_of(series, OB_METRIC_attempts, (int)failures[i]);
        for (int i = 0; i < OB_LATENCIES; i++)
            figures->latencies[i] += count_of(series, OB_METRIC_end_to_end, i);
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- the queue of a store ---------------------------------------------------------------------------------------- */

static void forget_queue(struct ob_series *series)
{
    for (size_t i = 0; i < series->namespace_count; i++)
        ob_free(series->namespaces[i].name);
    series->namespace_count = 0;
    series->leads = false;
}

static void set_total(struct ob_series *series, const struct ob_gauges_row *row)
{
    ob_series_set(series, OB_METRIC_pending, (double)row->pending);
    ob_series_set(series, OB_METRIC_due, (double)row->due);
    ob_series_set(series, OB_METRIC_oldest, row->oldest_due_s);
    ob_series_set(series, OB_METRIC_oldest_undelivered, row->oldest_undelivered_s);
    ob_series_set(series, OB_METRIC_retrying, (double)row->retrying);
    ob_series_set(series, OB_METRIC_dead_last_hour, (double)row->dead_last_hour);
    ob_series_set(series, OB_METRIC_processing, (double)row->processing);
    ob_series_set(series, OB_METRIC_stuck, (double)row->stuck);
    ob_series_set(series, OB_METRIC_parked, (double)row->parked);
    ob_series_set(series, OB_METRIC_blocked_keys, (double)row->blocked_keys);
    ob_series_set(series, OB_METRIC_dead, (double)row->dead);
    ob_series_set(series, OB_METRIC_estimated, row->estimated);
    ob_series_set(series, OB_METRIC_table_bytes, (double)row->table_bytes);
    ob_series_set(series, OB_METRIC_dead_tuples, (double)row->dead_tuples);
    /* Counted by the store, so it is copied. */
    atomic_store_explicit(&series->values[OB_PLACE_repairs], (uint64_t)(row->repairs > 0 ? row->repairs : 0),
                          memory_order_relaxed);
}

void ob_metrics_set_gauges(struct ob_metrics *metrics, const char *store, const struct ob_gauges_row *rows,
                           size_t count)
{
    struct ob_series *series = ob_metrics_store(metrics, store);
    if (!series)
        return;
    pthread_mutex_lock(&metrics->lock);
    forget_queue(series);
    series->leads = count > 0;
    ob_series_set(series, OB_METRIC_leader, series->leads);
    for (size_t i = 0; i < count; i++) {
        struct ob_namespace_figures *figures = &series->namespaces[series->namespace_count];
        if (!rows[i].name_space)
            set_total(series, &rows[i]);
        else if (series->namespace_count < OB_METRICS_NAMESPACES && (figures->name = ob_strdup(rows[i].name_space))) {
            figures->pending = rows[i].pending;
            figures->dead = rows[i].dead;
            figures->oldest_s = rows[i].oldest_due_s;
            series->namespace_count++;
        }
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

struct ob_metrics *ob_metrics_new(const char *version)
{
    struct ob_metrics *metrics = ob_calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->version = ob_strdup(version);
    metrics->process = series_new(NULL, NULL);
    if (!metrics->version || !metrics->process) {
        ob_metrics_free(metrics);
        return NULL;
    }
    ob_series_set(metrics->process, OB_METRIC_started_at, (double)ob_clock_wall_us() / 1e6);
    ob_series_set(metrics->process, OB_METRIC_build_info, 1);
    return metrics;
}

void ob_metrics_free(struct ob_metrics *metrics)
{
    if (!metrics)
        return;
    while (metrics->list) {
        struct ob_series *series = metrics->list;
        metrics->list = series->next;
        forget_queue(series);
        series_free(series);
    }
    series_free(metrics->process);
    ob_free(metrics->version);
    pthread_mutex_destroy(&metrics->lock);
    ob_free(metrics);
}
