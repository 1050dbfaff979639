/* history.c - see history.h. */
#include "core/history.h"

#include <stdlib.h>
#include <string.h>

const double ob_latency_bounds[OB_LATENCIES - 1] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                    1,     2.5,    5,     10,   30,    60,   300, 1800, 3600};

static const int64_t minute_us = OB_HISTORY_STEP_S * INT64_C(1000000);

/* ---- figures ----------------------------------------------------------------------------------------------------- */

struct ob_figures ob_figures_since(const struct ob_figures *now, const struct ob_figures *before)
{
    struct ob_figures since = {.delivered = now->delivered - before->delivered,
                               .failed = now->failed - before->failed,
                               .dead = now->dead - before->dead};
    for (int i = 0; i < OB_LATENCIES; i++)
        since.latencies[i] = now->latencies[i] - before->latencies[i];
    return since;
}

bool ob_figures_none(const struct ob_figures *figures)
{
    return !figures->delivered && !figures->failed && !figures->dead;
}

void ob_latencies_write(const uint64_t counts[OB_LATENCIES], char text[OB_LATENCIES_TEXT])
{
    for (int i = 0; i < OB_LATENCIES; i++) {
        char digits[21];
        int len = 0;
        uint64_t count = counts[i];
        do
            digits[len++] = (char)('0' + count % 10);
        while (count /= 10);
        if (i)
            *text++ = ' ';
        while (len)
            *text++ = digits[--len];
    }
    *text = '\0';
}

void ob_latencies_read(const char *text, uint64_t counts[OB_LATENCIES])
{
    for (int i = 0; i < OB_LATENCIES; i++) {
        char *end = NULL;
        counts[i] = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
        text = end && *end == ' ' ? end + 1 : NULL;
    }
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

struct merge {
    ob_point_fn *fn;
    void *ctx;
    struct ob_point point; /* at_us 0: none */
    struct ob_figures done;
    int64_t open,
        open_before; /* neither delivered nor dead, at the end of this minute and of the one before; -1: not known */
    int64_t last_us;
    bool stopped;
};

/* Where in the histogram so many of a hundred lie below, in a straight line between two bounds. */
static double quantile(const uint64_t counts[OB_LATENCIES], double share)
{
    uint64_t total = 0, below = 0;
    for (int i = 0; i < OB_LATENCIES; i++)
        total += counts[i];
    if (!total)
        return -1;
    double wanted = (double)total * share;
    for (int i = 0; i < OB_LATENCIES - 1; i++) {
        double low = i ? ob_latency_bounds[i - 1] : 0;
        if (counts[i] && (double)(below + counts[i]) >= wanted)
            return 1000 * (low + (ob_latency_bounds[i] - low) * (wanted - (double)below) / (double)counts[i]);
        below += counts[i];
    }
    return 1000 * ob_latency_bounds[OB_LATENCIES - 2];
}

static void emit(struct merge *merge)
{
    struct ob_point *point = &merge->point;
    if (!point->at_us || merge->stopped)
        return;
    point->delivered = (int64_t)merge->done.delivered;
    point->failed = (int64_t)merge->done.failed;
    point->dead = (int64_t)merge->done.dead;
    point->enqueued = -1;
    if (merge->open >= 0 && merge->open_before >= 0 && point->at_us == merge->last_us + minute_us) {
        int64_t grown = merge->open - merge->open_before + point->delivered + point->dead;
        point->enqueued = grown > 0 ? grown : 0;
    }
    point->p50_ms = quantile(merge->done.latencies, 0.5);
    point->p95_ms = quantile(merge->done.latencies, 0.95);
    merge->stopped = !merge->fn(merge->ctx, point);
    merge->open_before = merge->open;
    merge->last_us = point->at_us;
}

static void begin(struct merge *merge, int64_t at_us)
{
    merge->point = (struct ob_point){.at_us = at_us, .pending = -1, .oldest_s = -1};
    memset(&merge->done, 0, sizeof merge->done);
    merge->open = -1;
}

static bool add(void *ctx, const struct ob_history_row *row)
{
    struct merge *merge = ctx;
    int64_t at_us = row->at_us - row->at_us % minute_us;
    if (at_us != merge->point.at_us) {
        emit(merge);
        begin(merge, at_us);
    }
    merge->done.delivered += row->done.delivered;
    merge->done.failed += row->done.failed;
    merge->done.dead += row->done.dead;
    for (int i = 0; i < OB_LATENCIES; i++)
        merge->done.latencies[i] += row->done.latencies[i];
    if (row->told) {
        merge->point.pending = row->pending;
        merge->point.oldest_s = row->oldest_s;
        merge->open = row->estimated ? -1 : row->open;
    }
    return !merge->stopped;
}

ob_code ob_history_points(struct ob_store *store, int minutes, ob_point_fn *fn, void *ctx, struct outbox_error *err)
{
    struct merge merge = {.fn = fn, .ctx = ctx, .open_before = -1};
    int most = minutes > 0 && minutes < OB_HISTORY_MINUTES ? minutes : OB_HISTORY_MINUTES;
    ob_code code = store->ops->history(store, most, add, &merge, err);
    if (!code)
        emit(&merge);
    return code;
}
