/* metrics_page.c - writes the page that Prometheus reads: the text format, version 0.0.4.
 *
 * The samples of a metric are grouped under its HELP and TYPE. The count of a histogram is the sum of its buckets, so
 * that both agree even if values are written at the same time. */
#include "core/breaker.h"
#include "daemon/metrics_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct row {
    const char *name, *help;
    enum ob_metric_type type;
    enum ob_metric_labels labels;
} rows[OB_METRIC_COUNT] = {
#define OUTBOX_METRIC(id, type, name, labels, help) {name, help, OB_##type, OB_LABELS_##labels},
#include "metrics.def"
#undef OUTBOX_METRIC
};
static const char *const type_names[] = {"counter", "gauge", "histogram"};
/* By enum outbox_outcome; outcomes without a name are never settled as attempts. */
static const char *const outcome_names[OB_METRICS_OUTCOMES] = {
    [OUTBOX_DELIVERED] = "delivered",    [OUTBOX_RETRY] = "retry",     [OUTBOX_FAILED] = "failed",
    [OUTBOX_LIMITED] = "limited",        [OUTBOX_BLOCKED] = "blocked", [OUTBOX_UNKNOWN] = "unknown",
    [OUTBOX_INTERRUPTED] = "interrupted"};
static const char *const state_names[OB_METRICS_STATES] = {
    [OB_BREAKER_CLOSED] = "closed", [OB_BREAKER_OPEN] = "open", [OB_BREAKER_HALF_OPEN] = "half_open"};
static const char *const result_names[OB_METRICS_RESULTS] = {"ok", "failed"};

static uint64_t value_at(const struct ob_series *series, int place)
{
    return atomic_load_explicit(&series->values[place], memory_order_relaxed);
}

static double gauge_at(const struct ob_series *series, int place)
{
    uint64_t bits = value_at(series, place);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void put_label(struct ob_buf *buf, const char *name, const char *value)
{
    char last = (char)(buf->len ? buf->data[buf->len - 1] : '{');
    ob_buf_printf(buf, "%s%s=\"", last == '{' ? "" : ",", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            ob_buf_puts(buf, "\\n");
        else if (*c == '"' || *c == '\\')
            ob_buf_printf(buf, "\\%c", *c);
        else
            ob_buf_putc(buf, *c);
    }
    ob_buf_putc(buf, '"');
}

/* The name and the labels of the series, and one more label if given. */
static void put_head(struct ob_buf *buf, const struct row *row, const char *suffix, const struct ob_series *series,
                     const char *label, const char *value)
{
    ob_buf_printf(buf, "%s%s", row->name, suffix);
    if (!series->store && !label) {
        ob_buf_putc(buf, ' ');
        return;
    }
    ob_buf_putc(buf, '{');
    if (series->store)
        put_label(buf, "store", series->store);
    if (series->sink)
        put_label(buf, "sink", series->sink);
    if (label)
        put_label(buf, label, value);
    ob_buf_puts(buf, "} ");
}

static void put_double(struct ob_buf *buf, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        ob_buf_printf(buf, "%.0f\n", value);
    else
        ob_buf_printf(buf, "%.15g\n", value);
}

static void put_place(struct ob_buf *buf, const struct row *row, const struct ob_series *series, int place,
                      const char *label, const char *value)
{
    put_head(buf, row, "", series, label, value);
    if (row->type == OB_COUNTER)
        ob_buf_printf(buf, "%" PRIu64 "\n", value_at(series, place));
    else
        put_double(buf, gauge_at(series, place));
}

static void put_histogram(struct ob_buf *buf, const struct row *row, const struct ob_series *series, int place)
{
    uint64_t count = 0;
    char bound[32];
    for (int i = 0; i <= OB_METRICS_BUCKETS; i++) {
        count += value_at(series, place + i);
        if (i < OB_METRICS_BUCKETS)
            snprintf(bound, sizeof bound, "%.15g", ob_latency_bounds[i]);
        put_head(buf, row, "_bucket", series, "le", i < OB_METRICS_BUCKETS ? bound : "+Inf");
        ob_buf_printf(buf, "%" PRIu64 "\n", count);
    }
    put_head(buf, row, "_sum", series, NULL, NULL);
    put_double(buf, (double)value_at(series, place + OB_METRICS_SUM) / 1e6);
    put_head(buf, row, "_count", series, NULL, NULL);
    ob_buf_printf(buf, "%" PRIu64 "\n", count);
}

static void put_namespaces(struct ob_buf *buf, enum ob_metric metric, const struct ob_series *series)
{
    for (size_t i = 0; i < series->namespace_count; i++) {
        const struct ob_namespace_figures *figures = &series->namespaces[i];
        put_head(buf, &rows[metric], "", series, "namespace", figures->name);
        put_double(buf, metric == OB_METRIC_namespace_pending ? (double)figures->pending
                        : metric == OB_METRIC_namespace_dead  ? (double)figures->dead
                                                              : figures->oldest_s);
    }
}

static void put_series(struct ob_buf *buf, enum ob_metric metric, const struct ob_series *series)
{
    const struct row *row = &rows[metric];
    int place = ob_metric_place(metric);
    switch (row->labels) {
    case OB_LABELS_OUTCOME:
        for (int i = 0; i < OB_METRICS_OUTCOMES; i++)
            if (outcome_names[i])
                put_place(buf, row, series, place + i, "outcome", outcome_names[i]);
        break;
    case OB_LABELS_STATE:
        for (int i = 0; i < OB_METRICS_STATES; i++)
            put_place(buf, row, series, place + i, "state", state_names[i]);
        break;
    case OB_LABELS_RESULT:
        for (int i = 0; i < OB_METRICS_RESULTS; i++)
            put_place(buf, row, series, place + i, "result", result_names[i]);
        break;
    case OB_LABELS_NAMESPACE: put_namespaces(buf, metric, series); break;
    default:
        if (row->type == OB_HISTOGRAM)
            put_histogram(buf, row, series, place);
        else
            put_place(buf, row, series, place, NULL, NULL);
    }
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

static double resident_bytes(void)
{
    char line[128], *second;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fgets(line, sizeof line, file) && (second = strchr(line, ' ')))
        pages = strtol(second, NULL, 10);
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void put_process(struct ob_buf *buf, const struct ob_metrics *metrics, enum ob_metric metric)
{
    const struct row *row = &rows[metric];
    if (row->labels == OB_LABELS_VERSION) {
        put_place(buf, row, metrics->process, ob_metric_place(metric), "version", metrics->version);
    } else if (metric == OB_METRIC_cpu || metric == OB_METRIC_rss) {
        put_head(buf, row, "", metrics->process, NULL, NULL);
        put_double(buf, metric == OB_METRIC_cpu ? cpu_seconds() : resident_bytes());
    } else {
        put_series(buf, metric, metrics->process);
    }
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static bool wanted(enum ob_metric metric, const struct ob_series *series)
{
    switch (rows[metric].labels) {
    case OB_LABELS_STORE: return series->shown && !series->sink;
    case OB_LABELS_QUEUE:
        if (metric == OB_METRIC_table_bytes || metric == OB_METRIC_dead_tuples)
            return series->shown && series->leads && gauge_at(series, ob_metric_place(metric)) >= 0;
        return series->shown && series->leads;
    case OB_LABELS_NAMESPACE: return series->shown && series->leads;
    default: return series->shown && series->sink;
    }
}

void ob_metrics_render(struct ob_metrics *metrics, struct ob_buf *buf)
{
    pthread_mutex_lock(&metrics->lock);
    for (int i = 0; i < OB_METRIC_COUNT; i++) {
        enum ob_metric metric = (enum ob_metric)i;
        ob_buf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help, rows[i].name,
                      type_names[rows[i].type]);
        if (rows[i].labels <= OB_LABELS_RESULT)
            put_process(buf, metrics, metric);
        else
            for (const struct ob_series *series = metrics->list; series; series = series->next)
                if (wanted(metric, series))
                    put_series(buf, metric, series);
    }
    pthread_mutex_unlock(&metrics->lock);
}
