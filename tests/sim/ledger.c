/* ledger.c - what the contract forbids, watched at every step, and the sum at the end.
 *
 * Nothing lost; nothing delivered that was rolled back; first acceptances of a key in the order of seq; an attempt that was
 * accepted ends as delivered, unknown, interrupted or lost, so that each duplicate has an attempt of unknown outcome before
 * it; attempts within their limit; nothing spent on what was not sent, was cut off by a shutdown, or while a breaker is open;
 * caps and rates kept; no send and no nack after a lease ran out. */
#include "sim.h"

#include <string.h>

int msg_of(const struct outbox_uuid *id)
{
    int index;
    memcpy(&index, id->bytes, sizeof index);
    return index;
}

/* ---- the receiver's side ---- */

void ledger_send(struct world *world, const struct parcel *parcel)
{
    const struct life *life = &world->lives[parcel->slot];
    const struct attempt *attempt = attempt_of(world, parcel->msg, parcel->attempt);
    if (life->uid == parcel->machine && life_now(world, life) >= attempt->lease_until_us)
        sim_fail(world, "m%d is sent after its lease ran out (M10)", parcel->msg);
}

static void check_order(struct world *world, const struct msg *msg)
{
    for (int prev = msg->prev; prev >= 0; prev = world->msgs[prev].prev) {
        if (world->msgs[prev].accepted == 0 && world->msgs[prev].status != MSG_DEAD)
            sim_fail(world, "m%d, seq %d of key %d, is accepted before m%d (N2)", msg->index, (int)msg->seq, msg->key,
                     prev);
    }
}

void ledger_accept(struct world *world, int index, int number)
{
    struct msg *msg = &world->msgs[index];
    struct attempt *attempt = attempt_of(world, index, number);
    bool current = msg->status == MSG_LEASED && msg->attempt == number;
    sim_say(world, "accepted m%d attempt %d%s", index, number, current ? "" : ", late");
    if (msg->status == MSG_UNBORN || msg->status == MSG_ROLLED_BACK)
        sim_fail(world, "m%d was rolled back, and is delivered (M1)", index);
    if (attempt->accepted)
        sim_fail(world, "m%d attempt %d is accepted twice", index, number);
    /* A late one comes of an attempt that is over for the store: contract 4 allows it to follow. */
    if (msg->accepted == 0 && current)
        check_order(world, msg);
    world->duplicates += msg->accepted > 0;
    attempt->accepted = true;
    msg->accepted++;
}

/* ---- the machine's side ---- */

static void check_probes(struct world *world, struct life *life)
{
    int64_t now = life_now(world, life);
    if (life->probes_us && now - life->probes_us < 50 * MS)
        sim_fail(world, "r%d claims probes %d us after the last (S10)", life->slot, (int)(now - life->probes_us));
    life->probes_us = now;
}

void ledger_claim(struct world *world, struct life *life, const struct ob_action *action)
{
    struct ob_machine_stats stats;
    ob_machine_stats(life->core, &stats);
    if (action->only)
        check_probes(world, life);
    if (life->claiming)
        sim_fail(world, "r%d claims twice at once", life->slot);
    if (action->limit < 1 || stats.held + action->limit > world->plan.machine.max_messages)
        sim_fail(world, "r%d holds %d and claims %d more: over its window (S10)", life->slot, stats.held,
                 action->limit);
    for (int i = 0; i < world->plan.sinks; i++) {
        enum ob_breaker_state state = ob_machine_breaker(life->core, i);
        if (!action->shut[i] && (action->only ? state != OB_BREAKER_HALF_OPEN : state == OB_BREAKER_OPEN))
            sim_fail(world, "r%d claims for sink %d, whose breaker is %s (N5)", life->slot, i,
                     ob_breaker_state_name(state));
    }
}

static void check_rate(struct world *world, struct life *life, int sink)
{
    const struct ob_sink_settings *set = &world->plan.sink[sink];
    int64_t n = life->sent_count[sink]++;
    life->sent[sink][n % SENT_RING] = world->now_us;
    for (int64_t k = set->rate_burst; set->rate_count > 0 && k < SENT_RING && k <= n; k++) {
        int64_t span = world->now_us - life->sent[sink][(n - k) % SENT_RING];
        /* k + 1 messages in span: at most the burst, and what came in meanwhile */
        if ((k + 1 - set->rate_burst) * SECOND > (span + 1) * set->rate_count)
            sim_fail(world, "sink %d gets %d messages in %d us (S10)", sink, (int)k + 1, (int)span);
    }
}

static void check_alone(struct world *world, const struct life *life, const struct msg *msg)
{
    OB_LIST_EACH (it, &world->parcels) {
        const struct parcel *parcel = OB_CONTAINER(it, struct parcel, node);
        if (parcel->waiting && parcel->machine == life->uid && world->msgs[parcel->msg].key == msg->key)
            sim_fail(world, "m%d goes while m%d of its key is out (N2)", msg->index, parcel->msg);
    }
}

static void check_handed(struct world *world, struct life *life, int sink, const struct outbox_sink_item *item)
{
    const struct msg *msg = &world->msgs[msg_of(&item->msg->id)];
    struct attempt *attempt = attempt_of(world, msg->index, item->msg->attempt);
    if (attempt->machine != life->uid || attempt->handed)
        sim_fail(world, "m%d attempt %d is handed over twice, or by a stranger", msg->index, item->msg->attempt);
    if (life_now(world, life) >= attempt->lease_until_us)
        sim_fail(world, "m%d is handed over after its lease ran out (M10)", msg->index);
    if (strcmp(item->msg->payload, item->msg->key ? "{\"keyed\":1}" : "{\"keyed\":0}") != 0)
        sim_fail(world, "the payload of m%d is damaged", msg->index);
    if (msg->key >= 0 && !item->follows)
        check_alone(world, life, msg);
    if (item->follows && world->plan.sink[sink].run < 2)
        sim_fail(world, "m%d is part of a run, to a sink that keeps no order", msg->index);
    attempt->handed = true;
    attempt->handed_us = life_now(world, life);
    attempt->probe = attempt->probed = ob_machine_breaker(life->core, sink) == OB_BREAKER_HALF_OPEN;
    if (attempt->probe)
        tally_probe(world, life, sink);
    check_rate(world, life, sink);
}

void ledger_deliver(struct world *world, struct life *life, const struct ob_action *action)
{
    enum ob_breaker_state state = ob_machine_breaker(life->core, action->sink);
    const struct ob_sink_settings *set = &world->plan.sink[action->sink];
    int run = 0, probes = 0;
    for (int i = 0; i < action->count; i++) {
        run = action->items[i].follows ? run + 1 : 1;
        if (run > set->run)
            sim_fail(world, "a run of %d", run);
        check_handed(world, life, action->sink, &action->items[i]);
    }
    OB_LIST_EACH (it, &world->parcels) {
        const struct parcel *parcel = OB_CONTAINER(it, struct parcel, node);
        probes += parcel->waiting && parcel->machine == life->uid && parcel->sink == action->sink &&
                  attempt_of(world, parcel->msg, parcel->attempt)->probe;
    }
    if (state == OB_BREAKER_OPEN || (state == OB_BREAKER_HALF_OPEN && probes + action->count > 1))
        sim_fail(world, "r%d sends %d to sink %d, whose breaker is %s (N5)", life->slot, action->count, action->sink,
                 ob_breaker_state_name(state));
    if (life->out[action->sink] + action->count > set->concurrency)
        sim_fail(world, "r%d has %d out at sink %d: over its cap (S10)", life->slot,
                 life->out[action->sink] + action->count, action->sink);
    if (life->out_all + action->count > world->plan.machine.concurrency)
        sim_fail(world, "r%d has %d out: over the cap of the process (S10)", life->slot, life->out_all + action->count);
    if (action->count > set->batch)
        sim_fail(world, "a batch of %d", action->count);
}

static void check_delay(struct world *world, const struct outbox_settle *item, const struct attempt *attempt, int sink)
{
    const struct ob_retry *retry = &world->plan.sink[sink].retry;
    int64_t asked = attempt->not_before_us < retry->after_cap_us ? attempt->not_before_us : retry->after_cap_us;
    if (item->delay_us < asked)
        sim_fail(world, "the receiver asked for %d us and gets %d", (int)asked, (int)item->delay_us);
    if (item->delay_us > retry->cap_us && item->delay_us > asked)
        sim_fail(world, "a delay of %d us is over the cap", (int)item->delay_us);
}

/* Whose fault it was, and what that costs. */
static void check_fault(struct world *world, const struct life *life, const struct outbox_settle *item,
                        const struct attempt *attempt, int sink)
{
    int index = msg_of(&item->id);
    const struct ob_retry retry = ob_retry_settings(&world->plan.sink[sink].retry);
    int most = sim_limit(world, &world->msgs[index]), budget = most - 1 < 2 ? most - 1 : 2;
    if (attempt->verdict_own && item->outcome == OUTBOX_BLOCKED)
        sim_fail(world, "m%d is refused again while others are accepted, and costs nothing (V9)", index);
    if (attempt->verdict == OUTBOX_SINK_BLOCKED && item->outcome == OUTBOX_RETRY && !life->accepted[sink])
        sim_fail(world, "m%d costs an attempt, though its sink refuses everybody (N5)", index);
    if (item->outcome == OUTBOX_RETRY && attempt->verdict_shut)
        sim_fail(world, "m%d costs an attempt, though its sink fails everybody (N5)", index);
    if (attempt->probe && attempt->verdict == OUTBOX_SINK_RETRY && !attempt->verdict_unreachable &&
        item->outcome == OUTBOX_BLOCKED)
        sim_fail(world, "m%d: a probe that failed with an answer costs nothing, so it would never die (V9)", index);
    if (item->outcome == OUTBOX_UNKNOWN && attempt->probe)
        sim_fail(world, "m%d: a probe of a silent sink costs an attempt (N5)", index);
    if (item->outcome == OUTBOX_SILENT && !attempt->probed && attempt->spent <= budget)
        sim_fail(world, "m%d: the first unknown outcomes of a message cost nothing (V9)", index);
    if (attempt->verdict_alone && item->delay_us < ob_retry_least_us(&retry, attempt->deferred + 1))
        sim_fail(world, "m%d was put off %d times, and waits %d us (M11)", index, attempt->deferred,
                 (int)item->delay_us);
}

static void check_settle(struct world *world, struct life *life, const struct outbox_settle *item)
{
    int index = msg_of(&item->id);
    const struct attempt *attempt = attempt_of(world, index, attempt_of_token(item->token));
    bool spends = item->outcome == OUTBOX_RETRY || item->outcome == OUTBOX_UNKNOWN || item->outcome == OUTBOX_FAILED;
    bool unrouted = world->msgs[index].sink < 0 && item->outcome == OUTBOX_FAILED;
    sim_say(world, "r%d settles m%d attempt %d as %d, delay %d", life->slot, index, attempt_of_token(item->token),
            (int)item->outcome, (int)item->delay_us);
    if (!attempt || attempt->machine != life->uid) {
        sim_fail(world, "m%d is settled by a stranger", index);
        return;
    }
    if (item->outcome == OUTBOX_DELIVERED && attempt->verdict != OUTBOX_SINK_ACCEPTED)
        sim_fail(world, "m%d is settled as delivered before anybody accepted it", index);
    if (spends && !attempt->handed && !unrouted)
        sim_fail(world, "m%d was never sent, and costs an attempt (N5)", index);
    if (spends && life_now(world, life) >= attempt->lease_until_us)
        sim_fail(world, "m%d: a failure is settled after its lease ran out (M10)", index);
    bool refused = attempt->verdict == OUTBOX_SINK_NOT_SENT || attempt->verdict == OUTBOX_SINK_RETRY ||
                   attempt->verdict == OUTBOX_SINK_TERMINAL || /* these two: refused before their turn */
                   (attempt->verdict == OUTBOX_SINK_BLOCKED && attempt->probe);
    if (item->outcome == OUTBOX_RELEASED && attempt->handed && !refused)
        sim_fail(world, "m%d was sent, and is settled as if it was not", index);
    if (item->outcome == OUTBOX_INTERRUPTED && (!attempt->interrupted || life->stop_failures < 0))
        sim_fail(world, "m%d is settled as interrupted, and was not (M15)", index);
    if (spends && attempt->interrupted)
        sim_fail(world, "m%d was cut off by the relay's own shutdown, and costs an attempt (M15)", index);
    if (item->outcome == OUTBOX_RETRY && attempt->probe && attempt->verdict_unreachable)
        sim_fail(world, "m%d: a probe of an outage costs an attempt (N5)", index);
    if (world->msgs[index].sink >= 0)
        check_fault(world, life, item, attempt, world->msgs[index].sink);
    if (item->outcome == OUTBOX_RETRY && world->msgs[index].sink >= 0)
        check_delay(world, item, attempt, world->msgs[index].sink);
}

void ledger_settle(struct world *world, struct life *life, const struct ob_action *action)
{
    if (action->count > world->plan.machine.settle_limit)
        sim_fail(world, "%d items in one call: over the limit", action->count);
    for (int i = 0; i < action->count && action->kind == OB_ACTION_SETTLE; i++)
        check_settle(world, life, &action->settles[i]);
}

/* The last attempt of a message in a run ended without a verdict, and the one before it was not accepted: the machine
 * leaves it to its lease, for the store would let the next one go. */
static bool left_to_lease(const struct world *world, const struct msg *msg, const struct attempt *attempt)
{
    return msg->key >= 0 && msg->sink >= 0 && world->plan.sink[msg->sink].run > 1 && attempt->handed &&
           !world->plan.calm && msg->spent >= sim_limit(world, msg) &&
           (attempt->verdict < 0 || attempt->verdict == OUTBOX_SINK_UNKNOWN);
}

void ledger_stopped(struct world *world, const struct life *life)
{
    for (int i = 0; i < world->plan.messages; i++) {
        const struct msg *msg = &world->msgs[i];
        const struct attempt *attempt = msg->attempt ? &msg->attempts[msg->attempt - 1] : NULL;
        if (msg->status == MSG_LEASED && attempt->machine == life->uid && !attempt->excused &&
            !left_to_lease(world, msg, attempt) && life->failures == life->stop_failures)
            sim_fail(world, "r%d stopped and left m%d behind (M15)", life->slot, i);
    }
}

/* The store found a lease run out: somebody must be to blame. */
void ledger_lost(struct world *world, int index)
{
    const struct msg *msg = &world->msgs[index];
    const struct attempt *attempt = &msg->attempts[msg->attempt - 1];
    const struct life *owner = NULL;
    world->lost_attempts++;
    for (int i = 0; i < RELAYS; i++)
        owner = world->lives[i].uid == attempt->machine ? &world->lives[i] : owner;
    if (!attempt->excused && !left_to_lease(world, msg, attempt) && owner && owner->failures - attempt->failures < 2)
        sim_fail(world, "m%d attempt %d is lost, and nothing had happened to its relay", index, msg->attempt);
}

/* ---- the sum ---- */

static void check_attempts(struct world *world, const struct msg *msg)
{
    int delivered = 0;
    for (int i = 0; i < msg->attempt_count; i++) {
        const struct attempt *attempt = &msg->attempts[i];
        delivered += attempt->outcome == OUTBOX_DELIVERED;
        bool fine = attempt->outcome == OUTBOX_DELIVERED || attempt->outcome == OUTBOX_UNKNOWN ||
                    attempt->outcome == OUTBOX_INTERRUPTED || attempt->outcome == OUTBOX_LOST;
        if (attempt->accepted && !fine)
            sim_fail(world, "m%d attempt %d was accepted, and stands as outcome %d", msg->index, i + 1,
                     (int)attempt->outcome);
        if (attempt->outcome == OUTBOX_DELIVERED && !attempt->accepted)
            sim_fail(world, "m%d attempt %d stands as delivered, but it was another one", msg->index, i + 1);
        if (world->plan.calm && (attempt->outcome == OUTBOX_LOST || attempt->outcome == OUTBOX_UNKNOWN))
            sim_fail(world, "m%d attempt %d ends as outcome %d in the calm", msg->index, i + 1, (int)attempt->outcome);
    }
    if (delivered != (msg->status == MSG_DELIVERED))
        sim_fail(world, "m%d has %d attempts that delivered it", msg->index, delivered);
}

void ledger_close(struct world *world)
{
    for (int i = 0; i < world->plan.messages; i++) {
        const struct msg *msg = &world->msgs[i];
        if (msg->status == MSG_ROLLED_BACK || msg->status == MSG_UNBORN) {
            if (msg->accepted)
                sim_fail(world, "m%d was rolled back, and is delivered (M1)", i);
            continue;
        }
        if (msg->status != MSG_DELIVERED && msg->status != MSG_DEAD)
            sim_fail(world, "m%d is neither delivered nor dead after the drain (N7)", i);
        if (msg->status == MSG_DELIVERED && msg->accepted == 0)
            sim_fail(world, "m%d is lost (N7)", i);
        if (world->plan.calm && msg->accepted > 1)
            sim_fail(world, "m%d is delivered %d times in the calm", i, msg->accepted);
        check_attempts(world, msg);
    }
    log_close(world);
}
