/* rate.h - a token bucket without a timer: it stores when the bucket will be full again.
 *
 * Invariant: in any interval of length t at most burst + t * count / period tokens are taken. */
#ifndef OB_CORE_RATE_H
#define OB_CORE_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct ob_rate {
    int64_t interval_ns; /* time per token; 0: no limit */
    int64_t slack_ns;    /* how far ahead of the clock full_ns may be before a take: burst - 1 tokens */
    int64_t full_ns;     /* when the bucket is full */
};

/* count tokens every period_us, at most burst of them at once. count 0: no limit. */
void ob_rate_init(struct ob_rate *rate, int64_t count, int64_t period_us, int64_t burst);
/* Takes a token; false when there is none. */
bool ob_rate_take(struct ob_rate *rate, int64_t now_us);
/* When there will be a token; now_us if there is one now. */
int64_t ob_rate_ready_us(const struct ob_rate *rate, int64_t now_us);

#endif
