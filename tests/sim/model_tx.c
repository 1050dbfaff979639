/* model_tx.c - producers: transactions that overlap. A transaction gets its number with its first write, locks the keys of its
 * messages when it enqueues them, and commits or rolls back later; each of these steps may wait for a long time.
 *
 * A key's rows are in the order of seq, which is the order of commits, since its lock is held until then. Numbers are not: the
 * key's clock makes up for that, see ord. */
#include "core/mutant.h"
#include "sim.h"

#include <stdlib.h>

static void post(struct world *world, int64_t delay_us, enum sim_kind kind, int number)
{
    sim_post(world, delay_us, kind)->index = number;
}

void tx_plan(struct world *world)
{
    int left = world->plan.messages;
    world->txs = calloc((size_t)left, sizeof *world->txs);
    world->next_xid = 3, world->last_xid = 2;
    for (int i = 0; i < KEYS; i++)
        world->last_of_key[i] = world->key_locked[i] = -1;
    while (left > 0) {
        int most = left < TX_MESSAGES ? left : TX_MESSAGES;
        int count = sim_chance(world, 60) ? 1 : (int)sim_between(world, 1, most);
        world->txs[world->tx_count] = (struct tx){.count = count, .first = -1};
        post(world, sim_between(world, 0, world->plan.burst_us), SIM_BEGIN, world->tx_count++);
        left -= count;
    }
}

/* How long a transaction does something else. */
static int64_t pause_us(struct world *world)
{
    if (world->healed || !sim_chance(world, world->plan.slow_tx_percent))
        return sim_chance(world, 50) ? 0 : sim_between(world, 1 * MS, 20 * MS);
    return sim_between(world, 20 * MS, 3 * SECOND);
}

static bool get_number(struct world *world, struct tx *tx)
{
    int running = 0;
    for (int i = 0; i < world->tx_count; i++)
        running += world->txs[i].xid > 0;
    if (running == RUNNING)
        return false;
    tx->xid = world->next_xid++;
    return true;
}

void tx_begin(struct world *world, int number)
{
    if (!get_number(world, &world->txs[number]))
        post(world, sim_between(world, 10 * MS, 100 * MS), SIM_BEGIN, number);
    else
        post(world, pause_us(world), SIM_ENQUEUE, number);
}

struct snapshot tx_snapshot(const struct world *world)
{
    struct snapshot snapshot = {.xmax = world->last_xid + 1};
    for (int i = 0; i < world->tx_count; i++) {
        if (world->txs[i].xid > 0 && world->txs[i].xid < snapshot.xmax)
            snapshot.running[snapshot.count++] = world->txs[i].xid;
    }
    return snapshot;
}

/* Where it goes: a key that was ever in the log stays there, or its messages could overtake each other. */
static void choose_lane(struct world *world, const struct tx *tx, struct msg *msg, bool delayed)
{
    bool queue = world->queue_lane[msg->key >= 0 ? msg->key % NAMESPACES : msg->index % NAMESPACES];
    msg->shard = -1;
    if (msg->key < 0 ? queue || delayed : queue && world->clocks[msg->key] == 0)
        return;
    msg->shard = msg->key < 0 ? 0 : 1 + msg->key % (SHARDS - 1);
    msg->xid = msg->ord = tx->xid;
    msg->pos = msg->index + 1;
    if (msg->key >= 0 && world->clocks[msg->key] > msg->ord && !OB_MUTANT(LOG_NO_CLOCK))
        msg->ord = world->clocks[msg->key];
}

static void enqueue(struct world *world, const struct tx *tx, int index, int key)
{
    struct msg *msg = &world->msgs[index];
    const struct plan *plan = &world->plan;
    bool delayed = sim_chance(world, 10);
    *msg = (struct msg){.index = index, .prev = -1, .key = key};
    msg->sink = sim_chance(world, plan->unrouted_percent) ? -1 : (int)sim_between(world, 0, plan->sinks - 1);
    msg->blind = sim_chance(world, plan->blind_percent);
    msg->poison = sim_chance(world, plan->poison_percent);
    msg->local = sim_chance(world, 50);
    msg->refused = sim_chance(world, plan->refused_percent);
    msg->max_attempts = msg->asked = (int)sim_between(world, 1, 6);
    msg->own = sim_chance(world, 40);
    msg->due_us = sim_store_now(world) + (delayed ? sim_between(world, 0, 2 * SECOND) : 0);
    choose_lane(world, tx, msg, delayed);
    sim_say(world, "tx %d enqueues m%d dest %d key %d shard %d ord %d", (int)tx->xid, index, msg->sink, key, msg->shard,
            (int)msg->ord);
}

/* All its messages at once, or it waits for the locks of their keys. */
void tx_enqueue(struct world *world, int number)
{
    struct tx *tx = &world->txs[number];
    int keys[TX_MESSAGES];
    bool free = tx->xid > 0 || get_number(world, tx); /* 0: the server threw it out before */
    for (int i = 0; i < tx->count; i++) {
        keys[i] = sim_chance(world, world->plan.keyed_percent) ? (int)sim_between(world, 0, world->plan.keys - 1) : -1;
        free = free && (keys[i] < 0 || world->key_locked[keys[i]] < 0);
    }
    if (!free) {
        post(world, sim_between(world, 1 * MS, 30 * MS), SIM_ENQUEUE, number);
        return;
    }
    tx->first = world->enqueued;
    for (int i = 0; i < tx->count; i++) {
        if (keys[i] >= 0)
            world->key_locked[keys[i]] = number;
        enqueue(world, tx, world->enqueued++, keys[i]);
    }
    post(world, pause_us(world), SIM_COMMIT, number);
}

static void commit(struct world *world, struct msg *msg)
{
    msg->status = msg->shard >= 0 ? MSG_LOGGED : MSG_PENDING;
    if (msg->key < 0)
        return;
    msg->seq = ++world->seqs[msg->key];
    msg->prev = world->last_of_key[msg->key];
    world->last_of_key[msg->key] = msg->index;
    if (msg->shard >= 0)
        world->clocks[msg->key] = msg->ord;
}

static void end(struct world *world, struct tx *tx, bool commits)
{
    sim_say(world, "tx %d %s", (int)tx->xid, commits ? "commits" : "is rolled back");
    for (int i = 0; i < tx->count && tx->first >= 0; i++) {
        struct msg *msg = &world->msgs[tx->first + i];
        if (commits)
            commit(world, msg);
        else
            msg->status = MSG_ROLLED_BACK;
        if (msg->key >= 0)
            world->key_locked[msg->key] = -1;
    }
    if (tx->xid > world->last_xid)
        world->last_xid = tx->xid;
    tx->xid = 0;
}

void tx_commit(struct world *world, int number)
{
    struct tx *tx = &world->txs[number];
    if (tx->xid == 0)
        return;
    end(world, tx, !sim_chance(world, 5));
    store_flush(world);
    for (int i = 0; i < world->plan.relays; i++) {
        if (sim_chance(world, 50)) {
            struct sim_event *wake = sim_post(world, sim_between(world, 1 * MS, 5 * MS), SIM_WAKE);
            wake->slot = i, wake->machine = world->lives[i].uid;
        }
    }
}

void tx_abort_all(struct world *world)
{
    for (int i = 0; i < world->tx_count; i++) {
        if (world->txs[i].xid > 0)
            end(world, &world->txs[i], false);
    }
}
