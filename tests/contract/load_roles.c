/* load_roles.c - the processes of the order proof: producers that roll back and commit late, workers that fail, give
 * back, stall and die. Every deed that the world outside could see goes into the ledger first. */
#include "ledger.h"
#include "proc.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

enum { KEYS = 12, HELD_MAX = 64 };
#define LEASE_US (SECOND * 4 / 10)

static struct ledger_line line_of(struct fx *fx, char deed, struct outbox_uuid id, const char *key, int64_t seq)
{
    struct ledger_line line = {.deed = deed, .seq = seq};
    snprintf(line.id, sizeof(line.id), "%s", uuid_text(fx, id));
    snprintf(line.key, sizeof(line.key), "%s", key ? key : "");
    return line;
}

/* ---- load_producer LEDGER SEED TRANSACTIONS ---- */

/* Keys in rising order, so that producers never deadlock; the last is none at all. */
static void produce(struct fx *fx, struct dice *dice, int ledger)
{
    struct ledger_line lines[TRANSACTION_MAX];
    bool ghost = dice_roll(dice, 100) < 20;
    uint32_t n = 1 + dice_roll(dice, TRANSACTION_MAX), number = dice_roll(dice, KEYS);
    ok(fx, begin);
    for (uint32_t i = 0; i < n; i++, number += dice_roll(dice, 3)) {
        char key[32];
        snprintf(key, sizeof(key), "k%02u", number);
        bool keyed = number < KEYS;
        struct outbox_receipt receipt =
            put(fx, .topic = "load", .key = keyed ? key : NULL, .max_attempts = 1000,
                .payload = ghost ? "{\"ghost\": 1}" : "{\"ghost\": 0}", .priority = (int)dice_roll(dice, 3) + 3);
        lines[i] = line_of(fx, 'P', receipt.id, keyed ? key : NULL, receipt.seq);
    }
    if (dice_roll(dice, 100) < 10)
        until_us(now_us() + dice_roll(dice, 15000));
    if (ghost) {
        ok(fx, rollback);
        return;
    }
    ok(fx, commit);
    for (uint32_t i = 0; i < n; i++)
        ledger_write(ledger, &lines[i]);
}

int load_producer(struct fx *fx, int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct dice dice = {strtoull(argv[1], NULL, 10)};
    int ledger = ledger_open(argv[0]);
    for (int i = atoi(argv[2]); i > 0; i--)
        produce(fx, &dice, ledger);
    close(ledger);
    say("done");
    return 0;
}

/* ---- load_worker LEDGER SEED NAME ---- */

struct worker {
    struct fx *fx;
    struct dice dice;
    int ledger;
    char failed[HELD_MAX][32]; /* keys at whose first failure we stopped */
    size_t failures;
    struct outbox_settle items[2 * HELD_MAX];
    size_t item_count;
};

static bool has_failed(const struct worker *worker, const char *key)
{
    for (size_t i = 0; key && i < worker->failures; i++)
        if (strcmp(worker->failed[i], key) == 0)
            return true;
    return false;
}

static void flush(struct worker *worker)
{
    struct fx *fx = worker->fx;
    ok(fx, settle, worker->items, worker->item_count);
    worker->item_count = 0;
}

static void deliver(struct worker *worker, const struct outbox_delivery *msg)
{
    struct outbox_settle item = SETTLE(msg, .outcome = OUTBOX_RELEASED, .delay_us = 0);
    uint32_t luck = dice_roll(&worker->dice, 1000);
    if (luck < 5)
        raise(SIGKILL); /* claimed, never sent */
    else if (luck < 10)
        until_us(now_us() + LEASE_US * 5 / 4); /* and then goes on as if nothing were */
    if (!has_failed(worker, msg->key)) {
        bool accepted = luck < 800, failed = luck >= 700;
        struct ledger_line line = line_of(worker->fx, 'A', msg->id, msg->key, msg->seq);
        line.ghost = msg->payload_len != 12 || memcmp(msg->payload, "{\"ghost\": 0}", 12) != 0;
        if (accepted)
            ledger_write(worker->ledger, &line);
        if (luck >= 690 && luck < 700)
            raise(SIGKILL); /* sent, never settled */
        item.outcome = !failed      ? OUTBOX_DELIVERED
                       : accepted   ? OUTBOX_UNKNOWN
                       : luck < 950 ? OUTBOX_RETRY
                                    : OUTBOX_RELEASED;
        item.delay_us = failed ? (int64_t)dice_roll(&worker->dice, 10000) : -1;
        if (failed && msg->key)
            snprintf(worker->failed[worker->failures++], 32, "%s", msg->key);
    }
    worker->items[worker->item_count++] = item;
    if (dice_roll(&worker->dice, 8) == 0)
        flush(worker);
}

static size_t deliver_batch(struct worker *worker, outbox_batch *first, outbox_batch *second)
{
    worker->failures = 0;
    for (size_t i = 0; i < outbox_batch_size(first); i++)
        deliver(worker, outbox_batch_at(first, i));
    for (size_t i = 0; second && i < outbox_batch_size(second); i++)
        deliver(worker, outbox_batch_at(second, i));
    flush(worker);
    return outbox_batch_size(first) + (second ? outbox_batch_size(second) : 0);
}

static bool told_to_end(void)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

int load_worker(struct fx *fx, int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct worker *worker = keep(fx, calloc(1, sizeof(*worker)), free);
    worker->fx = fx;
    worker->dice.state = strtoull(argv[1], NULL, 10);
    worker->ledger = ledger_open(argv[0]);
    while (!told_to_end()) {
        int run = 1 + (int)dice_roll(&worker->dice, 5), limit = 1 + (int)dice_roll(&worker->dice, HELD_MAX);
        bool prefetch = dice_roll(&worker->dice, 3) == 0;
        outbox_batch *first =
            claim(fx, .worker = argv[2], .limit = limit, .run = run, .lease_us = LEASE_US, .prefetch = prefetch);
        outbox_batch *second = NULL;
        if (prefetch)
            second = claim(fx, .worker = argv[2], .limit = limit, .run = run, .lease_us = LEASE_US, .prefetch = true);
        if (deliver_batch(worker, first, second) == 0)
            tick();
    }
    close(worker->ledger);
    say("done");
    return 0;
}
