/* history.h - the last hour in points of a minute, for charts.
 *
 * Each relay adds a row to the store every few seconds: what it did since the last one, and, if it leads, how the outbox stands. So
 * the points are those of the whole outbox whoever reads them, and a restart or another leader changes nothing. Rows older than an
 * hour are removed by the leader. What workers outside of relays deliver is not counted. */
#ifndef OB_CORE_HISTORY_H
#define OB_CORE_HISTORY_H

#include "core/store.h"

enum { OB_HISTORY_MINUTES = 60, OB_HISTORY_STEP_S = 60, OB_LATENCIES_TEXT = OB_LATENCIES * 21 };

/* Upper bounds of latencies, in seconds; the last count is of those above. */
extern const double ob_latency_bounds[OB_LATENCIES - 1];

/* A point: what happened in this minute, and how the outbox stood at its end. -1: not known. */
struct ob_point {
    int64_t at_us; /* when the minute began */
    int64_t enqueued, delivered, failed,
        dead; /* failed: attempts that did not deliver; enqueued is derived from the others */
    int64_t pending;
    double oldest_s;       /* age of the oldest undelivered message */
    double p50_ms, p95_ms; /* from enqueue until the delivery was recorded */
};
typedef bool ob_point_fn(void *ctx, const struct ob_point *point);

/* The points of the last minutes, at most 60, oldest first; a minute in which no relay ran has none. */
ob_code ob_history_points(struct ob_store *store, int minutes, ob_point_fn *fn, void *ctx,
                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* What was counted between two times. */
struct ob_figures ob_figures_since(const struct ob_figures *now, const struct ob_figures *before);
bool ob_figures_none(const struct ob_figures *figures);
/* Counts of latencies as text, and back; what is no number reads as 0. */
void ob_latencies_write(const uint64_t counts[OB_LATENCIES], char text[OB_LATENCIES_TEXT]);
void ob_latencies_read(const char *text, uint64_t counts[OB_LATENCIES]);

#endif
