/* rate.h - a token bucket without a timer: it remembers when the bucket will be full again.
 *
 * Invariant: over any span of time t at most burst + t * count / period are taken. */
#ifndef OB_CORE_RATE_H
#define OB_CORE_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct ob_rate {
    int64_t interval_ns; /* one token's worth of time; 0: no limit */
    int64_t slack_ns;    /* how far ahead of the clock the bucket may be drawn: burst - 1 tokens */
    int64_t full_ns;     /* when the bucket is full */
};

/* count tokens every period_us, burst of them at once. count 0: no limit. */
void ob_rate_init(struct ob_rate *rate, int64_t count, int64_t period_us, int64_t burst);
/* Takes one; false when there is none. */
bool ob_rate_take(struct ob_rate *rate, int64_t now_us);
/* When there will be one: now_us when there is one now. */
int64_t ob_rate_ready_us(const struct ob_rate *rate, int64_t now_us);

#endif
