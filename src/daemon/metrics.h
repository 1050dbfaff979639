/* metrics.h - what the relay counts, and the page that Prometheus reads. The metrics are the rows of def/metrics.def.
 *
 *     struct ob_metrics *metrics = ob_metrics_new(outbox_version());
 *     struct ob_series *store = ob_metrics_store(metrics, "shop");
 *     ob_series_add(store, OB_METRIC_claimed, 500);
 *     ob_metrics_render(metrics, &buf);
 *
 * Threads: a value may be written and read by any thread at any time; each is one atomic word. The lists of stores and
 * sinks grow under a lock; a series, once created, is kept until the end, so that a reload loses no counts. */
#ifndef OB_DAEMON_METRICS_H
#define OB_DAEMON_METRICS_H

#include "base/buf.h"
#include "core/store.h"

enum ob_metric {
#define OUTBOX_METRIC(id, ...) OB_METRIC_##id,
#include "metrics.def"
#undef OUTBOX_METRIC
    OB_METRIC_COUNT
};

enum { OB_METRICS_NAMESPACES = 20, OB_METRICS_BUCKETS = OB_LATENCIES - 1 };

struct ob_metrics;
struct ob_series; /* the values of one store, of one sink at one store, or of the process */

/* NULL: no memory. */
struct ob_metrics *ob_metrics_new(const char *version);
void ob_metrics_free(struct ob_metrics *metrics);

/* The series of that name, created if it does not exist; NULL: no memory. */
struct ob_series *ob_metrics_process(struct ob_metrics *metrics);
struct ob_series *ob_metrics_store(struct ob_metrics *metrics, const char *store);
struct ob_series *ob_metrics_sink(struct ob_metrics *metrics, const char *store, const char *sink);
/* Hides what is no longer in the configuration; its counts are kept in case it comes back. */
void ob_metrics_retire(struct ob_metrics *metrics);

/* All accept a NULL series. Use only metrics whose labels fit the series. */
void ob_series_add(struct ob_series *series, enum ob_metric metric, uint64_t count); /* COUNTER */
void ob_series_set(struct ob_series *series, enum ob_metric metric, double value);   /* GAUGE */
void ob_series_shift(struct ob_series *series, enum ob_metric metric, double by);    /* GAUGE; from one thread only */
void ob_series_observe(struct ob_series *series, enum ob_metric metric, int64_t duration_us); /* HISTOGRAM */
/* For metrics with one more label. which: the outcome, the state, or the result (0 ok, 1 failed). */
void ob_series_add_to(struct ob_series *series, enum ob_metric metric, int which, uint64_t count);
void ob_series_set_state(struct ob_series *series, enum ob_metric metric, int which); /* this one 1, the others 0 */

/* The counts of a store's queue, the total first, as the store returns them. count 0: this relay is not the leader. */
void ob_metrics_set_gauges(struct ob_metrics *metrics, const char *store, const struct ob_gauges_row *rows,
                           size_t count);

/* What was counted for a store since the process began, at all its sinks. */
void ob_metrics_figures(struct ob_metrics *metrics, const char *store, struct ob_figures *figures);

/* The page, in the text format 0.0.4. */
void ob_metrics_render(struct ob_metrics *metrics, struct ob_buf *buf);

#endif
