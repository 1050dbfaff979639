/* tally.c - when a breaker must open, close, and be tried, counted from the verdicts alone (N5, V9).
 *
 * It opens when so many were unreachable in a row, or when of the last results so many were failures, and not sooner; what is
 * about one message or one recipient is no result. One that opened because of failures closes by an acceptance only, and its
 * probes wait longer each time. */
#include "sim.h"

#include <string.h>

static struct ob_breaker_settings settings_of(const struct world *world, int sink)
{
    struct ob_breaker breaker;
    ob_breaker_init(&breaker, &world->plan.sink[sink].breaker);
    return breaker.set;
}

static void add(struct tally *tally, bool failed, int64_t now_us)
{
    if (now_us - tally->result_us > 60 * (int64_t)SECOND)
        tally->count = 0;
    tally->result_us = now_us;
    tally->failed[tally->count++ % RESULTS] = failed;
}

static bool must_open(const struct tally *tally, const struct ob_breaker_settings *set)
{
    int seen = tally->count < set->window ? tally->count : set->window, failed = 0;
    for (int i = 1; i <= seen; i++)
        failed += tally->failed[(tally->count - i) % RESULTS];
    int least = set->threshold < set->window ? set->threshold : set->window;
    return tally->down >= set->threshold || (failed >= least && 100 * failed >= set->ratio * seen);
}

static void open_it(struct tally *tally, const struct ob_breaker_settings *set)
{
    tally->shut = true;
    tally->failing = tally->down < set->threshold;
    tally->step_us = set->base_us;
}

static void count_failure(struct tally *tally, const struct ob_breaker_settings *set, bool unreachable, int64_t now_us)
{
    tally->down = unreachable ? tally->down + 1 : 0;
    add(tally, true, now_us);
    if (must_open(tally, set))
        open_it(tally, set);
}

/* While it is shut: the failed probe of one that fails waits longer; anything else ends what is known of its pace. */
static void count_shut(struct tally *tally, const struct ob_breaker_settings *set, const struct attempt *attempt,
                       const struct outbox_verdict *verdict, bool failure, int64_t now_us)
{
    if (failure && attempt->probe && !verdict->unreachable) {
        tally->step_us = 2 * tally->step_us < set->failing_cap_us ? 2 * tally->step_us : set->failing_cap_us;
        tally->result_us = now_us;
    } else if (attempt->probe || (verdict->outcome == OUTBOX_SINK_BLOCKED && verdict->scope == OUTBOX_SCOPE_SINK)) {
        tally->step_us = 0;
        tally->failing = tally->failing && !failure && verdict->outcome != OUTBOX_SINK_BLOCKED;
    }
}

void tally_verdict(struct world *world, struct life *life, const struct parcel *parcel,
                   const struct outbox_verdict *verdict, enum ob_breaker_state before)
{
    int sink = parcel->sink;
    struct tally *tally = &life->tally[sink];
    const struct ob_breaker_settings set = settings_of(world, sink);
    struct attempt *attempt = attempt_of(world, parcel->msg, parcel->attempt);
    bool closed = ob_machine_breaker(life->core, sink) == OB_BREAKER_CLOSED;
    bool own = verdict->local || verdict->scope == OUTBOX_SCOPE_RECIPIENT;
    bool failure = !own && (verdict->outcome == OUTBOX_SINK_RETRY || verdict->outcome == OUTBOX_SINK_UNKNOWN);
    int64_t now = life_now(world, life);
    attempt->verdict_shut = failure && !closed && !attempt->probe;
    if (tally->unsure) {
        if (before != OB_BREAKER_CLOSED && closed)
            *tally = (struct tally){.result_us = tally->result_us};
        return;
    }
    if (!tally->shut && before != OB_BREAKER_CLOSED)
        sim_fail(world, "r%d: the breaker of sink %d is open, and should not be (V9)", life->slot, sink);
    if (tally->shut && tally->failing && verdict->outcome != OUTBOX_SINK_ACCEPTED && closed)
        sim_fail(world, "r%d: sink %d fails everybody, and m%d, which it did not accept, closes its breaker (N5)",
                 life->slot, sink, parcel->msg);
    if (closed && tally->shut)
        *tally = (struct tally){.result_us = tally->result_us};
    else if (tally->shut)
        count_shut(tally, &set, attempt, verdict, failure, now);
    else if (failure)
        count_failure(tally, &set, verdict->unreachable, now);
    else if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        add(tally, false, now);
    if (!failure && !verdict->local && verdict->outcome != OUTBOX_SINK_NOT_SENT &&
        verdict->outcome != OUTBOX_SINK_UNKNOWN)
        tally->down = 0;
    if (tally->shut && closed)
        sim_fail(world, "r%d: sink %d fails everybody, and its breaker stays closed (N5)", life->slot, sink);
    if (!tally->shut && !closed && failure)
        sim_fail(world, "r%d: few failures open the breaker of sink %d (V9)", life->slot, sink);
    if (!tally->shut && !closed)
        *tally = (struct tally){.shut = true, .result_us = now}; /* it refuses everybody */
}

void tally_cancelled(struct world *world, struct life *life, const struct parcel *parcel)
{
    struct tally *tally = &life->tally[parcel->sink];
    const struct attempt *attempt = attempt_of(world, parcel->msg, parcel->attempt);
    const struct ob_breaker_settings set = settings_of(world, parcel->sink);
    if (attempt->excused || life_now(world, life) >= attempt->lease_until_us)
        tally->unsure = true;
    else if (tally->shut)
        tally->failing = false, tally->step_us = 0;
    else
        count_failure(tally, &set, true, life_now(world, life));
    if (!tally->unsure && tally->shut && ob_machine_breaker(life->core, parcel->sink) == OB_BREAKER_CLOSED)
        sim_fail(world, "r%d: sink %d answers nobody, and its breaker stays closed (N5)", life->slot, parcel->sink);
}

void tally_probe(struct world *world, const struct life *life, int sink)
{
    const struct tally *tally = &life->tally[sink];
    if (!tally->unsure && tally->shut && tally->failing && life_now(world, life) - tally->result_us < tally->step_us)
        sim_fail(world, "r%d: sink %d is tried again after %d us (N5)", life->slot, sink,
                 (int)(life_now(world, life) - tally->result_us));
}
