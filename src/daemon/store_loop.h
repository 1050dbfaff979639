/* store_loop.h - one store served by this process: its engine on the relay's loop, and the lanes its claims may take.
 *
 * Sinks are shared by all store loops, also by those of another configuration while a reload is under way. So a delivery's
 * handle carries the number of its store loop, and a table of the process tells whose it is. Numbers go round, so that one is
 * not used again soon: a sink may answer late, when the store loop that asked has gone. */
#ifndef OB_DAEMON_STORE_LOOP_H
#define OB_DAEMON_STORE_LOOP_H

#include "config/config.h"
#include "config/sink_instance.h"
#include "daemon/maintenance.h"
#include "lib/engine.h"

struct ob_store_loop;

enum { OB_STORE_LOOP_MAX = 4095 };

/* Who has which number; 0 is nobody's. Begins zeroed. */
struct ob_store_loop_table {
    struct ob_store_loop *at[OB_STORE_LOOP_MAX + 1];
    int last; /* given */
};
/* For sinks' done: the verdict goes to the store loop that the handle names, if it is still there. table: a struct
 * ob_store_loop_table. */
void ob_store_loop_verdict(void *table, uint64_t handle, const struct outbox_verdict *verdict);

struct ob_store_loop_settings {
    const struct ob_config *config; /* borrowed, like all of these but for the async store */
    int index;                      /* of the store in the configuration */
    struct ob_sink_instance *const *instances;
    struct ob_shared_store *async; /* to the store; the store loop takes a reference. NULL: it opens one */
    struct ob_store_loop_table *table;
    int cap; /* messages out for a sink, at most; 0: as configured */
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker;  /* the name it claims under */
    const char *process; /* what the names of all store loops of this process begin with */
    ob_note_fn *note;
    void *note_ctx;
};

enum outbox_code ob_store_loop_open(const struct ob_store_loop_settings *settings, struct ob_store_loop **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Closing takes a turn of the loop: the store loop frees itself then. */
void ob_store_loop_close(struct ob_store_loop *store_loop);

/* Does what is due, and says when something will be again. */
int64_t ob_store_loop_turn(struct ob_store_loop *store_loop);
struct ob_engine *ob_store_loop_engine(struct ob_store_loop *store_loop);

/* Its async store, for the store loop after it. */
struct ob_shared_store *ob_store_loop_store(struct ob_store_loop *store_loop);

/* Does what operators asked for, as of the report of the store's maintenance. Until the first one nothing is sent. */
void ob_store_loop_control(struct ob_store_loop *store_loop, const struct ob_maintenance_report *report);
bool ob_store_loop_controlled(const struct ob_store_loop *store_loop); /* there was a report */
bool ob_store_loop_enabled(const struct ob_store_loop *store_loop);    /* as configured until the first report */
bool ob_store_loop_paused(const struct ob_store_loop *store_loop, int sink);
/* How many lanes of the store match no route. */
size_t ob_store_loop_unrouted_lanes(const struct ob_store_loop *store_loop);

#endif
