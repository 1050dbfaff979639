/* lib_sqlite.c - outbox_sqlite_enqueue on a borrowed connection: the caller's transaction decides, and nothing of the
 * caller's is touched. Proves: N1 M1 M4 M5 M6 S2 S18. */
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
    struct outbox_receipt receipt;
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
    struct outbox_receipt receipt;
    assert_int_equal(put(NULL, NULL, &receipt), OUTBOX_OK);
    assert_true(sqlite3_get_autocommit(db));
    assert_int_equal(receipt.seq, 0);
    assert_int_equal(number("SELECT count(*) FROM outbox_messages"), 1);
}

static void duplicates_are_told(void **state)
{
    (void)state;
    struct outbox_receipt first, again;
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
    assert_string_equal(err.sqlstate, "OB001");
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
    };
    return cmocka_run_group_tests_name("lib_sqlite", tests, NULL, NULL);
}
