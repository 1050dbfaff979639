/* model_store.c - the contract of a store in memory: leases, tokens, keys, runs, prefetch, attempts and their record. Its
 * rules are those of sql/postgres/005_claim.sql and 006_settle.sql; the contract suite holds the real stores to them. This is
 * the queue; model_log.c is the log. */
#include "core/mutant.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct attempt *attempt_of(struct world *world, int index, int number)
{
    struct msg *msg = &world->msgs[index];
    return number >= 1 && number <= msg->attempt_count ? &msg->attempts[number - 1] : NULL;
}

static void bury(struct world *world, struct msg *msg)
{
    msg->status = MSG_DEAD;
    world->dead++;
    sim_say(world, "store: m%d is dead, %d spent", msg->index, msg->spent);
}

bool store_has_row(const struct msg *msg)
{
    return msg->status == MSG_PENDING || (msg->status == MSG_LEASED && !msg->windowed);
}

/* Whether the message before it lets it go: it has left the queue, is taken by this claim, or out under this very name. */
static bool turn(const struct world *world, const struct sim_event *call, const struct msg *msg, const bool *taken)
{
    if (msg->prev < 0 || OB_MUTANT(STORE_FORGETS_KEY))
        return true;
    const struct msg *prev = &world->msgs[msg->prev];
    if (!store_has_row(prev) || taken[msg->prev])
        return true;
    return call->prefetch && prev->status == MSG_LEASED && prev->holder == call->worker &&
           prev->until_us > sim_store_now(world);
}

static bool asked_for(const struct world *world, const struct sim_event *call, const struct msg *msg)
{
    int sink = msg->sink >= 0 ? msg->sink : world->routes ? 0 : -1;
    if (call->only)
        return sink >= 0 && !call->shut[sink];
    return sink < 0 || msg->blind || !call->shut[sink];
}

static bool due(const struct world *world, const struct msg *msg)
{
    int64_t now = sim_store_now(world);
    return store_has_row(msg) && (msg->status == MSG_PENDING ? msg->due_us : msg->until_us) <= now;
}

void store_lease(struct world *world, const struct sim_event *call, struct msg *msg)
{
    if (msg->attempt_count == msg->attempt_room) {
        msg->attempt_room = msg->attempt_room ? msg->attempt_room * 2 : 4;
        msg->attempts = realloc(msg->attempts, (size_t)msg->attempt_room * sizeof *msg->attempts);
    }
    const struct life *life = &world->lives[call->slot];
    msg->attempts[msg->attempt_count++] =
        (struct attempt){.machine = call->machine,
                         .verdict = -1,
                         .failures = life->failures,
                         .lease_until_us = call->asked_us + call->lease_us,
                         .not_before_us = -1,
                         .spent = msg->spent + 1,
                         .deferred = msg->deferred,
                         .excused = call->failed || life->uid != call->machine ||
                                    world->now_us < world->outage_until_us || world->now_us < life->paused_until_us};
    msg->attempt = msg->attempt_count;
    msg->status = MSG_LEASED;
    msg->holder = call->worker;
    msg->until_us = sim_store_now(world) + call->lease_us;
    msg->spent++;
    if (msg->spent > msg->max_attempts)
        sim_fail(world, "m%d: %d attempts spent of %d (M7)", msg->index, msg->spent, msg->max_attempts);
}

void store_hand_out(const struct world *world, struct sim_event *call, const struct msg *msg)
{
    (void)world;
    call->claimed[call->count].msg = msg->index;
    call->claimed[call->count].spent = msg->spent;
    call->claimed[call->count].deferred = msg->deferred;
    call->claimed[call->count].lost = msg->lost;
    call->claimed[call->count].token = msg->attempt;
    call->claimed[call->count++].attempt = msg->attempt;
}

void store_claim(struct world *world, struct sim_event *call)
{
    int runs[KEYS] = {0};
    bool *taken = calloc((size_t)world->plan.messages, sizeof *taken);
    call->claimed = calloc((size_t)call->limit, sizeof *call->claimed);
    call->count = 0;
    for (int i = 0; i < world->plan.messages && call->count < call->limit; i++) {
        struct msg *msg = &world->msgs[i];
        if (!due(world, msg) || !asked_for(world, call, msg) || !turn(world, call, msg, taken))
            continue;
        if (msg->key >= 0 && runs[msg->key] >= (msg->spent > 0 ? 1 : call->run))
            continue;
        bool dying = msg->spent >= msg->max_attempts;
        if (dying && msg->prev >= 0 && store_has_row(&world->msgs[msg->prev]))
            continue; /* dies in its turn, or the next one would go too early */
        bool alone = msg->spent > 0 && msg->spent == msg->max_attempts - 1 &&
                     msg->lost + (msg->status == MSG_LEASED) >= msg->spent;
        if (alone && call->count > 0) {
            call->more = true;
            continue;
        }
        if (msg->status == MSG_LEASED) {
            msg->attempts[msg->attempt - 1].outcome = OUTBOX_LOST;
            msg->lost++;
            ledger_lost(world, i);
        }
        if (dying) {
            bury(world, msg);
            continue;
        }
        if (msg->key >= 0)
            runs[msg->key] += msg->spent > 0 ? call->run : 1;
        taken[i] = true;
        store_lease(world, call, msg);
        store_hand_out(world, call, msg);
        if (OB_MUTANT(STORE_DROPS_ROW) && sim_chance(world, 3)) {
            call->count--;
            msg->status = MSG_DELIVERED;
        }
        if (alone) {
            call->more = true;
            break;
        }
    }
    free(taken);
}

void store_settle(struct world *world, struct sim_event *call, struct outbox_settle *item)
{
    int index = msg_of(&item->id);
    struct msg *msg = &world->msgs[index];
    item->result = OUTBOX_SETTLED;
    bool held = msg->status == MSG_LEASED && !msg->windowed && msg->attempt == attempt_of_token(item->token);
    if (OB_MUTANT(NO_FENCING))
        held = msg->status == MSG_LEASED && !msg->windowed;
    if (!held) {
        item->result = OUTBOX_SETTLE_LOST;
        return;
    }
    struct attempt *attempt = &msg->attempts[msg->attempt - 1];
    if (call->call == CALL_EXTEND) {
        msg->until_us = sim_store_now(world) + call->lease_us;
        if (call->asked_us + call->lease_us > attempt->lease_until_us) /* a late one may come after a newer one */
            attempt->lease_until_us = call->asked_us + call->lease_us;
        return;
    }
    attempt->outcome = item->outcome == OUTBOX_SILENT ? OUTBOX_UNKNOWN : item->outcome;
    if (item->max_attempts && (msg->own || item->max_attempts != sim_limit(world, msg)))
        sim_fail(world, "m%d may spend %d attempts, and is told to spend %d (V9)", index, sim_limit(world, msg),
                 item->max_attempts);
    msg->max_attempts = item->max_attempts ? item->max_attempts : msg->max_attempts;
    switch (item->outcome) {
    case OUTBOX_DELIVERED:
        msg->status = MSG_DELIVERED;
        if (msg->accepted == 0)
            sim_fail(world, "m%d is settled as delivered, and nobody has accepted it: lost (N7)", index);
        return;
    case OUTBOX_FAILED: bury(world, msg); return;
    case OUTBOX_RETRY:
    case OUTBOX_UNKNOWN:
        if (msg->spent >= msg->max_attempts) {
            if (msg->spent < sim_limit(world, msg))
                sim_fail(world, "m%d is dead after %d attempts of %d (V9)", index, msg->spent, sim_limit(world, msg));
            bury(world, msg);
            return;
        }
        break;
    default: msg->spent--; break;
    }
    if (item->outcome == OUTBOX_LIMITED || item->outcome == OUTBOX_BLOCKED || item->outcome == OUTBOX_SILENT)
        msg->deferred++;
    else if (item->outcome != OUTBOX_RELEASED && item->outcome != OUTBOX_INTERRUPTED)
        msg->deferred = 0;
    msg->status = MSG_PENDING;
    msg->due_us = sim_store_now(world) + item->delay_us;
}

/* ---- a crash of the server ---- */

/* Commits of producers are on disk at once, and with them all before; those of relays some time later. */
void store_flush(struct world *world)
{
    size_t count = (size_t)world->plan.messages;
    if (world->plan.undo == 0 || world->healed)
        return;
    if (!world->image.msgs)
        world->image.msgs = calloc(count, sizeof *world->image.msgs);
    memcpy(world->image.msgs, world->msgs, count * sizeof *world->msgs);
    for (size_t i = 0; i < count; i++)
        world->image.msgs[i].flushed =
            world->msgs[i].attempt ? world->msgs[i].attempts[world->msgs[i].attempt - 1].outcome : 0;
    log_copy(&world->image.log, &world->log);
}

void store_undo(struct world *world)
{
    if (!world->image.msgs)
        return;
    for (int i = 0; i < world->plan.messages; i++) {
        struct msg *msg = &world->msgs[i], was = *msg;
        if (was.status == MSG_UNBORN || was.status == MSG_ROLLED_BACK)
            continue;
        *msg = world->image.msgs[i];
        msg->accepted = was.accepted;
        msg->attempts = was.attempts, msg->attempt_room = was.attempt_room, msg->attempt_count = was.attempt_count;
        if (msg->attempt)
            msg->attempts[msg->attempt - 1].outcome = msg->flushed;
        for (int number = msg->attempt + 1; number <= msg->attempt_count; number++)
            msg->attempts[number - 1].outcome = OUTBOX_LOST; /* forgotten */
    }
    log_copy(&world->log, &world->image.log);
}

void store_free(struct world *world)
{
    for (int i = 0; i < world->plan.messages; i++)
        free(world->msgs[i].attempts);
    free(world->msgs);
    free(world->image.msgs);
    log_free(&world->log);
    log_free(&world->image.log);
}
