/* schedule.c - see schedule.h. */
#include "core/schedule.h"

#include <assert.h>
#include <stddef.h>

enum { SHRINK_MOST = 12, STREAK = 16 };

void ob_schedule_init(struct ob_schedule *sched, int64_t poll_us, int64_t base_us, int64_t cap_us, int64_t now_us)
{
    *sched = (struct ob_schedule){.poll_us = poll_us,
                                  .backoff_base_us = base_us,
                                  .backoff_cap_us = cap_us,
                                  .hungry = true,
                                  .next_poll_us = now_us,
                                  .ready_us = now_us,
                                  .backoff_us = base_us,
                                  .incarnation = 1};
}

bool ob_schedule_store_ready(const struct ob_schedule *sched, int64_t now_us)
{
    return now_us >= sched->ready_us;
}

bool ob_schedule_wants(const struct ob_schedule *sched, int64_t now_us)
{
    return sched->hungry || (sched->poll_us > 0 && now_us >= sched->next_poll_us);
}

void ob_schedule_asked(struct ob_schedule *sched, int limit, bool probes, int64_t now_us)
{
    assert(!sched->claiming);
    sched->claiming = true;
    sched->limit = limit;
    sched->probes = probes;
    sched->asked_us = now_us;
    if (!probes) {
        sched->hungry = false;
        sched->next_poll_us = now_us + sched->poll_us;
    }
}

void ob_schedule_answered(struct ob_schedule *sched, int count, bool more, int64_t now_us)
{
    sched->claiming = false;
    if (sched->shrink > 0 && ++sched->streak >= STREAK) {
        sched->shrink--;
        sched->streak = 0;
    }
    if (sched->probes)
        return;
    if (count >= sched->limit || more)
        sched->hungry = true;
    sched->next_poll_us = now_us + sched->poll_us;
}

void ob_schedule_claim_failed(struct ob_schedule *sched, int64_t now_us)
{
    sched->claiming = false;
    sched->hungry = true;
    sched->shrink += sched->shrink < SHRINK_MOST;
    sched->streak = 0;
    sched->next_poll_us = now_us + sched->poll_us;
}

void ob_schedule_store_ok(struct ob_schedule *sched)
{
    sched->backoff_us = sched->backoff_base_us;
}

void ob_schedule_store_failed(struct ob_schedule *sched, uint64_t random, int64_t now_us)
{
    if (now_us < sched->ready_us)
        return; /* the same outage, reported by another call */
    int64_t wait = sched->backoff_us / 2 + (int64_t)(random % (uint64_t)(sched->backoff_us / 2 + 1));
    sched->ready_us = now_us + wait;
    sched->backoff_us = sched->backoff_us > sched->backoff_cap_us / 2 ? sched->backoff_cap_us : sched->backoff_us * 2;
}
