/* observer.h - hears what becomes of messages (the notes of core/machine.h), writes the log and counts.
 *
 * One observer per store and generation. While a generation finishes what it has out, its observer counts beside that of
 * the next: what is held is shown as the sum of both. All of it on the loop's thread.
 *
 * Levels. debug: claimed, sent, delivered. info: another attempt will follow, no route; a sink that works again;
 * every ten seconds with deliveries one line that sums them up. warn: dead, lease lost, a sink that is left alone.
 * Of the lines about single messages at info and above at most OB_OBSERVER_LINES are written in a second, so that a
 * sink that fails at full speed does not drown the log; how many were left out stands in the summing line. Debug is
 * never cut. Payloads, headers and recipients are never logged. */
#ifndef OB_DAEMON_OBSERVER_H
#define OB_DAEMON_OBSERVER_H

#include "base/log.h"
#include "core/async_store.h"
#include "core/machine.h"
#include "daemon/metrics.h"

enum { OB_OBSERVER_LINES = 50, OB_OBSERVER_SUMMARY_US = 10000000 };

struct ob_observer;

struct ob_observer_settings {
    struct ob_metrics *metrics; /* borrowed; NULL: none */
    const struct ob_log *log;   /* borrowed; NULL: none */
    const char *store;          /* its name; copied, like those of the sinks */
    const char *const *sinks;
    int sink_count;
    int64_t (*wall_us)(void); /* NULL: the wall clock */
};

/* NULL: no memory. */
struct ob_observer *ob_observer_new(const struct ob_observer_settings *settings);
void ob_observer_free(struct ob_observer *observer); /* what it held is held no more */

ob_note_fn ob_observer_note; /* ctx is the observer */

/* About once a second, and once at the end: takes over the counts of the core and the state of the async store, and sums up. */
void ob_observer_tick(struct ob_observer *observer, const struct ob_machine_stats *stats,
                      const struct ob_async_store_state *async);
/* Sums up now what is left to sum up. */
void ob_observer_flush(struct ob_observer *observer);

/* The async store was in use before: what it counted by then was counted. */
void ob_observer_begin(struct ob_observer *observer, const struct ob_async_store_state *async);
/* Another generation follows: how sinks stand is told by its observer from now on. */
void ob_observer_retire(struct ob_observer *observer);

#endif
