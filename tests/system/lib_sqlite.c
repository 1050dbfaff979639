/* lib_sqlite.c - outbox_sqlite_enqueue on a borrowed connection: the caller's transaction decides, and nothing of the
 * caller's is touched. And the store when memory runs out. Proves: N1 N7 M1 M4 M5 M6 S2 S18. */
#include <outbox/sqlite.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/batch.h"
#include "store/sqlite/store.h"

static char path[64];
static sqlite3 *db;
static struct outbox_error err;

static void run(const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &text))
        fail_msg("%s: %s", sql, text);
}

static int64_t number(const char *sql)
{
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ob-lib-sqlite-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    if (ob_sqlite_migrate(path, true, NULL, &err) || sqlite3_open(path, &db))
        return -1;
    run("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    sqlite3_close(db);
    for (size_t i = 0; i < 4; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    return 0;
}

static enum outbox_code put(const char *key, const char *dedupe_key, struct outbox_receipt *receipt)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "orders.paid";
    msg.payload = "{\"id\": 42}";
    msg.payload_len = 10;
    msg.key = key;
    msg.dedupe_key = dedupe_key;
    return outbox_sqlite_enqueue(db, &msg, receipt, &err);
}

static void the_transaction_decides(void **state)
{
    (void)state;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    run("BEGIN");
    run("INSERT INTO orders VALUES (1)");
    assert_int_equal(put("k", NULL, &receipt), OUTBOX_OK);
    assert_true(receipt.created);
    assert_int_equal(receipt.seq, 1);
    assert_false(sqlite3_get_autocommit(db));
    run("ROLLBACK");
    assert_int_equal(number("SELECT count(*) FROM orders"), 0);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages"), 0);
    run("BEGIN");
    run("INSERT INTO orders VALUES (1)");
    assert_int_equal(put("k", NULL, &receipt), OUTBOX_OK);
    assert_int_equal(receipt.seq, 1);
    run("COMMIT");
    assert_int_equal(number("SELECT count(*) FROM orders"), 1);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages WHERE status = 'pending'"), 1);
}

static void alone_it_is_a_transaction(void **state)
{
    (void)state;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    assert_int_equal(put(NULL, NULL, &receipt), OUTBOX_OK);
    assert_true(sqlite3_get_autocommit(db));
    assert_int_equal(receipt.seq, 0);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages"), 1);
}

static void duplicates_are_told(void **state)
{
    (void)state;
    struct outbox_receipt first = OUTBOX_RECEIPT_INIT, again = OUTBOX_RECEIPT_INIT;
    assert_int_equal(put("k", "d", &first), OUTBOX_OK);
    run("BEGIN");
    assert_int_equal(put("k", "d", &again), OUTBOX_OK);
    assert_int_equal(put("k", "e", NULL), OUTBOX_OK);
    run("COMMIT");
    assert_true(first.created);
    assert_false(again.created);
    assert_memory_equal(&again.id, &first.id, sizeof first.id);
    assert_int_equal(again.seq, 1);
    assert_int_equal(number("SELECT max(seq) FROM outbox_messages"), 2);
}

/* An error undoes the message and nothing else: what the caller did before stands, and can still commit. */
static void an_error_spares_the_transaction(void **state)
{
    (void)state;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "bad topic";
    msg.payload = "{}";
    msg.payload_len = 2;
    run("BEGIN");
    run("INSERT INTO orders VALUES (1)");
    assert_int_equal(outbox_sqlite_enqueue(db, &msg, NULL, &err), OUTBOX_INVALID);
    assert_int_equal(err.code, OUTBOX_INVALID);
    assert_string_equal(err.sqlstate, ""); /* the library saw it: the database was not asked */
    assert_non_null(strstr(err.text, "topic"));
    msg.topic = "t";
    msg.payload = "{";
    msg.payload_len = 1;
    assert_int_equal(outbox_sqlite_enqueue(db, &msg, NULL, &err), OUTBOX_INVALID);
    msg.payload = "\xff";
    assert_int_equal(outbox_sqlite_enqueue(db, &msg, NULL, &err), OUTBOX_INVALID);
    assert_false(sqlite3_get_autocommit(db));
    run("COMMIT");
    assert_int_equal(number("SELECT count(*) FROM orders"), 1);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages"), 0);
}

static void nothing_is_left_on_the_connection(void **state)
{
    (void)state;
    run("PRAGMA foreign_keys = OFF");
    run("PRAGMA recursive_triggers = ON");
    assert_int_equal(put("k", "d", NULL), OUTBOX_OK);
    assert_int_equal(number("PRAGMA foreign_keys"), 0);
    assert_int_equal(number("PRAGMA recursive_triggers"), 1);
    assert_null(sqlite3_next_stmt(db, NULL));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    db = NULL;
}

static void busy_is_told_and_loses_nothing(void **state)
{
    (void)state;
    sqlite3 *other;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(put(NULL, NULL, NULL), OUTBOX_BUSY);
    assert_true(sqlite3_get_autocommit(db));
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_int_equal(put(NULL, NULL, NULL), OUTBOX_OK);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages"), 1);
}

static void without_an_outbox(void **state)
{
    (void)state;
    sqlite3_close(db);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(put(NULL, NULL, NULL), OUTBOX_SCHEMA);
    assert_non_null(strstr(err.text, "outbox init"));
    assert_int_equal(outbox_sqlite_enqueue(NULL, NULL, NULL, &err), OUTBOX_INVALID);
    struct outbox_message forgotten = {0};
    assert_int_equal(outbox_sqlite_enqueue(db, &forgotten, NULL, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "OUTBOX_MESSAGE_INIT"));
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */

static long countdown; /* the allocation that fails; 0: none */

static void *alloc_some(size_t size)
{
    return countdown && --countdown == 0 ? NULL : malloc(size);
}

/* Opens, sends, claims, settles, acts, purges. Stops at the first error. */
static enum outbox_code live_a_life(void)
{
    struct ob_store *store = NULL;
    struct outbox_batch *batch = NULL;
    const char *topics[] = {"orders.paid"};
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    bool woken;
    int64_t n;
    want.worker = "w";
    want.topics = topics;
    want.topic_count = 1;
    want.run = 3;
    msg.topic = topics[0];
    msg.payload = "{}";
    msg.payload_len = 2;
    msg.key = "k";
    enum outbox_code code = ob_sqlite_open(path, false, &store, &err);
    for (int i = 0; i < 3 && !code; i++)
        code = store->ops->enqueue(store, &msg, NULL, &err);
    if (!code)
        code = store->ops->claim(store, &want, &batch, &err);
    if (!code) {
        struct outbox_settle items[3];
        assert_int_equal(batch->size, 3);
        for (size_t i = 0; i < 3; i++)
            items[i] = (struct outbox_settle){.id = batch->items[i].id,
                                              .token = batch->items[i].token,
                                              .outcome = i ? OUTBOX_FAILED : OUTBOX_DELIVERED,
                                              .error = "caf\xe9"};
        code = store->ops->settle(store, items, 3, &err);
    }
    if (!code)
        code = store->ops->retry(store, &(struct ob_filter){.topic = topics[0]}, NULL, &n, &err);
    if (!code)
        code = store->ops->wait(store, 0, &woken, &err);
    if (!code)
        code = store->ops->purge(store, &n, &err);
    if (batch)
        batch->free(batch);
    if (store)
        store->ops->close(store);
    return code;
}

/* What the failed lives left behind: done with, so that the next one starts from nothing. */
static void clean_up(void)
{
    struct ob_store *store;
    struct outbox_batch *batch;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    want.worker = "broom";
    run("UPDATE outbox_queue SET until = 0 WHERE state = 1");
    assert_int_equal(ob_sqlite_open(path, false, &store, &err), OUTBOX_OK);
    for (size_t size = 1; size > 0; batch->free(batch)) {
        assert_int_equal(store->ops->claim(store, &want, &batch, &err), OUTBOX_OK);
        size = batch->size;
        for (size_t i = 0; i < size; i++) {
            struct outbox_settle item = {
                .id = batch->items[i].id, .token = batch->items[i].token, .outcome = OUTBOX_DELIVERED};
            assert_int_equal(store->ops->settle(store, &item, 1, &err), OUTBOX_OK);
        }
    }
    store->ops->close(store);
    assert_int_equal(number("SELECT count(*) FROM outbox_queue"), 0);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    long n = 0;
    enum outbox_code code = OUTBOX_NOMEM;
    outbox_set_allocator(alloc_some, free);
    while (code == OUTBOX_NOMEM) {
        countdown = ++n;
        code = live_a_life();
        bool reached = countdown == 0;
        countdown = 0;
        if (reached && code != OUTBOX_NOMEM && code != OUTBOX_OK)
            fail_msg("allocation %ld: %s: %s", n, outbox_code_name(code), err.text);
        /* A call that can do without answers as if nothing were; go on until none fails any more. */
        if (reached)
            code = OUTBOX_NOMEM;
        clean_up();
    }
    outbox_set_allocator(NULL, NULL);
    assert_int_equal(code, OUTBOX_OK);
    assert_true(n > 10);
    assert_int_equal(number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

#define TEST(name, function) \
    { \
        name, function, setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("M1 N1: the caller's transaction decides", the_transaction_decides),
        TEST("M6: outside of a transaction it is one of its own", alone_it_is_a_transaction),
        TEST("M4 S2 S18: a duplicate is told, and takes no seq", duplicates_are_told),
        TEST("M1 M6: an error undoes the message and spares the transaction", an_error_spares_the_transaction),
        TEST("N1: the connection is left as it was", nothing_is_left_on_the_connection),
        TEST("N1: busy is told, and loses nothing", busy_is_told_and_loses_nothing),
        TEST("N1: a database without an outbox says so", without_an_outbox),
        TEST("N7: every allocation fails once, and nothing is lost or leaked", every_allocation_fails_once),
    };
    return cmocka_run_group_tests_name("lib_sqlite", tests, NULL, NULL);
}
