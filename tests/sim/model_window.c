/* model_window.c - what is done with a window once it is taken: page reads it, in a transaction of its own; settle_window settles
 * some or all of it, and closes it with the last. It is known by its id and its nonce: after a crash of the server an id may come
 * again, a nonce does not. */
#include "core/mutant.h"
#include "sim.h"

#include <stdlib.h>

static struct window *find(struct world *world, int shard, int64_t id, uint64_t nonce)
{
    if (id < 1 || id > world->log.shards[shard].count)
        return NULL;
    struct window *window = &world->log.shards[shard].windows[id - 1];
    return (window->open && window->nonce == nonce) || OB_MUTANT(LOG_NO_FENCE) ? window : NULL;
}

void window_page(struct world *world, struct sim_event *call)
{
    struct msg *rows[MESSAGES];
    const struct window *window = find(world, call->shard, call->id, call->nonce);
    int count = window ? log_rows(world, window, rows) : 0;
    call->count = 0;
    call->claimed = calloc((size_t)count + 1, sizeof *call->claimed);
    for (int i = 0; i < count; i++) {
        if (!log_left_out(window, rows[i]))
            store_hand_out(world, call, rows[i]);
    }
}

/* ---- settle ---- */

static void settle_row(struct world *world, struct sim_event *call, struct outbox_settle *item, struct window *window)
{
    struct msg *msg = &world->msgs[msg_of(&item->id)];
    bool counts = log_unsettled(msg) || OB_MUTANT(LOG_NO_FENCE);
    bool returns =
        OB_MUTANT(LOG_EJECTS_ALL) && call->call == CALL_EJECT; /* a row of the queue for what was delivered */
    item->result = OUTBOX_SETTLED;
    if (counts || returns) {
        msg->status = MSG_LEASED;
        msg->windowed = false;
        msg->attempt = attempt_of_token(item->token);
        msg->until_us = sim_store_now(world) + world->plan.machine.lease_us;
        if (call->call == CALL_SETTLE)
            store_settle(world, call, item);
    }
    window->remaining -= counts || OB_MUTANT(LOG_COUNTS_TWICE);
    if (window->remaining <= 0 || OB_MUTANT(LOG_CLOSES_EARLY))
        window->open = false;
}

/* Without `again` nobody looks: a row is there twice, and the transaction fails. */
static bool collides(struct world *world, const struct sim_event *call)
{
    for (int i = 0; i < call->count; i++) {
        const struct part *part = &call->parts[i];
        if (part->found && !part->again && !log_unsettled(&world->msgs[msg_of(&call->items[i].id)]) &&
            !OB_MUTANT(LOG_NO_FENCE) && !OB_MUTANT(LOG_EJECTS_ALL))
            return true;
    }
    return false;
}

bool window_settle(struct world *world, struct sim_event *call)
{
    for (int i = 0; i < call->count; i++) {
        struct part *part = &call->parts[i];
        part->found = part->window ? find(world, part->shard, part->id, part->nonce) : NULL;
    }
    if (collides(world, call))
        return false;
    for (int i = 0; i < call->count; i++) {
        if (call->parts[i].found)
            settle_row(world, call, &call->items[i], call->parts[i].found);
        else if (call->parts[i].window) /* it is not ours any more: again, that may have been our own doing */
            call->items[i].result = call->parts[i].again ? OUTBOX_SETTLED : OUTBOX_SETTLE_LOST;
    }
    return true;
}
