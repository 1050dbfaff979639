/* fixture_sqlite.c - fresh outboxes on SQLite: one file a test, in a folder that goes with the program.
 *
 * The back doors are connections of their own whose triggers are off: they pass the guards. */
#include "fixture.h"

#include "store/sqlite/store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char folder[256];
static int files_made;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "contract_sqlite: %s: %s\n", what, why);
    exit(1);
}

static void setup(void)
{
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/ob-contract-XXXXXX", above ? above : "/tmp");
    if (!mkdtemp(folder))
        give_up(folder, "cannot be made");
}

static void teardown(void)
{
    rmdir(folder);
}

static struct ob_store *store_open(const char *place, struct outbox_error *err)
{
    struct ob_store *store = NULL;
    return ob_sqlite_open(place, true, &store, err) ? NULL : store;
}

static void create(char place[PLACE_MAX])
{
    snprintf(place, PLACE_MAX, "%s/%d.db", folder, ++files_made);
}

static void destroy(const char *place)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-relay"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[PLACE_MAX + 16];
        snprintf(path, sizeof path, "%s%s", place, suffixes[i]);
        unlink(path);
    }
}

/* ---- back doors -------------------------------------------------------------------------------------------------- */

static sqlite3 *back_door(const char *place)
{
    sqlite3 *db;
    if (sqlite3_open_v2(place, &db, SQLITE_OPEN_READWRITE, NULL) ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL) || sqlite3_busy_timeout(db, 10000))
        give_up(place, sqlite3_errmsg(db));
    return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
        give_up(sql, sqlite3_errmsg(db));
    return stmt;
}

/* ?1 is a time in microseconds, ?2 an id or null, where the statement has them. */
static void run(sqlite3 *db, const char *sql, int64_t time_us, const char *id)
{
    sqlite3_stmt *stmt = prepare(db, sql);
    sqlite3_bind_int64(stmt, 1, time_us);
    sqlite3_bind_text(stmt, 2, id, -1, SQLITE_STATIC);
    if (sqlite3_step(stmt) != SQLITE_DONE)
        give_up(sql, sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
}

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void expire_lease(const char *place, const char *id)
{
    sqlite3 *db = back_door(place);
    run(db,
        "UPDATE outbox_queue SET until = ?1 WHERE state = 1"
        " AND (?2 IS NULL OR n = (SELECT m.n FROM outbox_message m WHERE m.id = ?2))",
        clock_us() - 1000000, id);
    sqlite3_close(db);
}

static void make_message_due(const char *place, const char *id)
{
    sqlite3 *db = back_door(place);
    run(db,
        "UPDATE outbox_queue SET due = ?1 WHERE state <> 1 AND due > ?1"
        " AND n = (SELECT m.n FROM outbox_message m WHERE m.id = ?2)",
        clock_us(), id);
    sqlite3_close(db);
}

static void age(const char *place, char id[37], int days)
{
    static const char *const moves[] = {
        "UPDATE outbox_message SET created_at = created_at - ?1 WHERE id = ?2",
        "UPDATE outbox_queue SET due = due - ?1 WHERE n = (SELECT m.n FROM outbox_message m WHERE m.id = ?2)",
        ("UPDATE outbox_attempt SET claimed_at = claimed_at - ?1, completed_at = completed_at - ?1"
         " WHERE n = (SELECT m.n FROM outbox_message m WHERE m.id = ?2)"),
        "UPDATE outbox_dead SET died_at = died_at - ?1 WHERE n = (SELECT m.n FROM outbox_message m WHERE m.id = ?2)",
    };
    sqlite3 *db = back_door(place);
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++)
        run(db, moves[i], days * 86400000000LL, id);
    sqlite3_close(db);
}

static void scalar_of(const char *place, const char *sql, char text[TEXT_MAX])
{
    sqlite3 *db = back_door(place);
    sqlite3_stmt *stmt = prepare(db, sql);
    text[0] = '\0';
    if (sqlite3_step(stmt) == SQLITE_ROW)
        snprintf(text, TEXT_MAX, "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/* FNV-1a over every value of a table, in the order of its key. */
static uint64_t table_sum(sqlite3 *db, const char *table, int *rows)
{
    char sql[256];
    uint64_t sum = 14695981039346656037u;
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", table);
    sqlite3_stmt *stmt = prepare(db, sql);
    for (*rows = 0; sqlite3_step(stmt) == SQLITE_ROW; ++*rows)
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const unsigned char *bytes = sqlite3_column_blob(stmt, i);
            int n = sqlite3_column_bytes(stmt, i);
            sum = (sum ^ (uint64_t)sqlite3_column_type(stmt, i)) * 1099511628211u;
            for (int k = 0; k < n; k++)
                sum = (sum ^ bytes[k]) * 1099511628211u;
        }
    sqlite3_finalize(stmt);
    return sum;
}

/* "table rows:checksum" of every table that is not empty. outbox_duplicate is how an enqueue answers. */
static void digest_of(const char *place, char text[TEXT_MAX])
{
    sqlite3 *db = back_door(place);
    sqlite3_stmt *tables =
        prepare(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                    " AND name <> 'outbox_duplicate' ORDER BY name");
    size_t n = 0;
    text[0] = '\0';
    while (sqlite3_step(tables) == SQLITE_ROW) {
        int rows;
        const char *name = (const char *)sqlite3_column_text(tables, 0);
        uint64_t sum = table_sum(db, name, &rows);
        if (rows > 0)
            n += (size_t)snprintf(text + n, TEXT_MAX - n, " %s %d:%08x", name, rows, (unsigned)(sum ^ sum >> 32));
    }
    sqlite3_finalize(tables);
    sqlite3_close(db);
    if (n >= TEXT_MAX)
        give_up("digest", "too long");
}

/* ---- plans: SQLite chooses them without looking at the number of rows, so fewer will do -------------------------- */

static void fill(const char *place, long rows)
{
    enum { ENOUGH = 100000 };
    static const char *const steps[] = {
        "INSERT INTO outbox_lane VALUES (1, 'default', 't', 't', 't', 1, 0, 1048576, 5, 1000000, 300000000),"
        "                               (2, 'default', 'lost', 'lost', 'lost', 1, 0, 1048576, 5, 1000000, 300000000)",
        "INSERT INTO outbox_message (n, id, lane, created_at, priority, max_attempts, tenant_id, subject, payload)"
        " WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?1)"
        " SELECT i, printf('018f0000-0000-7000-8000-%012x', i), 1 + (i % 1000 = 0), unixepoch() * 1000000, 4, 5,"
        "        printf('00000000-0000-4000-8000-%012d', i % 1000), 's' || i / 10, '{}' FROM c",
        "INSERT INTO outbox_queue (n, state, lane, prio, due, tenant_id, max_attempts, updated_at, attempts, spent,"
        "                          until, claimed_at, ceiling, holder)"
        " SELECT n, lane = 2, lane, 4, created_at - 3600000000, tenant_id, 5, created_at, lane = 2, lane = 2,"
        "        CASE lane WHEN 2 THEN created_at - 60000000 END, CASE lane WHEN 2 THEN created_at - 90000000 END,"
        "        CASE lane WHEN 2 THEN 5 END, CASE lane WHEN 2 THEN 'gone' END"
        "   FROM outbox_message WHERE n <= ?1",
    };
    sqlite3 *db = back_door(place);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        run(db, steps[i], rows < ENOUGH ? rows : ENOUGH, NULL);
    sqlite3_close(db);
}

static void plan_of(const char *place, enum lookup what, char text[TEXT_MAX])
{
    static const struct {
        const char *statement, *search; /* what the index must be asked for */
    } lookups[LOOKUP_COUNT] = {
        [LOOKUP_DUE] = {"ready", "lane=? AND prio=? AND due>"},
        [LOOKUP_EXPIRED] = {"expired", "until>? AND until<"},
        [LOOKUP_TENANT_DUE] = {"ready_tenant", "tenant_id=? AND lane=? AND prio=? AND due>"},
        [LOOKUP_TENANT] = {"list_tenant", "tenant_id=?"},
        [LOOKUP_SUBJECT] = {"list_subject", "subject=?"},
    };
    char path[PLACE_MAX], sql[8192] = "EXPLAIN QUERY PLAN ";
    size_t n = strlen(sql);
    snprintf(path, sizeof path, "%s/%s.sql", CONTRACT_SQLITE_STATEMENTS, lookups[what].statement);
    FILE *file = fopen(path, "r");
    if (!file)
        give_up(path, "cannot be read");
    sql[n + fread(sql + n, 1, sizeof sql - n - 1, file)] = '\0';
    fclose(file);

    sqlite3 *db = back_door(place);
    sqlite3_stmt *stmt = prepare(db, sql);
    bool whole = false;
    for (n = 0, text[0] = '\0'; sqlite3_step(stmt) == SQLITE_ROW && n < TEXT_MAX;) {
        const char *line = (const char *)sqlite3_column_text(stmt, 3);
        whole |= strncmp(line, "SCAN ", 5) == 0 && !strstr(line, "CONSTANT") && !strstr(line, "json_each");
        n += (size_t)snprintf(text + n, TEXT_MAX - n, "%s\n", line);
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    if (!whole && strstr(text, lookups[what].search))
        text[0] = '\0';
}

static const struct lack lacks[] = {
    {NEEDS_FAILED_TRANSACTION, "in SQLite an error fails the statement, not the transaction"},
    {NEEDS_MANY_WRITERS, "SQLite has one writer at a time"},
    {NEEDS_CONNECTION, "an SQLite file has no server, and no connection to lose"},
    {NEEDS_NOTHING, NULL},
};

static void url_of(const char *place, char url[PLACE_MAX])
{
    snprintf(url, PLACE_MAX, "sqlite:%s", place);
}

/* Somebody writes and does not come to an end. */
static void freeze(const char *place, bool frozen)
{
    static sqlite3 *writer;
    sqlite3_close(writer);
    writer = NULL;
    if (!frozen)
        return;
    writer = back_door(place);
    if (sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL))
        give_up(place, sqlite3_errmsg(writer));
}

const struct fixture fixture = {
    .name = "contract_sqlite",
    .lacks = lacks,
    .setup = setup,
    .teardown = teardown,
    .create = create,
    .destroy = destroy,
    .open = store_open,
    .url = url_of,
    .nowhere = "sqlite:/nowhere/outbox.db",
    .freeze = freeze,
    .expire = expire_lease,
    .make_due = make_message_due,
    .age = age,
    .scalar = scalar_of,
    .digest = digest_of,
    .fill = fill,
    .plan = plan_of,
};
