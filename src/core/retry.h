/* retry.h - how long to wait before the next attempt. Pure functions: no clock, and random numbers come from the caller. */
#ifndef OB_CORE_RETRY_H
#define OB_CORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum ob_retry_kind {
    OB_RETRY_EQUAL,   /* d = min(base * 2^(n-1), cap), uniform in [d/2, d] or the range that jitter sets: the default */
    OB_RETRY_FULL,    /* the same d, uniform in [0, d] */
    OB_RETRY_LIST,    /* the nth of a list; afterwards the last one */
    OB_RETRY_MINUTES, /* exactly 2^n minutes, at most cap */
    OB_RETRY_KIND_COUNT
};

enum { OB_RETRY_LIST_MAX = 16 };

struct ob_retry {
    enum ob_retry_kind kind;
    int64_t base_us, cap_us;
    int jitter_low, jitter_high; /* OB_RETRY_EQUAL: range of the wait, in percent of d. 50, 100 */
    int64_t after_cap_us;        /* maximum wait that a receiver can request */
    int list_count;
    int64_t list_us[OB_RETRY_LIST_MAX];
};

/* How many attempts a message gets, and how far apart, unless its producer set this. */
struct ob_patience {
    int max_attempts;      /* 0: the namespace's value */
    struct ob_retry retry; /* base_us or cap_us 0: likewise */
};

/* Zeroed fields become the defaults: 1 s, 30 min (1 h for OB_RETRY_MINUTES), 1 h. */
struct ob_retry ob_retry_settings(const struct ob_retry *given);
/* A zero base or cap becomes base_us or cap_us; if that is zero too, the default. */
struct ob_retry ob_retry_within(const struct ob_retry *given, int64_t base_us, int64_t cap_us);
bool ob_retry_valid(const struct ob_retry *retry);

/* The delay after `spent` attempts (at least 1). after_us: the wait that the receiver requested, or -1. Returns the longer of
 * ours and the receiver's. */
int64_t ob_retry_delay_us(const struct ob_retry *retry, int spent, int64_t after_us, uint64_t random);

/* The least value of ob_retry_delay_us after `spent` attempts. */
int64_t ob_retry_least_us(const struct ob_retry *retry, int spent);

/* The next random number of a generator with 64 bits of state. */
uint64_t ob_random_next(uint64_t *state);

#endif
