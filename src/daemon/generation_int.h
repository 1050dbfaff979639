/* generation_int.h - the inside of a generation, shared by generation.c (its life) and generation_next.c (one after another). */
#ifndef OB_DAEMON_GENERATION_INT_H
#define OB_DAEMON_GENERATION_INT_H

#include "daemon/generation.h"
#include "daemon/observer.h"

struct ob_generation {
    struct ob_generation_settings set;
    struct ob_sink_instance **instances; /* one a sink */
    size_t kept;                         /* of these: the generation before has them too */
    unsigned heir;                       /* number of the generation that took over; 0: none did */
    int *heirs, *store_heirs;            /* where sinks and stores are in that one; -1: nowhere */
    int *taken;                          /* of ob_generation_count_out: one a sink */
    bool started, drains;
    struct ob_store_loop **store_loops;   /* one a store */
    struct ob_maintenance **maintenances; /* likewise */
    struct ob_observer **observers;       /* likewise */
    char claims_by[160];                  /* the name in the stores */
    uv_async_t wake;                      /* a maintenance thread has a report */
    bool open;                            /* the handle is */
};

/* ---- generation_next.c: what the generation before has, and what becomes of it ---- */

/* Its sink instance, when the sink is the same; NULL. */
struct ob_sink_instance *ob_generation_same_sink(const struct ob_generation *generation,
                                                 const struct ob_config_sink *sink, const struct outbox_sink_ops *ops);
/* Its async store, when the store is the same; NULL. */
struct ob_shared_store *ob_generation_same_store(const struct ob_generation *generation,
                                                 const struct ob_config_store *store);
/* Its maintenance thread that can go on for this store; NULL. */
struct ob_maintenance **ob_generation_same_maintenance(struct ob_generation *generation, size_t i);
struct ob_maintenance_settings ob_generation_maintenance(struct ob_generation *generation, size_t i);
/* Its maintenance threads go, and nobody waits for them; silently where the other configuration has the store too, for its maintenance thread lives
 * under the same name. */
void ob_generation_leave_maintenance(struct ob_generation *generation, const struct ob_config *other);
/* The series of this generation are shown, and no others. */
void ob_generation_show_series(struct ob_generation *generation);
/* This one claims from now on, and the one before, if there is one, drains. */
void ob_generation_take_over(struct ob_generation *generation);

#endif
