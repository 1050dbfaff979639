/* pg_enqueue.c - what an enqueue adds to a business transaction, and how fast many go in at once. */
#include "pg_bench.h"

#include "store/pg/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- enqueue-cost ---------------------------------------------------------------------------------------------- */

/* A way to do the same business transaction. `rings`: nobody is busy, so the doorbell rings at a listener. */
struct variant {
    const char *name;
    bool enqueues, key, dedupe, rings;
    PGconn *conn;
    int64_t done;
    double *walls;     /* of every transaction */
    double *wal, *cpu; /* per transaction, of every round */
};

static void call(PGconn *conn, const char *name, int count, const char *const *values)
{
    PGresult *res = PQexecPrepared(conn, name, count, values, NULL, NULL, 0);
    if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
        die(name, PQerrorMessage(conn));
    PQclear(res);
}

static void variant_open(struct variant *variant, const struct bench_options *options)
{
    variant->conn = raw_open(options->places[0]);
    raw_prepare(variant->conn, "begin", "begin");
    raw_prepare(variant->conn, "commit", "commit");
    raw_prepare(variant->conn, "order", "insert into orders (customer, total) values ($1::int, $2::int)");
    raw_prepare(variant->conn, "enqueue",
                "select id, created, seq from outbox.enqueue(topic => $1, payload => $2, key => $3, dedupe_key => $4)");
    size_t all = (size_t)options->count * (size_t)options->rounds;
    variant->walls = calloc(all, sizeof *variant->walls);
    variant->wal = calloc((size_t)options->rounds, sizeof *variant->wal);
    variant->cpu = calloc((size_t)options->rounds, sizeof *variant->cpu);
    if (!variant->walls || !variant->wal || !variant->cpu)
        die("memory", "is out");
}

static void transact(struct variant *variant, int keys)
{
    char payload[PAYLOAD + 1], key[32], dedupe[64], customer[16];
    int64_t number = variant->done++;
    payload_make(payload, number);
    snprintf(customer, sizeof customer, "%d", (int)(number % 1000));
    snprintf(key, sizeof key, "k%d", (int)(number % (keys ? keys : 1000)));
    snprintf(dedupe, sizeof dedupe, "%s-%d-%lld", variant->name, (int)getpid(), (long long)number);
    const char *order[] = {customer, "100"};
    const char *message[] = {"orders", payload, variant->key ? key : NULL, variant->dedupe ? dedupe : NULL};
    call(variant->conn, "begin", 0, NULL);
    call(variant->conn, "order", 2, order);
    if (variant->enqueues)
        call(variant->conn, "enqueue", 4, message);
    call(variant->conn, "commit", 0, NULL);
}

/* `count` transactions; round -1 only warms up. */
static void chunk(struct variant *variant, PGconn *watcher, const struct bench_options *options, int round)
{
    static const char lsn[] = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    if (variant->rings)
        raw_run(watcher, "select pg_advisory_unlock(outbox.doorbell_class(), 0)");
    double wal = raw_number(watcher, lsn), cpu = cpu_of(PQbackendPID(variant->conn));
    for (int i = 0; i < options->count; i++) {
        double start = seconds_now();
        transact(variant, options->keys);
        if (round >= 0)
            variant->walls[(size_t)round * (size_t)options->count + (size_t)i] = seconds_now() - start;
    }
    if (round >= 0) {
        variant->cpu[round] = (cpu_of(PQbackendPID(variant->conn)) - cpu) / options->count;
        variant->wal[round] = (raw_number(watcher, lsn) - wal) / options->count;
    }
    if (variant->rings)
        raw_run(watcher, "select pg_advisory_lock(outbox.doorbell_class(), 0)");
    PQconsumeInput(watcher);
    for (PGnotify *doorbell; (doorbell = PQnotifies(watcher));)
        PQfreemem(doorbell);
}

static void listen_to_doorbell(PGconn *watcher)
{
    PGresult *res = raw_exec(watcher, "select format('listen %I', outbox.doorbell_channel(0))");
    raw_run(watcher, PQgetvalue(res, 0, 0));
    PQclear(res);
    raw_run(watcher, "select pg_advisory_lock(outbox.doorbell_class(), 0)");
}

void command_enqueue_cost(const struct bench_options *options)
{
    struct variant variants[] = {
        {.name = "none"},
        {.name = "plain", .enqueues = true},
        {.name = "key", .enqueues = true, .key = true},
        {.name = "dedupe", .enqueues = true, .dedupe = true},
        {.name = "both", .enqueues = true, .key = true, .dedupe = true},
        {.name = "rings", .enqueues = true, .rings = true},
    };
    const size_t count = sizeof variants / sizeof variants[0];
    PGconn *watcher = raw_open(options->places[0]);
    listen_to_doorbell(watcher);
    for (size_t i = 0; i < count; i++)
        variant_open(&variants[i], options);
    for (int round = -1; round < options->rounds; round++)
        for (size_t i = 0; i < count; i++)
            chunk(&variants[i], watcher, options, round);
    printf("{\"variants\": {");
    for (size_t i = 0; i < count; i++) {
        struct variant *variant = &variants[i];
        size_t rounds = (size_t)options->rounds;
        printf("%s\"%s\": {\"median_us\": %.2f, \"cpu_us\": %.2f, \"wal_bytes\": %.1f}", i ? ", " : "", variant->name,
               median(variant->walls, rounds * (size_t)options->count) * 1e6, median(variant->cpu, rounds) * 1e6,
               median(variant->wal, rounds));
        PQfinish(variant->conn);
        free(variant->walls);
        free(variant->wal);
        free(variant->cpu);
    }
    printf("}}\n");
    PQfinish(watcher);
}

/* ---- enqueue-many ---------------------------------------------------------------------------------------------- */

struct many {
    char (*payloads)[PAYLOAD + 1];
    char (*keys)[32];
    struct outbox_message *messages;
    struct outbox_receipt *receipts;
};

static void fill(struct many *many, const struct bench_options *options, int64_t first)
{
    for (int i = 0; i < options->batch; i++) {
        payload_make(many->payloads[i], first + i);
        many->messages[i] = (struct outbox_message)OUTBOX_MESSAGE_INIT;
        many->messages[i].topic = "orders";
        many->messages[i].payload = many->payloads[i];
        many->messages[i].payload_len = PAYLOAD;
        if (options->keys) {
            snprintf(many->keys[i], sizeof many->keys[i], "k%d", (int)((first + i) % options->keys));
            many->messages[i].key = many->keys[i];
        }
    }
}

/* A text[] of the payloads, as the plain insert takes it; quotes are the only thing in them to escape. */
static char *array_of(const struct many *many, int count)
{
    char *text = malloc((size_t)count * (PAYLOAD + 16) + 3), *at = text;
    if (!text)
        die("memory", "is out");
    *at++ = '{';
    for (int i = 0; i < count; i++) {
        if (i)
            *at++ = ',';
        *at++ = '"';
        for (const char *p = many->payloads[i]; *p; p++) {
            if (*p == '"')
                *at++ = '\\';
            *at++ = *p;
        }
        *at++ = '"';
    }
    *at++ = '}';
    *at = '\0';
    return text;
}

static void insert_plain(PGconn *conn, const struct many *many, int count)
{
    char *text = array_of(many, count);
    const char *values[] = {text};
    call(conn, "bulk", 1, values);
    free(text);
}

void command_enqueue_many(const struct bench_options *options)
{
    bool ours = strcmp(options->side, "floor") != 0;
    size_t batch = (size_t)options->batch;
    struct outbox_error err;
    struct ob_store *store = NULL;
    PGconn *conn = NULL;
    struct many many = {calloc(batch, sizeof *many.payloads), calloc(batch, sizeof *many.keys),
                        calloc(batch, sizeof *many.messages), calloc(batch, sizeof *many.receipts)};
    if (!many.payloads || !many.keys || !many.messages || !many.receipts)
        die("memory", "is out");
    int backend;
    if (ours) {
        struct ob_pg_options open = {.application = "pg_bench-many"};
        if (ob_pg_open(options->places[0], &open, &store, &err))
            die("open", err.text);
        backend = backend_of(options->places[0], open.application);
    } else {
        conn = raw_open(options->places[0]);
        raw_prepare(conn, "bulk", "insert into floor (topic, payload) select 'orders', unnest($1::jsonb[])");
        backend = PQbackendPID(conn);
    }
    double start = 0, cpu = 0;
    int64_t done = 0;
    for (int64_t at = -(int64_t)batch; at < options->count; at += options->batch) {
        if (at == 0) { /* the first call only warmed up */
            start = seconds_now();
            cpu = cpu_of(backend);
        }
        fill(&many, options, at + options->batch);
        if (!ours)
            insert_plain(conn, &many, options->batch);
        else if (store->ops->enqueue_many(store, many.messages, batch, many.receipts, &err))
            die("enqueue_many", err.text);
        done += at >= 0 ? options->batch : 0;
    }
    printf("{\"count\": %lld, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n", (long long)done, seconds_now() - start,
           cpu_of(backend) - cpu);
    if (store)
        store->ops->close(store);
    PQfinish(conn);
    free(many.payloads);
    free(many.keys);
    free(many.messages);
    free(many.receipts);
}
