/* breaker.h - suspends deliveries to a sink that is down, that fails every message, or that refuses us altogether.
 *
 *              it opens, for one of the causes below
 *     CLOSED ───────────────────────────────────────────▶ OPEN ◀──────────────────┐
 *        ▲  ◀──── a delivery begun before was answered ───┘ │ probe time           │ the probe failed:
 *        │                                                  ▼                      │ twice the wait
 *        └───────────── the probe was answered ──────── HALF_OPEN ────────────────┘
 *
 * Open: nothing is claimed or sent, and nothing is spent. Half open: one message at a time is sent, the probe.
 *
 *   DOWN      the sink was unreachable `threshold` times in a row. A probe costs nothing, so probes are at most cap_us apart.
 *             Any answer closes the breaker.
 *   FAILING   of the last `window` results, at least `ratio` percent and at least `threshold` are failures. A minute without
 *             a result resets the window. A failed probe costs its message an attempt, so probes are up to failing_cap_us
 *             apart. Only an acceptance closes the breaker.
 *   BLOCKED   the sink refuses every message. A person has to act, so probes are up to blocked_cap_us apart. Any answer
 *             except another failure closes the breaker.
 *
 * A verdict about one message or one recipient only is not a result: it leaves the window unchanged. */
#ifndef OB_CORE_BREAKER_H
#define OB_CORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum ob_breaker_state { OB_BREAKER_CLOSED, OB_BREAKER_OPEN, OB_BREAKER_HALF_OPEN, OB_BREAKER_STATE_COUNT };
enum ob_breaker_cause { OB_BREAKER_DOWN, OB_BREAKER_FAILING, OB_BREAKER_BLOCKED, OB_BREAKER_CAUSE_COUNT };

enum { OB_BREAKER_WINDOW_MAX = 64 };

struct ob_breaker_settings {
    int threshold;          /* minimum number of failures that opens it; -1: never by count. 5 */
    int window;             /* number of results considered, at most 64. 50 */
    int ratio;              /* percent of them that must be failures. 80 */
    int64_t base_us;        /* wait before the first probe; the wait doubles each time. 250 ms */
    int64_t cap_us;         /* longest wait while the sink is down. 1.5 s */
    int64_t failing_cap_us; /* longest wait while it fails. 30 s */
    int64_t blocked_cap_us; /* longest wait while it refuses every message. 5 min */
};

struct ob_breaker {
    struct ob_breaker_settings set;
    enum ob_breaker_state state;
    enum ob_breaker_cause cause; /* while it is not closed */
    int unreachable;             /* in a row */
    uint64_t failures;           /* the last results, the newest in bit 0; 1: failed */
    int results;                 /* how many of these bits count */
    int64_t result_us;           /* time of the last result */
    int64_t step_us;             /* the wait before the next probe */
    int64_t probe_at_us;         /* while open */
};

/* Zeroed fields become the defaults. */
void ob_breaker_init(struct ob_breaker *breaker, const struct ob_breaker_settings *given);

/* The sink accepted a message. True when that closed the breaker. */
bool ob_breaker_accepted(struct ob_breaker *breaker, int64_t now_us);
/* It answered, which shows only that it is reachable. True when that closed the breaker. */
bool ob_breaker_answered(struct ob_breaker *breaker);
/* It failed, and not because of the message. probe: this was the probe of a half-open breaker. True when that opened it. */
bool ob_breaker_failed(struct ob_breaker *breaker, bool unreachable, bool probe, int64_t now_us);
/* It refuses everything. wait_us: the least time to wait, if the sink gave one; otherwise -1. */
void ob_breaker_blocked(struct ob_breaker *breaker, bool probe, int64_t wait_us, int64_t now_us);
/* The probe ended without a result: it was never sent, or its lease was lost. */
void ob_breaker_probe_gone(struct ob_breaker *breaker, int64_t now_us);
/* Updates the time. True when the breaker became half open, so that a probe is due. */
bool ob_breaker_tick(struct ob_breaker *breaker, int64_t now_us);

const char *ob_breaker_state_name(enum ob_breaker_state state);
const char *ob_breaker_cause_name(enum ob_breaker_cause cause);

#endif
