/* model_log.c - the log in memory: messages in the order of their commits, taken a window at a time. Its rules are those of
 * sql/postgres/007_log.sql: what a window has is not remembered but follows from two snapshots and two places, so that it can be
 * read again by whoever repairs it. Where a message is (its status) is known to the ledger; what is read here decides. */
#include "core/mutant.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static const struct place top = {INT64_MAX, INT64_MAX};

static struct window *newest(struct world *world, int shard)
{
    return &world->log.shards[shard].windows[world->log.shards[shard].count - 1];
}

static struct window *add(struct world *world, const struct window *window)
{
    int shard = window->shard, count = world->log.shards[shard].count++;
    if (count == world->log.shards[shard].room) {
        world->log.shards[shard].room = count ? count * 2 : 16;
        world->log.shards[shard].windows =
            realloc(world->log.shards[shard].windows, (size_t)world->log.shards[shard].room * sizeof *window);
    }
    struct window *added = &world->log.shards[shard].windows[count];
    *added = *window;
    added->id = count + 1;
    return added;
}

void log_begin(struct world *world)
{
    for (int i = 0; i < SHARDS; i++)
        add(world,
            &(struct window){
                .shard = i, .complete = true, .to = top, .before = tx_snapshot(world), .upto = tx_snapshot(world)});
}

/* ---- what a window has ---- */

static bool ran(const struct snapshot *snapshot, int64_t xid)
{
    for (int i = 0; i < snapshot->count; i++) {
        if (snapshot->running[i] == xid)
            return true;
    }
    return false;
}

static bool sees(const struct snapshot *snapshot, int64_t xid)
{
    return xid < snapshot->xmax && !ran(snapshot, xid);
}

static bool behind(const struct msg *msg, struct place place)
{
    return msg->ord != place.ord ? msg->ord > place.ord : msg->pos > place.pos;
}

/* Written by a transaction that ran at the first snapshot: its place is before the others. A late one is found by its own
 * number, which its place does not tell. */
static bool is_straggler(const struct window *window, const struct msg *msg)
{
    if (OB_MUTANT(LOG_NO_STRAGGLERS) || (OB_MUTANT(LOG_NO_LATE) && msg->xid != msg->ord))
        return false;
    return msg->ord < window->before.xmax && ran(&window->before, msg->xid);
}

static bool in_range(const struct window *window, const struct msg *msg)
{
    if (msg->shard != window->shard || msg->status == MSG_UNBORN || msg->status == MSG_ROLLED_BACK ||
        msg->pos <= window->base || msg->pos > window->high || !behind(msg, window->from) || behind(msg, window->to) ||
        !sees(&window->upto, msg->xid))
        return false; /* above high: written in another cluster, to which the outbox was restored */
    if (window->from.ord < window->before.xmax)
        return is_straggler(window, msg);
    return msg->ord < window->upto.xmax;
}

bool log_left_out(const struct window *window, const struct msg *msg)
{
    if (msg->key >= 0)
        return window->keys[msg->key];
    return window->denied[msg->index % NAMESPACES] || (msg->sink >= 0 && !msg->blind && window->shut[msg->sink]);
}

static int by_place(const void *a, const void *b)
{
    const struct msg *x = *(struct msg *const *)a, *y = *(struct msg *const *)b;
    return behind(x, (struct place){y->ord, y->pos}) ? 1 : -1;
}

int log_rows(struct world *world, const struct window *window, struct msg **rows)
{
    int count = 0;
    for (int i = 0; i < world->enqueued; i++) {
        if (in_range(window, &world->msgs[i]))
            rows[count++] = &world->msgs[i];
    }
    qsort(rows, (size_t)count, sizeof(struct msg *), by_place);
    return count;
}

/* ---- repair ---- */

bool log_unsettled(const struct msg *msg)
{
    return msg->status == MSG_LEASED && msg->windowed;
}

/* What is not settled becomes leases that have ended. */
static void repair(struct world *world, struct window *window)
{
    struct msg *rows[MESSAGES];
    int count = log_rows(world, window, rows);
    sim_say(world, "store: repair of window %d of shard %d", (int)window->id, window->shard);
    window->open = false;
    for (int i = 0; i < count; i++) {
        if (log_left_out(window, rows[i]) || !log_unsettled(rows[i]))
            continue;
        rows[i]->windowed = false;
        rows[i]->until_us = window->until_us < sim_store_now(world) ? window->until_us : sim_store_now(world);
        if (OB_MUTANT(LOG_REPAIRS_ONE))
            return;
    }
}

static bool repair_ended(struct world *world, int shard)
{
    bool open = false;
    for (int i = 0; i < world->log.shards[shard].count; i++) {
        struct window *window = &world->log.shards[shard].windows[i];
        if (window->open && window->until_us <= sim_store_now(world))
            repair(world, window);
        open = open || window->open;
    }
    return open;
}

/* ---- take ---- */

/* The next piece of a shard: where it ends, and its rows. */
static int next_piece(struct world *world, const struct window *last, int most, struct window *piece, struct msg **rows)
{
    *piece = (struct window){.shard = last->shard,
                             .cluster = last->cluster,
                             .base = last->base,
                             .high = last->high,
                             .from = last->to,
                             .to = top,
                             .before = last->before,
                             .upto = last->upto};
    if (last->complete) {
        piece->from = (struct place){0, 0};
        piece->before = last->upto;
        piece->upto = tx_snapshot(world);
        piece->high = world->enqueued;
    }
    struct place first = {piece->before.xmax, 0};
    bool stragglers = piece->from.ord < first.ord;
    int count = stragglers ? log_rows(world, piece, rows) : 0;
    if (count == 0) {
        if (stragglers)
            piece->from = first;
        stragglers = false;
        count = log_rows(world, piece, rows);
    }
    piece->complete = !stragglers && count < most;
    if (count >= most) {
        count = most;
        piece->to = (struct place){rows[most - 1]->ord, rows[most - 1]->pos};
    } else if (stragglers) {
        piece->to = first;
    }
    return count;
}

static void leave_out(struct world *world, const struct sim_event *call, struct window *piece, struct msg **rows,
                      int count)
{
    bool queued[KEYS] = {false};
    for (int i = 0; i < world->enqueued && piece->shard > 0; i++) {
        if (store_has_row(&world->msgs[i]) && world->msgs[i].key >= 0)
            queued[world->msgs[i].key] = true;
    }
    memcpy(piece->shut, call->shut, sizeof piece->shut);
    memcpy(piece->denied, world->queue_lane, sizeof piece->denied);
    for (int i = 0; i < count; i++) {
        const struct msg *msg = rows[i];
        if (msg->key >= 0 &&
            ((queued[msg->key] && !OB_MUTANT(LOG_BLOCKED_GO)) || msg->due_us > sim_store_now(world) ||
             piece->denied[msg->key % NAMESPACES] || (msg->sink >= 0 && !msg->blind && call->shut[msg->sink])))
            piece->keys[msg->key] = true;
    }
}

static void to_queue(struct world *world, struct msg *msg)
{
    if (msg->status != MSG_LOGGED)
        sim_fail(world, "m%d comes out of the log twice (N7)", msg->index);
    msg->status = MSG_PENDING;
}

/* Leases what was not left out; the rest goes to the queue. */
static void fill(struct world *world, const struct sim_event *call, struct window *piece, struct msg **rows, int count)
{
    for (int i = 0; i < count; i++) {
        to_queue(world, rows[i]);
        if (!call || log_left_out(piece, rows[i]))
            continue;
        store_lease(world, call, rows[i]);
        rows[i]->windowed = true;
        piece->size++;
    }
    piece->remaining = piece->size;
    piece->open = piece->size > 0;
    if (piece->open) {
        piece->until_us = sim_store_now(world) + call->lease_us;
        piece->nonce = sim_random(world);
    }
}

/* Opens a window on the next piece; call: NULL: puts it into the queue instead. */
static void take_piece(struct world *world, int shard, int most, struct sim_event *call)
{
    struct msg *rows[MESSAGES];
    struct window piece;
    bool fresh = false;
    int count = 0;
    while (!fresh && count == 0) {
        fresh = newest(world, shard)->complete;
        count = next_piece(world, newest(world, shard), most, &piece, rows);
        if (count == 0 && (!fresh || sim_chance(world, 10))) /* the cursor goes on over nothing */
            add(world, &piece);
    }
    if (count == 0)
        return;
    if (call)
        leave_out(world, call, &piece, rows, count);
    fill(world, call, &piece, rows, count);
    const struct window *window = add(world, &piece);
    if (window->open)
        call->shard = shard, call->id = window->id, call->nonce = window->nonce;
    sim_say(world, "store: window %d of shard %d, %d of %d rows", (int)window->id, shard, piece.size, count);
}

static bool is_foreign(struct world *world)
{
    return newest(world, 0)->cluster != world->log.cluster;
}

bool log_take(struct world *world, struct sim_event *call)
{
    int first = (int)sim_between(world, 0, SHARDS - 1);
    if (is_foreign(world))
        return false;
    call->id = 0;
    for (int i = 0; i < SHARDS && call->id == 0; i++) {
        int shard = (first + i) % SHARDS;
        if (repair_ended(world, shard) && shard > 0 && !OB_MUTANT(LOG_TWO_WINDOWS))
            call->busy = true;
        else
            take_piece(world, shard, call->limit, call);
    }
    for (int i = 0; i < world->enqueued; i++)
        call->queued = call->queued || store_has_row(&world->msgs[i]);
    return true;
}

bool log_admit(struct world *world, int most)
{
    if (is_foreign(world))
        return false;
    for (int shard = 0; shard < SHARDS; shard++) {
        if (!repair_ended(world, shard) || shard == 0)
            take_piece(world, shard, most, NULL);
    }
    return true;
}

/* ---- rebase ---- */

static bool is_consumed(const struct window *last, const struct msg *msg)
{
    return msg->pos <= last->base ||
           (msg->pos <= last->high &&
            (sees(&last->before, msg->xid) || (sees(&last->upto, msg->xid) && !behind(msg, last->to))));
}

/* The numbers of another cluster mean nothing here. All that is left goes to the queue; the log begins anew. */
void log_rebase(struct world *world)
{
    for (int i = 0; i < world->tx_count; i++) {
        if (world->txs[i].xid > 0 && world->txs[i].first >= 0)
            return; /* it holds a lock on the table: come again */
    }
    struct snapshot now = tx_snapshot(world);
    sim_say(world, "store: rebase");
    for (int i = 0; i < KEYS; i++) {
        if (world->clocks[i] >= now.xmax && !OB_MUTANT(LOG_CLOCKS_STAY))
            world->clocks[i] = 0;
    }
    for (int shard = 0; shard < SHARDS; shard++) {
        for (int i = 0; i < world->log.shards[shard].count; i++) {
            if (world->log.shards[shard].windows[i].open)
                repair(world, &world->log.shards[shard].windows[i]);
        }
        const struct window *last = newest(world, shard);
        for (int i = 0; i < world->enqueued; i++) {
            struct msg *msg = &world->msgs[i];
            if (msg->shard == shard && msg->status != MSG_ROLLED_BACK && !is_consumed(last, msg))
                to_queue(world, msg);
        }
        add(world, &(struct window){.shard = shard,
                                    .complete = true,
                                    .cluster = world->log.cluster,
                                    .base = OB_MUTANT(LOG_NO_BASE) ? 0 : world->enqueued,
                                    .high = world->enqueued,
                                    .to = top,
                                    .before = now,
                                    .upto = now});
    }
    store_flush(world);
}

/* ---- the rest ---- */

void log_copy(struct log *to, const struct log *from)
{
    to->cluster = from->cluster;
    for (int i = 0; i < SHARDS; i++) {
        int count = from->shards[i].count;
        if (to->shards[i].room < count) {
            to->shards[i].room = count * 2;
            to->shards[i].windows = realloc(to->shards[i].windows, (size_t)count * 2 * sizeof(struct window));
        }
        to->shards[i].count = count;
        memcpy(to->shards[i].windows, from->shards[i].windows, (size_t)count * sizeof(struct window));
    }
}

void log_free(struct log *log)
{
    for (int i = 0; i < SHARDS; i++)
        free(log->shards[i].windows);
}

void log_close(struct world *world)
{
    for (int shard = 0; shard < SHARDS; shard++) {
        for (int i = 0; i < world->log.shards[shard].count; i++) {
            if (world->log.shards[shard].windows[i].open)
                sim_fail(world, "window %d of shard %d stays open (N7)", i + 1, shard);
        }
    }
}
