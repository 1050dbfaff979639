/* dest.c - see dest.h. */
#include "core/dest.h"

#include "core/mutant.h"

#include <string.h>

static const int64_t second = 1000000;

struct ob_dest_settings ob_dest_settings(const struct ob_dest_settings *given)
{
    struct ob_dest_settings set = given ? *given : (struct ob_dest_settings){0};
    set.concurrency = set.concurrency ? set.concurrency : 16;
    set.batch = set.batch ? set.batch : 16;
    set.run = set.run ? set.run : 1;
    set.rate_period_us = set.rate_period_us ? set.rate_period_us : second;
    set.rate_burst = set.rate_burst ? set.rate_burst : 1;
    set.timeout_us = set.timeout_us ? set.timeout_us : 10 * second;
    set.limited_base_us = set.limited_base_us ? set.limited_base_us : second;
    set.limited_cap_us = set.limited_cap_us ? set.limited_cap_us : 60 * second;
    set.retry = ob_retry_settings(&set.retry);
    return set;
}

bool ob_dest_valid(const struct ob_dest_settings *set)
{
    return set->concurrency > 0 && set->batch > 0 && set->run > 0 && set->rate_count >= 0 && set->rate_period_us > 0 &&
           set->rate_burst > 0 && set->timeout_us > 0 && set->limited_base_us > 0 && set->limited_cap_us > 0 &&
           ob_retry_valid(&set->retry);
}

void ob_dest_tune(struct ob_dest *dest, const struct ob_dest_settings *settings)
{
    dest->set = ob_dest_settings(settings);
    int64_t full_ns = dest->rate.full_ns;
    ob_rate_init(&dest->rate, dest->set.rate_count, dest->set.rate_period_us, dest->set.rate_burst);
    dest->rate.full_ns = full_ns;
    struct ob_breaker fresh;
    ob_breaker_init(&fresh, &dest->set.breaker);
    dest->breaker.set = fresh.set;
}

void ob_dest_init(struct ob_dest *dest, const struct ob_dest_settings *settings, int room_most)
{
    *dest = (struct ob_dest){.set = ob_dest_settings(settings), .room_most = room_most, .accepted_us = -1};
    ob_list_init(&dest->ready);
    ob_breaker_init(&dest->breaker, &dest->set.breaker);
    ob_rate_init(&dest->rate, dest->set.rate_count, dest->set.rate_period_us, dest->set.rate_burst);
    dest->limited_step_us = dest->set.limited_base_us;
    dest->room = 2 * dest->set.concurrency > dest->set.batch ? 2 * dest->set.concurrency : dest->set.batch;
    if (dest->room > room_most)
        dest->room = room_most;
}

void ob_dest_inherit(struct ob_dest *dest, const struct ob_dest *from)
{
    struct ob_breaker_settings set = dest->breaker.set;
    dest->breaker = from->breaker;
    dest->breaker.set = set;
    dest->told = from->told;
    dest->rate.full_ns = from->rate.full_ns;
    dest->limited_until_us = from->limited_until_us;
    dest->limited_step_us = from->limited_step_us;
    dest->accepted_us = from->accepted_us;
    dest->refusals = from->refusals;
    memcpy(dest->code, from->code, sizeof dest->code);
}

int64_t ob_dest_put_off_us(const struct ob_dest *dest, int64_t now_us)
{
    if (dest->paused)
        return second;
    if (dest->breaker.state == OB_BREAKER_OPEN)
        return dest->breaker.probe_at_us > now_us ? dest->breaker.probe_at_us - now_us : 1;
    if (dest->breaker.state == OB_BREAKER_HALF_OPEN && dest->probe && !OB_MUTANT(BREAKER_FLOODS))
        return dest->breaker.step_us;
    return dest->limited_until_us > now_us ? dest->limited_until_us - now_us : 0;
}

bool ob_dest_shut(const struct ob_dest *dest, int64_t now_us)
{
    if (OB_MUTANT(BREAKER_CLAIMS))
        return dest->paused;
    if (dest->breaker.state == OB_BREAKER_HALF_OPEN && (dest->probe || !dest->idle))
        return true;
    return dest->paused || dest->breaker.state == OB_BREAKER_OPEN || dest->limited_until_us > now_us ||
           dest->held >= dest->room;
}

bool ob_dest_wants_probe(const struct ob_dest *dest, int64_t now_us)
{
    return dest->breaker.state == OB_BREAKER_HALF_OPEN && !dest->probe && !dest->idle && !dest->paused &&
           now_us >= dest->limited_until_us && dest->out + dest->taken < dest->set.concurrency;
}

int ob_dest_free(const struct ob_dest *dest)
{
    if (dest->paused || dest->breaker.state == OB_BREAKER_OPEN)
        return 0;
    int free = dest->set.concurrency - dest->out - dest->taken + OB_MUTANT(ONE_TOO_MANY);
    if (free < 0)
        return 0;
    if (dest->breaker.state == OB_BREAKER_HALF_OPEN && free > 1 && !OB_MUTANT(BREAKER_FLOODS))
        return 1; /* only the probe can be in the queue */
    return free;
}

void ob_dest_went(struct ob_dest *dest, int64_t waited_us, int64_t lease_us)
{
    if (waited_us < lease_us / 8 && dest->held >= dest->room / 2 && dest->room < dest->room_most)
        dest->room++;
}

void ob_dest_stale(struct ob_dest *dest, int64_t lease_us, int64_t now_us)
{
    int least = dest->set.concurrency < dest->room_most ? dest->set.concurrency : dest->room_most;
    if (now_us - dest->shrunk_us < lease_us / 8)
        return; /* a whole batch grows stale at once: that is one sign, not many */
    dest->shrunk_us = now_us;
    dest->room /= 2;
    if (dest->room < least)
        dest->room = least;
}

int64_t ob_dest_limited(struct ob_dest *dest, int64_t wait_us, int64_t now_us)
{
    if (wait_us < 0) {
        wait_us = dest->limited_step_us;
        if (dest->limited_until_us <= now_us) /* not once for each message of a burst */
            dest->limited_step_us *= 2;
        if (dest->limited_step_us > dest->set.limited_cap_us)
            dest->limited_step_us = dest->set.limited_cap_us;
    } else if (wait_us > dest->set.retry.after_cap_us) {
        wait_us = dest->set.retry.after_cap_us;
    }
    if (now_us + wait_us > dest->limited_until_us)
        dest->limited_until_us = now_us + wait_us;
    return dest->limited_until_us - now_us;
}

void ob_dest_unlimited(struct ob_dest *dest)
{
    dest->limited_step_us = dest->set.limited_base_us;
}

static int64_t sooner(int64_t a, int64_t b, int64_t now_us)
{
    return b > now_us && b < a ? b : a;
}

int64_t ob_dest_due_us(const struct ob_dest *dest, int64_t now_us)
{
    int64_t due = sooner(INT64_MAX, dest->limited_until_us, now_us);
    if (dest->breaker.state == OB_BREAKER_OPEN)
        due = sooner(due, dest->breaker.probe_at_us, now_us);
    if (!ob_list_empty(&dest->ready) && ob_dest_free(dest) > 0)
        due = sooner(due, ob_rate_ready_us(&dest->rate, now_us), now_us);
    return due;
}
