/* model_async.c - what is between a relay and the store, as src/store/pg is: one claim, one settle and one extend at a time, each
 * answered once, and sometimes too late or not at all. It hides the log: a claim may take a window, a token may be a place in
 * one, and what is slow leaves its window (is ejected) by becoming a leased row of the queue.
 *
 *   token       of a window's message: bit 62, serial of the window << 32, index << 16, attempt
 *   again       once a call about a window has no answer yet, or had none: what is settled already is not counted twice
 *   eject       an extend; a keyed window after EJECT_US; and a keyed window of which a message was not delivered: that message
 *               becomes a row of the queue, and none of its key before it may then be outside of the queue */
#include "core/mutant.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EJECT_US = 400 * MS };
#define WINDOW_BIT (INT64_C(1) << 62)

int attempt_of_token(int64_t token)
{
    return (int)(token & 0xffff);
}

static struct held *held_of(struct life *life, int serial)
{
    struct held *held = life->held;
    while (held && held->serial != serial)
        held = held->next;
    return held;
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

static struct part part_of(struct held *held, bool under_way)
{
    return (struct part){.window = true,
                         .again = held->doubt,
                         .under_way = under_way,
                         .serial = held->serial,
                         .shard = held->shard,
                         .id = held->id,
                         .nonce = held->nonce};
}

/* All of it that is not settled yet and not in this call becomes leased rows of the queue. */
static void add_rest(struct sim_event *call, struct held *held)
{
    int listed = call->count + call->extra;
    for (int i = 0; i < held->count; i++) {
        bool named = held->items[i].done && !OB_MUTANT(LOG_EJECTS_ALL);
        for (int j = 0; j < listed && !named; j++)
            named = call->parts[j].window && call->parts[j].serial == held->serial &&
                    msg_of(&call->items[j].id) == held->items[i].msg;
        if (named)
            continue;
        struct outbox_settle *item = &call->items[call->count + call->extra];
        *item = (struct outbox_settle){.token = held->items[i].attempt};
        memcpy(item->id.bytes, &held->items[i].msg, sizeof held->items[i].msg);
        call->parts[call->count + call->extra++] = part_of(held, true);
    }
}

/* Whether a call takes a window apart: it renews leases, or puts a message of a key into the queue. */
static bool ejects(const struct sim_event *call, const struct held *held)
{
    for (int i = 0; i < call->count; i++) {
        if (call->parts[i].window && call->parts[i].serial == held->serial &&
            (call->call == CALL_EXTEND ||
             (held->shard > 0 && call->items[i].outcome != OUTBOX_DELIVERED && !OB_MUTANT(LOG_OVERTAKES))))
            return true;
    }
    return false;
}

/* From here on until it is answered, and for ever if it is not, nobody knows what the store has done. */
static void mark_doubt(struct sim_event *call, struct life *life)
{
    for (struct held *held = life->held; held; held = held->next) {
        bool named = false;
        for (int i = 0; i < call->count + call->extra; i++)
            named = named || (call->parts[i].window && call->parts[i].serial == held->serial);
        held->calls += named;
        held->doubt = held->doubt || named;
    }
}

static void make_room(struct sim_event *call, const struct life *life, int count)
{
    for (const struct held *held = life->held; held; held = held->next)
        count += held->count;
    call->items = calloc((size_t)count + 1, sizeof *call->items);
    call->parts = calloc((size_t)count + 1, sizeof *call->parts);
}

void async_settle(struct world *world, struct life *life, const struct ob_action *action)
{
    bool settle = action->kind == OB_ACTION_SETTLE;
    struct sim_event *call = call_store(world, life, settle ? CALL_SETTLE : CALL_EXTEND, action->lease_us);
    make_room(call, life, action->count);
    call->count = action->count;
    memcpy(call->items, action->settles, (size_t)action->count * sizeof *call->items);
    *(settle ? &life->settles : &life->extends) = action->settles;
    for (int i = 0; i < call->count; i++) {
        int64_t token = call->items[i].token;
        struct held *held = token & WINDOW_BIT ? held_of(life, (int)(token >> 32 & 0x3fffffff)) : NULL;
        if (held && !held->ejected)
            call->parts[i] = part_of(held, !settle);
    }
    for (struct held *held = life->held; held; held = held->next) {
        if (ejects(call, held))
            add_rest(call, held);
    }
    mark_doubt(call, life);
}

/* By the store itself: a keyed shard gives nothing more while its window is open. */
void async_eject(struct world *world, struct life *life, int serial)
{
    struct held *held = held_of(life, serial);
    if (!held || held->ejected)
        return;
    struct sim_event *call = call_store(world, life, CALL_EJECT, world->plan.machine.lease_us);
    make_room(call, life, 0);
    add_rest(call, held);
    mark_doubt(call, life);
    struct sim_event *again = sim_post(world, 500 * MS, SIM_EJECT);
    again->slot = life->slot, again->machine = life->uid, again->index = serial;
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
    reply->extra = call->extra, reply->more = call->more;
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
    for (int i = 0; i < call->count && !half; i++) {
        if (!call->parts[i].window)
            store_settle(world, call, &call->items[i]);
    }
    sim_say(world, "store: call %d of r%d/%u, %d items and %d%s", (int)call->call, call->slot, (unsigned)call->machine,
            call->count, call->extra, fine ? "" : ": failed");
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

/* A window has come: from here on its messages have tokens of their own. */
static void hold(struct world *world, struct life *life, struct sim_event *reply)
{
    if (reply->id == 0 || reply->count == 0)
        return;
    struct held *held = calloc(1, sizeof *held + (size_t)reply->count * sizeof held->items[0]);
    held->serial = ++life->serials;
    held->shard = reply->shard, held->id = reply->id, held->nonce = reply->nonce;
    held->count = held->left = reply->count;
    for (int i = 0; i < reply->count; i++) {
        held->items[i].msg = reply->claimed[i].msg;
        held->items[i].attempt = reply->claimed[i].attempt;
        reply->claimed[i].token =
            WINDOW_BIT | (int64_t)held->serial << 32 | (int64_t)i << 16 | reply->claimed[i].attempt;
    }
    held->next = life->held;
    life->held = held;
    if (held->shard > 0) {
        struct sim_event *eject = sim_post(world, EJECT_US, SIM_EJECT);
        eject->slot = life->slot, eject->machine = life->uid, eject->index = held->serial;
    }
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

static void mark_done(struct held *held, int msg)
{
    for (int i = 0; i < held->count; i++) {
        if (held->items[i].msg == msg && !held->items[i].done) {
            held->items[i].done = true;
            held->left--;
        }
    }
}

/* What an answer says of the windows. Those of which nothing is left are forgotten. */
static void learn(struct world *world, struct life *life, const struct sim_event *reply)
{
    for (struct held **at = &life->held; *at;) {
        struct held *held = *at;
        bool named = false;
        for (int i = 0; i < reply->count + reply->extra; i++) {
            const struct part *part = &reply->parts[i];
            if (!part->window || part->serial != held->serial)
                continue;
            named = true;
            held->ejected = held->ejected || part->under_way;
            if (!part->under_way || reply->items[i].result != OUTBOX_SETTLED)
                mark_done(held, msg_of(&reply->items[i].id));
        }
        held->calls -= named;
        held->doubt = held->doubt && held->calls > 0;
        if (held->left > 0) {
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

void async_reply(struct world *world, struct life *life, struct sim_event *reply)
{
    static const enum ob_event_kind kinds[][2] = {{OB_EVENT_CLAIMED, OB_EVENT_CLAIM_FAILED},
                                                  {OB_EVENT_SETTLED, OB_EVENT_SETTLE_FAILED},
                                                  {OB_EVENT_EXTENDED, OB_EVENT_EXTEND_FAILED}};
    bool fine = !reply->failed;
    if (fine && reply->parts)
        learn(world, life, reply);
    if (reply->call == CALL_EJECT)
        return;
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
    sim_tell(world, life, &(struct ob_event){.kind = kinds[reply->call][reply->failed]});
}
