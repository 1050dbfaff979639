/* schedule.h - when to ask the store, for what, and under which name.
 *
 *     IDLE ──ask──▶ OUT ──answered──▶ IDLE        one claim at a time
 *
 * Hungry: there is reason to believe that a claim finds something (a wake-up, a full batch, a key that moved on). Without
 * that, the poll. A claim that fails is not made again at the same size: it may be too much for a slow link, a short lease or
 * the memory there is. While the store cannot be reached nothing is asked of it until the backoff is over.
 *
 * The worker's name. A store that prefetches trusts the name: what is out under it is known to us. After a claim whose
 * answer never came, and after a message that was given up without a settle, that is not so. Then the incarnation goes up,
 * and with it the name changes. */
#ifndef OB_CORE_SCHEDULE_H
#define OB_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct ob_schedule {
    int64_t poll_us; /* 0: never by itself */
    int64_t backoff_base_us, backoff_cap_us;
    bool claiming; /* a claim is on its way */
    bool hungry;
    int limit;   /* of the claim on its way */
    bool probes; /* it is one of probes */
    int shrink;  /* after failures: claims are halved so many times */
    int streak;  /* claims that came through since that changed */
    int64_t asked_us, next_poll_us;
    int64_t backoff_us, ready_us; /* of the store: the next wait, and until when */
    uint32_t incarnation;
};

void ob_schedule_init(struct ob_schedule *sched, int64_t poll_us, int64_t base_us, int64_t cap_us, int64_t now_us);
bool ob_schedule_store_ready(const struct ob_schedule *sched, int64_t now_us);
bool ob_schedule_wants(const struct ob_schedule *sched, int64_t now_us);
void ob_schedule_asked(struct ob_schedule *sched, int limit, bool probes, int64_t now_us);
/* count: messages that came; more: the store has others, whatever the count. */
void ob_schedule_answered(struct ob_schedule *sched, int count, bool more, int64_t now_us);
/* A claim failed, perhaps for its size: the next ones are smaller, until some came through. */
void ob_schedule_claim_failed(struct ob_schedule *sched, int64_t now_us);
void ob_schedule_store_ok(struct ob_schedule *sched);
/* Some call to the store failed. */
void ob_schedule_store_failed(struct ob_schedule *sched, uint64_t random, int64_t now_us);

#endif
