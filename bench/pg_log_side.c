/* pg_log_side.c - the log, drained through the async store: what a relay does, one request at a time.
 *
 * The async store keeps a connection for claims and one for settles; both are counted. */
#include "pg_bench.h"

#include "base/clock.h"
#include "core/batch.h"
#include "store/pg/store.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMEOUT_US = 60000000, PAUSE_US = 50000 };

struct log_side {
    struct side base;
    struct ob_async_store *store;
    struct outbox_claim want;
    struct outbox_settle *items;
    size_t count;
    bool waiting; /* for an answer */
    bool woken;
    char worker[32];
};

static void check(const char *what, enum outbox_code code, const struct outbox_error *err)
{
    if (code)
        die(what, err->text);
}

/* ---- answers ---- */

static void on_claimed(void *ctx, enum outbox_code code, const struct outbox_error *err, struct outbox_batch *batch)
{
    struct log_side *side = ctx;
    check("claim", code, err);
    for (size_t i = 0; i < batch->size; i++) {
        side->items[i] = (struct outbox_settle){.id = batch->items[i].id,
                                                .token = batch->items[i].token,
                                                .outcome = OUTBOX_DELIVERED,
                                                .delay_us = -1,
                                                .latency_us = 1500};
    }
    side->count = batch->size;
    side->waiting = false;
    batch->free(batch);
}

static void on_settled(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    struct log_side *side = ctx;
    check("settle", code, err);
    for (size_t i = 0; i < side->count; i++)
        if (side->items[i].result != OUTBOX_SETTLED)
            die("settle", "a lease was lost");
    side->count = 0;
    side->waiting = false;
}

static void on_extended(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    (void)ctx;
    check("extend", code, err);
}

static void on_woken(void *ctx)
{
    ((struct log_side *)ctx)->woken = true;
}

static void step(struct log_side *side)
{
    const struct ob_async_store_ops *ops = side->store->ops;
    int64_t due_us = ops->due_us(side->store), now_us = ob_clock_boot_us();
    int wait_ms = due_us <= now_us ? 0 : due_us - now_us > 100000 ? 100 : (int)((due_us - now_us) / 1000 + 1);
    struct pollfd fd = {.fd = ops->fd(side->store), .events = POLLIN};
    if (poll(&fd, 1, wait_ms) < 0)
        die("poll", "failed");
    ops->step(side->store);
}

static void wait_for_answer(struct log_side *side)
{
    while (side->waiting)
        step(side);
}

/* Others hold what is left: like a relay, it asks again when the store says so. */
static void wait_until_woken(struct log_side *side)
{
    int64_t end_us = ob_clock_boot_us() + PAUSE_US;
    for (side->woken = false; !side->woken && ob_clock_boot_us() < end_us;)
        step(side);
}

/* ---- the side ---- */

static struct side *log_open(const struct bench_options *options)
{
    struct log_side *side = calloc(1, sizeof *side);
    struct outbox_error err;
    if (!side || !(side->items = calloc((size_t)options->batch, sizeof side->items[0])))
        die("memory", "is out");
    snprintf(side->worker, sizeof side->worker, "pg_bench-%d", (int)getpid());
    struct ob_async_store_options open = {
        .url = options->places[0],
        .application = side->worker,
        .timeout_us = TIMEOUT_US,
        .polling = true,
        .host = {.ctx = side, .claimed = on_claimed, .settled = on_settled, .extended = on_extended, .woken = on_woken},
    };
    check("open", ob_pg_async_open(&open, &side->store, &err), &err);
    side->want = (struct outbox_claim)OUTBOX_CLAIM_INIT;
    side->want.worker = side->worker;
    side->want.limit = options->batch;
    side->want.run = options->run;
    side->want.lease_us = 600000000; /* no lease ends while we look */
    side->base.application = side->worker;
    return &side->base;
}

static int log_take(struct side *base)
{
    struct log_side *side = (struct log_side *)(void *)base;
    side->waiting = true;
    side->store->ops->claim(side->store, &side->want, TIMEOUT_US);
    wait_for_answer(side);
    if (side->count == 0)
        wait_until_woken(side);
    return (int)side->count;
}

static void log_settle(struct side *base)
{
    struct log_side *side = (struct log_side *)(void *)base;
    if (side->count == 0)
        return;
    side->waiting = true;
    side->store->ops->settle(side->store, side->items, side->count, TIMEOUT_US);
    wait_for_answer(side);
}

static void log_close(struct side *base)
{
    struct log_side *side = (struct log_side *)(void *)base;
    side->store->ops->close(side->store);
    free(side->items);
    free(side);
}

const struct side_ops log_side_ops = {"log", log_open, log_take, log_settle, NULL, NULL, log_close};
