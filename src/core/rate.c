/* rate.c - see rate.h. Intervals are rounded up, so that rounding never lets one too many through. */
#include "core/rate.h"

#include "core/mutant.h"

void ob_rate_init(struct ob_rate *rate, int64_t count, int64_t period_us, int64_t burst)
{
    *rate = (struct ob_rate){.full_ns = INT64_MIN};
    if (count <= 0 || period_us <= 0)
        return;
    rate->interval_ns = (period_us * 1000 + count - 1) / count;
    rate->slack_ns = (burst > 1 ? burst - 1 : 0) * rate->interval_ns;
}

int64_t ob_rate_ready_us(const struct ob_rate *rate, int64_t now_us)
{
    int64_t now_ns = now_us * 1000;
    if (rate->interval_ns == 0 || rate->full_ns <= now_ns + rate->slack_ns)
        return now_us;
    return (rate->full_ns - rate->slack_ns + 999) / 1000;
}

bool ob_rate_take(struct ob_rate *rate, int64_t now_us)
{
    int64_t now_ns = now_us * 1000;
    if (rate->interval_ns == 0 || OB_MUTANT(NO_RATE))
        return true;
    if (rate->full_ns > now_ns + rate->slack_ns)
        return false;
    rate->full_ns = (rate->full_ns > now_ns ? rate->full_ns : now_ns) + rate->interval_ns;
    return true;
}
