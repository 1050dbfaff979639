/* sim.h - the deterministic simulator: real relays, a model store, model sinks, virtual time, seeded faults.
 *
 * One seed is one run: every delay, fault and choice comes from one generator, and all that happens is an event in one
 * queue. The ledger watches each step and fails the run at the first thing that the contract forbids. */
#ifndef SIM_H
#define SIM_H

#include "base/heap.h"
#include "base/list.h"
#include "core/machine.h"

#include <stdbool.h>
#include <stdint.h>

enum { MS = 1000, SECOND = 1000000, DESTS = 4, RELAYS = 3, KEYS = 12, MESSAGES = 90, SENT_RING = 64, RESULTS = 64 };
enum { SHARDS = 3, RUNNING = 12, TX_MESSAGES = 4, NAMESPACES = 2 }; /* shard 0: without a key; transactions at once */

/* ---- what a seed decides ---- */

struct plan {
    int messages, relays, sinks, keys;
    bool calm; /* no faults at all: then nothing is lost, doubled or unknown either */
    int keyed_percent;
    struct ob_machine_settings machine;
    struct ob_sink_settings sink[DESTS];
    int blind_percent; /* messages whose sink a claim cannot tell */
    int unrouted_percent;
    int poison_percent;  /* messages that every sink finds wrong */
    int refused_percent; /* messages that every sink forbids, as if the sink did */
    int fail_percent, unreachable_percent, unknown_percent, limited_percent, blocked_percent, hang_percent,
        slow_percent;
    int lost_request_percent, lost_reply_percent, late_percent; /* of calls to the store */
    int no_memory_per_mille;
    bool pipelined[DESTS]; /* a sink that sends a run without waiting for the answers */
    int crash, pause, restart, jump, outage, down, freeze, broken, undo, restore, lane; /* how many of each */
    int64_t chaos_us;                                                                   /* how long all this goes on */
    /* the log */
    bool queue_lane[NAMESPACES]; /* where its messages go at first: the queue, or the log */
    bool plain[RELAYS];          /* takes no windows, as a worker in another language */
    int slow_tx_percent;
    int64_t burst_us; /* all transactions begin within this time */
};

/* ---- the store ---- */

enum msg_status {
    MSG_UNBORN, /* not committed */
    MSG_LOGGED, /* in the log */
    MSG_PENDING,
    MSG_LEASED, /* in the queue, or in an open window */
    MSG_DELIVERED,
    MSG_DEAD,
    MSG_ROLLED_BACK
};

struct attempt {
    uint32_t machine;            /* which life of which relay claimed it */
    enum outbox_outcome outcome; /* 0: in progress */
    bool handed, accepted;       /* to a sink; by the receiver */
    bool interrupted;            /* cancelled by its relay before its timeout */
    int64_t handed_us;           /* by the clock of its relay */
    bool excused;                /* something happened that may lose it */
    bool probe, probed;          /* handed over by a half open breaker, which still is; or was */
    int verdict;                 /* what the machine was told: an outbox_sink_outcome, or -1 */
    bool verdict_unreachable;
    bool verdict_shut;   /* a failure, and the breaker was open after it */
    bool verdict_own;    /* blocked, and the message's own fault: it failed before, and the last one was accepted */
    bool verdict_alone;  /* blocked or limited for its recipient only */
    int spent, deferred; /* when it was claimed; spent with this one */
    int64_t not_before_us;
    int64_t lease_until_us; /* by the clock of its relay */
    int failures;           /* of the store, seen by its relay when it was claimed */
};

struct msg {
    int index, sink, key; /* -1: unrouted; no key */
    int64_t seq;
    int prev;                                               /* the message before it in its key; -1 */
    int max_attempts, spent, lost, deferred, attempt_count; /* lost: of the spent ones */
    bool blind, poison, refused;
    bool own;   /* its producer asked for this max_attempts */
    int asked;  /* max_attempts at the enqueue */
    bool local; /* of poison: the sink sees it by itself */
    enum msg_status status;
    int64_t due_us, until_us;
    uint64_t holder;
    bool windowed; /* leased as a part of an open window: it has no row in the queue */
    int attempt;   /* the newest that the store knows: it may have forgotten some in a restart */
    int shard;     /* of the log; -1: its transaction put it into the queue */
    int64_t ord, pos, xid;
    enum outbox_outcome flushed; /* of its newest attempt, in an image of the store */
    /* not of the store */
    int accepted;
    struct attempt *attempts; /* number n at n - 1 */
    int attempt_room;
};

/* ---- the log: see sql/postgres/007_log.sql, whose words these are ---- */

struct tx {
    int64_t xid;      /* 0: it has none yet */
    int count, first; /* its messages; the first of them, -1 before they are enqueued */
};

struct place {
    int64_t ord, pos;
};

struct snapshot {
    int64_t xmax;
    int count;
    int64_t running[RUNNING];
};

struct window {
    int shard, size, remaining, cluster;
    int64_t id, base, high, until_us;
    uint64_t nonce;
    bool open, complete;
    struct place from, to;
    struct snapshot before, upto;
    bool keys[KEYS], shut[DESTS], denied[NAMESPACES]; /* left out: they went to the queue */
};

struct log {
    struct {
        struct window *windows; /* the one with id n at n - 1 */
        int count, room;
    } shards[SHARDS];
    int cluster;
};

/* How an item of a call goes to the store: as a row of the queue, or as a part of a window. */
struct part {
    bool window, again;
    int serial, shard;
    int64_t id;
    uint64_t nonce;
    struct window *found; /* while it is carried out */
};

/* A window as its relay knows it: see src/store/pg/log.h. */
enum held_state { HELD, SETTLING, EJECTING, GONE };

struct held {
    struct held *next;
    int serial, shard, count;
    int64_t id, eject_us; /* when, by the clock of the world */
    uint64_t nonce;
    struct {
        int msg, attempt;
        enum held_state state;
        bool out;   /* in a call that is not answered */
        bool doubt; /* a call with it failed, and may have been carried out all the same */
    } items[];
};

/* ---- a relay, and what is between it and the world ---- */

struct life {
    struct ob_machine *core; /* NULL: not running */
    uint32_t uid;            /* another one for each life */
    int slot;
    int64_t clock_us; /* its monotonic clock is so far ahead */
    int64_t paused_until_us;
    int64_t tick_us;   /* a tick is in the queue for then; 0: none */
    int crash_in;      /* dies before so many actions more; 0: not */
    int failures;      /* of calls to the store */
    int stop_failures; /* when it was told to stop; -1: it was not */
    bool claiming;
    struct held *held;
    struct ob_action waits[2]; /* a settle, an extend: until a window is ejected; NONE */
    bool ejecting, settling;   /* a call about windows is out */
    int serials, claims;
    bool queued, busy;                       /* what the last take said */
    int64_t line_us;                         /* calls that settle are carried out in order: the last one then */
    struct outbox_settle *settles, *extends; /* of the calls that are out, in the core's memory */
    int out[DESTS], out_all;
    int64_t sent[DESTS][SENT_RING];
    int64_t sent_count[DESTS];
    bool accepts[DESTS], accepted[DESTS]; /* the last that it accepted or refused was accepted; it ever did */
    int64_t accepted_us[DESTS];
    int64_t probes_us; /* the last claim of probes */
    struct tally {     /* of a sink: what its breaker must follow */
        bool unsure;  /* a delivery ended late: by its timeout, or with its lease; nothing is checked until it closes */
        bool shut;    /* it is not closed */
        bool failing; /* it opened because of failures, and was answered by nothing else since */
        int down;     /* unreachable in a row */
        int count;    /* of the results since it closed, or since a minute without any */
        bool failed[RESULTS];       /* the last of these, in a ring */
        int64_t result_us, step_us; /* the last result; the next probe goes so long after it at the earliest */
    } tally[DESTS];
};

/* A delivery on its way: from the hand-over until nobody waits for it any more. */
struct parcel {
    struct ob_list node;
    uint32_t machine;
    int slot, sink, msg, attempt;
    uint64_t handle;
    bool waiting; /* its relay waits for it */
    bool follows; /* in a run: sent only after the one before it */
    bool started; /* its bytes are on their way */
    bool cancelled;
    struct parcel *next; /* of its run */
    int refs;            /* by the machine that waits, the one before it in its run, events */
};

enum sim_kind {
    SIM_BEGIN,
    SIM_ENQUEUE,
    SIM_COMMIT,
    SIM_EJECT,
    SIM_TICK,
    SIM_STORE,
    SIM_REPLY,
    SIM_SINK,
    SIM_VERDICT,
    SIM_FAULT,
    SIM_START,
    SIM_WAKE,
    SIM_OPERATOR
};
enum call_kind { CALL_CLAIM, CALL_SETTLE, CALL_EXTEND, CALL_EJECT, CALL_PAGE };
enum claim_mode { CLAIM_ADMITS, CLAIM_QUEUE, CLAIM_TAKES };
enum fault_kind {
    FAULT_CRASH,
    FAULT_PAUSE,
    FAULT_RESTART,
    FAULT_JUMP,
    FAULT_OUTAGE,
    FAULT_DOWN,
    FAULT_FREEZE,
    FAULT_BROKEN,
    FAULT_UNDO,
    FAULT_RESTORE,
    FAULT_LANE,
    FAULT_OP_PAUSE,
    FAULT_OP_RESUME,
    FAULT_HEAL,
    FAULT_STOP
};

struct sim_event {
    struct ob_heap_node node;
    int64_t at_us;
    uint64_t number;
    enum sim_kind kind;
    int slot, index; /* of the machine; of the message, the sink or the fault */
    uint32_t machine;
    /* calls */
    enum call_kind call;
    bool failed, mute; /* the machine hears of a failure; hears nothing more */
    uint64_t worker;
    int limit, run;
    bool only, prefetch, shut[DESTS];
    int64_t lease_us;
    int count;
    struct outbox_settle *items;
    struct part *parts; /* like items */
    int64_t asked_us;   /* by the clock of the machine */
    struct {
        int64_t token;
        int msg, attempt, spent, deferred, lost;
    } * claimed;
    bool more; /* something was left for a batch of its own */
    enum claim_mode mode;
    int shard; /* the window taken; id 0: none */
    int64_t id;
    uint64_t nonce;
    bool queued, busy;
    /* sinks */
    struct parcel *parcel;
    struct outbox_verdict verdict;
};

struct world {
    uint64_t seed, random;
    struct plan plan;
    int64_t now_us, jump_us; /* of the simulation; the store's clock is so far off */
    uint64_t numbers;
    struct ob_heap events;
    struct msg *msgs;
    int enqueued, last_of_key[KEYS];
    int64_t seqs[KEYS];
    struct tx *txs;
    int tx_count, key_locked[KEYS]; /* by the transaction of this number; -1: none */
    int64_t next_xid, last_xid;     /* the last that ended */
    int64_t clocks[KEYS];           /* ord of the key's last message; 0: it never was in the log */
    bool queue_lane[NAMESPACES];
    struct log log;
    struct image {
        struct msg *msgs; /* NULL: none yet */
        struct log log;
    } image; /* what a crash of the store leaves */
    struct life lives[RELAYS];
    uint32_t uids;
    struct ob_list parcels;
    bool healed, stopping, routes, op_paused[DESTS];
    int64_t outage_until_us, down_until_us[DESTS], frozen_until_us[DESTS], broken_until_us[DESTS];
    char failure[300]; /* "" while all is well */
    bool trace;
    uint64_t digest; /* of everything that happened */
    uint64_t steps, faults, duplicates, lost_attempts, deliveries, dead;
};

/* ---- sim.c ---- */

void sim_run(struct world *world, uint64_t seed, bool trace);
void sim_free(struct world *world);

void sim_tell(struct world *world, struct life *life, const struct ob_event *event);
void sim_excuse(struct world *world, uint32_t machine); /* what it has claimed may be lost; 0: what anybody has */

/* ---- world.c: the queue of events, chance, trouble ---- */

uint64_t sim_random(struct world *world);
int64_t sim_between(struct world *world, int64_t low, int64_t high);
bool sim_chance(struct world *world, int percent);
struct sim_event *sim_post(struct world *world, int64_t delay_us, enum sim_kind kind);
void sim_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t sim_store_now(const struct world *world);
int64_t life_now(const struct world *world, const struct life *life);
void sim_plan(struct world *world);
void sim_memory(struct world *world, bool short_of_it); /* whether allocations may fail from here on */

/* ---- model_tx.c: producers ---- */

void tx_plan(struct world *world);
void tx_begin(struct world *world, int number);
void tx_enqueue(struct world *world, int number);
void tx_commit(struct world *world, int number);
void tx_abort_all(struct world *world);
struct snapshot tx_snapshot(const struct world *world);

/* ---- model_store.c: the queue ---- */

void store_claim(struct world *world, struct sim_event *call);
void store_settle(struct world *world, struct sim_event *call, struct outbox_settle *item);
void store_lease(struct world *world, const struct sim_event *call, struct msg *msg);
void store_hand_out(const struct world *world, struct sim_event *call, const struct msg *msg);
bool store_has_row(const struct msg *msg); /* in the queue */
void store_flush(struct world *world);     /* all commits so far are on disk */
void store_undo(struct world *world);      /* a crash of the server: what is not on disk is gone */
void store_free(struct world *world);
struct attempt *attempt_of(struct world *world, int msg, int number);

/* ---- model_log.c ---- */

void log_begin(struct world *world);
bool log_take(struct world *world, struct sim_event *call); /* false: the log is of another cluster */
bool log_admit(struct world *world, int most);              /* the same */
int log_rows(struct world *world, const struct window *window, struct msg **rows); /* how many it has, in order */
bool log_left_out(const struct window *window, const struct msg *msg);
bool log_unsettled(const struct msg *msg); /* in an open window */
void log_rebase(struct world *world);
void log_copy(struct log *to, const struct log *from);
void log_free(struct log *log);
void log_close(struct world *world); /* no window may be left open */

/* ---- model_window.c ---- */

void window_page(struct world *world, struct sim_event *call);
bool window_settle(struct world *world, struct sim_event *call); /* false: the transaction failed */

/* ---- model_async.c: the relay's side of the store ---- */

void async_claim(struct world *world, struct life *life, const struct ob_action *action);
void async_settle(struct world *world, struct life *life, const struct ob_action *action);
void async_go_on(struct world *world, struct life *life); /* with ejects that are due, and what waits for them */
void async_execute(struct world *world, struct sim_event *call);
void async_reply(struct world *world, struct life *life, struct sim_event *reply);
void async_forget(struct life *life); /* the process is gone */
int attempt_of_token(int64_t token);

/* ---- model_sink.c ---- */

void sink_deliver(struct world *world, struct life *life, const struct ob_action *action);
void sink_cancel(struct world *world, struct life *life, uint64_t handle);
void sink_step(struct world *world, struct sim_event *event);
void sink_answered(struct world *world, struct life *life, struct parcel *parcel);
void sink_orphan(struct world *world, struct life *life); /* the process is gone */
void parcel_release(struct parcel *parcel);

/* ---- tally.c: when a breaker must open, close, and be tried ---- */

void tally_verdict(struct world *world, struct life *life, const struct parcel *parcel,
                   const struct outbox_verdict *verdict, enum ob_breaker_state before);
void tally_cancelled(struct world *world, struct life *life, const struct parcel *parcel);
void tally_probe(struct world *world, const struct life *life, int sink);

/* ---- ledger.c ---- */

void ledger_send(struct world *world, const struct parcel *parcel);
void ledger_accept(struct world *world, int msg, int attempt);
void ledger_claim(struct world *world, struct life *life, const struct ob_action *action);
void ledger_deliver(struct world *world, struct life *life, const struct ob_action *action);
void ledger_settle(struct world *world, struct life *life, const struct ob_action *action);
void ledger_stopped(struct world *world, const struct life *life);
void ledger_lost(struct world *world, int msg);
void ledger_close(struct world *world);

int msg_of(const struct outbox_uuid *id);
int sim_route(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience);
int sim_limit(const struct world *world, const struct msg *msg); /* of attempts, that holds for it */

#endif
