/* retry.c - the policies of retry.h. All sums are guarded: no setting that passes ob_retry_valid can overflow. */
#include "core/retry.h"

#include "core/mutant.h"

#include <stddef.h>

static const int64_t second = 1000000;
static const int64_t longest = INT64_C(365) * 86400 * 1000000;

struct ob_retry ob_retry_settings(const struct ob_retry *given)
{
    struct ob_retry retry = given ? *given : (struct ob_retry){0};
    if (retry.base_us == 0)
        retry.base_us = second;
    if (retry.cap_us == 0)
        retry.cap_us = retry.kind == OB_RETRY_MINUTES ? 3600 * second : 1800 * second;
    if (retry.after_cap_us == 0)
        retry.after_cap_us = 3600 * second;
    if (retry.jitter_high == 0) {
        retry.jitter_low = 50;
        retry.jitter_high = 100;
    }
    return retry;
}

struct ob_retry ob_retry_within(const struct ob_retry *given, int64_t base_us, int64_t cap_us)
{
    struct ob_retry retry = *given;
    if (retry.base_us == 0)
        retry.base_us = base_us;
    if (retry.cap_us == 0 && retry.kind != OB_RETRY_MINUTES)
        retry.cap_us = cap_us;
    retry = ob_retry_settings(&retry);
    if (given->cap_us == 0 && retry.cap_us < retry.base_us)
        retry.cap_us = retry.base_us; /* a long first wait raises a cap that was not set explicitly */
    return retry;
}

static bool in_range(int64_t us)
{
    return us > 0 && us <= longest;
}

bool ob_retry_valid(const struct ob_retry *retry)
{
    if ((unsigned)retry->kind >= OB_RETRY_KIND_COUNT || !in_range(retry->base_us) || !in_range(retry->cap_us) ||
        !in_range(retry->after_cap_us))
        return false;
    if (retry->jitter_low < 0 || retry->jitter_low > retry->jitter_high || retry->jitter_high > 100)
        return false;
    if (retry->kind == OB_RETRY_LIST && (retry->list_count < 1 || retry->list_count > OB_RETRY_LIST_MAX))
        return false;
    for (int i = 0; i < retry->list_count && i < OB_RETRY_LIST_MAX; i++) {
        if (retry->list_us[i] < 0 || retry->list_us[i] > longest)
            return false;
    }
    return true;
}

static int64_t doubled(int64_t base, int times, int64_t cap)
{
    while (times-- > 0 && base < cap)
        base = base > cap / 2 ? cap : base * 2;
    return base < cap ? base : cap;
}

static int64_t between(int64_t low, int64_t high, uint64_t random)
{
    return low + (int64_t)(random % (uint64_t)(high - low + 1));
}

static int64_t percent(int64_t whole, int part)
{
    return whole / 100 * part + whole % 100 * part / 100;
}

static int64_t own_delay(const struct ob_retry *retry, int spent, uint64_t random)
{
    int n = spent < 1 ? 1 : spent;
    int64_t most;
    switch (retry->kind) {
    case OB_RETRY_LIST: return retry->list_us[(n < retry->list_count ? n : retry->list_count) - 1];
    case OB_RETRY_MINUTES: return doubled(60 * second, n, retry->cap_us);
    case OB_RETRY_FULL: return between(0, doubled(retry->base_us, n - 1, retry->cap_us), random);
    default:
        most = doubled(retry->base_us, n - 1, retry->cap_us);
        return between(percent(most, retry->jitter_low), percent(most, retry->jitter_high), random);
    }
}

int64_t ob_retry_least_us(const struct ob_retry *retry, int spent)
{
    int n = spent < 1 ? 1 : spent;
    switch (retry->kind) {
    case OB_RETRY_LIST:
    case OB_RETRY_MINUTES: return own_delay(retry, n, 0);
    case OB_RETRY_FULL: return 0;
    default: return percent(doubled(retry->base_us, n - 1, retry->cap_us), retry->jitter_low);
    }
}

int64_t ob_retry_delay_us(const struct ob_retry *retry, int spent, int64_t after_us, uint64_t random)
{
    int64_t ours = own_delay(retry, spent, random);
    int64_t theirs = after_us < retry->after_cap_us ? after_us : retry->after_cap_us;
    if (OB_MUTANT(RETRY_AFTER_IGNORED))
        return ours;
    return ours > theirs ? ours : theirs;
}

uint64_t ob_random_next(uint64_t *state)
{
    /* A counter incremented by an odd constant, then mixed: every bit of the counter affects every bit of the result. */
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
