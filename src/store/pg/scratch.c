/* scratch.c - schemas that a benchmark makes for itself and removes, also those of one that was killed. */
#include "store/pg/pg.h"

#include "pg_statements.h"

#include <stdlib.h>

static const char *text_of(const char *file)
{
    return ob_sql_find(ob_pg_statements, ob_pg_statements_count, file)->text;
}

static ob_code ask(PGconn *conn, const char *file, const char *value, PGresult **res, struct outbox_error *err)
{
    const char *const values[] = {value};
    struct ob_pg_cause cause = {.conn = conn};
    *res = PQexecParams(conn, text_of(file), value ? 1 : 0, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(*res) == PGRES_TUPLES_OK)
        return OUTBOX_OK;
    ob_code code = ob_pg_error(&cause, *res, err);
    PQclear(*res);
    *res = NULL;
    return code;
}

static ob_code drop(PGconn *conn, const char *schema, struct outbox_error *err)
{
    PGresult *list;
    ob_code code = ask(conn, "scratch_drop.sql", schema, &list, err);
    for (int i = 0; !code && i < PQntuples(list); i++) {
        PGresult *res = PQexec(conn, PQgetvalue(list, i, 0));
        struct ob_pg_cause cause = {.conn = conn};
        if (PQresultStatus(res) != PGRES_COMMAND_OK)
            code = ob_pg_error(&cause, res, err);
        PQclear(res);
    }
    PQclear(list);
    return code;
}

ob_code ob_pg_scratch_drop(const char *conninfo, const char *schema, struct outbox_error *err)
{
    PGconn *conn;
    ob_code code = ob_pg_connect(conninfo, "outbox", &conn, err);
    if (code)
        return code;
    code = drop(conn, schema, err);
    PQfinish(conn);
    return code;
}

ob_code ob_pg_scratch_sweep(const char *conninfo, int *dropped, struct outbox_error *err)
{
    PGconn *conn;
    PGresult *list = NULL;
    *dropped = 0;
    ob_code code = ob_pg_connect(conninfo, "outbox", &conn, err);
    if (code)
        return code;
    code = ask(conn, "scratch_left.sql", NULL, &list, err);
    for (int i = 0; !code && i < PQntuples(list); i++)
        *dropped +=
            drop(conn, PQgetvalue(list, i, 0), NULL) == OUTBOX_OK; /* of another database: left to a run there */
    PQclear(list);
    PQfinish(conn);
    return code;
}

ob_code ob_pg_wal_bytes(const char *conninfo, int64_t *bytes, struct outbox_error *err)
{
    PGconn *conn;
    PGresult *res;
    *bytes = 0;
    ob_code code = ob_pg_connect(conninfo, "outbox", &conn, err);
    if (code)
        return code;
    code = ask(conn, "wal.sql", NULL, &res, err);
    if (!code && PQntuples(res))
        *bytes = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    PQfinish(conn);
    return code;
}
