/* store_loop_int.h - the internals of a store loop, shared by store_loop.c (its life, deliveries and verdicts),
 * store_loop_lanes.c (which lanes its claims ask for) and store_loop_control.c (what operators want). */
#ifndef OB_DAEMON_STORE_LOOP_INT_H
#define OB_DAEMON_STORE_LOOP_INT_H

#include "base/arena.h"
#include "daemon/store_loop.h"

enum { OB_UNROUTED_TOLD = 10 };

struct ob_store_loop {
    struct ob_store_loop_settings set;
    uint64_t tag; /* its number, as it appears in handles; 0: none */
    struct ob_shared_store *async;
    struct ob_engine *engine;
    uv_poll_t poll;
    bool polling;                   /* poll is open */
    struct ob_sink_settings *sinks; /* as configured */
    struct ob_sink_settings *tuned; /* with tunings applied */
    bool *paused;
    bool enabled, controlled;
    bool checks_payloads;           /* some route has a schema */
    struct outbox_sink_item *items; /* tagged copies, for the delivery under way */
    struct ob_arena names;          /* of the lanes */
    struct outbox_lane *lanes;      /* grouped by sink: UNROUTED first, BY_HEADERS last */
    size_t *ends;                   /* where each group ends, UNROUTED included */
    size_t unrouted;
    struct outbox_lane *chosen;     /* buffer for the lanes of a claim */
    struct outbox_lane_rule *rules; /* likewise */
    struct ob_arena told_names;
    struct outbox_lane told[OB_UNROUTED_TOLD]; /* lanes without a route that were logged */
    size_t told_count;
    bool told_all; /* no further ones are logged */
};

/* ---- store_loop_lanes.c ---- */

/* Allocates the buffers for a claim's lanes. False: no memory; call fini even then. */
bool ob_store_loop_lanes_init(struct ob_store_loop *store_loop);
void ob_store_loop_lanes_fini(struct ob_store_loop *store_loop);
/* Sets the lanes that exist in the store; copied. */
void ob_store_loop_lanes(struct ob_store_loop *store_loop, const struct outbox_lane *lanes, size_t count);
/* Called by the engine: sets the lanes of a claim. */
void ob_store_loop_choose_lanes(void *ctx, bool only, const bool *shut, struct outbox_claim *claim);

/* ---- store_loop_control.c ---- */

/* The settings of sink i in this store loop, as configured. */
void ob_store_loop_sink_init(const struct ob_store_loop *store_loop, int i, struct ob_sink_settings *sink);
void ob_store_loop_pause(struct ob_store_loop *store_loop, int sink, bool paused);

#endif
