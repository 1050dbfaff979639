/* generation_int.h - the internals of a generation, shared by generation.c (its life) and generation_next.c (the handover
 * from one generation to the next). */
#ifndef OB_DAEMON_GENERATION_INT_H
#define OB_DAEMON_GENERATION_INT_H

#include "daemon/generation.h"
#include "daemon/observer.h"
#include "daemon/relay_info.h"

struct ob_generation {
    struct ob_generation_settings set;
    struct ob_sink_instance **instances; /* one per sink */
    size_t kept;                         /* how many of them are shared with the previous generation */
    unsigned heir;                       /* number of the generation that took over; 0: none yet */
    int *heirs, *store_heirs;            /* indexes of the sinks and stores in the heir; -1: not there */
    int *taken;                          /* for ob_generation_count_out: one per sink */
    bool started, drains;
    struct ob_store_loop **store_loops;   /* one per store */
    struct ob_maintenance **maintenances; /* likewise */
    struct ob_observer **observers;       /* likewise */
    struct ob_tracer_view **traces;       /* likewise; NULL elements: no traces */
    struct ob_relay_told *told;           /* likewise: what the store was told of this relay */
    char claims_by[160];                  /* the name it claims under */
    uv_async_t wake;                      /* a maintenance thread has a report */
    bool open;                            /* wake is open */
};

/* ---- generation_next.c: what is taken over from the previous generation ---- */

/* The sink instance of the previous generation if the sink is unchanged, or NULL. */
struct ob_sink_instance *ob_generation_same_sink(const struct ob_generation *generation,
                                                 const struct ob_config_sink *sink, const struct outbox_sink_ops *ops);
/* The async store of the previous generation if the store is unchanged, or NULL. */
struct ob_shared_store *ob_generation_same_store(const struct ob_generation *generation,
                                                 const struct ob_config_store *store);
/* The maintenance thread of the previous generation if it can continue for this store, or NULL. */
struct ob_maintenance **ob_generation_same_maintenance(struct ob_generation *generation, size_t i);
struct ob_maintenance_settings ob_generation_maintenance(struct ob_generation *generation, size_t i);
/* Stops the maintenance threads without waiting for them. Where `other` has the same store, they do not report their end
 * to it, because the maintenance thread of `other` uses the same name. */
void ob_generation_leave_maintenance(struct ob_generation *generation, const struct ob_config *other);
/* Shows the series of this generation on the metrics page, and hides all others. */
void ob_generation_show_series(struct ob_generation *generation);
/* This generation starts to claim, and the previous one, if there is one, drains. */
void ob_generation_take_over(struct ob_generation *generation);

#endif
