/* pg_enqueue.c - what an enqueue adds to a business transaction, and how fast many go in at once. */
#include "pg_bench.h"

#include "store/pg/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- enqueue-cost ---------------------------------------------------------------------------------------------- */

enum relay { NO_RELAY, CALM, BUSY }; /* calm: it listens, so producers ring */

/* A way to do the same business transaction. */
struct variant {
    const char *name;
    bool enqueues, key, dedupe;
    enum relay relay;
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

static double *doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    if (!values)
        die("memory", "is out");
    return values;
}

static void variant_open(struct variant *variant, const struct bench_options *options)
{
    variant->conn = raw_open(options->places[0]);
    raw_prepare(variant->conn, "begin", "begin");
    raw_prepare(variant->conn, "commit", "commit");
    raw_prepare(variant->conn, "order", "insert into orders (customer, total) values ($1::int, $2::int)");
    raw_prepare(variant->conn, "enqueue",
                "select id, created, seq from outbox.enqueue(topic => $1, payload => $2, key => $3, dedupe_key => $4)");
    variant->walls = doubles((size_t)options->count * (size_t)options->rounds);
    variant->wal = doubles((size_t)options->rounds);
    variant->cpu = doubles((size_t)options->rounds);
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

/* The watcher holds the locks that such a relay holds: docs/doorbell.md. */
static void pretend(PGconn *watcher, enum relay relay)
{
    raw_run(watcher, "select pg_advisory_unlock_all()");
    if (relay != NO_RELAY)
        raw_run(watcher, "select pg_advisory_lock_shared(outbox.doorbell_class(), -1)");
    if (relay == BUSY)
        raw_run(watcher, "select pg_advisory_lock(outbox.doorbell_class(), 0)");
}

/* `count` transactions; round -1 only warms up. */
static void chunk(struct variant *variant, PGconn *watcher, const struct bench_options *options, int round)
{
    static const char lsn[] = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    pretend(watcher, variant->relay);
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
    PQconsumeInput(watcher);
    for (PGnotify *doorbell; (doorbell = PQnotifies(watcher));)
        PQfreemem(doorbell);
}

static PGconn *watcher_open(const struct bench_options *options)
{
    PGconn *watcher = raw_open(options->places[0]);
    PGresult *res = raw_exec(watcher, "select format('listen %I', outbox.doorbell_channel(0))");
    raw_run(watcher, PQgetvalue(res, 0, 0));
    PQclear(res);
    return watcher;
}

void command_enqueue_cost(const struct bench_options *options)
{
    struct variant variants[] = {
        {.name = "none"},
        {.name = "plain", .enqueues = true},
        {.name = "key", .enqueues = true, .key = true},
        {.name = "dedupe", .enqueues = true, .dedupe = true},
        {.name = "both", .enqueues = true, .key = true, .dedupe = true},
        {.name = "busy", .enqueues = true, .relay = BUSY},
        {.name = "calm", .enqueues = true, .relay = CALM},
    };
    const size_t count = sizeof variants / sizeof variants[0];
    PGconn *watcher = watcher_open(options);
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

/* ---- enqueue-calls --------------------------------------------------------------------------------------------- */

/* A way to write one message. Its parameters: the payload, its bytes in hex, a key, a dedupe key; it uses some. A hundred of them are
 * written in a transaction each, in one transaction, and, where there is a bulk, five hundred by one statement. */
struct way {
    const char *name, *sql, *bulk;
    PGconn *conn;
    int64_t done;
    double *cpu[3]; /* of every round */
};

enum { A_TRANSACTION, A_STATEMENT, BULK, PACES, CALLS = 100, BULK_CALLS = 500, WARM_CALLS = 1000 };

#define USES " from (values ($1::jsonb, $2::text, $3::text, $4::text)) v(payload, bytes, key, dedupe), lateral "
#define BULK_OF(what) "select count(" what ") from generate_series(1, 500) i"
#define BULK_PAYLOAD "jsonb_build_object('i', i, 'pad', repeat('x', 180))"

static struct way ways[] = {
    {"bare",
     "select r.*" USES "bare('orders', payload) r",
     BULK_OF("bare('orders', " BULK_PAYLOAD ")"),
     NULL,
     0,
     {NULL}},
    {"plain",
     "select r.*" USES "outbox.enqueue('orders', payload) r",
     BULK_OF("outbox.enqueue('orders', " BULK_PAYLOAD ")"),
     NULL,
     0,
     {NULL}},
    {"key",
     "select r.*" USES "outbox.enqueue('orders', payload, key => v.key) r",
     BULK_OF("outbox.enqueue('orders', " BULK_PAYLOAD ", key => 'k' || i)"),
     NULL,
     0,
     {NULL}},
    {"dedupe",
     "select r.*" USES "outbox.enqueue('orders', payload, dedupe_key => dedupe) r",
     BULK_OF("outbox.enqueue('orders', " BULK_PAYLOAD ", dedupe_key => gen_random_uuid()::text)"),
     NULL,
     0,
     {NULL}},
    {"bytes",
     "select r.*" USES "outbox.enqueue_bytes('orders', decode(bytes, 'hex')) r",
     BULK_OF("outbox.enqueue_bytes('orders', convert_to(repeat('x', 200), 'UTF8'))"),
     NULL,
     0,
     {NULL}},
};

static void write_one(struct way *way)
{
    char payload[PAYLOAD + 1], bytes[2 * PAYLOAD + 1], key[32], dedupe[64];
    int64_t number = way->done++;
    payload_make(payload, number);
    memset(bytes, '7', sizeof bytes - 1);
    bytes[sizeof bytes - 1] = '\0';
    snprintf(key, sizeof key, "k%d", (int)(number % WARM_CALLS));
    snprintf(dedupe, sizeof dedupe, "%s-%d-%lld", way->name, (int)getpid(), (long long)number);
    const char *values[] = {payload, bytes, key, dedupe};
    call(way->conn, "one", 4, values);
}

static void write_some(struct way *way, int pace, int round)
{
    double cpu = cpu_of(PQbackendPID(way->conn));
    if (pace == BULK)
        call(way->conn, "bulk", 0, NULL);
    if (pace == A_STATEMENT)
        raw_run(way->conn, "begin");
    for (int i = 0; pace != BULK && i < CALLS; i++)
        write_one(way);
    if (pace == A_STATEMENT)
        raw_run(way->conn, "commit");
    if (round >= 0)
        way->cpu[pace][round] = (cpu_of(PQbackendPID(way->conn)) - cpu) / (pace == BULK ? BULK_CALLS : CALLS);
}

void command_enqueue_calls(const struct bench_options *options)
{
    static const char *const paces[] = {"transaction_us", "statement_us", "bulk_us"};
    const size_t count = sizeof ways / sizeof ways[0];
    for (size_t i = 0; i < count; i++) {
        ways[i].conn = raw_open(options->places[0]);
        raw_prepare(ways[i].conn, "one", ways[i].sql);
        raw_prepare(ways[i].conn, "bulk", ways[i].bulk);
        for (int pace = 0; pace < PACES; pace++)
            ways[i].cpu[pace] = doubles((size_t)options->rounds);
        for (int warm = 0; warm < WARM_CALLS; warm++)
            write_one(&ways[i]);
    }
    for (int round = -1; round < options->rounds; round++)
        for (int pace = 0; pace < PACES; pace++)
            for (size_t i = 0; i < count; i++)
                write_some(&ways[i], pace, round);
    printf("{");
    for (size_t i = 0; i < count; i++) {
        printf("%s\"%s\": {", i ? ", " : "", ways[i].name);
        for (int pace = 0; pace < PACES; pace++) {
            printf("%s\"%s\": %.2f", pace ? ", " : "", paces[pace],
                   median(ways[i].cpu[pace], (size_t)options->rounds) * 1e6);
            free(ways[i].cpu[pace]);
        }
        printf("}");
        PQfinish(ways[i].conn);
    }
    printf("}\n");
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
