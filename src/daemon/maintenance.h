/* maintenance.h - the work of a relay for a store beside deliveries: read what operators want, heartbeat, count, purge.
 *
 * All of it blocks, so it has its own thread and its own connection, and passes its results to the loop as one report.
 * While the store cannot be reached it tries again; after the first report, deliveries do not depend on it. */
#ifndef OB_DAEMON_MAINTENANCE_H
#define OB_DAEMON_MAINTENANCE_H

#include "config/config.h"
#include "core/store.h"
#include "core/tuning.h"

#include <uv.h>

struct ob_maintenance;

/* The results of the last round. Owned by the maintenance thread; valid until the next call of ob_maintenance_report. */
struct ob_maintenance_report {
    bool reached;            /* the store answered */
    struct outbox_error err; /* when it did not */
    bool controlled;         /* these were read: */
    const struct outbox_lane *lanes;
    size_t lane_count;
    const char *const *paused; /* sinks */
    size_t paused_count;
    size_t pause_count; /* of every kind */
    const struct ob_tuning *tunings;
    size_t tuning_count;
    bool leads;   /* this relay is the leader of the store */
    bool counted; /* these were read: */
    const struct ob_gauges_row *gauges;
    size_t gauges_count;
    int64_t purged; /* messages removed by retention since the last report */
    bool by_topic;  /* these were read, on request: */
    const struct ob_status_row *topics;
    size_t topic_count;
    const struct ob_unrouted *unrouted; /* NULL unless requested */
    size_t unrouted_count;
};

/* Messages of a topic that wait because no route matched their headers. */
struct ob_unrouted {
    const char *name_space, *topic;
    int64_t count;
};

struct ob_maintenance_settings {
    const struct ob_config *config; /* copied, like all of these except wake and state */
    const struct ob_config_store *store;
    const struct ob_log *log;
    const char *worker;
    uv_async_t *wake;       /* signalled when there is a report, until stop */
    const char *state;      /* "running" or "disabled"; a string literal */
    struct ob_figures done; /* before it: it is in the store already */
    const char *info;       /* what the first heartbeats say of this relay: see relay_info.h */
};

enum outbox_code ob_maintenance_start(const struct ob_maintenance_settings *settings, struct ob_maintenance **out,
                                      struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Requests a stop without waiting: call it for all threads first, then stop each. */
void ob_maintenance_dismiss(struct ob_maintenance *maintenance);
/* Records in the store that this relay has ended, and waits a short time for the thread. A thread whose call does not
 * return is abandoned. */
void ob_maintenance_stop(struct ob_maintenance *maintenance);

/* Whether it already serves this store, under the same name. */
bool ob_maintenance_serves(const struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings);
/* If so, it can continue for another configuration: reports go to the new handle from now on, and the new settings apply
 * from the next round, which starts at once. */
void ob_maintenance_move(struct ob_maintenance *maintenance, const struct ob_maintenance_settings *settings);
/* Stops it without waiting; the thread frees itself. For a store that is no longer served while the relay continues.
 * says: whether to record in the store that this relay has ended. */
void ob_maintenance_leave(struct ob_maintenance *maintenance, bool says);

/* NULL: nothing new since the last call. */
const struct ob_maintenance_report *ob_maintenance_report(struct ob_maintenance *maintenance);
/* The last report that holds control (pauses, tunings, lanes); NULL: none yet. */
const struct ob_maintenance_report *ob_maintenance_control(const struct ob_maintenance *maintenance);
/* Replaces what the heartbeats say of this relay, and sends one now. Takes over info. */
void ob_maintenance_tell(struct ob_maintenance *maintenance, char *info);
/* What this relay did for the store since the process began; call it about once a second. */
void ob_maintenance_done(struct ob_maintenance *maintenance, const struct ob_figures *done);
/* Starts a round with a count by topic now; unrouted: also count the messages whose headers match no route. */
void ob_maintenance_hurry(struct ob_maintenance *maintenance, bool unrouted);

#endif
