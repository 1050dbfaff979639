/* generation.h - a configuration at work: its sinks opened, a store loop for each store.
 *
 *     opened ──start──▶ RUNNING ──drain, or stop──▶ finishes what is in flight ──▶ stopped ──close
 *
 * A reload opens a new generation beside the old one. Every step that can fail is done while the old one still runs. Then
 * the new one starts to claim, and the old one stops claiming and drains: it finishes its deliveries in flight, for as long
 * as the timeouts of its sinks allow. The two claim under different names, so the store keeps the order of every key.
 *
 * What did not change is kept: a sink with the same settings keeps its sink instance, a store its async store and its
 * maintenance thread. What the old generation still has in flight counts towards the concurrency of the new one. */
#ifndef OB_DAEMON_GENERATION_H
#define OB_DAEMON_GENERATION_H

#include "daemon/health.h"
#include "daemon/maintenance.h"
#include "daemon/metrics.h"
#include "daemon/store_loop.h"
#include "daemon/tracer.h"

struct ob_generation;

struct ob_generation_settings {
    const struct ob_config *config; /* borrowed until the generation is closed */
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker; /* the name of this process */
    unsigned number;    /* of this generation; unique in the process */
    int cap;            /* maximum of messages in flight per sink, as the descriptors allow; 0: as configured */
    struct ob_generation *before;      /* the one it takes over from; NULL: none */
    struct ob_store_loop_table *table; /* of the process */
    struct ob_metrics *metrics;
    struct ob_tracer *tracer; /* NULL: no traces */
    struct ob_health *health;
    void *ctx;
    void (*reported)(void *ctx, int store, const struct ob_maintenance_report *report); /* after it was applied */
};

/* Opens the sinks. On failure err names the file and line of the sink that could not be opened. */
enum outbox_code ob_generation_open(const struct ob_generation_settings *settings, struct ob_generation **out,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Opens the store loops and takes over: the previous generation drains. On failure the previous one continues unchanged;
 * close this one then. */
enum outbox_code ob_generation_start(struct ob_generation *generation, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The number of sink instances taken over from the previous generation. */
size_t ob_generation_kept_sinks(const struct ob_generation *generation);
void ob_generation_stop(struct ob_generation *generation, int64_t grace_us);
bool ob_generation_stopped(const struct ob_generation *generation);
/* Closing takes a turn of the loop. */
void ob_generation_close(struct ob_generation *generation);

int64_t ob_generation_turn(struct ob_generation *generation); /* as ob_store_loop_turn */
/* When the next work is due. */
int64_t ob_generation_due(const struct ob_generation *generation);
/* Counts what the draining generations have in flight against the concurrency of this one's sinks. */
void ob_generation_count_out(struct ob_generation *generation, struct ob_generation *const *draining, size_t count);
/* Call about once a second: updates metrics, logs and health. */
void ob_generation_tick(struct ob_generation *generation);
/* Makes the maintenance threads check and count their stores now. */
void ob_generation_hurry(struct ob_generation *generation, bool unrouted);
struct ob_store_loop *ob_generation_store_loop(struct ob_generation *generation,
                                               int store); /* NULL before it is started */

#endif
