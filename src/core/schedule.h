/* schedule.h - when to claim from the store, how much, and under which worker name.
 *
 *     IDLE ──ask──▶ OUT ──answered──▶ IDLE        one claim at a time
 *
 * Hungry: there is reason to believe that a claim finds something (a wake-up, a full batch, a key that advanced). Otherwise
 * the machine claims at the poll interval. A claim that failed is not repeated at the same size: it may be too large for a
 * slow link, a short lease or the available memory. While the store is unreachable, no request is made until the backoff is
 * over.
 *
 * The worker's name. With prefetch the store trusts the name: it assumes that we know all messages claimed under it. This no
 * longer holds after a claim that was never answered, or after a message was given up without a settle. Then the incarnation
 * is increased, which changes the name. */
#ifndef OB_CORE_SCHEDULE_H
#define OB_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct ob_schedule {
    int64_t poll_us; /* 0: do not poll */
    int64_t backoff_base_us, backoff_cap_us;
    bool claiming; /* a claim is under way */
    bool hungry;
    int limit;   /* of the claim under way */
    bool probes; /* the claim under way is a claim of probes */
    int shrink;  /* how many times the size of claims is halved, after failures */
    int streak;  /* successful claims since shrink changed */
    int64_t asked_us, next_poll_us;
    int64_t backoff_us, ready_us; /* for the store: the next wait, and when the current one ends */
    uint32_t incarnation;
};

void ob_schedule_init(struct ob_schedule *sched, int64_t poll_us, int64_t base_us, int64_t cap_us, int64_t now_us);
bool ob_schedule_store_ready(const struct ob_schedule *sched, int64_t now_us);
bool ob_schedule_wants(const struct ob_schedule *sched, int64_t now_us);
void ob_schedule_asked(struct ob_schedule *sched, int limit, bool probes, int64_t now_us);
/* count: number of messages returned; more: the store has more, whatever the count. */
void ob_schedule_answered(struct ob_schedule *sched, int count, bool more, int64_t now_us);
/* A claim failed, perhaps because of its size: the next claims are smaller until some have succeeded. */
void ob_schedule_claim_failed(struct ob_schedule *sched, int64_t now_us);
void ob_schedule_store_ok(struct ob_schedule *sched);
/* Any call to the store failed. */
void ob_schedule_store_failed(struct ob_schedule *sched, uint64_t random, int64_t now_us);

#endif
