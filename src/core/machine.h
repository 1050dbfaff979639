/* machine.h - the delivery state machine: decides when to claim, deliver and settle, but performs no I/O itself.
 *
 * Events in, actions out. A driver (the daemon, the in-process dispatcher, the simulator) reports what happened with
 * ob_machine_event, then takes actions with ob_machine_next until there are none left, carries them out in its own way, and
 * sleeps until something happens or ob_machine_deadline_us is reached. The driver passes the time in, in microseconds of a
 * monotonic clock that keeps running while the computer is suspended; randomness comes from a seed.
 *
 * Memory is bounded by the settings: tables are allocated once, and at most `max_messages` messages are held. The machine
 * survives allocation failures: a message for which there is no memory is released to the store, unspent.
 *
 * One machine serves one store, on one thread. It must not know about SQL, sockets, files, or what a sink is. */
#ifndef OB_CORE_MACHINE_H
#define OB_CORE_MACHINE_H

#include <outbox/sink.h>

#include "core/sink_state.h"

struct ob_machine;

/* A step in the life of a message, reported for logs and metrics. Everything is borrowed for the duration of the call. */
enum ob_note_kind {
    OB_NOTE_CLAIMED,  /* the store gave it to us */
    OB_NOTE_SENT,     /* handed to its sink */
    OB_NOTE_ENDED,    /* its outcome is known, and will be settled */
    OB_NOTE_SETTLED,  /* the store has recorded the outcome; `dead` says whether it is now a dead letter */
    OB_NOTE_LOST,     /* its lease ran out, or the store no longer regards it as ours: nothing was settled */
    OB_NOTE_UNROUTED, /* there is no sink for it */
    OB_NOTE_BREAKER,  /* not about a message: the breaker of `sink` changed to the state `breaker` */
    OB_NOTE_KIND_COUNT
};

struct ob_note {
    enum ob_note_kind kind;
    int sink;                          /* -1: none */
    const struct outbox_delivery *msg; /* NULL when there was no memory for it, and for OB_NOTE_BREAKER */
    struct outbox_uuid id;
    enum outbox_outcome outcome; /* ENDED, SETTLED */
    const char *code, *error;    /* ENDED, SETTLED */
    int64_t delay_us;            /* ENDED: time until the next attempt; -1: the store decides; or OUTBOX_NEVER */
    int64_t queued_us;           /* SENT: time since the claim. ENDED: from the claim until it was sent */
    int64_t latency_us;          /* ENDED, SETTLED: time at the sink; -1: it was never sent */
    int status;                  /* ENDED: as in the verdict */
    bool dead;                   /* SETTLED */
    bool starved;                /* ENDED: the sink could not try, because this process is short of a resource */
    enum ob_breaker_state breaker;
    enum ob_breaker_cause cause; /* BREAKER, unless it is closed; delay_us is then the time until the next probe */
};
typedef void ob_note_fn(void *ctx, const struct ob_note *note);

struct ob_machine_settings {
    int max_messages; /* maximum number of messages held. 1000 */
    size_t max_bytes; /* maximum size of the messages held; claims shrink as this fills. 16 MiB */
    int claim_limit;  /* maximum number of messages per claim. 500 */
    int settle_limit; /* maximum number of outcomes per settle, or of leases per extend. 1000 */
    int concurrency;  /* maximum number of messages in flight. 1000 */
    int run;          /* maximum number of messages of one key per claim. 16 */
    bool prefetch;    /* claim messages behind those of their key that are still in flight */
    int64_t lease_us; /* 30 s */
    int64_t poll_us;  /* 500 ms */
    int64_t store_backoff_base_us, store_backoff_cap_us; /* 100 ms, 5 s */
    bool unrouted_dead;        /* a message without a sink becomes a dead letter at once; otherwise it waits */
    int64_t unrouted_delay_us; /* how long it waits before it can be claimed again. 60 s */
    int64_t flush_us;          /* time for the last settles after the grace period. 5 s */
    const struct ob_sink_settings *sinks;
    int sink_count;
    /* Returns the sink of the message; -1: none. It may set *patience to override the sink's patience for this message;
     * the machine borrows it for the call. */
    int (*route)(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience);
    void *route_ctx;
    ob_note_fn *note; /* may be NULL */
    void *note_ctx;
    void (*trace)(void *ctx, struct outbox_delivery *msg); /* sets msg->trace before it is sent; NULL: no traces */
    void *trace_ctx;
    uint64_t seed;
};

/* Copies what it needs. Returns OUTBOX_INVALID for settings that cannot work, or OUTBOX_NOMEM. */
enum outbox_code ob_machine_new(const struct ob_machine_settings *settings, int64_t now_us, struct ob_machine **machine,
                                struct outbox_error *err);
void ob_machine_free(struct ob_machine *machine);

/* ---- what happened ---- */

enum ob_event_kind {
    OB_EVENT_TICK,          /* only time has passed */
    OB_EVENT_WAKE,          /* there may be work */
    OB_EVENT_CLAIMED,       /* the claim returned these messages; copied */
    OB_EVENT_CLAIM_FAILED,  /* no answer, or an error: the store may or may not have carried it out */
    OB_EVENT_DELIVERED,     /* a sink's verdict on one message; copied */
    OB_EVENT_SETTLED,       /* the settle was answered; its items hold the results */
    OB_EVENT_SETTLE_FAILED, /* as CLAIM_FAILED */
    OB_EVENT_EXTENDED,      /* as SETTLED */
    OB_EVENT_EXTEND_FAILED,
    OB_EVENT_PAUSE, /* an operator paused this sink: nothing is sent to it */
    OB_EVENT_RESUME,
    OB_EVENT_STOP, /* finish within grace_us */
    OB_EVENT_COUNT
};

struct ob_event {
    enum ob_event_kind kind;
    const struct outbox_delivery *msgs; /* CLAIMED */
    int count;
    bool more;       /* CLAIMED: the store has more messages, although it returned fewer than requested */
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
    OB_ACTION_CANCEL,  /* the sink must stop this delivery; no answer is expected */
    OB_ACTION_SETTLE,  /* answer SETTLED or SETTLE_FAILED; items are valid until then, results are written into them */
    OB_ACTION_EXTEND,  /* answer EXTENDED or EXTEND_FAILED; likewise */
    OB_ACTION_STOPPED, /* the last action: no message is held any more, or the time for stopping is over */
    OB_ACTION_COUNT
};

struct ob_action {
    enum ob_action_kind kind;
    /* CLAIM */
    int limit, run;
    size_t max_bytes; /* total size of payloads; the first message is claimed whatever its size */
    int64_t lease_us; /* EXTEND too */
    bool prefetch;
    uint32_t incarnation; /* part of the worker's name; no other process may use the same name */
    bool only;            /* for probes: claim only topics known to go to a sink that is not shut */
    const bool *shut;     /* one per sink, valid until the next call. Topics that can only go to a shut sink must not be
                             claimed; where that is not known in advance, the machine releases what is claimed. */
    /* DELIVER, CANCEL */
    int sink;
    const struct outbox_sink_item *items;
    uint64_t handle;
    /* SETTLE, EXTEND */
    struct outbox_settle *settles;
    int count; /* DELIVER too */
};

/* Returns false and sets NONE when there is nothing to do now. */
bool ob_machine_next(struct ob_machine *machine, int64_t now_us, struct ob_action *action);
/* When to send a TICK if nothing else happens; call it after ob_machine_next returned NONE. INT64_MAX: never. */
int64_t ob_machine_deadline_us(const struct ob_machine *machine);

/* ---- current state and changes at run time ---- */

struct ob_machine_stats {
    int held, in_flight, queued, settling;
    size_t bytes;
    uint64_t claims, claimed, delivered, retried, failed, limited, blocked, unknown, interrupted, released, stale, lost,
        expired, unrouted, timeouts, renewed, store_failures, no_memory, misordered, breaker_opened;
    uint32_t incarnation;
    bool stopping;
    bool asking; /* a claim is under way, or will be as soon as it may */
};
void ob_machine_stats(const struct ob_machine *machine, struct ob_machine_stats *stats);
/* To be read only. */
const struct ob_sink_state *ob_machine_sink(const struct ob_machine *machine, int sink);
enum ob_breaker_state ob_machine_breaker(const struct ob_machine *machine, int sink);

/* Changes the settings of a sink. Messages already held keep the policy they were claimed with. */
enum outbox_code ob_machine_tune(struct ob_machine *machine, int sink, const struct ob_sink_settings *settings,
                                 struct outbox_error *err);

/* For a reload, when a new machine replaces an old one. The new machine takes over the state of a sink: its breaker, rate
 * and limits. What the old machine still has in flight counts towards the concurrency of the new one. */
void ob_machine_inherit(struct ob_machine *machine, int sink, const struct ob_machine *from, int from_sink);
int ob_machine_out(const struct ob_machine *machine, int sink);
bool ob_machine_set_taken(struct ob_machine *machine, int sink, int count); /* true if the count changed */

/* Changes the size of claims and the poll interval while the machine runs; 0: leave unchanged. */
void ob_machine_pace(struct ob_machine *machine, int claim_limit, int64_t poll_us);

/* Checks the invariants: NULL, or the first one that does not hold. */
const char *ob_machine_check(const struct ob_machine *machine);

const char *ob_event_name(enum ob_event_kind kind);
const char *ob_action_name(enum ob_action_kind kind);

#endif
