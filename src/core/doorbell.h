/* doorbell.h - when to look for work: the wake-up of a relay as a state machine without I/O.
 *
 * Producers ring only while a relay listens and none is busy, because a ring (NOTIFY) in every commit would make commits wait
 * for each other. A busy relay signals this with a lock that producers try to take, after their writes and without waiting: while the
 * lock is held, or only requested, they do not ring. The hard part is going back to sleep: a producer that tried the lock
 * while the relay was busy, but has not committed yet, will never ring. So before it sleeps, a relay sets a fence behind all
 * transactions that may have done so, and keeps polling until the last of them has ended. docs/doorbell.md explains this
 * step by step.
 *
 *                      pooled                        busy                   granted
 *     OFF ◀────▶ OPENING ──▶ POLLING       CALM ────────────▶ ASKED ──────────────────▶ HELD
 *      ▲            │                       ▲                   ▲ │ not busy: cancel      │ not busy
 *      │ lost, from │                       │ fence passed      │ ▼ refused, cancelled    ▼
 *      │ anywhere   └──listening──────────▶ FENCING ◀────────── │ CALMING ◀──────────────┘
 *                                           │        unlocked   │
 *                                           └──busy again───────┘
 *
 * This file must not know about libpq or SQL, and has no clock: the driver passes the time in, in microseconds of a monotonic
 * clock. The driver (src/store/pg/doorbell.c) takes the next job, carries it out, and reports the result. There is one job at
 * a time, except that a cancel is sent while the ask it cancels is still under way. One thread. */
#ifndef OB_CORE_DOORBELL_H
#define OB_CORE_DOORBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ob_doorbell_state {
    OB_DOORBELL_OFF,     /* no connection: polls */
    OB_DOORBELL_OPENING, /* connecting; rings cannot be heard yet */
    OB_DOORBELL_POLLING, /* connected through a pooler, which passes no rings on: polls, permanently */
    OB_DOORBELL_CALM,    /* asleep, producers ring */
    OB_DOORBELL_ASKED,   /* the lock is requested, not yet granted; the request alone stops producers from ringing */
    OB_DOORBELL_HELD,    /* we hold the lock */
    OB_DOORBELL_CALMING, /* about to unlock; we need not know whether we hold the lock */
    OB_DOORBELL_FENCING, /* unlocked; producers that tried the lock before may still commit without ringing */
    OB_DOORBELL_STATE_COUNT
};

/* What the driver must do now. */
enum ob_doorbell_job {
    OB_DOORBELL_NOTHING,
    OB_DOORBELL_OPEN,   /* connect, and listen for rings */
    OB_DOORBELL_CLOSE,  /* close the connection, which always unlocks. Has no answer. */
    OB_DOORBELL_ASK,    /* request the lock, and wait in its queue */
    OB_DOORBELL_CANCEL, /* cancel the ask under way. Has no answer; the ask will have one. */
    OB_DOORBELL_UNLOCK, /* release the lock, even if we may not hold it */
    OB_DOORBELL_MARK,   /* take a transaction number in a separate statement: the fence */
    OB_DOORBELL_PROBE,  /* have all transactions below the fence ended? DONE or NOT_YET */
    OB_DOORBELL_BEAT,   /* heartbeat of the lock's holder */
    OB_DOORBELL_CROWD,  /* are producers queueing to ring? DONE or NOT_YET */
    OB_DOORBELL_JOB_COUNT
};

enum ob_doorbell_answer {
    OB_DOORBELL_DONE,
    OB_DOORBELL_NOT_YET, /* to a PROBE or CROWD: no */
    OB_DOORBELL_FAILED,  /* refused or cancelled; the connection still works */
    OB_DOORBELL_POOLED,  /* to an OPEN: the connection is not a session of our own */
};

/* Why to look for work. The results of the stress test contain these numbers. */
enum ob_doorbell_reason {
    OB_WAKE_NOT,      /* no reason: do not look */
    OB_WAKE_RANG,     /* a producer rang */
    OB_WAKE_BUSY,     /* producers do not ring because we are busy, so we poll */
    OB_WAKE_FENCE,    /* some producers may still not ring; we poll until the fence has passed */
    OB_WAKE_UNHEARD,  /* the connection was lost: we may have missed a ring */
    OB_WAKE_FALLBACK, /* no sign of work: the poll interval is over */
    OB_WAKE_COUNT
};

struct ob_doorbell_settings {
    int busy_per_s;    /* busy above this many messages a second; calm again below half of it. 400. While producers are
                            queueing to ring, which on a slow disk a far lower rate causes, a twentieth is enough. */
    int64_t sample_us; /* the time over which they are counted. 500 ms */
    int64_t debounce_us; /* at most between looks while busy; see ob_doorbell_claimed. 25 ms; 25 to 50 */
    int64_t fallback_us; /* maximum time between looks when rings cannot be heard. 500 ms; 250 to 1000 */
    int64_t beat_us;     /* between heartbeats while the lock is held. 10 s */
    bool own;            /* not the common doorbell, but one for the topics that this relay serves */
    bool polling;        /* never connect */
};

/* Zeroed fields become the defaults above. */
struct ob_doorbell_settings ob_doorbell_settings(const struct ob_doorbell_settings *given);

/* Fields are for doorbell.c and its tests. */
struct ob_doorbell {
    struct ob_doorbell_settings set;
    enum ob_doorbell_state state;
    enum ob_doorbell_job out;     /* the job sent and not answered yet, or NOTHING; never CLOSE or CANCEL */
    enum ob_doorbell_reason look; /* wanted, not yet taken */
    bool owes_fence;              /* we began to listen or requested the lock, and no fence has passed since */
    bool marked;                  /* the fence is set */
    bool close;                   /* the connection is to be closed */
    bool cancelled;               /* the ask under way was cancelled at least once */
    int unlock_failures;
    bool claiming;     /* a look was taken or a claim begun, and not answered yet */
    int64_t looked_us; /* time of the last look, or of the last claim's begin or end */
    int64_t claim_us;  /* begin of the claim under way; -1: none */
    int64_t vain_us;   /* what an empty claim takes: of others a part may be the wait for a disk */
    int64_t pause_us;  /* between looks while busy, from looked_us */
    int64_t step_us;   /* wait before the next probe, reconnect, or look while polling: doubles */
    int64_t next_us; /* when that wait ends; while the lock is held: the next beat; while cancelling: the next cancel */
    int64_t sample_from_us; /* start of the current sample; messages claimed in it, and in the one before */
    uint64_t counted, counted_before;
    int64_t full_from_us,
        full_us; /* times of the first and the last claim of a row that came back full; -1: the last one did not */
    bool busy;
    int64_t crowd_us;         /* when to check next whether producers are queueing */
    int64_t crowded_until_us; /* until then, assume that they are */
};

void ob_doorbell_init(struct ob_doorbell *doorbell, const struct ob_doorbell_settings *settings, int64_t now_us);

/* ---- what happened ---- */

/* A claim goes out, after a look or without one. Until it is answered nothing is gained by another look. */
void ob_doorbell_claiming(struct ob_doorbell *doorbell, int64_t now_us);
/* A claim returned `count` messages. While we are busy this decides when to look next. Where messages come it is 1 ms after this
 * claim began, or twice what an empty claim takes: claims of a few messages take about half a core at most, however long they
 * wait for a disk. An empty claim is followed by a pause six times as long, so looks in vain take a seventh of a core at most. No pause is longer than debounce_us.
 * full: as many as requested, so there may be more. filtered: it did not cover all topics,
 * so it says nothing about the others: a relay of some topics must not stop the producers of others from ringing. */
void ob_doorbell_claimed(struct ob_doorbell *doorbell, size_t count, bool full, bool filtered, int64_t now_us);
void ob_doorbell_rang(struct ob_doorbell *doorbell, int64_t now_us);
void ob_doorbell_answered(struct ob_doorbell *doorbell, enum ob_doorbell_job job, enum ob_doorbell_answer answer,
                          int64_t now_us);
/* The connection was lost, or could not be made. The driver has closed it. */
void ob_doorbell_lost(struct ob_doorbell *doorbell, int64_t now_us);

/* ---- what to do ---- */

/* The next job, which then counts as sent; call again until it returns NOTHING. */
enum ob_doorbell_job ob_doorbell_next(struct ob_doorbell *doorbell, int64_t now_us);
/* Whether to look for work now. The call resets the reason; if there is one, the caller must claim. */
enum ob_doorbell_reason ob_doorbell_wake(struct ob_doorbell *doorbell, int64_t now_us);
/* When ob_doorbell_next or ob_doorbell_wake has something new even if nothing happens; INT64_MAX: never. The FALLBACK look
 * while CALM is not included: the caller polls at an interval of its own. */
int64_t ob_doorbell_due_us(const struct ob_doorbell *doorbell);

/* Checks the invariants: NULL, or the one that does not hold. Called at every transition. */
const char *ob_doorbell_check(const struct ob_doorbell *doorbell);

const char *ob_doorbell_state_name(enum ob_doorbell_state state);
const char *ob_doorbell_job_name(enum ob_doorbell_job job);
const char *ob_doorbell_reason_name(enum ob_doorbell_reason look);

#endif
