/* machine_int.h - the inside of a machine, shared by machine.c (life, look), machine_event.c (what happened), machine_verdict.c (what a
 * verdict means), machine_end.c (how a message ends) and machine_action.c (what to do). */
#ifndef OB_CORE_MACHINE_INT_H
#define OB_CORE_MACHINE_INT_H

#include "core/machine.h"
#include "core/order.h"
#include "core/schedule.h"

/* A call to the store with many messages: the settle, the extend. At most one of each is out. */
struct ob_store_batch {
    struct outbox_settle *items;
    uint64_t *handles;
    int count; /* 0: none is out */
    int64_t asked_us;
};

enum { OB_PROBE_WIDTH = 64 }; /* the most sinks that a claim of probes names */

/* A message that may be what crashed its worker goes alone; the others wait this long for it. */
#define OB_ALONE_US 1000000

enum ob_machine_phase { OB_MACHINE_RUNNING, OB_MACHINE_STOPPING, OB_MACHINE_STOPPED };

struct ob_machine {
    struct ob_machine_settings set;
    int64_t now_us;
    uint64_t random;
    enum ob_machine_phase phase;
    int64_t grace_until_us, flush_until_us;
    struct ob_flights flights;
    struct ob_keys keys;
    struct ob_schedule sched;
    struct ob_sink_state *sinks;
    bool *shut;            /* of the last claim */
    int next_sink;         /* whose turn it is to be handed messages */
    int next_probe;        /* whose turn it is to be probed */
    int probe_width;       /* how many sinks a claim of probes names */
    int64_t probes_us;     /* when the next one may be asked */
    bool probed;           /* the last claim was one */
    struct ob_list done;   /* flights to be settled, oldest first */
    int64_t done_since_us; /* when the first of them came */
    struct ob_list renew;  /* flights whose lease is to be renewed */
    struct ob_store_batch settle, extend;
    struct outbox_sink_item *items; /* of the last deliver */
    struct cancel {
        int sink;
        uint64_t handle;
    } * cancels;
    int cancel_count; /* never more than were out */
    uint64_t alone;   /* a message that goes alone, while it is held: nothing is claimed or handed over beside it ... */
    int64_t alone_until_us; /* ... until then */
    struct ob_machine_stats stats;
};

/* ---- machine_event.c ---- */

/* Time passes: leases, timeouts, breakers. */
void ob_machine_advance(struct ob_machine *machine, int64_t now_us);
/* Makes the first of a key ready when its turn has come. */
void ob_machine_refresh_key(struct ob_machine *machine, struct ob_key *key);

/* ---- machine_action.c ---- */

/* Who got no probe has nothing to be probed with, unless others took all there was room for: then fewer are named at once,
 * and in the end it is alone. */
void ob_machine_probes_came(struct ob_machine *machine, bool full);

/* ---- machine.c ---- */

/* Tells whoever listens of a step in the life of a message; flight NULL and a sink: of its breaker. */
void ob_machine_note(struct ob_machine *machine, enum ob_note_kind kind, const struct ob_flight *flight);
void ob_machine_note_settled(struct ob_machine *machine, const struct ob_flight *flight,
                             const struct outbox_settle *item);
/* Tells of every breaker that changed since the last look. */
void ob_machine_note_breakers(struct ob_machine *machine);

/* ---- machine_end.c ---- */

/* The message goes back unspent, and so does what is behind it. */
void ob_machine_release(struct ob_machine *machine, struct ob_flight *flight, int64_t delay_us);
/* Everything that is queued for a sink goes back. */
void ob_machine_release_sink(struct ob_machine *machine, int index);
/* Its outcome is known. */
void ob_machine_end(struct ob_machine *machine, struct ob_flight *flight, enum outbox_outcome outcome,
                    int64_t delay_us);
/* It is ours no more, or never mind: forget it without a settle. */
void ob_machine_forget(struct ob_machine *machine, struct ob_flight *flight);
/* The message is settled, or lost: the entry is free again. */
void ob_machine_drop(struct ob_machine *machine, struct ob_flight *flight);

/* ---- machine_verdict.c ---- */

/* The sink's verdict on what is SENT. */
void ob_machine_verdict(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict);
/* A delivery took too long. */
void ob_machine_time_out(struct ob_machine *machine, struct ob_flight *flight);
/* The grace period is over while it is out: we were impatient, not the sink slow. */
void ob_machine_interrupt(struct ob_machine *machine, struct ob_flight *flight);

static inline uint64_t ob_machine_random(struct ob_machine *machine)
{
    return ob_random_next(&machine->random);
}

#endif
