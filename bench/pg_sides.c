/* pg_sides.c - those who drain a queue: ours through the store interface, the floor in plain SQL. The log: pg_log_side.c.
 *
 * The floor is the least that any queue in a table can do: lock the oldest rows, read them, delete them. It keeps no
 * lease (a crash between the two is invisible to others) and no history, so nothing with either can reach it. */
#include "pg_bench.h"

#include "core/batch.h"
#include "store/pg/store.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- queue ------------------------------------------------------------------------------------------------------ */

struct queue_side {
    struct side base;
    struct ob_store *store;
    struct outbox_claim want;
    struct outbox_settle *items;
    size_t count;
    char worker[32];
};

static void check(const char *what, ob_code code, const struct outbox_error *err)
{
    if (code)
        die(what, err->text);
}

static struct side *queue_open(const struct bench_options *options)
{
    struct queue_side *side = calloc(1, sizeof *side);
    struct outbox_error err;
    if (!side || !(side->items = calloc((size_t)options->batch, sizeof side->items[0])))
        die("memory", "is out");
    snprintf(side->worker, sizeof side->worker, "pg_bench-%d", (int)getpid());
    struct ob_pg_options open = {.application = side->worker};
    check("open", ob_pg_open(options->places[0], &open, &side->store, &err), &err);
    side->base.application = side->worker;
    side->want = (struct outbox_claim)OUTBOX_CLAIM_INIT;
    side->want.worker = side->worker;
    side->want.limit = options->batch;
    side->want.run = options->run;
    side->want.lease_us = 600000000; /* no lease ends while we look */
    return &side->base;
}

static int queue_take(struct side *base)
{
    struct queue_side *side = (struct queue_side *)(void *)base;
    struct outbox_batch *batch;
    struct outbox_error err;
    check("claim", side->store->ops->claim(side->store, &side->want, &batch, &err), &err);
    for (size_t i = 0; i < batch->size; i++) {
        side->items[i] = (struct outbox_settle){.id = batch->items[i].id,
                                                .token = batch->items[i].token,
                                                .outcome = OUTBOX_DELIVERED,
                                                .delay_us = -1,
                                                .latency_us = 1500};
    }
    side->count = batch->size;
    batch->free(batch);
    return (int)side->count;
}

static void queue_settle(struct side *base)
{
    struct queue_side *side = (struct queue_side *)(void *)base;
    struct outbox_error err;
    if (side->count == 0)
        return;
    check("settle", side->store->ops->settle(side->store, side->items, side->count, &err), &err);
    for (size_t i = 0; i < side->count; i++)
        if (side->items[i].result != OUTBOX_SETTLED)
            die("settle", "a lease was lost");
    side->count = 0;
}

static void queue_begin(struct side *base)
{
    struct queue_side *side = (struct queue_side *)(void *)base;
    struct outbox_error err;
    check("begin", side->store->ops->begin(side->store, &err), &err);
}

static void queue_commit(struct side *base)
{
    struct queue_side *side = (struct queue_side *)(void *)base;
    struct outbox_error err;
    check("commit", side->store->ops->commit(side->store, &err), &err);
}

static void queue_close(struct side *base)
{
    struct queue_side *side = (struct queue_side *)(void *)base;
    side->store->ops->close(side->store);
    free(side->items);
    free(side);
}

/* ---- plain SQL: a statement that reads rows, the bigint id first, and one that takes their ids ------------------- */

struct plain {
    struct side base;
    PGconn *conn;
    int64_t *ids;
    char *array;
    int count;
};

static struct side *plain_open(const struct bench_options *options, const char *take, const char *settle)
{
    struct plain *side = calloc(1, sizeof *side);
    if (!side || !(side->ids = calloc((size_t)options->batch, sizeof side->ids[0])) ||
        !(side->array = malloc(20 + 12 * (size_t)options->batch)))
        die("memory", "is out");
    side->conn = raw_open(options->places[0]);
    raw_prepare(side->conn, "take", take);
    raw_prepare(side->conn, "settle", settle);
    side->base.backends[0] = PQbackendPID(side->conn);
    side->base.backend_count = 1;
    side->base.batch = options->batch;
    return &side->base;
}

static PGresult *plain_call(struct plain *side, const char *name, const char *value, int length)
{
    const char *values[] = {value};
    int lengths[] = {length}, formats[] = {1};
    PGresult *res = PQexecPrepared(side->conn, name, 1, values, lengths, formats, 1);
    if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
        die(name, PQerrorMessage(side->conn));
    return res;
}

static int plain_take(struct side *base)
{
    struct plain *side = (struct plain *)(void *)base;
    uint32_t batch = htonl((uint32_t)base->batch);
    PGresult *res = plain_call(side, "take", (const char *)&batch, sizeof batch);
    side->count = PQntuples(res);
    for (int i = 0; i < side->count; i++)
        side->ids[i] = int8_at(res, i, 0);
    PQclear(res);
    return side->count;
}

static void plain_settle(struct side *base)
{
    struct plain *side = (struct plain *)(void *)base;
    if (side->count == 0)
        return;
    PQclear(plain_call(side, "settle", side->array, (int)int8_array(side->array, side->ids, side->count)));
    side->count = 0;
}

static void plain_begin(struct side *base)
{
    raw_run(((struct plain *)(void *)base)->conn, "begin");
}

static void plain_commit(struct side *base)
{
    raw_run(((struct plain *)(void *)base)->conn, "commit");
}

static void plain_close(struct side *base)
{
    struct plain *side = (struct plain *)(void *)base;
    PQfinish(side->conn);
    free(side->ids);
    free(side->array);
    free(side);
}

static struct side *floor_open(const struct bench_options *options)
{
    return plain_open(options,
                      "select id, topic, key, payload, attempts from floor where available_at <= now() "
                      "order by available_at, id limit $1::int for update skip locked",
                      "delete from floor where id = any ($1::bigint[])");
}

#define PLAIN plain_take, plain_settle, plain_begin, plain_commit, plain_close

static const struct side_ops sides[] = {
    {"queue", queue_open, queue_take, queue_settle, queue_begin, queue_commit, queue_close},
    {"floor", floor_open, PLAIN},
};

const struct side_ops *side_find(const char *name)
{
    if (strcmp(name, log_side_ops.name) == 0)
        return &log_side_ops;
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        if (strcmp(sides[i].name, name) == 0)
            return &sides[i];
    die("--side", "is not one of log, queue, floor");
}

double side_cpu(const struct side *side)
{
    double seconds = 0;
    for (int i = 0; i < side->backend_count; i++)
        seconds += cpu_of(side->backends[i]);
    return seconds;
}
