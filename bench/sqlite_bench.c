/* sqlite_bench.c - the hot loops of the SQLite benchmark, ours and the bare statements beside them.
 *
 *   sqlite_bench MODE FILE full|normal COUNT [BATCH]
 *
 *   enqueue PER, key PER, dedupe PER   INSERT INTO outbox, prepared once, PER messages a transaction (BATCH, default 1)
 *   bare PER                           the least that an outbox table by hand would do: a row with an id, and an index for
 *                                      what is due
 *   drain                              claim and ack of COUNT messages, BATCH at a time, through the store
 *   bare-drain                         the same on the table by hand: take under a lease, read, delete; no history, no order
 *
 * Prints one line: messages, seconds, CPU seconds of this process, and of the write transactions p50, p99 and the longest
 * in microseconds. FILE must not exist. */
#include "base/clock.h"
#include "base/uuid.h"
#include "core/batch.h"
#include "store/sqlite/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAYLOAD = 200, HOLDS_MAX = 200000 };

static const char *file, *sync_mode;
static long count, batch_size;
static int64_t *holds; /* how long each write transaction held the lock */
static size_t hold_count;
static char payload[PAYLOAD + 1];

static void die(const char *what, const char *why)
{
    fprintf(stderr, "sqlite_bench: %s: %s\n", what, why);
    exit(1);
}

static void held(int64_t us)
{
    if (hold_count < HOLDS_MAX)
        holds[hold_count++] = us;
}

/* ---- plain sqlite3 ----------------------------------------------------------------------------------------------- */

static sqlite3 *db;

static void run(const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL))
        die(sql, sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL))
        die(sql, sqlite3_errmsg(db));
    return stmt;
}

static void step(sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE)
        die(sqlite3_sql(stmt), sqlite3_errmsg(db));
    sqlite3_reset(stmt);
}

static void connect_plain(void)
{
    if (sqlite3_open(file, &db) || sqlite3_busy_timeout(db, 10000))
        die(file, sqlite3_errmsg(db));
    run("PRAGMA journal_mode = WAL");
    run(strcmp(sync_mode, "full") == 0 ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

static void make_outbox(void)
{
    struct outbox_error err;
    if (ob_sqlite_migrate(file, true, NULL, &err))
        die(file, err.text);
}

static void make_bare(void)
{
    run("CREATE TABLE bare (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, topic TEXT NOT NULL, payload TEXT NOT NULL, created_at INTEGER NOT NULL,"
        " due INTEGER NOT NULL, until INTEGER, holder TEXT)");
    run("CREATE INDEX bare_due ON bare (due) WHERE until IS NULL");
}

/* ---- enqueue ----------------------------------------------------------------------------------------------------- */

static const char *insert_of(const char *mode)
{
    if (strcmp(mode, "bare") == 0 || strcmp(mode, "bare-drain") == 0)
        return "INSERT INTO bare (id, topic, payload, created_at, due)"
               " VALUES (?3, ?1, ?2, unixepoch(), unixepoch())";
    if (strcmp(mode, "key") == 0)
        return "INSERT INTO outbox (topic, payload, key) VALUES (?1, ?2, ?3)";
    if (strcmp(mode, "dedupe") == 0)
        return "INSERT INTO outbox (topic, payload, dedupe_key) VALUES (?1, ?2, ?3)";
    return "INSERT INTO outbox (topic, payload) VALUES (?1, ?2)";
}

/* A key, a dedupe key, or the id of a bare row: a uuid that sorts by time, which is the cheapest for its index. */
static void third_of(const char *mode, long number, char text[40])
{
    if (strncmp(mode, "bare", 4) == 0) {
        struct outbox_uuid id;
        uint8_t chance[10] = {0};
        for (int i = 0; i < 7; i++)
            chance[9 - i] = (uint8_t)(number >> 8 * i);
        ob_uuid_v7(&id, ob_clock_wall_us() / 1000, chance);
        outbox_uuid_format(&id, text);
    } else {
        snprintf(text, 40, "customer-%ld", strcmp(mode, "key") == 0 ? number % 1000 : number);
    }
}

static void enqueue(const char *mode, long messages, long per)
{
    sqlite3_stmt *insert = prepare(insert_of(mode)), *begin = prepare("BEGIN IMMEDIATE"), *commit = prepare("COMMIT");
    char extra[40];
    sqlite3_bind_text(insert, 1, "orders.paid", -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, payload, PAYLOAD, SQLITE_STATIC);
    for (long done = 0; done < messages; done += per) {
        step(begin);
        int64_t start = ob_clock_mono_us();
        for (long i = 0; i < per; i++) {
            if (sqlite3_bind_parameter_count(insert) > 2) {
                third_of(mode, done + i, extra);
                sqlite3_bind_text(insert, 3, extra, -1, SQLITE_STATIC);
            }
            step(insert);
        }
        step(commit);
        held(ob_clock_mono_us() - start);
    }
    sqlite3_finalize(insert);
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
}

/* ---- drain ------------------------------------------------------------------------------------------------------- */

struct taken {
    int64_t n;
    char id[40];
};

static long bare_claim(sqlite3_stmt *begin, sqlite3_stmt *commit, sqlite3_stmt *claim, struct taken *taken)
{
    long n = 0;
    static char copy[PAYLOAD + 1];
    step(begin);
    int64_t start = ob_clock_mono_us();
    sqlite3_bind_int64(claim, 1, batch_size);
    for (; sqlite3_step(claim) == SQLITE_ROW; n++) {
        taken[n].n = sqlite3_column_int64(claim, 0);
        memcpy(taken[n].id, sqlite3_column_text(claim, 1), 36);
        memcpy(copy, sqlite3_column_text(claim, 3), (size_t)sqlite3_column_bytes(claim, 3));
    }
    sqlite3_reset(claim);
    step(commit);
    held(ob_clock_mono_us() - start);
    return n;
}

static void bare_drain(void)
{
    sqlite3_stmt *begin = prepare("BEGIN IMMEDIATE"), *commit = prepare("COMMIT"),
                 *ack = prepare("DELETE FROM bare WHERE n = ?1"),
                 *claim = prepare(
                     "UPDATE bare SET until = unixepoch() + 30, holder = 'w' WHERE n IN (SELECT n FROM bare WHERE"
                     " until IS NULL AND due <= unixepoch() ORDER BY due LIMIT ?1) RETURNING n, id, topic, payload");
    struct taken *taken = malloc((size_t)batch_size * sizeof *taken);
    for (long n; (n = bare_claim(begin, commit, claim, taken)) > 0;) {
        step(begin);
        int64_t start = ob_clock_mono_us();
        for (long i = 0; i < n; i++) {
            sqlite3_bind_int64(ack, 1, taken[i].n);
            step(ack);
        }
        step(commit);
        held(ob_clock_mono_us() - start);
    }
    free(taken);
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_finalize(ack);
    sqlite3_finalize(claim);
}

static void drain(void)
{
    struct outbox_error err;
    struct ob_store *base;
    char place[1024];
    snprintf(place, sizeof place, "%s?synchronous=%s", file, sync_mode);
    if (ob_sqlite_open(place, false, &base, &err))
        die(place, err.text);
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct outbox_settle *items = calloc((size_t)batch_size, sizeof *items);
    for (size_t size = 1; size > 0;) {
        struct outbox_claim want = OUTBOX_CLAIM_INIT;
        struct outbox_batch *batch;
        want.worker = "w";
        want.limit = (int)batch_size;
        if (base->ops->claim(base, &want, &batch, &err))
            die("claim", err.text);
        size = batch->size;
        if (size)
            held(store->pace.held_us);
        for (size_t i = 0; i < size; i++)
            items[i] = (struct outbox_settle){.id = batch->items[i].id,
                                              .token = batch->items[i].token,
                                              .outcome = OUTBOX_DELIVERED,
                                              .delay_us = -1,
                                              .latency_us = 1000};
        if (size && base->ops->settle(base, items, size, &err))
            die("settle", err.text);
        if (size)
            held(store->pace.held_us);
        batch->free(batch);
    }
    free(items);
    base->ops->close(base);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_result(double seconds, double cpu)
{
    qsort(holds, hold_count, sizeof *holds, compare);
    printf("%ld %.6f %.6f %lld %lld %lld\n", count, seconds, cpu, (long long)holds[hold_count / 2],
           (long long)holds[(hold_count * 99 - 1) / 100], (long long)holds[hold_count - 1]);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    const char *mode = argv[1];
    bool bare = strncmp(mode, "bare", 4) == 0, drains = strstr(mode, "drain") != NULL;
    file = argv[2];
    sync_mode = argv[3];
    count = strtol(argv[4], NULL, 10);
    batch_size = argc > 5 ? strtol(argv[5], NULL, 10) : drains ? 500 : 1;
    holds = calloc(HOLDS_MAX, sizeof *holds);
    memset(payload, 'x', PAYLOAD);
    memcpy(payload, "{\"id\": 42, \"text\": \"", 20);
    memcpy(payload + PAYLOAD - 2, "\"}", 2);
    if (access(file, F_OK) == 0)
        die(file, "exists");
    if (!bare)
        make_outbox();
    connect_plain();
    if (bare)
        make_bare();
    if (drains) {
        enqueue(bare ? "bare" : mode[0] == 'd' && argc > 6 ? argv[6] : "enqueue", count, count < 1000 ? count : 1000);
        run("PRAGMA wal_checkpoint(TRUNCATE)");
        hold_count = 0;
    }
    double cpu = cpu_seconds();
    int64_t start = ob_clock_mono_us();
    if (!drains)
        enqueue(mode, count, batch_size);
    else if (bare)
        bare_drain();
    else
        drain();
    print_result((double)(ob_clock_mono_us() - start) / 1e6, cpu_seconds() - cpu);
    sqlite3_close(db);
    return 0;
}
