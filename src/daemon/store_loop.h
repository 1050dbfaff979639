/* store_loop.h - one store served by this process: its engine on the relay's loop, and the lanes that its claims may
 * take.
 *
 * Sinks are shared by all store loops, including those of another configuration during a reload. So a delivery's handle
 * carries the number of its store loop, and a table of the process maps numbers to store loops. Numbers are given out in
 * a circle, so that none is reused soon: a sink may answer after the store loop that sent the message is closed. */
#ifndef OB_DAEMON_STORE_LOOP_H
#define OB_DAEMON_STORE_LOOP_H

#include "config/config.h"
#include "config/sink_instance.h"
#include "daemon/maintenance.h"
#include "daemon/tracer.h"
#include "lib/engine.h"

struct ob_store_loop;

enum { OB_STORE_LOOP_MAX = 4095 };

/* Store loops by number; 0 is never used. Starts zeroed. */
struct ob_store_loop_table {
    struct ob_store_loop *at[OB_STORE_LOOP_MAX + 1];
    int last; /* the last number given out */
};
/* For sinks' done: passes the verdict to the store loop that the handle names, if it still exists. table: a struct
 * ob_store_loop_table. */
void ob_store_loop_verdict(void *table, uint64_t handle, const struct outbox_verdict *verdict);

struct ob_store_loop_settings {
    const struct ob_config *config; /* borrowed, like all of these except the async store */
    int index;                      /* of the store in the configuration */
    struct ob_sink_instance *const *instances;
    struct ob_shared_store *async; /* the store loop takes a reference. NULL: it opens one */
    struct ob_store_loop_table *table;
    int cap; /* maximum of messages in flight per sink; 0: as configured */
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker;  /* the name it claims under */
    const char *process; /* the common prefix of the names of this process's store loops */
    ob_note_fn *note;
    void *note_ctx;
    struct ob_tracer_view *traces; /* NULL: none */
};

enum outbox_code ob_store_loop_open(const struct ob_store_loop_settings *settings, struct ob_store_loop **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Closing takes a turn of the loop, after which the store loop frees itself. */
void ob_store_loop_close(struct ob_store_loop *store_loop);

/* Does what is due, and returns when the next work is due. */
int64_t ob_store_loop_turn(struct ob_store_loop *store_loop);
struct ob_engine *ob_store_loop_engine(struct ob_store_loop *store_loop);

/* Its async store, for its successor. */
struct ob_shared_store *ob_store_loop_store(struct ob_store_loop *store_loop);

/* Applies what operators want, as of the maintenance report. Nothing is sent before the first report. */
void ob_store_loop_control(struct ob_store_loop *store_loop, const struct ob_maintenance_report *report);
bool ob_store_loop_controlled(const struct ob_store_loop *store_loop); /* a report was applied */
bool ob_store_loop_enabled(const struct ob_store_loop *store_loop);    /* as configured until the first report */
bool ob_store_loop_paused(const struct ob_store_loop *store_loop, int sink);
/* The number of lanes in the store that match no route. */
size_t ob_store_loop_unrouted_lanes(const struct ob_store_loop *store_loop);

#endif
