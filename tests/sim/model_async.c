/* model_async.c - what is between a relay and the store, as src/store/pg is: one claim, one settle and one extend at a time, each
 * answered once, and sometimes too late or not at all. It hides the log: a claim may take a window, a token may be a place in
 * one, and what is slow leaves its window (is ejected) by becoming a leased row of the queue.
 *
 *   token    of a window's message: bit 62, serial of the window << 32, index << 16, attempt
 *   again    a call with this message has failed: what the store has settled already is not counted twice
 *   eject    before an extend; of a keyed window after EJECT_US; and before a message of a key that was not delivered becomes a
 *            row of the queue, while one before it is in the window: claims would let it go first. A failed eject is
 *            repeated before anything else is said of its messages. */
#include "core/mutant.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EJECT_US = 400 * MS, REPEAT_US = SECOND };
#define WINDOW_BIT (INT64_C(1) << 62)

int attempt_of_token(int64_t token)
{
    return (int)(token & 0xffff);
}

void async_forget(struct life *life)
{
    while (life->held) {
        struct held *next = life->held->next;
        free(life->held);
        life->held = next;
    }
}

/* ---- requests ---- */

static struct sim_event *call_store(struct world *world, struct life *life, enum call_kind kind, int64_t lease_us)
{
    const struct plan *plan = &world->plan;
    bool bad = !world->healed;
    int64_t way = sim_between(world, 1 * MS, 20 * MS);
    bool lost = bad && sim_chance(world, plan->lost_request_percent);
    bool late = bad && !lost && sim_chance(world, plan->late_percent);
    if (lost)
        way = 200 * MS;
    else if (late)
        way = sim_between(world, 300 * MS, 3 * SECOND);
    else if (kind != CALL_CLAIM) /* one connection: they are carried out in order */
        life->line_us = way = world->now_us + way > life->line_us ? world->now_us + way : life->line_us + 1,
        way -= world->now_us;
    struct sim_event *event = sim_post(world, way, lost ? SIM_REPLY : SIM_STORE);
    event->slot = life->slot, event->machine = life->uid, event->call = kind, event->lease_us = lease_us;
    event->asked_us = life_now(world, life);
    event->failed = lost || late || (bad && sim_chance(world, plan->lost_reply_percent));
    event->mute = late;
    if (late) { /* the machine has given up long before the store does it */
        struct sim_event *gone = sim_post(world, 200 * MS, SIM_REPLY);
        gone->slot = life->slot, gone->machine = life->uid, gone->failed = true, gone->call = kind;
    }
    return event;
}

void async_claim(struct world *world, struct life *life, const struct ob_action *action)
{
    life->claiming = true;
    struct sim_event *call = call_store(world, life, CALL_CLAIM, action->lease_us);
    call->worker = (uint64_t)life->uid << 32 | action->incarnation;
    call->limit = action->limit;
    call->run = action->run;
    /* A crash may undo a settle: what the store then holds under this name is not what we hold. */
    call->prefetch = action->prefetch && (world->plan.undo == 0 || OB_MUTANT(PREFETCH_RELAXED));
    call->only = action->only;
    memcpy(call->shut, action->shut, sizeof *call->shut * (size_t)world->plan.sinks);
    /* In turn, while the queue has something; a look at it now and then all the same. */
    bool queue = (life->queued && life->claims % 2) || life->claims % 4 == 3;
    call->mode = action->only || world->plan.plain[life->slot] ? CLAIM_ADMITS : queue ? CLAIM_QUEUE : CLAIM_TAKES;
    life->claims++;
}

static struct held *held_of(struct life *life, int64_t token, int *index)
{
    struct held *held = token & WINDOW_BIT ? life->held : NULL;
    while (held && held->serial != (int)(token >> 32 & 0x3fffffff))
        held = held->next;
    *index = (int)(token >> 16 & 0xffff);
    return held && held->items[*index].state != GONE ? held : NULL;
}

static struct sim_event *call_items(struct world *world, struct life *life, enum call_kind kind, int count,
                                    int64_t lease_us)
{
    struct sim_event *call = call_store(world, life, kind, lease_us);
    call->items = calloc((size_t)count + 1, sizeof *call->items);
    call->parts = calloc((size_t)count + 1, sizeof *call->parts);
    return call;
}

static void add_part(struct sim_event *call, struct held *held, int index, enum held_state state)
{
    struct outbox_settle *item = &call->items[call->count];
    call->parts[call->count++] = (struct part){
        .window = true, .serial = held->serial, .shard = held->shard, .id = held->id, .nonce = held->nonce};
    if (state == EJECTING)
        *item = (struct outbox_settle){.token = held->items[index].attempt};
    memcpy(item->id.bytes, &held->items[index].msg, sizeof held->items[index].msg);
    held->items[index].state = state;
    held->items[index].out = true;
}

/* For the call as a whole. */
static void add_again(struct sim_event *call, struct life *life, enum held_state state)
{
    bool again = false;
    for (const struct held *held = life->held; held; held = held->next) {
        for (int i = 0; i < held->count; i++)
            again = again || (held->items[i].state == state && held->items[i].out && held->items[i].doubt);
    }
    for (int i = 0; i < call->count; i++)
        call->parts[i].again = again;
}

/* Whether one of its key before it is in the window, and not in the same settle. */
static bool precedes(const struct world *world, const struct ob_action *action, const struct held *held, int index)
{
    int key = world->msgs[held->items[index].msg].key;
    for (int i = 0; i < index && key >= 0 && !OB_MUTANT(LOG_OVERTAKES); i++) {
        bool named = held->items[i].state == GONE;
        for (int j = 0; j < action->count && !named; j++)
            named = msg_of(&action->settles[j].id) == held->items[i].msg && held->items[i].state != EJECTING;
        if (!named && world->msgs[held->items[i].msg].key == key)
            return true;
    }
    return false;
}

/* Whether windows must be ejected before this can be sent; they will be. */
static bool is_held_up(const struct world *world, struct life *life, const struct ob_action *action)
{
    bool held_up = false;
    for (int i = 0, index; i < action->count; i++) {
        struct held *held = held_of(life, action->settles[i].token, &index);
        bool settles = action->kind == OB_ACTION_SETTLE;
        if (!held)
            continue;
        if (settles && (held->items[index].state != EJECTING || OB_MUTANT(LOG_AGAIN_DROPS)) &&
            (action->settles[i].outcome == OUTBOX_DELIVERED || !precedes(world, action, held, index))) {
            held_up = held_up || life->ejecting;
            continue;
        }
        held->eject_us = 0;
        held_up = true;
    }
    return held_up;
}

static void send(struct world *world, struct life *life, const struct ob_action *action)
{
    bool settle = action->kind == OB_ACTION_SETTLE;
    struct sim_event *call =
        call_items(world, life, settle ? CALL_SETTLE : CALL_EXTEND, action->count, action->lease_us);
    memcpy(call->items, action->settles, (size_t)action->count * sizeof *call->items);
    for (int index; call->count < action->count;) {
        struct held *held = held_of(life, call->items[call->count].token, &index);
        life->settling = life->settling || held;
        if (held)
            add_part(call, held, index, SETTLING);
        else
            call->count++;
    }
    add_again(call, life, SETTLING);
}

static void eject(struct world *world, struct life *life)
{
    struct sim_event *call = NULL;
    for (struct held *held = life->held; held; held = held->next) {
        if (held->eject_us > world->now_us)
            continue;
        if (!call)
            call = call_items(world, life, CALL_EJECT, world->plan.messages, 0);
        for (int i = 0; i < held->count; i++) {
            if (held->items[i].state != GONE || OB_MUTANT(LOG_EJECTS_ALL))
                add_part(call, held, i, EJECTING);
        }
    }
    life->ejecting = call;
    if (call)
        add_again(call, life, EJECTING);
}

void async_go_on(struct world *world, struct life *life)
{
    for (int i = 0; i < 2; i++) {
        if (life->waits[i].kind != OB_ACTION_NONE && !is_held_up(world, life, &life->waits[i])) {
            send(world, life, &life->waits[i]);
            life->waits[i].kind = OB_ACTION_NONE;
        }
    }
    if (!life->ejecting && !life->settling)
        eject(world, life);
}

void async_settle(struct world *world, struct life *life, const struct ob_action *action)
{
    bool settle = action->kind == OB_ACTION_SETTLE;
    *(settle ? &life->settles : &life->extends) = action->settles;
    life->waits[!settle] = *action;
    async_go_on(world, life);
}

/* ---- at the store ---- */

static void answer(struct world *world, struct sim_event *call, bool down)
{
    if (call->mute)
        return;
    struct sim_event *reply = sim_post(world, call->failed ? 200 * MS : sim_between(world, 1 * MS, 30 * MS), SIM_REPLY);
    reply->slot = call->slot, reply->machine = call->machine;
    reply->call = call->call == CALL_PAGE ? CALL_CLAIM : call->call;
    reply->failed = call->failed || down;
    reply->count = down ? 0 : call->count;
    reply->more = call->more;
    reply->shard = call->shard, reply->id = call->id, reply->nonce = call->nonce;
    reply->queued = call->queued, reply->busy = call->busy;
    reply->claimed = call->claimed, reply->items = call->items, reply->parts = call->parts;
    call->claimed = NULL, call->items = NULL, call->parts = NULL;
}

/* The page is read in the next transaction: anything may happen before. */
static void post_page(struct world *world, const struct sim_event *take)
{
    int64_t way =
        world->healed || sim_chance(world, 80) ? sim_between(world, 0, 2 * MS) : sim_between(world, 0, 150 * MS);
    struct sim_event *page = sim_post(world, way, SIM_STORE);
    struct sim_event event = *take;
    event.node = page->node, event.at_us = page->at_us, event.number = page->number;
    event.call = CALL_PAGE;
    *page = event;
}

static void execute_claim(struct world *world, struct sim_event *call)
{
    bool fine = true;
    if (call->mode == CLAIM_TAKES)
        fine = log_take(world, call);
    else if (call->mode == CLAIM_ADMITS)
        fine = log_admit(world, call->limit);
    if (!fine)
        log_rebase(world);
    if (call->mode == CLAIM_TAKES && call->id > 0) {
        post_page(world, call);
        return;
    }
    store_claim(world, call);
    sim_say(world, "store: claim of r%d/%u brings %d", call->slot, (unsigned)call->machine, call->count);
    answer(world, call, false);
}

/* Two transactions, windows first; where the answer is lost, the second may not have come about. */
static void execute_settle(struct world *world, struct sim_event *call)
{
    bool half = call->failed && sim_chance(world, 20);
    bool fine = window_settle(world, call);
    for (int i = 0; i < call->count && !half && call->call != CALL_EJECT; i++) {
        /* What lost its window may be a row of the queue: the same once more. */
        if (!call->parts[i].window || (fine && call->items[i].result == OUTBOX_SETTLE_LOST))
            store_settle(world, call, &call->items[i]);
    }
    sim_say(world, "store: call %d of r%d/%u, %d items%s", (int)call->call, call->slot, (unsigned)call->machine,
            call->count, fine ? "" : ": failed");
    call->failed = call->failed || !fine;
    answer(world, call, false);
}

void async_execute(struct world *world, struct sim_event *call)
{
    if (world->now_us < world->outage_until_us) {
        answer(world, call, true);
    } else if (call->call == CALL_CLAIM) {
        execute_claim(world, call);
    } else if (call->call == CALL_PAGE) {
        window_page(world, call);
        sim_say(world, "store: page of r%d/%u has %d", call->slot, (unsigned)call->machine, call->count);
        answer(world, call, false);
    } else {
        execute_settle(world, call);
    }
    if (sim_chance(world, 30))
        store_flush(world);
}

/* ---- answers ---- */

static void post_eject(struct world *world, const struct life *life, int64_t delay_us)
{
    struct sim_event *eject = sim_post(world, delay_us, SIM_EJECT);
    eject->slot = life->slot, eject->machine = life->uid;
}

/* A window has come: from here on its messages have tokens of their own. */
static void hold(struct world *world, struct life *life, struct sim_event *reply)
{
    if (reply->id == 0 || reply->count == 0)
        return;
    struct held *held = calloc(1, sizeof *held + (size_t)reply->count * sizeof held->items[0]);
    held->serial = ++life->serials;
    held->shard = reply->shard, held->id = reply->id, held->nonce = reply->nonce;
    held->count = reply->count;
    held->eject_us = held->shard > 0 ? world->now_us + EJECT_US : INT64_MAX;
    for (int i = 0; i < reply->count; i++) {
        held->items[i].msg = reply->claimed[i].msg;
        held->items[i].attempt = reply->claimed[i].attempt;
        reply->claimed[i].token =
            WINDOW_BIT | (int64_t)held->serial << 32 | (int64_t)i << 16 | reply->claimed[i].attempt;
    }
    held->next = life->held;
    life->held = held;
    if (held->shard > 0)
        post_eject(world, life, EJECT_US);
}

static void claimed(struct world *world, struct life *life, struct sim_event *reply)
{
    struct outbox_delivery *msgs = calloc((size_t)reply->count + 1, sizeof *msgs);
    char keys[KEYS][16];
    for (int i = 0; i < KEYS; i++)
        snprintf(keys[i], sizeof keys[i], "k%d", i / 2); /* of two tenants */
    hold(world, life, reply);
    for (int i = 0; i < reply->count; i++) {
        const struct msg *msg = &world->msgs[reply->claimed[i].msg];
        msgs[i] = (struct outbox_delivery){.size = sizeof msgs[i],
                                           .token = reply->claimed[i].token,
                                           .name_space = "sim",
                                           .topic = "t",
                                           .key = msg->key >= 0 ? keys[msg->key] : NULL,
                                           .seq = msg->seq,
                                           .payload = msg->key >= 0 ? "{\"keyed\":1}" : "{\"keyed\":0}",
                                           .payload_len = 11,
                                           .attempt = reply->claimed[i].attempt,
                                           .spent = reply->claimed[i].spent,
                                           .max_attempts = msg->max_attempts,
                                           .own_attempts = msg->own,
                                           .stream = msg->key + 1,
                                           .deferred = reply->claimed[i].deferred,
                                           .lost = reply->claimed[i].lost};
        memcpy(msgs[i].id.bytes, &msg->index, sizeof msg->index);
    }
    sim_tell(world, life,
             &(struct ob_event){.kind = OB_EVENT_CLAIMED, .msgs = msgs, .count = reply->count, .more = reply->more});
    free(msgs);
}

/* What an answer says of the windows: their messages are gone from them, or in doubt. Windows without any are forgotten. */
static void learn(struct world *world, struct life *life, bool fine, enum held_state state)
{
    for (struct held **at = &life->held; *at;) {
        struct held *held = *at;
        int left = 0;
        for (int i = 0; i < held->count; i++) {
            bool meant = held->items[i].out && held->items[i].state == state;
            held->items[i].out = held->items[i].out && !meant;
            held->items[i].doubt = held->items[i].doubt || meant;
            if (meant && fine)
                held->items[i].state = GONE;
            else if (meant && state == SETTLING)
                held->items[i].state = HELD;
            else if (meant)
                held->eject_us = world->now_us + REPEAT_US;
            left += held->items[i].state != GONE;
        }
        if (left > 0) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        free(held);
        if (life->busy) { /* somebody may go on behind it: we */
            struct sim_event *wake = sim_post(world, 1, SIM_WAKE);
            wake->slot = life->slot, wake->machine = life->uid;
        }
    }
}

static void tell_failed(struct world *world, struct life *life, int which)
{
    if (life->waits[which].kind == OB_ACTION_NONE)
        return;
    life->waits[which].kind = OB_ACTION_NONE;
    life->failures++;
    sim_tell(world, life, &(struct ob_event){.kind = which ? OB_EVENT_EXTEND_FAILED : OB_EVENT_SETTLE_FAILED});
}

static void ejected(struct world *world, struct life *life, bool fine)
{
    uint32_t uid = life->uid;
    life->ejecting = false;
    learn(world, life, fine, EJECTING);
    for (int i = 0; i < 2 && !fine && life->core && life->uid == uid; i++)
        tell_failed(world, life, i);
    if (!fine)
        post_eject(world, life, REPEAT_US);
    if (life->core && life->uid == uid)
        async_go_on(world, life);
}

void async_reply(struct world *world, struct life *life, struct sim_event *reply)
{
    static const enum ob_event_kind kinds[][2] = {{OB_EVENT_CLAIMED, OB_EVENT_CLAIM_FAILED},
                                                  {OB_EVENT_SETTLED, OB_EVENT_SETTLE_FAILED},
                                                  {OB_EVENT_EXTENDED, OB_EVENT_EXTEND_FAILED}};
    bool fine = !reply->failed;
    if (reply->call == CALL_EJECT) {
        ejected(world, life, fine);
        return;
    }
    if (reply->call == CALL_SETTLE) {
        life->settling = false;
        learn(world, life, fine, SETTLING);
    }
    sim_say(world, "r%d hears: %s", life->slot, ob_event_name(kinds[reply->call][reply->failed]));
    life->failures += reply->failed;
    if (reply->call == CALL_CLAIM)
        life->claiming = false;
    if (fine && reply->call == CALL_CLAIM) {
        life->queued = reply->queued, life->busy = reply->busy;
        claimed(world, life, reply);
        return;
    }
    struct outbox_settle *items = reply->call == CALL_SETTLE ? life->settles : life->extends;
    for (int i = 0; i < reply->count && fine; i++)
        items[i].result = reply->items[i].result;
    uint32_t uid = life->uid;
    sim_tell(world, life, &(struct ob_event){.kind = kinds[reply->call][reply->failed]});
    if (life->core && life->uid == uid)
        async_go_on(world, life);
}
