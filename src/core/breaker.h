/* breaker.h - stops what is useless: a sink that is down, that fails whatever it is given, or that refuses us altogether.
 *
 *              it opens, for one of the causes below
 *     CLOSED ───────────────────────────────────────────▶ OPEN ◀──────────────────┐
 *        ▲  ◀──── a delivery begun before was answered ───┘ │ probe time           │ the probe failed:
 *        │                                                  ▼                      │ twice the wait
 *        └───────────── the probe was answered ──────── HALF_OPEN ────────────────┘
 *
 * Open: nothing is claimed or sent, nothing is spent. Half open: one message at a time, the probe.
 *
 *   DOWN      `threshold` unreachable in a row. A probe costs nothing, so they come every cap_us. Any answer closes it.
 *   FAILING   of the last `window` results at least `ratio` percent are failures, and at least `threshold` of them. A minute
 *             without a result starts the window anew. A probe that fails costs its message an attempt, so they come every
 *             failing_cap_us. Only an acceptance closes it.
 *   BLOCKED   it refuses everybody. A person has to act, so probes come every blocked_cap_us. Any answer but another failure
 *             closes it.
 *
 * What says something of one message or one recipient only is no result: it neither fills the window nor empties it. */
#ifndef OB_CORE_BREAKER_H
#define OB_CORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum ob_breaker_state { OB_BREAKER_CLOSED, OB_BREAKER_OPEN, OB_BREAKER_HALF_OPEN, OB_BREAKER_STATE_COUNT };
enum ob_breaker_cause { OB_BREAKER_DOWN, OB_BREAKER_FAILING, OB_BREAKER_BLOCKED, OB_BREAKER_CAUSE_COUNT };

enum { OB_BREAKER_WINDOW_MAX = 64 };

struct ob_breaker_settings {
    int threshold;          /* fewest failures that open it; -1: never by count. 5 */
    int window;             /* results that are looked at, 64 at most. 50 */
    int ratio;              /* percent of them. 80 */
    int64_t base_us;        /* until the first probe; the waits double. 250 ms */
    int64_t cap_us;         /* the longest wait while it is down. 1.5 s */
    int64_t failing_cap_us; /* while it fails. 30 s */
    int64_t blocked_cap_us; /* while it refuses everybody. 5 min */
};

struct ob_breaker {
    struct ob_breaker_settings set;
    enum ob_breaker_state state;
    enum ob_breaker_cause cause; /* while it is not closed */
    int unreachable;             /* in a row */
    uint64_t failures;           /* the last results, the newest in bit 0; 1: failed */
    int results;                 /* how many of these bits count */
    int64_t result_us;           /* when the last came */
    int64_t step_us;             /* the wait before the next probe */
    int64_t probe_at_us;         /* while open */
};

/* Zeroed fields become the defaults. */
void ob_breaker_init(struct ob_breaker *breaker, const struct ob_breaker_settings *given);

/* The sink accepted a message. True when that closed the breaker. */
bool ob_breaker_accepted(struct ob_breaker *breaker, int64_t now_us);
/* It answered, and that says nothing but that it lives. True when that closed the breaker. */
bool ob_breaker_answered(struct ob_breaker *breaker);
/* It failed, and not because of the message. probe: the probe of a half open breaker. True when that opened it. */
bool ob_breaker_failed(struct ob_breaker *breaker, bool unreachable, bool probe, int64_t now_us);
/* It refuses everything; wait_us at least, when it said so (-1: not). */
void ob_breaker_blocked(struct ob_breaker *breaker, bool probe, int64_t wait_us, int64_t now_us);
/* The probe came to nothing: it was never sent, or its lease was lost. */
void ob_breaker_probe_gone(struct ob_breaker *breaker, int64_t now_us);
/* Time passes: true when it is time for a probe, that is, when it went half open. */
bool ob_breaker_tick(struct ob_breaker *breaker, int64_t now_us);

const char *ob_breaker_state_name(enum ob_breaker_state state);
const char *ob_breaker_cause_name(enum ob_breaker_cause cause);

#endif
