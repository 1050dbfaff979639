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

/* Whether the relay asked for something: otherwise it is ejected behind its back. */
static bool is_asked(const struct sim_event *call, const struct outbox_settle *item)
{
    return item < call->items + call->count;
}

/* The window is not ours any more, or this item is settled: what an earlier call did counts. A row of the queue under the same
 * attempt is what became of it, by an eject or a repair. */
static void settle_again(struct world *world, struct sim_event *call, struct outbox_settle *item,
                         const struct part *part)
{
    const struct msg *msg = &world->msgs[msg_of(&item->id)];
    const struct attempt *attempt = attempt_of(world, msg->index, attempt_of_token(item->token));
    bool row = store_has_row(msg) && msg->status == MSG_LEASED && msg->attempt == attempt_of_token(item->token);
    if (part->again && row && is_asked(call, item) && !OB_MUTANT(LOG_AGAIN_DROPS))
        store_settle(world, call, item);
    else
        item->result = part->again && (row || (attempt->outcome && attempt->outcome != OUTBOX_LOST))
                           ? OUTBOX_SETTLED
                           : OUTBOX_SETTLE_LOST;
}

static void settle_row(struct world *world, struct sim_event *call, struct outbox_settle *item, const struct part *part,
                       struct window *window)
{
    struct msg *msg = &world->msgs[msg_of(&item->id)];
    bool counts = log_unsettled(msg) || OB_MUTANT(LOG_NO_FENCE);
    if (OB_MUTANT(LOG_EJECTS_ALL) && part->under_way) /* a row of the queue for what was delivered */
        msg->status = MSG_LEASED;
    if (counts || (OB_MUTANT(LOG_EJECTS_ALL) && part->under_way)) {
        msg->windowed = false;
        msg->until_us = sim_store_now(world) + world->plan.machine.lease_us;
        if (OB_MUTANT(LOG_NO_FENCE))
            msg->status = MSG_LEASED, msg->attempt = attempt_of_token(item->token);
        item->result = OUTBOX_SETTLED;
        if (is_asked(call, item))
            store_settle(world, call, item);
    } else {
        settle_again(world, call, item, part);
    }
    window->remaining -= counts || OB_MUTANT(LOG_COUNTS_TWICE);
    if (window->remaining <= 0 || OB_MUTANT(LOG_CLOSES_EARLY))
        window->open = false;
}

bool window_settle(struct world *world, struct sim_event *call)
{
    /* Without `again` nobody looks: the row is there twice, and the transaction fails. */
    for (int i = 0; i < call->count + call->extra; i++) {
        const struct part *part = &call->parts[i];
        if (part->window && !part->again && !OB_MUTANT(LOG_NO_FENCE) && !OB_MUTANT(LOG_EJECTS_ALL) &&
            find(world, part->shard, part->id, part->nonce) && !log_unsettled(&world->msgs[msg_of(&call->items[i].id)]))
            return false;
    }
    for (int i = 0; i < call->count + call->extra; i++) {
        struct part *part = &call->parts[i];
        part->found = part->window ? find(world, part->shard, part->id, part->nonce) : NULL;
    }
    for (int i = 0; i < call->count + call->extra; i++) {
        if (call->parts[i].found)
            settle_row(world, call, &call->items[i], &call->parts[i], call->parts[i].found);
        else if (call->parts[i].window)
            settle_again(world, call, &call->items[i], &call->parts[i]);
    }
    return true;
}
