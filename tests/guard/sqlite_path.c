/* sqlite_path.c - counts what SQLite does for a message: steps of its virtual machine, and pages written to the log.
 *
 *   sqlite_path FILE COUNT       prints lines: name value, per message; FILE must not exist
 *
 * For tests/guard/test_guard.py. Enqueue: a transaction each, as a producer of any language does it. Claim and settle: through
 * the store, 500 at a time. */
#include "core/batch.h"
#include "store/sqlite/sqlite.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 500 };

static void die(const char *what, const char *why)
{
    fprintf(stderr, "sqlite_path: %s: %s\n", what, why);
    exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL))
        die(sql, sqlite3_errmsg(db));
}

/* Since the last call. */
static long steps(sqlite3 *db)
{
    long sum = 0;
    for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
        sum += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
    return sum;
}

static long pages(sqlite3 *db)
{
    int now = 0, high;
    sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_WRITE, &now, &high, 1);
    return now;
}

static void print(const char *name, sqlite3 *db, long count)
{
    printf("%s_steps %.2f\n%s_pages %.3f\n", name, (double)steps(db) / (double)count, name,
           (double)pages(db) / (double)count);
}

static void enqueue(sqlite3 *db, const char *name, const char *sql, long count)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
        die(sql, sqlite3_errmsg(db));
    for (long i = -2; i < count; i++) { /* the first two make the lane and the key */
        if (i == 0) {
            steps(db);
            pages(db);
        }
        sqlite3_bind_int64(stmt, 1, i);
        if (sqlite3_step(stmt) != SQLITE_DONE || sqlite3_reset(stmt))
            die(sql, sqlite3_errmsg(db));
    }
    print(name, db, count);
    sqlite3_finalize(stmt);
}

/* All messages, which were made without a key. */
static void drain(const char *file, long count)
{
    struct outbox_error err;
    struct ob_store *store;
    struct outbox_batch *batch;
    static struct outbox_settle items[BATCH];
    long left = count;
    if (ob_sqlite_open(file, false, &store, &err))
        die(file, err.text);
    sqlite3 *db = ob_sqlite_store_of(store)->db;
    double sums[4] = {0};
    for (size_t size = 1; size > 0; left -= (long)size) {
        struct outbox_claim want = OUTBOX_CLAIM_INIT;
        want.worker = "guard";
        want.limit = BATCH;
        if (store->ops->claim(store, &want, &batch, &err))
            die("claim", err.text);
        size = batch->size;
        sums[0] += (double)steps(db);
        sums[1] += (double)pages(db);
        for (size_t i = 0; i < size; i++)
            items[i] = (struct outbox_settle){
                .id = batch->items[i].id, .token = batch->items[i].token, .outcome = OUTBOX_DELIVERED, .delay_us = -1};
        if (size && store->ops->settle(store, items, size, &err))
            die("settle", err.text);
        sums[2] += (double)steps(db);
        sums[3] += (double)pages(db);
        batch->free(batch);
    }
    if (left)
        die("drain", "not every message came");
    printf("claim_steps %.2f\nclaim_pages %.3f\nsettle_steps %.2f\nsettle_pages %.3f\n", sums[0] / (double)count,
           sums[1] / (double)count, sums[2] / (double)count, sums[3] / (double)count);
    store->ops->close(store);
}

int main(int argc, char **argv)
{
    struct outbox_error err;
    sqlite3 *db;
    if (argc < 3)
        return 2;
    long count = strtol(argv[2], NULL, 10);
    if (ob_sqlite_migrate(argv[1], true, NULL, &err))
        die(argv[1], err.text);
    if (sqlite3_open(argv[1], &db))
        die(argv[1], sqlite3_errmsg(db));
    run(db, "PRAGMA synchronous = OFF");
    run(db, "PRAGMA wal_autocheckpoint = 0");
    enqueue(db, "enqueue", "INSERT INTO outbox (topic, payload) VALUES ('t', printf('{\"id\": %d}', ?1))", count);
    drain(argv[1], count + 2);
    enqueue(db, "enqueue_key", "INSERT INTO outbox (topic, payload, key) VALUES ('t', printf('{\"id\": %d}', ?1), 'k')",
            count);
    enqueue(db, "enqueue_dedupe",
            "INSERT INTO outbox (topic, payload, dedupe_key) VALUES ('t', printf('{\"id\": %d}', ?1), 'd' || ?1)",
            count);
    sqlite3_close(db);
    return 0;
}
