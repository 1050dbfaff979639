/* sim.c - a run: starts relays, carries out their actions, makes the faults, heals, drains, stops, and closes the books. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAIN_S = 600 };

/* ---- faults ---- */

void sim_excuse(struct world *world, uint32_t machine)
{
    for (int i = 0; i < world->plan.messages; i++) {
        struct msg *msg = &world->msgs[i];
        if (msg->status == MSG_LEASED && (machine == 0 || msg->attempts[msg->attempt - 1].machine == machine))
            msg->attempts[msg->attempt - 1].excused = true;
    }
}

static void start_later(struct world *world, int slot, int64_t delay_us)
{
    sim_post(world, delay_us, SIM_START)->slot = slot;
}

static void end_life(struct world *world, struct life *life)
{
    sink_orphan(world, life);
    async_forget(life);
    ob_machine_free(life->core);
    life->core = NULL;
    life->paused_until_us = 0;
    if (!world->stopping)
        start_later(world, life->slot, sim_between(world, 10 * MS, 2 * SECOND));
}

static void crash(struct world *world, struct life *life)
{
    sim_say(world, "r%d crashes", life->slot);
    sim_excuse(world, life->uid);
    end_life(world, life);
}

/* ---- carrying out actions ---- */

static void act(struct world *world, struct life *life, const struct ob_action *action)
{
    sim_say(world, "r%d: %s %d", life->slot, ob_action_name(action->kind),
            action->kind == OB_ACTION_CLAIM ? action->limit : action->count);
    switch (action->kind) {
    case OB_ACTION_CLAIM:
        ledger_claim(world, life, action);
        async_claim(world, life, action);
        break;
    case OB_ACTION_DELIVER:
        ledger_deliver(world, life, action);
        sink_deliver(world, life, action);
        break;
    case OB_ACTION_CANCEL: sink_cancel(world, life, action->handle); break;
    case OB_ACTION_SETTLE:
    case OB_ACTION_EXTEND:
        ledger_settle(world, life, action);
        async_settle(world, life, action);
        break;
    default:
        ledger_stopped(world, life);
        end_life(world, life);
        break;
    }
}

/* A breaker that is closed again has no probe: what it sent as one is a delivery like others. */
static void forget_probes(struct world *world, const struct life *life)
{
    OB_LIST_EACH (it, &world->parcels) {
        const struct parcel *parcel = OB_CONTAINER(it, struct parcel, node);
        if (parcel->waiting && parcel->machine == life->uid &&
            ob_machine_breaker(life->core, parcel->sink) != OB_BREAKER_HALF_OPEN)
            attempt_of(world, parcel->msg, parcel->attempt)->probe = false;
    }
}

static void check(struct world *world, const struct life *life)
{
    const char *wrong = ob_machine_check(life->core);
    struct ob_machine_stats stats;
    ob_machine_stats(life->core, &stats);
    forget_probes(world, life);
    if (wrong)
        sim_fail(world, "r%d: %s", life->slot, wrong);
    if (stats.held > world->plan.machine.max_messages || stats.bytes > (size_t)stats.held * 400)
        sim_fail(world, "r%d holds %d messages of %d bytes", life->slot, stats.held, (int)stats.bytes);
}

static void pump(struct world *world, struct life *life)
{
    struct ob_action action;
    check(world, life);
    for (int i = 0; life->core && !world->failure[0]; i++) {
        sim_memory(world, true);
        bool more = ob_machine_next(life->core, life_now(world, life), &action);
        sim_memory(world, false);
        check(world, life);
        if (!more)
            break;
        if (life->crash_in > 0 && --life->crash_in == 0) {
            crash(world, life);
            return;
        }
        act(world, life, &action);
        if (i > 10000)
            sim_fail(world, "r%d does not come to rest", life->slot);
    }
    if (!life->core)
        return;
    int64_t due = ob_machine_deadline_us(life->core);
    if (due == INT64_MAX)
        return;
    due -= life->clock_us;
    if (life->tick_us > world->now_us && life->tick_us <= due)
        return;
    struct sim_event *tick = sim_post(world, due - world->now_us, SIM_TICK);
    tick->slot = life->slot, tick->machine = life->uid;
    life->tick_us = due;
}

void sim_tell(struct world *world, struct life *life, const struct ob_event *event)
{
    if (!life->core)
        return;
    sim_memory(world, true);
    ob_machine_event(life->core, life_now(world, life), event);
    sim_memory(world, false);
    pump(world, life);
}

static void start(struct world *world, int slot)
{
    struct life *life = &world->lives[slot];
    if (life->core || world->stopping)
        return;
    struct ob_machine_settings settings = world->plan.machine;
    settings.seed = sim_random(world);
    *life = (struct life){
        .slot = slot, .uid = ++world->uids, .clock_us = sim_between(world, 0, 1000) * SECOND, .stop_failures = -1};
    sim_memory(world, true);
    enum outbox_code code = ob_machine_new(&settings, life_now(world, life), &life->core, NULL);
    sim_memory(world, false);
    if (code == OUTBOX_NOMEM) {
        start_later(world, slot, 100 * MS);
        return;
    }
    if (code != OUTBOX_OK)
        sim_fail(world, "a relay cannot be made: %s", outbox_code_name(code));
    sim_say(world, "r%d begins its life %u", slot, (unsigned)life->uid);
    for (int i = 0; i < world->plan.sinks; i++) {
        if (world->op_paused[i])
            sim_tell(world, life, &(struct ob_event){.kind = OB_EVENT_PAUSE, .sink = i});
    }
    if (life->core)
        sim_tell(world, life, &(struct ob_event){.kind = OB_EVENT_TICK});
}

/* ---- answers ---- */

/* What the machine can know of a sink that refuses: whether it accepts others. */
static void judge(struct life *life, int sink, const struct outbox_verdict *verdict, struct attempt *attempt,
                  bool closed, int64_t now_us)
{
    bool whole = verdict->scope == OUTBOX_SCOPE_SINK;
    attempt->verdict_alone =
        !whole && (verdict->outcome == OUTBOX_SINK_BLOCKED || verdict->outcome == OUTBOX_SINK_LIMITED);
    attempt->verdict_own = verdict->outcome == OUTBOX_SINK_BLOCKED && whole && closed && life->accepts[sink] &&
                           (attempt->deferred > 0 || attempt->spent > 1);
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED) {
        life->accepts[sink] = life->accepted[sink] = true;
        life->accepted_us[sink] = now_us;
    } else if (verdict->outcome == OUTBOX_SINK_BLOCKED && whole && !attempt->verdict_own) {
        life->accepts[sink] = false;
    }
}

static void verdict(struct world *world, struct life *life, struct sim_event *event)
{
    struct parcel *parcel = event->parcel;
    struct attempt *attempt = attempt_of(world, parcel->msg, parcel->attempt);
    sim_say(world, "r%d: verdict %d on m%d attempt %d%s", life->slot, (int)event->verdict.outcome, parcel->msg,
            parcel->attempt, parcel->waiting ? "" : ", late");
    bool waiting = parcel->waiting;
    if (waiting) {
        attempt->verdict = (int)event->verdict.outcome;
        attempt->verdict_unreachable = event->verdict.unreachable;
        attempt->not_before_us = event->verdict.not_before_us;
        sink_answered(world, life, parcel);
    }
    enum ob_breaker_state before = ob_machine_breaker(life->core, parcel->sink);
    bool accepts =
        life->accepts[parcel->sink] && world->now_us - life->accepted_us[parcel->sink] < 59 * (int64_t)SECOND;
    if (waiting)
        judge(life, parcel->sink, &event->verdict, attempt, before == OB_BREAKER_CLOSED, world->now_us);
    const struct ob_event word = {.kind = OB_EVENT_DELIVERED, .handle = parcel->handle, .verdict = &event->verdict};
    sim_memory(world, true);
    ob_machine_event(life->core, life_now(world, life), &word);
    sim_memory(world, false);
    if (waiting)
        tally_verdict(world, life, parcel, &event->verdict, before);
    if (event->verdict.local && before != OB_BREAKER_CLOSED &&
        ob_machine_breaker(life->core, parcel->sink) == OB_BREAKER_CLOSED)
        sim_fail(world, "m%d was never sent, and closes a breaker (N5)", parcel->msg);
    if (event->verdict.outcome == OUTBOX_SINK_BLOCKED && before == OB_BREAKER_CLOSED && accepts &&
        ob_machine_breaker(life->core, parcel->sink) != OB_BREAKER_CLOSED)
        sim_fail(world, "m%d is refused once, others are accepted, and the breaker opens (N5)", parcel->msg);
    pump(world, life);
}

/* ---- the course of a run ---- */

/* An operator paused or resumed a sink. */
static void tell_all(struct world *world, int sink)
{
    for (int i = 0; i < world->plan.relays; i++) {
        struct sim_event *word = sim_post(world, 0, SIM_OPERATOR);
        word->slot = i, word->machine = world->lives[i].uid, word->index = sink;
    }
}

static void stop(struct world *world, struct life *life, int64_t grace_us)
{
    if (!life->core || life->stop_failures >= 0)
        return;
    life->stop_failures = life->failures;
    sim_tell(world, life, &(struct ob_event){.kind = OB_EVENT_STOP, .grace_us = grace_us});
}

static void heal(struct world *world)
{
    world->healed = world->routes = true;
    world->outage_until_us = 0;
    memset(world->down_until_us, 0, sizeof world->down_until_us);
    memset(world->frozen_until_us, 0, sizeof world->frozen_until_us);
    memset(world->broken_until_us, 0, sizeof world->broken_until_us);
    memset(world->op_paused, 0, sizeof world->op_paused);
    for (int i = 0; i < world->plan.sinks; i++)
        tell_all(world, i);
    for (int i = 0; i < world->plan.relays; i++)
        world->lives[i].crash_in = 0;
}

static void fault(struct world *world, const struct sim_event *event)
{
    enum fault_kind kind = (enum fault_kind)event->index;
    struct life *life = &world->lives[event->slot];
    int sink = (int)sim_between(world, 0, world->plan.sinks - 1);
    int64_t while_us = sim_between(world, 100 * MS, 3 * world->plan.machine.lease_us);
    sim_say(world, "fault %d", (int)kind);
    world->faults++;
    switch (kind) {
    case FAULT_CRASH:
        if (life->core && sim_chance(world, 30))
            crash(world, life);
        else if (life->core)
            life->crash_in = (int)sim_between(world, 1, 12);
        break;
    case FAULT_PAUSE:
        sim_excuse(world, life->uid);
        if (world->now_us + while_us > life->paused_until_us)
            life->paused_until_us = world->now_us + while_us;
        break;
    case FAULT_RESTART: stop(world, life, sim_between(world, 0, world->plan.machine.lease_us)); break;
    case FAULT_JUMP:
        sim_excuse(world, 0);
        world->jump_us += sim_between(world, -10 * SECOND, 10 * SECOND);
        break;
    case FAULT_OUTAGE:
        sim_excuse(world, 0);
        world->outage_until_us = world->now_us + while_us;
        break;
    case FAULT_UNDO:
        sim_excuse(world, 0);
        tx_abort_all(world);
        store_undo(world);
        sim_excuse(world, 0);
        world->outage_until_us = world->now_us + sim_between(world, 10 * MS, SECOND);
        break;
    case FAULT_RESTORE:
        sim_excuse(world, 0);
        tx_abort_all(world);
        world->log.cluster++;
        world->next_xid = sim_chance(world, 50) ? world->next_xid + 1000 : 3;
        world->last_xid = world->next_xid - 1;
        store_flush(world);
        break;
    case FAULT_LANE: world->queue_lane[event->slot % NAMESPACES] ^= true; break;
    case FAULT_DOWN: world->down_until_us[sink] = world->now_us + while_us; break;
    case FAULT_FREEZE: world->frozen_until_us[sink] = world->now_us + while_us; break;
    case FAULT_BROKEN: world->broken_until_us[sink] = world->now_us + while_us; break;
    case FAULT_OP_PAUSE:
        world->op_paused[sink] = true;
        tell_all(world, sink);
        break;
    case FAULT_OP_RESUME:
        memset(world->op_paused, 0, sizeof world->op_paused);
        for (int i = 0; i < world->plan.sinks; i++)
            tell_all(world, i);
        break;
    case FAULT_HEAL: heal(world); break;
    default: break;
    }
}

static void post_faults(struct world *world)
{
    const struct plan *plan = &world->plan;
    const int counts[] = {plan->crash,  plan->pause,  plan->restart, plan->jump,    plan->outage, plan->down,
                          plan->freeze, plan->broken, plan->undo,    plan->restore, plan->lane};
    for (int kind = 0; kind < (int)(sizeof counts / sizeof counts[0]); kind++) {
        for (int i = 0; i < counts[kind]; i++) {
            struct sim_event *event = sim_post(world, sim_between(world, 0, plan->chaos_us), SIM_FAULT);
            event->index = kind;
            event->slot = (int)sim_between(world, 0, plan->relays - 1);
        }
    }
    if (sim_chance(world, 20)) {
        sim_post(world, plan->chaos_us / 3, SIM_FAULT)->index = FAULT_OP_PAUSE;
        sim_post(world, plan->chaos_us / 2, SIM_FAULT)->index = FAULT_OP_RESUME;
    }
    sim_post(world, plan->chaos_us + 1, SIM_FAULT)->index = FAULT_HEAL;
}

static bool drained(const struct world *world)
{
    for (int i = 0; i < world->plan.messages; i++) {
        enum msg_status status = world->msgs[i].status;
        if (status < MSG_DELIVERED)
            return false;
    }
    return true;
}

static void dispatch(struct world *world, struct sim_event *event)
{
    struct life *life = &world->lives[event->slot];
    bool mine = life->core && life->uid == event->machine;
    switch (event->kind) {
    case SIM_BEGIN: tx_begin(world, event->index); break;
    case SIM_ENQUEUE: tx_enqueue(world, event->index); break;
    case SIM_COMMIT: tx_commit(world, event->index); break;
    case SIM_EJECT:
        if (mine)
            async_go_on(world, life);
        break;
    case SIM_TICK:
        if (mine)
            sim_tell(world, life, &(struct ob_event){.kind = OB_EVENT_TICK});
        break;
    case SIM_WAKE:
        if (mine)
            sim_tell(world, life, &(struct ob_event){.kind = OB_EVENT_WAKE});
        break;
    case SIM_OPERATOR:
        if (mine)
            sim_tell(world, life,
                     &(struct ob_event){.kind = world->op_paused[event->index] ? OB_EVENT_PAUSE : OB_EVENT_RESUME,
                                        .sink = event->index});
        break;
    case SIM_STORE: async_execute(world, event); break;
    case SIM_REPLY:
        if (mine)
            async_reply(world, life, event);
        break;
    case SIM_SINK: sink_step(world, event); break;
    case SIM_VERDICT:
        if (mine)
            verdict(world, life, event);
        parcel_release(event->parcel);
        break;
    case SIM_START: start(world, event->slot); break;
    case SIM_FAULT: fault(world, event); break;
    }
}

/* What comes for a relay that is stopped waits at its door, in order. */
static bool put_off(struct world *world, struct sim_event *event)
{
    const struct life *life = &world->lives[event->slot];
    bool for_relay = event->kind == SIM_TICK || event->kind == SIM_EJECT || event->kind == SIM_WAKE ||
                     event->kind == SIM_OPERATOR || event->kind == SIM_REPLY || event->kind == SIM_VERDICT;
    if (!for_relay || !life->core || life->uid != event->machine || world->now_us >= life->paused_until_us)
        return false;
    event->at_us = life->paused_until_us;
    event->number = world->numbers++;
    if (!ob_heap_push(&world->events, &event->node))
        abort();
    return true;
}

static void event_free(struct sim_event *event)
{
    free(event->items);
    free(event->parts);
    free(event->claimed);
    free(event);
}

static bool earlier(const struct ob_heap_node *a, const struct ob_heap_node *b)
{
    const struct sim_event *x = OB_CONTAINER(a, struct sim_event, node), *y = OB_CONTAINER(b, struct sim_event, node);
    return x->at_us != y->at_us ? x->at_us < y->at_us : x->number < y->number;
}

static void begin(struct world *world, uint64_t seed, bool trace)
{
    *world = (struct world){.seed = seed, .random = seed * 2 + 1, .trace = trace, .now_us = SECOND};
    sim_memory(world, false);
    ob_heap_init(&world->events, earlier);
    ob_list_init(&world->parcels);
    sim_plan(world);
    world->msgs = calloc((size_t)world->plan.messages, sizeof *world->msgs);
    memcpy(world->queue_lane, world->plan.queue_lane, sizeof world->queue_lane);
    tx_plan(world);
    log_begin(world);
    for (int i = 0; i < world->plan.relays; i++)
        start_later(world, i, sim_between(world, 0, 500 * MS));
    post_faults(world);
}

void sim_run(struct world *world, uint64_t seed, bool trace)
{
    begin(world, seed, trace);
    struct ob_heap_node *node;
    while (!world->failure[0] && (node = ob_heap_pop(&world->events))) {
        struct sim_event *event = OB_CONTAINER(node, struct sim_event, node);
        world->now_us = event->at_us;
        if (put_off(world, event))
            continue;
        world->steps++;
        dispatch(world, event);
        event_free(event);
        if (world->healed && !world->stopping && drained(world)) {
            world->stopping = true;
            for (int i = 0; i < world->plan.relays; i++)
                stop(world, &world->lives[i], SECOND);
        }
        if (world->now_us > world->plan.chaos_us + (int64_t)DRAIN_S * SECOND && !world->stopping)
            break; /* the books will tell who is left */
    }
    if (!world->failure[0])
        ledger_close(world);
    for (int i = 0; i < world->plan.relays && !world->failure[0]; i++) {
        if (world->lives[i].core)
            sim_fail(world, "r%d did not stop", i);
    }
}

void sim_free(struct world *world)
{
    struct ob_heap_node *node;
    while ((node = ob_heap_pop(&world->events)))
        event_free(OB_CONTAINER(node, struct sim_event, node));
    ob_heap_fini(&world->events);
    for (int i = 0; i < RELAYS; i++)
        ob_machine_free(world->lives[i].core), async_forget(&world->lives[i]);
    OB_LIST_EACH_SAFE (it, &world->parcels)
        free(OB_CONTAINER(it, struct parcel, node));
    store_free(world);
    free(world->txs);
    outbox_set_allocator(NULL, NULL);
}
