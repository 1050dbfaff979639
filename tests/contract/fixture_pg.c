/* fixture_pg.c - fresh outboxes on PostgreSQL: one migrated template database a run, one copy of it a test.
 *
 * OUTBOX_TEST_PG is the conninfo of a superuser on a server of our own. OUTBOX_TEST_LANE, if set, is the setting lane of all
 * namespaces. The store itself works with the rights of the four group roles and no more; only the back doors are a superuser's. */
#include "fixture_pg.h"

#include "store/pg/store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APP "outbox_contract_app"

static char template_name[32], template_place[PLACE_MAX], fresh_digest[TEXT_MAX];
static char washed[64]; /* a database as good as new, "" when there is none */
static int databases, tests;

void pg_give_up(const char *what, const char *why)
{
    fprintf(stderr, "contract_pg: %s: %s\n", what, why);
    exit(1);
}

/* The conninfo of the environment, with another database and, for the store, the application's role. */
static void place_make(char place[PLACE_MAX], const char *dbname, bool app)
{
    char *error = NULL;
    const char *given = getenv("OUTBOX_TEST_PG");
    if (!given)
        pg_give_up("OUTBOX_TEST_PG", "is not set: run tools/test contract");
    PQconninfoOption *options = PQconninfoParse(given, &error);
    if (!options)
        pg_give_up("OUTBOX_TEST_PG", error);
    size_t n = (size_t)snprintf(place, PLACE_MAX, "dbname=%s%s", dbname, app ? " options='-c role=" APP "'" : "");
    for (PQconninfoOption *option = options; option->keyword; option++)
        if (option->val && strcmp(option->keyword, "dbname") != 0 && n < PLACE_MAX)
            n += (size_t)snprintf(place + n, PLACE_MAX - n, " %s='%s'", option->keyword, option->val);
    PQconninfoFree(options);
    if (n >= PLACE_MAX)
        pg_give_up("OUTBOX_TEST_PG", "too long");
}

static void notice_drop(void *ctx, const PGresult *res)
{
    (void)ctx;
    (void)res;
}

/* As the superuser, in the database of a place; kept open until another place is asked for. */
static PGconn *door;
static char door_name[64];

static void door_close(void)
{
    PQfinish(door);
    door = NULL;
}

PGconn *pg_back_door(const char *place)
{
    char dbname[64] = "", all[PLACE_MAX];
    if (sscanf(place, "dbname=%63s", dbname) != 1)
        pg_give_up("place", place);
    if (door && strcmp(door_name, dbname) == 0)
        return door;
    door_close();
    place_make(all, dbname, false);
    door = PQconnectdb(all);
    if (PQstatus(door) != CONNECTION_OK)
        pg_give_up("connect", PQerrorMessage(door));
    PQsetNoticeReceiver(door, notice_drop, NULL);
    memcpy(door_name, dbname, sizeof(door_name));
    return door;
}

/* The first column of the first row, "" when there is none. */
void pg_query(PGconn *conn, const char *sql, const char *const *params, int n, char text[TEXT_MAX])
{
    PGresult *res = PQexecParams(conn, sql, n, NULL, params, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        pg_give_up(sql, PQerrorMessage(conn));
    if (text)
        snprintf(text, TEXT_MAX, "%s", PQntuples(res) > 0 ? PQgetvalue(res, 0, 0) : "");
    PQclear(res);
}

static void run(const char *place, const char *sql, const char *id, char text[TEXT_MAX])
{
    pg_query(pg_back_door(place), sql, id ? &id : NULL, id ? 1 : 0, text);
}

/* Outside of all outboxes. The names are our own. */
static void admin(const char *before, const char *name, const char *after)
{
    char sql[256];
    snprintf(sql, sizeof(sql), "%s %s %s", before, name, after);
    run("dbname=postgres", sql, NULL, NULL);
}

/* "table rows:checksum" of every table that is not empty, those of the application's own included. */
static void digest_of(const char *place, char text[TEXT_MAX])
{
    PGconn *conn = pg_back_door(place);
    PGresult *tables = PQexec(
        conn, "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c JOIN"
              " pg_namespace n ON n.oid = c.relnamespace WHERE relkind = 'r' AND relname <> 'log_quiet' AND nspname IN"
              " ('outbox', 'public') ORDER BY 1");
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < PQntuples(tables); i++) {
        char sql[512], sum[TEXT_MAX];
        snprintf(sql, sizeof(sql),
                 "SELECT count(*) || ':' || left(md5(string_agg(t::text, E'\\n' ORDER BY t::text)), 8) FROM %s t",
                 PQgetvalue(tables, i, 0));
        pg_query(conn, sql, NULL, 0, sum);
        if (sum[0])
            n += (size_t)snprintf(text + n, TEXT_MAX - n, " %s %s", PQgetvalue(tables, i, 0), sum);
    }
    PQclear(tables);
    if (n >= TEXT_MAX)
        pg_give_up("digest", "too long");
}

/* Tables that a test may write to. What the migration wrote into some is kept in the schema saved. */
#define WASHED \
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'outbox'::regnamespace" \
    " AND relname NOT IN ('migration', 'period', 'log_shard', 'log_quiet')"

static void setup(void)
{
    struct outbox_error err;
    snprintf(template_name, sizeof(template_name), "contract_%d", (int)getpid());
    admin("CREATE DATABASE", template_name, "");
    place_make(template_place, template_name, false);
    if (ob_pg_migrate(template_place, NULL, &(struct ob_migrate){0}, &err))
        pg_give_up("migrate", err.text);
    PGconn *conn = pg_back_door(template_place);
    pg_query(conn,
             "DO $$ BEGIN CREATE ROLE " APP
             " NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
             NULL, 0, NULL);
    pg_query(conn, "GRANT outbox_producer, outbox_relay, outbox_operator, outbox_auditor TO " APP, NULL, 0, NULL);
    pg_query(conn, "GRANT CREATE ON SCHEMA public TO " APP, NULL, 0, NULL);
    const char *lane = getenv("OUTBOX_TEST_LANE");
    if (lane)
        pg_query(conn, "UPDATE outbox.namespace SET lane = $1 WHERE name = '*'", &lane, 1, NULL);
    pg_query(conn, "CREATE SCHEMA saved", NULL, 0, NULL);
    pg_query(
        conn,
        "DO $$ DECLARE c name; used boolean; BEGIN FOR c IN " WASHED " LOOP"
        "  EXECUTE format('SELECT EXISTS (SELECT FROM outbox.%I)', c) INTO used;"
        "  IF used THEN EXECUTE format('CREATE TABLE saved.%1$I AS TABLE outbox.%1$I', c); END IF; END LOOP; END $$",
        NULL, 0, NULL);
    digest_of(template_place, fresh_digest);
    door_close();
}

static void database_drop(const char *name)
{
    door_close();
    admin("DROP DATABASE IF EXISTS", name, "WITH (FORCE)");
}

static void teardown(void)
{
    if (washed[0])
        database_drop(washed);
    database_drop(template_name);
    door_close();
}

static void create(char place[PLACE_MAX])
{
    char from[80];
    if (!washed[0]) {
        snprintf(washed, sizeof(washed), "%s_%d", template_name, ++databases);
        snprintf(from, sizeof(from), "TEMPLATE %s", template_name);
        admin("CREATE DATABASE", washed, from);
    }
    place_make(place, washed, true);
    washed[0] = '\0';
}

/* Copying the template takes a third of a second, emptying a used copy a hundredth: so a copy is used again, provided
 * that every table in it is what it was in the template. */
static bool wash(const char *place)
{
    char text[TEXT_MAX];
    PGconn *conn = pg_back_door(place);
    pg_query(conn,
             "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()"
             " AND pid <> pg_backend_pid()",
             NULL, 0, NULL);
    pg_query(conn, "SET session_replication_role = replica", NULL, 0, NULL);
    pg_query(conn,
             "DO $$ DECLARE c name; used boolean; BEGIN"
             " FOR c IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP"
             "  EXECUTE format('DROP TABLE public.%I', c); END LOOP;"
             " FOR c IN " WASHED " LOOP"
             "  IF to_regclass(format('saved.%I', c)) IS NOT NULL THEN"
             "   EXECUTE format('DELETE FROM outbox.%1$I; INSERT INTO outbox.%1$I SELECT * FROM saved.%1$I', c);"
             "   CONTINUE; END IF;"
             "  EXECUTE format('SELECT EXISTS (SELECT FROM outbox.%I)', c) INTO used;"
             "  IF used THEN EXECUTE format('TRUNCATE outbox.%I RESTART IDENTITY', c); END IF; END LOOP; END $$",
             NULL, 0, NULL);
    pg_query(conn, "RESET session_replication_role", NULL, 0, NULL);
    digest_of(place, text);
    return strcmp(text, fresh_digest) == 0;
}

static void destroy(const char *place)
{
    char name[64];
    if (sscanf(place, "dbname=%63s", name) != 1)
        pg_give_up("place", place);
    bool clean = wash(place);
    tests++;
    if (clean)
        memcpy(washed, name, sizeof(washed));
    else
        database_drop(name);
    if (tests >= 10 && databases > tests / 2)
        pg_give_up("wash", "it hardly ever gives what a migration does: a table that it does not know?");
}

/* Settings that nobody should have, and that must change nothing: those of a worker in another language may be any. */
static const char hostile[] = "SET search_path = public, pg_catalog, pg_temp; SET datestyle = 'SQL, DMY';"
                              " SET timezone = 'Asia/Jakarta'; SET intervalstyle = 'sql_standard';"
                              " SET bytea_output = 'escape'; SET extra_float_digits = -15;"
                              " SET standard_conforming_strings = off; SET backslash_quote = off;"
                              " SET array_nulls = off; SET transform_null_equals = on; SET xmlbinary = hex;"
                              " SET lc_numeric = 'C'; SET lc_time = 'C'; SET quote_all_identifiers = on";

static struct ob_store *store_open(const char *place, struct outbox_error *err)
{
    struct ob_store *store = NULL;
    if (ob_pg_open(place, NULL, &store, err))
        return NULL;
    if (!store->ops->exec(store, hostile, err))
        return store;
    store->ops->close(store);
    return NULL;
}

static void expire_lease(const char *place, const char *id)
{
    run(place,
        id ? "UPDATE outbox.queue SET until = now() - interval '1 s' WHERE until IS NOT NULL AND id = $1"
           : "UPDATE outbox.queue SET until = now() - interval '1 s' WHERE until IS NOT NULL",
        id, NULL);
    /* A window ends as a whole. Those of messages without a key are looked for from time to time: at once, now. */
    run(place,
        id ? "UPDATE outbox.log_window w SET until = now() - interval '1 s', swept = now() - interval '1 min'"
             " FROM outbox.message m WHERE m.id = $1 AND m.shard = w.shard AND NOT EXISTS ("
             "  SELECT FROM outbox.queue q WHERE q.id = m.id)"
           : "UPDATE outbox.log_window SET until = now() - interval '1 s', swept = now() - interval '1 min'",
        id, NULL);
}

static void make_message_due(const char *place, const char *id)
{
    run(place, "UPDATE outbox.queue SET due = now() WHERE id = $1 AND until IS NULL AND due > now()", id, NULL);
    run(place, "UPDATE outbox.message SET due = now() WHERE id = $1 AND due > now()", id, NULL);
}

/* An id holds its time, and retention goes by it; so an older message has another id, in every table. */
static void age(const char *place, char id[37], int days)
{
    static const char *const moves[] = {
        "UPDATE outbox.message SET id = $2::uuid, created_at = created_at - $3::interval WHERE id = $1::uuid",
        "UPDATE outbox.message_kept SET id = $2::uuid, created_at = created_at - $3::interval WHERE id = $1::uuid",
        "UPDATE outbox.queue SET id = $2::uuid, due = due - $3::interval WHERE id = $1::uuid",
        "UPDATE outbox.attempt SET message_id = $2::uuid, claimed_at = claimed_at - $3::interval,"
        " completed_at = completed_at - $3::interval WHERE message_id = $1::uuid",
        "UPDATE outbox.attempt_kept SET message_id = $2::uuid, claimed_at = claimed_at - $3::interval,"
        " completed_at = completed_at - $3::interval WHERE message_id = $1::uuid",
        "UPDATE outbox.dead SET id = $2::uuid, created_at = created_at - $3::interval, died_at = died_at - $3::interval"
        " WHERE id = $1::uuid",
        "UPDATE outbox.dedupe SET id = $2::uuid, created_at = created_at - $3::interval WHERE id = $1::uuid",
        "UPDATE outbox.act SET message_id = $2::uuid, at = at - $3::interval WHERE message_id = $1::uuid",
    };
    char interval[32], older[TEXT_MAX];
    snprintf(interval, sizeof(interval), "%d days", days);
    const char *params[] = {id, interval, NULL};
    PGconn *conn = pg_back_door(place);
    pg_query(conn,
             "SELECT overlay($1::uuid::text placing left(outbox.uuid_at(clock_timestamp() - $2::interval)::text, 13)"
             " from 1 for 13)",
             params, 2, older);
    /* That day had its partition, made in its time by purge. */
    pg_query(conn, "SET ROLE outbox_owner", NULL, 0, NULL);
    pg_query(conn,
             "SELECT outbox.make_period(day, day + '1 day') FROM date_trunc('day', now() - $1::interval, 'UTC') day"
             " WHERE NOT EXISTS (SELECT FROM outbox.period p WHERE p.start = day)",
             &params[1], 1, NULL);
    pg_query(conn, "RESET ROLE", NULL, 0, NULL);
    pg_query(conn, "SET session_replication_role = replica", NULL, 0, NULL);
    const char *all[] = {id, older, interval};
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
        pg_query(conn, moves[i], all, 3, NULL);
    pg_query(conn, "RESET session_replication_role", NULL, 0, NULL);
    memcpy(id, older, 36);
}

static void scalar_of(const char *place, const char *sql, char text[TEXT_MAX])
{
    run(place, sql, NULL, text);
}

static void url_of(const char *place, char url[PLACE_MAX])
{
    snprintf(url, PLACE_MAX, "%s", place);
}

/* Stops the very processes that serve the lines. Those that come while others are stopped are not. */
static void freeze(const char *place, bool frozen)
{
    static pid_t stopped[16];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        kill(stopped[i], SIGCONT);
    count = 0;
    if (!frozen)
        return;
    PGresult *res = PQexec(pg_back_door(place), "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                                                " AND application_name = 'line'");
    for (int i = 0; i < PQntuples(res) && count < sizeof stopped / sizeof stopped[0]; i++) {
        stopped[count] = (pid_t)strtol(PQgetvalue(res, i, 0), NULL, 10);
        if (kill(stopped[count++], SIGSTOP))
            pg_give_up("kill", "a server's process cannot be stopped");
    }
    PQclear(res);
}

static void sever(const char *place)
{
    run(place,
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'line'",
        NULL, NULL);
}

const struct fixture fixture = {
    .name = "contract_pg",
    .setup = setup,
    .teardown = teardown,
    .create = create,
    .destroy = destroy,
    .open = store_open,
    .url = url_of,
    .nowhere = "host=127.0.0.1 port=1 dbname=nowhere",
    .freeze = freeze,
    .sever = sever,
    .expire = expire_lease,
    .make_due = make_message_due,
    .age = age,
    .scalar = scalar_of,
    .digest = digest_of,
    .fill = pg_fill,
    .plan = pg_plan,
};
