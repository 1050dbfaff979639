/* maintenance.h - what a relay does for a store beside delivering: learn what operators want, send heartbeats, count, purge.
 *
 * All of it blocks, so it has a thread and a connection of its own, and tells the loop what it found as one report.
 * It never stands in the way: while the store cannot be reached it tries again, and deliveries do not depend on it. */
#ifndef OB_DAEMON_MAINTENANCE_H
#define OB_DAEMON_MAINTENANCE_H

#include "config/config.h"
#include "core/store.h"
#include "core/tuning.h"

#include <uv.h>

struct ob_maintenance;

/* As of the last look. Owned by the maintenance thread until the next call of ob_maintenance_report. */
struct ob_maintenance_report {
    bool reached;            /* the store answered */
    struct outbox_error err; /* otherwise */
    bool controlled;         /* these were read: */
    const struct outbox_lane *lanes;
    size_t lane_count;
    const char *const *paused; /* sinks */
    size_t paused_count;
    size_t pause_count; /* of every kind */
    const struct ob_tuning *tunings;
    size_t tuning_count;
    bool leads;   /* this relay reports for all of the store's */
    bool counted; /* these were read: */
    const struct ob_gauges_row *gauges;
    size_t gauges_count;
    int64_t purged; /* messages removed by retention since the last report */
    bool by_topic;  /* these were read, since somebody asked for them: */
    const struct ob_status_row *topics;
    size_t topic_count;
    const struct ob_unrouted *unrouted; /* NULL unless asked for */
    size_t unrouted_count;
};

/* Messages of a topic that wait because no route took them, by their headers. */
struct ob_unrouted {
    const char *name_space, *topic;
    int64_t count;
};

struct ob_maintenance_settings {
    const struct ob_config *config; /* all of these are copied, but for the last two */
    const struct ob_config_store *store;
    const struct ob_log *log;
    const char *worker;
    uv_async_t *wake;  /* sent when there is a report, until stop */
    const char *state; /* "running", "disabled": a literal */
};

enum outbox_code ob_maintenance_start(const struct ob_maintenance_settings *settings, struct ob_maintenance **out,
                                      struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Asks it to stop, without waiting: for many at once, before they are stopped. */
void ob_maintenance_dismiss(struct ob_maintenance *maintenance);
/* Tells the store that this relay has ended, and waits for the thread, but not long: one whose call does not come back is
 * left behind. */
void ob_maintenance_stop(struct ob_maintenance *maintenance);

/* Whether it looks after this store already, under the same name. */
bool ob_maintenance_serves(const struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings);
/* If so it can go on for another configuration: reports go to the other handle from now on, and the other settings count from
 * the next look on, which is at once. */
void ob_maintenance_move(struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings);
/* Stops it without waiting: it cleans up after itself. For a store that is not served any more while the relay goes on.
 * says: whether to tell the store that this relay has ended. */
void ob_maintenance_leave(struct ob_maintenance *maintenance, bool says);

/* NULL: nothing new since the last call. */
const struct ob_maintenance_report *ob_maintenance_report(struct ob_maintenance *maintenance);
/* The last report that told what operators want; NULL: there was none yet. */
const struct ob_maintenance_report *ob_maintenance_control(const struct ob_maintenance *maintenance);
/* Look, and count by topic, now; unrouted: also what no route took by its headers. */
void ob_maintenance_hurry(struct ob_maintenance *maintenance, bool unrouted);

#endif
