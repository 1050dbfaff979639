/* generation.h - a configuration at work: its sinks opened, a store loop for each store.
 *
 *     opened ──start──▶ RUNNING ──drain, or stop──▶ finishes what is out ──▶ stopped ──close
 *
 * A reload makes a new generation beside the old one. What can fail is done while the old one still runs. Then the new one
 * claims, and the old one claims no more: it drains, that is, finishes what it has out, however long that takes within the
 * timeouts of its sinks. The two claim under different names, so the store keeps the order of every key between them.
 *
 * What did not change is not touched: a sink that is configured as before keeps its sink instance, a store its async store
 * and its maintenance thread.
 * What the old one still has out counts for the concurrency of the new one. */
#ifndef OB_DAEMON_GENERATION_H
#define OB_DAEMON_GENERATION_H

#include "daemon/health.h"
#include "daemon/maintenance.h"
#include "daemon/metrics.h"
#include "daemon/store_loop.h"

struct ob_generation;

struct ob_generation_settings {
    const struct ob_config *config; /* borrowed until the generation is closed */
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker; /* the name that the process is known by */
    unsigned number;    /* of this generation, no other of the process has it */
    int cap;            /* messages out for a sink, at most, for there are no more descriptors; 0: as configured */
    struct ob_generation *before;      /* the one it takes over from; NULL: there is none */
    struct ob_store_loop_table *table; /* of the process */
    struct ob_metrics *metrics;
    struct ob_health *health;
    void *ctx;
    void (*reported)(void *ctx, int store, const struct ob_maintenance_report *report); /* after it was applied */
};

/* Opens the sinks. err names file and line of the one that cannot be opened. */
enum outbox_code ob_generation_open(const struct ob_generation_settings *settings, struct ob_generation **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Opens the store loops, and takes over: the generation before drains. After a failure that one goes on as if nothing had been;
 * close this one then. */
enum outbox_code ob_generation_start(struct ob_generation *generation, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* How many of its sinks go on from the generation before. */
size_t ob_generation_kept_sinks(const struct ob_generation *generation);
void ob_generation_stop(struct ob_generation *generation, int64_t grace_us);
bool ob_generation_stopped(const struct ob_generation *generation);
/* Closing takes a turn of the loop. */
void ob_generation_close(struct ob_generation *generation);

int64_t ob_generation_turn(struct ob_generation *generation); /* as ob_store_loop_turn */
/* When there is something to do again. */
int64_t ob_generation_due(const struct ob_generation *generation);
/* What these, which drain, have out takes places at the sinks of this one. */
void ob_generation_count_out(struct ob_generation *generation, struct ob_generation *const *draining, size_t count);
/* About once a second: what is counted and told is brought up to date. */
void ob_generation_tick(struct ob_generation *generation);
/* Have the stores looked at, and counted, now. */
void ob_generation_hurry(struct ob_generation *generation, bool unrouted);
const struct ob_config *ob_generation_config(const struct ob_generation *generation);
struct ob_store_loop *ob_generation_store_loop(struct ob_generation *generation,
                                               int store); /* NULL before it is started */

#endif
