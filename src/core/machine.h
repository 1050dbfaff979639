/* machine.h - the delivery state machine: claim, deliver, settle, decided without doing any of it.
 *
 * Events in, actions out. A driver (the daemon, the in-process dispatcher, the simulator) tells what happened with
 * ob_machine_event, then takes actions with ob_machine_next until there is none, carries them out in its own way, and sleeps
 * until something happens or ob_machine_deadline_us. Time is given, in microseconds of a clock that never falls and that goes
 * on while the computer is suspended; randomness comes from a seed.
 *
 * Memory is bounded by the settings: tables are made once, and at most `max_messages` messages are held. Allocation failures
 * are survived: a message that finds no memory goes back to the store unspent.
 *
 * One machine serves one store. One thread. It must not know of SQL, sockets, files, or what a sink is. */
#ifndef OB_CORE_MACHINE_H
#define OB_CORE_MACHINE_H

#include <outbox/sink.h>

#include "core/sink_state.h"

struct ob_machine;

/* A step in the life of a message, told to whoever keeps logs and counts. Everything is borrowed for the call. */
enum ob_note_kind {
    OB_NOTE_CLAIMED,  /* the store gave it to us */
    OB_NOTE_SENT,     /* handed to its sink */
    OB_NOTE_ENDED,    /* its outcome is known, and will be settled */
    OB_NOTE_SETTLED,  /* the store has the outcome; dead tells whether it is a dead letter now */
    OB_NOTE_LOST,     /* its lease ran out or the store no longer knew it as ours: nothing was settled */
    OB_NOTE_UNROUTED, /* there is no sink for it */
    OB_NOTE_BREAKER,  /* no message: the breaker of sink is now in `breaker` */
    OB_NOTE_KIND_COUNT
};

struct ob_note {
    enum ob_note_kind kind;
    int sink;                          /* -1: none */
    const struct outbox_delivery *msg; /* NULL when there was no memory for it, and for OB_NOTE_BREAKER */
    struct outbox_uuid id;
    enum outbox_outcome outcome; /* ENDED, SETTLED */
    const char *code, *error;    /* ENDED, SETTLED */
    int64_t delay_us;            /* ENDED: until the next attempt; -1: the store decides; or OUTBOX_NEVER */
    int64_t queued_us;           /* SENT: from the claim to here. ENDED: from the claim until it was sent */
    int64_t latency_us;          /* ENDED, SETTLED: at the sink; -1: it was never sent */
    bool dead;                   /* SETTLED */
    bool starved;                /* ENDED: the sink could not try, for this process lacks something */
    enum ob_breaker_state breaker;
    enum ob_breaker_cause cause; /* BREAKER, while it is not closed; delay_us: until the next probe */
};
typedef void ob_note_fn(void *ctx, const struct ob_note *note);

struct ob_machine_settings {
    int max_messages;                                    /* most messages held. 1000 */
    size_t max_bytes;                                    /* of them; claims shrink as this fills. 16 MiB */
    int claim_limit;                                     /* most messages asked for at once. 500 */
    int settle_limit;                                    /* most outcomes settled, or leases renewed, at once. 1000 */
    int concurrency;                                     /* most messages at sinks at once. 1000 */
    int run;                                             /* most messages of one key claimed at once. 16 */
    bool prefetch;                                       /* claim behind messages that are still out */
    int64_t lease_us;                                    /* 30 s */
    int64_t poll_us;                                     /* 500 ms */
    int64_t store_backoff_base_us, store_backoff_cap_us; /* 100 ms, 5 s */
    bool unrouted_dead;        /* a message without a sink is dead at once; otherwise it waits */
    int64_t unrouted_delay_us; /* until it is looked at again. 60 s */
    int64_t flush_us;          /* after the grace period, so long for the last settles. 5 s */
    const struct ob_sink_settings *sinks;
    int sink_count;
    /* Its sink; -1: none. *patience may be set to what holds for this message, borrowed for the call, instead of what
     * the sink says. */
    int (*route)(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience);
    void *route_ctx;
    ob_note_fn *note; /* NULL: nobody listens */
    void *note_ctx;
    uint64_t seed;
};

/* Copies what it needs. OUTBOX_INVALID for settings that cannot work, OUTBOX_NOMEM. */
enum outbox_code ob_machine_new(const struct ob_machine_settings *settings, int64_t now_us, struct ob_machine **machine,
                                struct outbox_error *err);
void ob_machine_free(struct ob_machine *machine);

/* ---- what happened ---- */

enum ob_event_kind {
    OB_EVENT_TICK,          /* nothing but time */
    OB_EVENT_WAKE,          /* there may be work */
    OB_EVENT_CLAIMED,       /* the claim brought these; copied */
    OB_EVENT_CLAIM_FAILED,  /* no answer, or an error: the store may or may not have done it */
    OB_EVENT_DELIVERED,     /* a sink's verdict on one message; copied */
    OB_EVENT_SETTLED,       /* the settle is done; its items hold the results */
    OB_EVENT_SETTLE_FAILED, /* as CLAIM_FAILED */
    OB_EVENT_EXTENDED,      /* likewise */
    OB_EVENT_EXTEND_FAILED,
    OB_EVENT_PAUSE, /* by an operator: nothing goes to this sink */
    OB_EVENT_RESUME,
    OB_EVENT_STOP, /* finish within grace_us */
    OB_EVENT_COUNT
};

struct ob_event {
    enum ob_event_kind kind;
    const struct outbox_delivery *msgs; /* CLAIMED */
    int count;
    bool more;       /* CLAIMED: the store has others, though these are fewer than asked for */
    uint64_t handle; /* DELIVERED */
    const struct outbox_verdict *verdict;
    int sink;         /* PAUSE, RESUME */
    int64_t grace_us; /* STOP */
};

void ob_machine_event(struct ob_machine *machine, int64_t now_us, const struct ob_event *event);

/* ---- what to do ---- */

enum ob_action_kind {
    OB_ACTION_NONE,
    OB_ACTION_CLAIM,   /* answer CLAIMED or CLAIM_FAILED */
    OB_ACTION_DELIVER, /* answer DELIVERED for each; items are valid until the next call, their messages until answered */
    OB_ACTION_CANCEL,  /* the sink must stop this one. No answer. */
    OB_ACTION_SETTLE,  /* answer SETTLED or SETTLE_FAILED; items are valid until then, results are written there */
    OB_ACTION_EXTEND,  /* answer EXTENDED or EXTEND_FAILED; likewise */
    OB_ACTION_STOPPED, /* nothing is held any more, or the time is over: the last one */
    OB_ACTION_COUNT
};

struct ob_action {
    enum ob_action_kind kind;
    /* CLAIM */
    int limit, run;
    size_t max_bytes; /* of payloads; one message comes whatever its size */
    int64_t lease_us; /* EXTEND too */
    bool prefetch;
    uint32_t incarnation; /* part of the worker's name, which must not be any other process's either */
    bool only;            /* only topics that are known to go to a sink that is not shut: for probes */
    const bool *shut;     /* one per sink, valid until the next call. Topics that can only go to one of these must
                             not be claimed; where that cannot be told, what comes is given back. */
    /* DELIVER, CANCEL */
    int sink;
    const struct outbox_sink_item *items;
    uint64_t handle;
    /* SETTLE, EXTEND */
    struct outbox_settle *settles;
    int count; /* DELIVER too */
};

/* False, and NONE, when there is nothing to do now. */
bool ob_machine_next(struct ob_machine *machine, int64_t now_us, struct ob_action *action);
/* When to send a TICK if nothing else happens; asked after next said NONE. INT64_MAX: never. */
int64_t ob_machine_deadline_us(const struct ob_machine *machine);

/* ---- what is going on ---- */

struct ob_machine_stats {
    int held, in_flight, queued, settling;
    size_t bytes;
    uint64_t claims, claimed, delivered, retried, failed, limited, blocked, unknown, interrupted, released, stale, lost,
        expired, unrouted, timeouts, renewed, store_failures, no_memory, misordered, breaker_opened;
    uint32_t incarnation;
    bool stopping;
};
void ob_machine_stats(const struct ob_machine *machine, struct ob_machine_stats *stats);
enum ob_breaker_state ob_machine_breaker(const struct ob_machine *machine, int sink);

/* New settings of a sink. What is held keeps the policy it was claimed with. */
enum outbox_code ob_machine_tune(struct ob_machine *machine, int sink, const struct ob_sink_settings *settings,
                                 struct outbox_error *err);

/* One machine after another, for a configuration that changed. The new one goes on where the old one was with a sink:
 * its breaker, its rate, its limits. And what the old one still has out counts for the concurrency of the new one. */
void ob_machine_inherit(struct ob_machine *machine, int sink, const struct ob_machine *from, int from_sink);
int ob_machine_out(const struct ob_machine *machine, int sink);
bool ob_machine_set_taken(struct ob_machine *machine, int sink, int count); /* true when that is a change */

/* Another size of claims and another poll, while it runs; 0: as it is. */
void ob_machine_pace(struct ob_machine *machine, int claim_limit, int64_t poll_us);

/* The invariants; NULL, or the one that does not hold. */
const char *ob_machine_check(const struct ob_machine *machine);

const char *ob_event_name(enum ob_event_kind kind);
const char *ob_action_name(enum ob_action_kind kind);

#endif
