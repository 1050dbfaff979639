/* model_sink.c - receivers that accept, refuse, stall, lose their answers, and are down at times.
 *
 * What a receiver accepts it has accepted, whether or not anybody hears of it: that is where duplicates come from. Within
 * a run the model keeps the promise of sink.h: it stops at the first message that was not accepted. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

void parcel_release(struct parcel *parcel)
{
    if (--parcel->refs > 0)
        return;
    ob_list_remove(&parcel->node);
    free(parcel);
}

static int64_t travel(struct world *world)
{
    if (world->healed || !sim_chance(world, world->plan.slow_percent))
        return sim_between(world, 1 * MS, 40 * MS);
    return sim_between(world, 200 * MS, 3 * world->plan.machine.lease_us / 2);
}

static void step_at(struct world *world, struct parcel *parcel, int64_t delay_us)
{
    struct sim_event *event = sim_post(world, delay_us, SIM_SINK);
    event->parcel = parcel;
    parcel->refs++;
}

static void start(struct world *world, struct parcel *parcel)
{
    parcel->started = true;
    ledger_send(world, parcel);
    step_at(world, parcel, travel(world));
}

void sink_deliver(struct world *world, struct life *life, const struct ob_action *action)
{
    struct parcel *last = NULL;
    for (int i = 0; i < action->count; i++) {
        const struct outbox_sink_item *item = &action->items[i];
        struct parcel *parcel = calloc(1, sizeof *parcel);
        *parcel = (struct parcel){.machine = life->uid,
                                  .slot = life->slot,
                                  .sink = action->sink,
                                  .msg = msg_of(&item->msg->id),
                                  .attempt = item->msg->attempt,
                                  .handle = item->handle,
                                  .waiting = true,
                                  .follows = item->follows,
                                  .refs = 1};
        ob_list_push(&world->parcels, &parcel->node);
        life->out[action->sink]++;
        life->out_all++;
        if (item->follows && last) {
            last->next = parcel;
            parcel->refs++;
        } else {
            start(world, parcel);
        }
        last = parcel;
    }
}

/* The relay waits no longer. */
void sink_answered(struct world *world, struct life *life, struct parcel *parcel)
{
    (void)world;
    parcel->waiting = false;
    life->out[parcel->sink]--;
    life->out_all--;
    parcel_release(parcel);
}

void sink_cancel(struct world *world, struct life *life, uint64_t handle)
{
    OB_LIST_EACH (it, &world->parcels) {
        struct parcel *parcel = OB_CONTAINER(it, struct parcel, node);
        if (parcel->machine != life->uid || parcel->handle != handle || !parcel->waiting)
            continue;
        parcel->cancelled = true;
        struct attempt *attempt = attempt_of(world, parcel->msg, parcel->attempt);
        attempt->interrupted = life_now(world, life) - attempt->handed_us < world->plan.sink[parcel->sink].timeout_us;
        if (!attempt->interrupted)
            tally_cancelled(world, life, parcel);
        sink_answered(world, life, parcel);
        return;
    }
    sim_fail(world, "r%d cancels a delivery that is not out", life->slot);
}

void sink_orphan(struct world *world, struct life *life)
{
    OB_LIST_EACH_SAFE (it, &world->parcels) {
        struct parcel *parcel = OB_CONTAINER(it, struct parcel, node);
        if (parcel->machine != life->uid)
            continue;
        if (!parcel->started)
            parcel->cancelled = true;
        if (parcel->waiting)
            sink_answered(world, life, parcel);
    }
}

static void answer(struct world *world, struct parcel *parcel, struct outbox_verdict verdict)
{
    struct sim_event *event = sim_post(world, sim_between(world, 1 * MS, 30 * MS), SIM_VERDICT);
    event->slot = parcel->slot;
    event->machine = parcel->machine;
    event->parcel = parcel;
    event->verdict = verdict;
    parcel->refs++;
}

static struct outbox_verdict says(enum outbox_sink_outcome outcome, const char *code)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = outcome;
    verdict.code = code;
    return verdict;
}

static struct outbox_verdict refusal(struct world *world, const struct parcel *parcel)
{
    const struct plan *plan = &world->plan;
    bool healed = world->healed;
    const struct msg *msg = &world->msgs[parcel->msg];
    if (msg->poison && msg->local) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_TERMINAL, "bad_address");
        verdict.local = true; /* nobody was asked, up or down */
        return verdict;
    }
    if (!healed &&
        (world->now_us < world->down_until_us[parcel->sink] || sim_chance(world, plan->unreachable_percent))) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_RETRY, "refused");
        verdict.unreachable = true;
        return verdict;
    }
    if (msg->poison)
        return says(OUTBOX_SINK_TERMINAL, "bad_message");
    if (!healed && msg->refused) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_BLOCKED, "forbidden");
        verdict.scope = OUTBOX_SCOPE_SINK;
        return verdict;
    }
    if (!healed && sim_chance(world, plan->limited_percent)) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_LIMITED, "slow_down");
        verdict.scope = sim_chance(world, 70) ? OUTBOX_SCOPE_SINK : OUTBOX_SCOPE_RECIPIENT;
        verdict.not_before_us = sim_chance(world, 50) ? -1 : sim_between(world, 10 * MS, 8 * SECOND);
        return verdict;
    }
    if (!healed && sim_chance(world, plan->blocked_percent)) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_BLOCKED, "forbidden");
        verdict.scope = sim_chance(world, 70) ? OUTBOX_SCOPE_SINK : OUTBOX_SCOPE_RECIPIENT;
        return verdict;
    }
    if (!healed && (world->now_us < world->broken_until_us[parcel->sink] || sim_chance(world, plan->fail_percent))) {
        struct outbox_verdict verdict = says(OUTBOX_SINK_RETRY, "busy");
        verdict.scope = sim_chance(world, 20) ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_SINK;
        verdict.not_before_us = sim_chance(world, 30) ? sim_between(world, 10 * MS, 8 * SECOND) : -1;
        return verdict;
    }
    return says(OUTBOX_SINK_ACCEPTED, NULL);
}

/* The rest of a run that stopped: nothing of it was tried. */
static void skip_rest(struct world *world, struct parcel *parcel, bool silent)
{
    struct parcel *next = parcel->next;
    parcel->next = NULL;
    while (next) {
        struct parcel *after = next->next;
        next->next = NULL;
        if (!silent)
            answer(world, next, says(OUTBOX_SINK_NOT_SENT, NULL));
        parcel_release(next);
        next = after;
    }
}

static void go_on(struct world *world, struct parcel *parcel)
{
    struct parcel *next = parcel->next;
    if (next && next->cancelled) {
        skip_rest(world, parcel, true);
    } else if (next) {
        parcel->next = NULL;
        step_at(world, next, 1 * MS); /* it starts when the process runs */
        parcel_release(next);
    }
}

static void accept(struct world *world, struct parcel *parcel)
{
    world->deliveries++;
    ledger_accept(world, parcel->msg, parcel->attempt);
}

void sink_step(struct world *world, struct sim_event *event)
{
    struct parcel *parcel = event->parcel;
    const struct plan *plan = &world->plan;
    if (!parcel->started) {
        const struct life *life = &world->lives[parcel->slot];
        if (parcel->cancelled)
            skip_rest(world, parcel, true);
        else if (life->uid == parcel->machine && world->now_us < life->paused_until_us)
            step_at(world, parcel, life->paused_until_us - world->now_us + MS);
        else
            start(world, parcel);
    } else if (parcel->cancelled) {
        bool taken = !world->healed && sim_chance(world, 30);
        if (taken)
            accept(world, parcel); /* the bytes had left already */
        if (sim_chance(world, 50)) /* and the answer finds nobody who waits for it */
            answer(world, parcel, says(taken ? OUTBOX_SINK_ACCEPTED : OUTBOX_SINK_RETRY, "late"));
        skip_rest(world, parcel, true);
    } else if (!world->healed &&
               (world->now_us < world->frozen_until_us[parcel->sink] || sim_chance(world, plan->hang_percent))) {
        bool taken = sim_chance(world, 50);
        if (taken)
            accept(world, parcel); /* and nobody will ever say so */
        if (taken && plan->pipelined[parcel->sink])
            go_on(world, parcel);
        else
            skip_rest(world, parcel, true);
    } else if (!world->healed && sim_chance(world, plan->unknown_percent)) {
        bool taken = sim_chance(world, 50);
        if (taken)
            accept(world, parcel);
        struct outbox_verdict verdict = says(OUTBOX_SINK_UNKNOWN, "reset");
        verdict.unreachable = sim_chance(world, 30);
        answer(world, parcel, verdict);
        if (taken && plan->pipelined[parcel->sink])
            go_on(world, parcel);
        else
            skip_rest(world, parcel, false);
    } else {
        struct outbox_verdict verdict = refusal(world, parcel);
        answer(world, parcel, verdict);
        if (verdict.outcome != OUTBOX_SINK_ACCEPTED) {
            skip_rest(world, parcel, false);
        } else {
            accept(world, parcel);
            go_on(world, parcel);
        }
    }
    parcel_release(parcel);
}
