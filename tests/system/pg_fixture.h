/* pg_fixture.h - a database of the program's own with an outbox in it, and SQL by the side.
 *
 * OUTBOX_TEST_PG is the conninfo of a superuser (tools/test sets it). The database goes at the end; messages go before
 * every test. */
#ifndef SYSTEM_PG_FIXTURE_H
#define SYSTEM_PG_FIXTURE_H

#include "ob_test.h"
#include "store/pg/store.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char pg_conninfo[1024]; /* of the database */
static PGconn *pg_side;        /* a connection that is not under test */

/* Runs SQL that must succeed on any connection. */
static inline PGresult *pg_query(PGconn *conn, const char *sql)
{
    PGresult *res = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    return res;
}

static inline void pg_do(PGconn *conn, const char *sql)
{
    PQclear(pg_query(conn, sql));
}

static inline long pg_number(const char *sql)
{
    PGresult *res = pg_query(pg_side, sql);
    long value = atol(PQgetvalue(res, 0, 0));
    PQclear(res);
    return value;
}

static inline long pg_messages(void)
{
    return pg_number("select count(*) from outbox.message");
}

/* Without a server nothing can run: main asks first, because a group's setup cannot skip. */
static inline bool pg_given(void)
{
    if (getenv("OUTBOX_TEST_PG"))
        return true;
    puts("1..0 # SKIP OUTBOX_TEST_PG is not set: run tools/test");
    return false;
}

static inline int pg_setup(void **state)
{
    (void)state;
    const char *given = getenv("OUTBOX_TEST_PG");
    PGconn *admin = PQconnectdb(given);
    char sql[128];
    struct outbox_error err;
    assert_int_equal(PQstatus(admin), CONNECTION_OK);
    snprintf(sql, sizeof sql, "create database lib_%d", (int)getpid());
    pg_do(admin, sql);
    PQfinish(admin);
    snprintf(pg_conninfo, sizeof pg_conninfo, "%s dbname=lib_%d", given, (int)getpid());
    if (ob_pg_migrate(pg_conninfo, NULL, NULL, &err))
        fail_msg("%s", err.text);
    pg_side = PQconnectdb(pg_conninfo);
    return 0;
}

static inline int pg_teardown(void **state)
{
    (void)state;
    PQfinish(pg_side);
    PGconn *admin = PQconnectdb(getenv("OUTBOX_TEST_PG"));
    char sql[128];
    snprintf(sql, sizeof sql, "drop database if exists lib_%d with (force)", (int)getpid());
    PQclear(PQexec(admin, sql));
    PQfinish(admin);
    return 0;
}

static inline int pg_empty(void **state)
{
    (void)state;
    pg_do(pg_side, "begin; set local session_replication_role = replica; truncate outbox.message, outbox.queue, "
                   "outbox.dead, outbox.dedupe, outbox.stream, outbox.attempt; commit");
    return 0;
}

#endif
