/* metrics_int.h - shared by the registry and its page: the position of each value in a series. */
#ifndef OB_DAEMON_METRICS_INT_H
#define OB_DAEMON_METRICS_INT_H

#include "core/history.h"
#include "daemon/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    OB_METRICS_SUM = OB_METRICS_BUCKETS + 1, /* after the buckets and the +Inf bucket; microseconds */
    OB_METRICS_OUTCOMES = 10,                /* enum outbox_outcome, and 0 */
    OB_METRICS_STATES = 3,                   /* enum ob_breaker_state */
    OB_METRICS_RESULTS = 2,
};

enum ob_metric_type { OB_COUNTER, OB_GAUGE, OB_HISTOGRAM };
enum ob_metric_labels {
    OB_LABELS_PROCESS,
    OB_LABELS_VERSION,
    OB_LABELS_RESULT,
    OB_LABELS_STORE,
    OB_LABELS_QUEUE,
    OB_LABELS_NAMESPACE,
    OB_LABELS_SINK,
    OB_LABELS_OUTCOME,
    OB_LABELS_STATE
};

/* The number of words that a metric takes. */
#define OB_METRIC_WIDTH(type, labels) \
    (OB_##type == OB_HISTOGRAM                 ? OB_METRICS_SUM + 1 \
     : OB_LABELS_##labels == OB_LABELS_OUTCOME ? OB_METRICS_OUTCOMES \
     : OB_LABELS_##labels == OB_LABELS_STATE   ? OB_METRICS_STATES \
     : OB_LABELS_##labels == OB_LABELS_RESULT  ? OB_METRICS_RESULTS \
                                               : 1)
enum {
#define OUTBOX_METRIC(id, type, name, labels, help) \
    OB_PLACE_##id, OB_PLACE_LAST_##id = OB_PLACE_##id + OB_METRIC_WIDTH(type, labels) - 1,
#include "metrics.def"
#undef OUTBOX_METRIC
    OB_PLACES
};

struct ob_namespace_figures {
    char *name;
    int64_t pending, dead;
    double oldest_s;
};

struct ob_series {
    struct ob_series *next;
    char *store, *sink; /* NULL: none */
    bool shown;         /* guarded by the lock, like all members from here to the values */
    bool leads;
    struct ob_namespace_figures namespaces[OB_METRICS_NAMESPACES];
    size_t namespace_count;
    _Atomic uint64_t values[OB_PLACES]; /* counts; for gauges, the bits of a double */
};

struct ob_metrics {
    pthread_mutex_t lock; /* guards the list, not the values */
    struct ob_series *list, *process;
    char *version;
};

int ob_metric_place(enum ob_metric metric);

#endif
