/* doorbell.c - the relays that bench/doorbell.py measures beside: one that sleeps, one that is busy, one that drains.
 *
 *   doorbell sleep|busy|drain CONNINFO
 *
 * Says "ready" when it is so, and goes on until its input ends; then says in JSON what it did. A busy one claims nothing:
 * what its claims cost must not count as the price of the wake-up. */
#include "store/pg/doorbell.h"
#include "core/batch.h"
#include "store/pg/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT = 500, FALLBACK_US = 500000 };

static long long looks, rang, messages;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "doorbell: %s: %s\n", what, why);
    exit(1);
}

static bool told_to_end(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void say_ready(void)
{
    static bool said;
    if (!said)
        puts("ready");
    said = true;
    fflush(stdout);
}

/* Looks that find nothing, or, to stay busy, a thousand messages. */
static void pretend(const char *conninfo, bool busy)
{
    struct ob_pg_doorbell_options options = {.conninfo = conninfo, .application = "bench", .schema = "outbox"};
    struct ob_pg_doorbell *doorbell;
    struct outbox_error err;
    enum ob_doorbell_reason look;
    if (ob_pg_doorbell_new(&options, &doorbell, &err))
        die("doorbell", err.text);
    while (!told_to_end()) {
        if (ob_pg_doorbell_wait(doorbell, FALLBACK_US, &look, &err))
            die("wait", err.text);
        looks++;
        rang += look == OB_WAKE_RANG;
        ob_pg_doorbell_claimed(doorbell, busy ? 1000 : 0, false, false);
        if (ob_pg_doorbell_state(doorbell) == (busy ? OB_DOORBELL_HELD : OB_DOORBELL_CALM))
            say_ready();
    }
    ob_pg_doorbell_free(doorbell);
}

static size_t claim_and_ack(struct ob_store *store)
{
    static struct outbox_settle settles[LIMIT];
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_error err;
    outbox_batch *batch;
    want.worker = "bench";
    want.limit = LIMIT;
    if (store->ops->claim(store, &want, &batch, &err))
        die("claim", err.text);
    size_t count = batch->size;
    for (size_t i = 0; i < count; i++) {
        const struct outbox_delivery *msg = &batch->items[i];
        settles[i] = (struct outbox_settle){
            .id = msg->id, .token = msg->token, .outcome = OUTBOX_DELIVERED, .delay_us = -1, .latency_us = -1};
    }
    batch->free(batch);
    if (count && store->ops->settle(store, settles, count, &err))
        die("settle", err.text);
    return count;
}

static void drain(const char *conninfo)
{
    struct ob_store *store;
    struct outbox_error err;
    bool woken;
    if (ob_pg_open(conninfo, NULL, &store, &err))
        die("open", err.text);
    for (size_t count = 0; !told_to_end(); looks++) {
        if (store->ops->wait(store, count == LIMIT ? 0 : FALLBACK_US, &woken, &err))
            die("wait", err.text);
        count = claim_and_ack(store);
        messages += (long long)count;
        say_ready();
    }
    store->ops->close(store);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage", "doorbell sleep|busy|drain CONNINFO");
    if (strcmp(argv[1], "drain") == 0)
        drain(argv[2]);
    else
        pretend(argv[2], strcmp(argv[1], "busy") == 0);
    printf("{\"looks\": %lld, \"rang\": %lld, \"messages\": %lld}\n", looks, rang, messages);
    return 0;
}
