/* breaker.h - stops what is useless: a destination that is down, or that refuses us altogether.
 *
 *              threshold unreachable in a row, or it refuses everybody
 *     CLOSED ───────────────────────────────────────────▶ OPEN ◀──────────────────┐
 *        ▲  ◀──── a delivery begun before was answered ───┘ │ probe time           │ the probe failed:
 *        │                                                  ▼                      │ twice the wait
 *        └───────────── the probe was answered ──────── HALF_OPEN ────────────────┘
 *
 * Open: nothing is claimed or sent, nothing is spent. Half open: one message at a time, the probe. An answer of any kind,
 * also a refusal of the message, shows that the destination lives. */
#ifndef OB_CORE_BREAKER_H
#define OB_CORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum ob_breaker_state { OB_BREAKER_CLOSED, OB_BREAKER_OPEN, OB_BREAKER_HALF_OPEN, OB_BREAKER_STATE_COUNT };

struct ob_breaker_settings {
    int threshold;   /* consecutive unreachable; -1: never by count. 5 */
    int64_t base_us; /* until the first probe. 250 ms */
    int64_t cap_us;  /* the waits double up to this. 1.5 s */
};

struct ob_breaker {
    struct ob_breaker_settings set;
    enum ob_breaker_state state;
    int failures;        /* in a row */
    int64_t step_us;     /* the wait before the next probe */
    int64_t probe_at_us; /* while open */
};

/* Zeroed fields become the defaults. */
void ob_breaker_init(struct ob_breaker *breaker, const struct ob_breaker_settings *given);

/* The destination answered. True when that closed the breaker. */
bool ob_breaker_answered(struct ob_breaker *breaker);
/* It could not be reached. probe: by the probe of a half open breaker. True when that opened it. */
bool ob_breaker_unreachable(struct ob_breaker *breaker, bool probe, int64_t now_us);
/* It refuses everything; wait_us at least, when it said so (-1: not). */
void ob_breaker_blocked(struct ob_breaker *breaker, bool probe, int64_t wait_us, int64_t now_us);
/* The probe came to nothing: it was never sent, or its lease was lost. */
void ob_breaker_probe_gone(struct ob_breaker *breaker, int64_t now_us);
/* Time passes: true when it is time for a probe, that is, when it went half open. */
bool ob_breaker_tick(struct ob_breaker *breaker, int64_t now_us);

const char *ob_breaker_state_name(enum ob_breaker_state state);

#endif
