/* pg_claims.c - what one claim costs: the same call in turn at each of several places, so that whatever else the
 * machine does falls on all of them alike. What was claimed is released, or acked and as many enqueued again, outside
 * the clock: the backlog keeps its size. */
#include "pg_bench.h"

#include "core/batch.h"
#include "store/pg/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
    struct ob_store *store;
    int backend;
    int64_t got;
    double *seconds, *cpu; /* of each call */
};

static void check(const char *what, ob_code code, const struct outbox_error *err)
{
    if (code)
        die(what, err->text);
}

static void place_open(struct place *place, const char *conninfo, int number, int calls)
{
    struct outbox_error err;
    char application[48];
    snprintf(application, sizeof application, "pg_bench-%d-%d", (int)getpid(), number);
    struct ob_pg_options open = {.application = application};
    check("open", ob_pg_open(conninfo, &open, &place->store, &err), &err);
    place->backend = backend_of(conninfo, application);
    place->seconds = calloc((size_t)calls, sizeof *place->seconds);
    place->cpu = calloc((size_t)calls, sizeof *place->cpu);
    if (!place->seconds || !place->cpu)
        die("memory", "is out");
}

static void give_back(struct place *place, const struct outbox_batch *batch, bool ack)
{
    struct outbox_error err;
    struct outbox_settle *items = calloc(batch->size + 1, sizeof *items);
    if (!items)
        die("memory", "is out");
    for (size_t i = 0; i < batch->size; i++) {
        items[i] = (struct outbox_settle){.id = batch->items[i].id,
                                          .token = batch->items[i].token,
                                          .outcome = ack ? OUTBOX_DELIVERED : OUTBOX_RELEASED,
                                          .delay_us = -1,
                                          .latency_us = -1};
    }
    check("settle", place->store->ops->settle(place->store, items, batch->size, &err), &err);
    free(items);
}

static void refill(struct place *place, const struct outbox_batch *batch)
{
    struct outbox_error err;
    struct outbox_message *messages = calloc(batch->size + 1, sizeof *messages);
    struct outbox_receipt *receipts = calloc(batch->size + 1, sizeof *receipts);
    if (!messages || !receipts)
        die("memory", "is out");
    for (size_t i = 0; i < batch->size; i++) {
        const struct outbox_delivery *msg = &batch->items[i];
        messages[i] = (struct outbox_message)OUTBOX_MESSAGE_INIT;
        messages[i].topic = msg->topic;
        messages[i].key = msg->key;
        messages[i].payload = msg->payload;
        messages[i].payload_len = msg->payload_len;
    }
    if (batch->size > 0)
        check("enqueue", place->store->ops->enqueue_many(place->store, messages, batch->size, receipts, &err), &err);
    free(messages);
    free(receipts);
}

static void claim_once(struct place *place, const struct bench_options *options, int call)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_batch *batch;
    struct outbox_error err;
    want.worker = "pg_bench";
    want.limit = options->batch;
    want.run = options->run;
    double cpu = cpu_of(place->backend), start = seconds_now();
    check("claim", place->store->ops->claim(place->store, &want, &batch, &err), &err);
    double seconds = seconds_now() - start;
    if (call >= 0) {
        place->seconds[call] = seconds;
        place->cpu[call] = cpu_of(place->backend) - cpu;
        place->got += (int64_t)batch->size;
    }
    give_back(place, batch, options->ack);
    if (options->ack)
        refill(place, batch);
    batch->free(batch);
}

static double mean(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

static void print(struct place *place, int calls, bool last)
{
    double wall = mean(place->seconds, calls), cpu = mean(place->cpu, calls);
    double middle = median(place->seconds, (size_t)calls), cpu_middle = median(place->cpu, (size_t)calls);
    printf("{\"calls\": %d, \"messages\": %lld, \"mean_us\": %.2f, \"median_us\": %.2f, \"p99_us\": %.2f, "
           "\"cpu_mean_us\": %.2f, \"cpu_median_us\": %.2f}%s",
           calls, (long long)place->got, wall * 1e6, middle * 1e6, place->seconds[(calls * 99 - 1) / 100] * 1e6,
           cpu * 1e6, cpu_middle * 1e6, last ? "" : ", ");
}

void command_claims(const struct bench_options *options)
{
    struct place places[PLACES_MAX] = {0};
    if (options->count < 1)
        die("--count", "is missing");
    for (int i = 0; i < options->place_count; i++)
        place_open(&places[i], options->places[i], i, options->count);
    for (int call = -5; call < options->count; call++)
        for (int i = 0; i < options->place_count; i++)
            claim_once(&places[i], options, call);
    printf("{\"places\": [");
    for (int i = 0; i < options->place_count; i++) {
        print(&places[i], options->count, i + 1 == options->place_count);
        places[i].store->ops->close(places[i].store);
        free(places[i].seconds);
        free(places[i].cpu);
    }
    printf("]}\n");
}
