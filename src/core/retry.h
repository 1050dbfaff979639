/* retry.h - how long to wait before the next attempt. A function of its arguments: no clock, and the caller's randomness. */
#ifndef OB_CORE_RETRY_H
#define OB_CORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum ob_retry_kind {
    OB_RETRY_EQUAL,   /* d = min(base * 2^(n-1), cap), uniform in [d/2, d], or as jitter says: the default */
    OB_RETRY_FULL,    /* the same d, uniform in [0, d] */
    OB_RETRY_LIST,    /* the nth of a list; the last one for all that follow */
    OB_RETRY_MINUTES, /* exactly 2^n minutes, cap at most */
    OB_RETRY_KIND_COUNT
};

enum { OB_RETRY_LIST_MAX = 16 };

struct ob_retry {
    enum ob_retry_kind kind;
    int64_t base_us, cap_us;
    int jitter_low, jitter_high; /* OB_RETRY_EQUAL: percent of d between which the wait lies. 50, 100 */
    int64_t after_cap_us;        /* a receiver that asks for more patience than this gets this much */
    int list_count;
    int64_t list_us[OB_RETRY_LIST_MAX];
};

/* How many attempts a message gets, and how far apart, where its producer did not say. */
struct ob_patience {
    int max_attempts;      /* 0: as its namespace says */
    struct ob_retry retry; /* base_us and cap_us of 0: likewise */
};

/* Zeroed fields become the defaults: 1 s, 30 min (1 h for OB_RETRY_MINUTES), 1 h. */
struct ob_retry ob_retry_settings(const struct ob_retry *given);
/* Zeroed base and cap become these, and where they are zero too, the defaults. */
struct ob_retry ob_retry_within(const struct ob_retry *given, int64_t base_us, int64_t cap_us);
bool ob_retry_valid(const struct ob_retry *retry);

/* After `spent` attempts (1 and up). after_us: what the receiver asked for, -1 when it did not. The greater of ours and
 * theirs. */
int64_t ob_retry_delay_us(const struct ob_retry *retry, int spent, int64_t after_us, uint64_t random);

/* The least that ob_retry_delay_us can be after so many. */
int64_t ob_retry_least_us(const struct ob_retry *retry, int spent);

/* A next random number, for those who keep a state of 64 bits. */
uint64_t ob_random_next(uint64_t *state);

#endif
