/* observer.h - receives the notes of core/machine.h about messages, and turns them into log lines and metrics.
 *
 * One observer per store and generation. While a generation drains, its observer counts beside that of the next one: the
 * messages held are shown as the sum of both. All of it runs on the loop's thread.
 *
 * Levels. debug: claimed, sent, delivered. info: another attempt follows; no route; a sink works again; one summary line
 * every ten seconds with deliveries. warn: dead letter, lease lost, deliveries to a sink suspended. Of the lines about
 * single messages at info and above, at most OB_OBSERVER_LINES are written per second, so that a sink that fails at full
 * speed does not flood the log; the summary line says how many were left out. Debug lines are never limited. Payloads,
 * headers and recipients are never logged. */
#ifndef OB_DAEMON_OBSERVER_H
#define OB_DAEMON_OBSERVER_H

#include "base/log.h"
#include "core/async_store.h"
#include "core/machine.h"
#include "daemon/metrics.h"

enum { OB_OBSERVER_LINES = 50, OB_OBSERVER_SUMMARY_US = 10000000 };

struct ob_observer;
struct ob_tracer_view;

struct ob_observer_settings {
    struct ob_metrics *metrics; /* borrowed; NULL: none */
    const struct ob_log *log;   /* borrowed; NULL: none */
    const char *store;          /* its name; copied, like the names of the sinks */
    const char *const *sinks;
    int sink_count;
    int64_t (*wall_us)(void);      /* NULL: the wall clock */
    struct ob_tracer_view *traces; /* borrowed: gets the notes, too; NULL: none */
};

/* What it saw of a sink. Texts are cut; they come from outside and must be escaped where they are shown. */
struct ob_observer_sink {
    char code[64], error[241]; /* of the last attempt that failed; "": none */
    int64_t error_us;          /* when that was; 0: never, like the other times */
    int64_t success_us;        /* of the last delivery */
    int64_t open_us;           /* since when deliveries are suspended */
    uint64_t failed;           /* attempts that failed since the last delivery */
    double rate;               /* deliveries per second */
};

/* NULL: no memory. */
struct ob_observer *ob_observer_new(const struct ob_observer_settings *settings);
void ob_observer_free(struct ob_observer *observer); /* what it counted as held is subtracted */

ob_note_fn ob_observer_note; /* ctx: the observer */

/* Call about once a second, and once at the end: adds the counts of the core and the async store to the metrics, and
 * writes the summary when it is due. */
void ob_observer_tick(struct ob_observer *observer, const struct ob_machine_stats *stats,
                      const struct ob_async_store_state *async);
/* Writes the summary now, if there is anything to sum up. */
void ob_observer_flush(struct ob_observer *observer);

/* For an async store that was in use before: what it has counted so far is already in the metrics. */
void ob_observer_begin(struct ob_observer *observer, const struct ob_async_store_state *async);
const struct ob_observer_sink *ob_observer_sink(const struct ob_observer *observer, int sink);
/* Takes over what another saw of an unchanged sink. */
void ob_observer_inherit(struct ob_observer *observer, int sink, const struct ob_observer *from, int from_sink);
/* Another generation took over: from now on its observer reports the state of the sinks. */
void ob_observer_retire(struct ob_observer *observer);

#endif
