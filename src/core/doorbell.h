/* doorbell.h - when to look for work: the wake-up of a relay as a plain state machine.
 *
 * Producers ring only while nobody is busy, because a ring (NOTIFY) in every commit would make commits wait for each
 * other. A busy relay says so by a lock that producers try, after their writes and without waiting: while the lock is
 * held, or only asked for, they keep silent. The hard part is to fall asleep again: a producer that tried while we were
 * busy, but has not committed yet, will never ring. So before sleeping a relay raises a fence behind all transactions
 * that could be such, and goes on looking by itself until the last of them has ended. docs/doorbell.md tells it slowly.
 *
 *                      pooled                        busy                   granted
 *     OFF ◀────▶ OPENING ──▶ POLLING       CALM ────────────▶ ASKED ──────────────────▶ HELD
 *      ▲            │ └──no fence owed─────▶▲                   ▲ │ not busy: cancel      │ not busy
 *      │ lost, from │                       │ fence passed      │ ▼ refused, cancelled    ▼
 *      │ anywhere   └──fence owed─────────▶ FENCING ◀────────── │ CALMING ◀──────────────┘
 *                                           │        unlocked   │
 *                                           └──busy again───────┘
 *
 * This file must not know of libpq or SQL, and has no clock: it is given the time in microseconds of a clock that never
 * falls. A driver (src/store/pg/doorbell.c) asks for the next job, does it, and tells how it went; one job at a time, but
 * for the cancel, which goes beside the ask it ends. One thread. */
#ifndef OB_CORE_DOORBELL_H
#define OB_CORE_DOORBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ob_doorbell_state {
    OB_DOORBELL_OFF,     /* no connection: looks by itself */
    OB_DOORBELL_OPENING, /* being connected; not heard yet */
    OB_DOORBELL_POLLING, /* a pooler is in between: looks by itself, for good */
    OB_DOORBELL_CALM,    /* asleep, producers ring */
    OB_DOORBELL_ASKED,   /* the lock is asked for and not waited for; that alone keeps producers silent */
    OB_DOORBELL_HELD,    /* the lock is ours */
    OB_DOORBELL_CALMING, /* on the way to unlock; whether the lock is ours need not be known */
    OB_DOORBELL_FENCING, /* unlocked; producers that had asked before may still commit in silence */
    OB_DOORBELL_STATE_COUNT
};

/* What the driver must do now. */
enum ob_doorbell_job {
    OB_DOORBELL_NOTHING,
    OB_DOORBELL_OPEN,   /* connect, and listen to the doorbell */
    OB_DOORBELL_CLOSE,  /* close the connection: certain to unlock. Has no answer. */
    OB_DOORBELL_ASK,    /* ask for the lock, and wait in its queue */
    OB_DOORBELL_CANCEL, /* cancel the ask that is out. Has no answer; the ask will have one. */
    OB_DOORBELL_UNLOCK, /* let go of the lock, also when it may not be ours */
    OB_DOORBELL_MARK,   /* take a transaction number, in a statement of its own: the fence */
    OB_DOORBELL_PROBE,  /* have all transactions below the fence ended? DONE or NOT_YET */
    OB_DOORBELL_BEAT,   /* show that the holder of the lock is alive */
    OB_DOORBELL_CROWD,  /* do producers stand in line to ring? DONE or NOT_YET */
    OB_DOORBELL_JOB_COUNT
};

enum ob_doorbell_answer {
    OB_DOORBELL_DONE,
    OB_DOORBELL_NOT_YET, /* of a probe, or crowd: no */
    OB_DOORBELL_FAILED,  /* refused or cancelled; the connection lives */
    OB_DOORBELL_POOLED,  /* of an open: the connection is not a session of ours */
};

/* Why to look for work. Numbers stand in the results of the stress test. */
enum ob_doorbell_reason {
    OB_WAKE_NOT,      /* do not */
    OB_WAKE_RANG,     /* a producer rang */
    OB_WAKE_BUSY,     /* producers are silent for us, so we look every so often */
    OB_WAKE_FENCE,    /* likewise, on the way to sleep */
    OB_WAKE_UNHEARD,  /* the connection is new, or was lost: somebody may have rung unheard */
    OB_WAKE_FALLBACK, /* nothing said so */
    OB_WAKE_COUNT
};

struct ob_doorbell_settings {
    int busy_per_s;      /* more messages than this in a second: busy; calm again below half of it. 400. Where producers
                            stand in line to ring, which a slow disk makes of far fewer, a twentieth is enough. */
    int64_t sample_us;   /* over which they are counted. 500 ms */
    int64_t debounce_us; /* between looks while busy. 25 ms; 25 to 50 */
    int64_t fallback_us; /* between looks when the doorbell cannot be heard, at most. 500 ms; 250 to 1000 */
    int64_t beat_us;     /* between signs of life while the lock is held. 10 s */
    bool own;            /* the doorbell is not the common one: it belongs to the topics that this relay serves */
    bool polling;        /* never connect */
};

/* Zeroed fields become the defaults above. */
struct ob_doorbell_settings ob_doorbell_settings(const struct ob_doorbell_settings *given);

/* Fields are for doorbell.c and its tests. */
struct ob_doorbell {
    struct ob_doorbell_settings set;
    enum ob_doorbell_state state;
    enum ob_doorbell_job out;     /* sent and not answered; NOTHING, or one other than CLOSE and CANCEL */
    enum ob_doorbell_reason look; /* wanted, not yet taken */
    bool owes_fence;              /* we asked for the lock, and no fence has passed since */
    bool marked;                  /* the fence stands */
    bool close;                   /* the connection is to be closed */
    bool cancelled;               /* the ask that is out was cancelled, at least once */
    int unlock_failures;
    int64_t looked_us;      /* the last look, or claim */
    int64_t step_us;        /* until the next probe, reopening, look while polling: doubles */
    int64_t next_us;        /* when that is; while the lock is held: the next beat; while cancelling: the next cancel */
    int64_t sample_from_us; /* messages claimed: in the sample that begins here, and in the one before */
    uint64_t counted, counted_before;
    int64_t full_from_us, full_us; /* claims have come back full since, until; -1: the last one did not */
    bool busy;
    int64_t crowd_us;         /* when to ask next whether producers stand in line */
    int64_t crowded_until_us; /* they did */
};

void ob_doorbell_init(struct ob_doorbell *doorbell, const struct ob_doorbell_settings *settings, int64_t now_us);

/* ---- what happened ---- */

/* A claim brought so many messages. full: as many as it may, so that there may be more. filtered: it did not ask for all
 * topics, so that it says nothing about them: a relay of some topics must not silence the producers of others. */
void ob_doorbell_claimed(struct ob_doorbell *doorbell, size_t count, bool full, bool filtered, int64_t now_us);
void ob_doorbell_rang(struct ob_doorbell *doorbell, int64_t now_us);
void ob_doorbell_answered(struct ob_doorbell *doorbell, enum ob_doorbell_job job, enum ob_doorbell_answer answer,
                          int64_t now_us);
/* The connection is gone, or could not be made. The driver has closed it. */
void ob_doorbell_lost(struct ob_doorbell *doorbell, int64_t now_us);

/* ---- what to do ---- */

/* The next job, which counts as sent; ask again until there is NOTHING. */
enum ob_doorbell_job ob_doorbell_next(struct ob_doorbell *doorbell, int64_t now_us);
/* Whether to look for work now; taken by the asking. After it the caller claims. */
enum ob_doorbell_reason ob_doorbell_wake(struct ob_doorbell *doorbell, int64_t now_us);
/* When next or look will have something to say even if nothing happens; INT64_MAX: never. A look of the last kind,
 * FALLBACK while calm, is the caller's: whoever sleeps looks after the time he chose. */
int64_t ob_doorbell_due_us(const struct ob_doorbell *doorbell);

/* The invariants; NULL, or the one that does not hold. Checked at every transition. */
const char *ob_doorbell_check(const struct ob_doorbell *doorbell);

const char *ob_doorbell_state_name(enum ob_doorbell_state state);
const char *ob_doorbell_job_name(enum ob_doorbell_job job);
const char *ob_doorbell_reason_name(enum ob_doorbell_reason look);

#endif
