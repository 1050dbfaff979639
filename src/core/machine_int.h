/* machine_int.h - the internals of a machine, shared by machine.c (creation, inspection), machine_event.c (what happened),
 * machine_verdict.c (what a verdict means), machine_end.c (how a message ends) and machine_action.c (what to do). */
#ifndef OB_CORE_MACHINE_INT_H
#define OB_CORE_MACHINE_INT_H

#include "core/machine.h"
#include "core/order.h"
#include "core/schedule.h"

/* A call to the store with many messages: settle or extend. At most one of each is under way. */
struct ob_store_batch {
    struct outbox_settle *items;
    uint64_t *handles;
    int count; /* 0: no such call is under way */
    int64_t asked_us;
};

enum { OB_PROBE_WIDTH = 64 }; /* maximum number of sinks in a claim of probes */

/* A message that may have crashed its worker is delivered alone; the others wait at most this long for it. */
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
    int next_sink;         /* the sink that is handed messages next */
    int next_probe;        /* the sink that is probed next */
    int probe_width;       /* number of sinks in the next claim of probes */
    int64_t probes_us;     /* when the next claim of probes may be sent */
    bool probed;           /* the last claim was a claim of probes */
    struct ob_list done;   /* flights to be settled, oldest first */
    int64_t done_since_us; /* when the list became non-empty */
    struct ob_list renew;  /* flights whose lease is to be renewed */
    struct ob_store_batch settle, extend;
    struct outbox_sink_item *items; /* of the last deliver */
    struct cancel {
        int sink;
        uint64_t handle;
    } * cancels;
    int cancel_count; /* at most the number of messages that were in flight */
    uint64_t
        alone; /* a message that is delivered alone: while it is held, nothing else is claimed or handed over ... */
    int64_t alone_until_us; /* ... until then */
    struct ob_machine_stats stats;
};

/* ---- machine_event.c ---- */

/* Updates the time: leases, timeouts, breakers. */
void ob_machine_advance(struct ob_machine *machine, int64_t now_us);
/* Makes the first message of a key READY when its turn has come. */
void ob_machine_refresh_key(struct ob_machine *machine, struct ob_key *key);

/* ---- machine_action.c ---- */

/* A claim of probes was answered. A sink that got no probe has no message to be probed with, unless other sinks took all the
 * room in the claim: then the next claims name fewer sinks, in the end only one. */
void ob_machine_probes_came(struct ob_machine *machine, bool full);

/* ---- machine.c ---- */

/* Reports a step in the life of a message to the host's note function. */
void ob_machine_note(struct ob_machine *machine, enum ob_note_kind kind, const struct ob_flight *flight);
void ob_machine_note_settled(struct ob_machine *machine, const struct ob_flight *flight,
                             const struct outbox_settle *item);
/* Reports every breaker that changed since the last call. */
void ob_machine_note_breakers(struct ob_machine *machine);

/* ---- machine_end.c ---- */

/* Releases the message, unspent, and the messages of its key behind it. */
void ob_machine_release(struct ob_machine *machine, struct ob_flight *flight, int64_t delay_us);
/* Releases everything that is queued for a sink. */
void ob_machine_release_sink(struct ob_machine *machine, int index);
/* The outcome of the message is known. */
void ob_machine_end(struct ob_machine *machine, struct ob_flight *flight, enum outbox_outcome outcome,
                    int64_t delay_us);
/* Gives the message up without a settle: it no longer belongs to us, or is to be left to its lease. */
void ob_machine_forget(struct ob_machine *machine, struct ob_flight *flight);
/* The message was settled or lost: frees its entry. */
void ob_machine_drop(struct ob_machine *machine, struct ob_flight *flight);

/* ---- machine_verdict.c ---- */

/* The sink's verdict on a message that is SENT. */
void ob_machine_verdict(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict);
/* A delivery took too long. */
void ob_machine_time_out(struct ob_machine *machine, struct ob_flight *flight);
/* The grace period ended while the message was in flight: our shutdown cut it off, the sink is not to blame. */
void ob_machine_interrupt(struct ob_machine *machine, struct ob_flight *flight);

static inline uint64_t ob_machine_random(struct ob_machine *machine)
{
    return ob_random_next(&machine->random);
}

#endif
