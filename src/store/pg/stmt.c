/* stmt.c - the store's statements: rendered once for the schema, prepared once per connection, run.
 *
 * A statement is prepared on its first use. The server forgets prepared statements with the connection, on DISCARD ALL and
 * behind some poolers (26000), refuses them after a migration changed what they return (0A000), and another client may have
 * used the name (42P05). The remedy is the same in all cases: prepare everything again under other names, and run the statement
 * once more. This also covers a failed statement that calls hooks: a hook can prepare statements under our names, and these are
 * removed only if the call completes. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "pg_statements.h"
#include "store/pg/render.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *file, *role;
} statements[] = {
#define X(name, role) {"ob_" #name, #name ".sql", role},
    OB_PG_STATEMENTS(X)
#undef X
};

const char *ob_pg_stmt_role(enum ob_pg_stmt which)
{
    return statements[which].role;
}

ob_code ob_pg_stmt_render(enum ob_pg_stmt which, const char *schema, char **sql, struct outbox_error *err)
{
    const struct ob_sql_file *file = ob_sql_find(ob_pg_statements, ob_pg_statements_count, statements[which].file);
    struct ob_buf buf = OB_BUF_INIT;
    ob_pg_render(&buf, file->text, schema);
    *sql = ob_buf_take(&buf);
    ob_buf_fini(&buf);
    return *sql ? OUTBOX_OK : ob_error_nomem(err);
}

static struct ob_pg_cause cause_of(struct ob_pg_store *store, enum ob_pg_stmt which)
{
    return (struct ob_pg_cause){.conn = store->conn, .schema = store->schema, .role = statements[which].role};
}

void ob_pg_unprepare(struct ob_pg_store *store)
{
    memset(store->prepared, 0, sizeof store->prepared);
    store->epoch++;
}

ob_code ob_pg_ready(struct ob_pg_store *store, struct outbox_error *err)
{
    if (store->tx == OB_PG_TX_LOST)
        return ob_error_set(err, OUTBOX_FAILED_TRANSACTION,
                            "the connection was lost inside the transaction; roll back, then begin again");
    if (!store->dead && PQstatus(store->conn) == CONNECTION_OK)
        return OUTBOX_OK;
    ob_pg_unprepare(store);
    ob_code code = ob_pg_reconnect(store->conninfo, store->application, &store->conn, err);
    store->dead = code != OUTBOX_OK;
    return code;
}

ob_code ob_pg_failed(struct ob_pg_store *store, const struct ob_pg_cause *cause, const PGresult *res,
                     struct outbox_error *err)
{
    ob_code code = ob_pg_error(cause, res, err);
    if (ob_pg_lost(store->conn, code)) {
        store->dead = true;
        if (store->tx == OB_PG_TX_OPEN)
            store->tx = OB_PG_TX_LOST;
    }
    return code;
}

static ob_code rendered(struct ob_pg_store *store, enum ob_pg_stmt which, struct outbox_error *err)
{
    return store->sql[which] ? OUTBOX_OK : ob_pg_stmt_render(which, store->schema, &store->sql[which], err);
}

static PGresult *run(struct ob_pg_store *store, enum ob_pg_stmt which, const struct ob_pg_params *params)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%u", statements[which].name, store->epoch);
    if (!store->prepared[which]) {
        PGresult *res = PQprepare(store->conn, name, store->sql[which], 0, NULL);
        if (PQresultStatus(res) != PGRES_COMMAND_OK)
            return res;
        PQclear(res);
        store->prepared[which] = true;
    }
    return PQexecPrepared(store->conn, name, params->count, params->values, params->lengths, params->formats, 1);
}

static bool forgotten(const PGresult *res)
{
    const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
    return state && (strcmp(state, "26000") == 0 || strcmp(state, "0A000") == 0 || strcmp(state, "42P05") == 0);
}

bool ob_pg_stmt_hooks(enum ob_pg_stmt which)
{
    return which == OB_PG_settle || which == OB_PG_settle_window || which == OB_PG_retry || which == OB_PG_discard ||
           which == OB_PG_operate || which == OB_PG_hooks;
}

ob_code ob_pg_call(struct ob_pg_store *store, enum ob_pg_stmt which, const struct ob_pg_params *params, PGresult **res,
                   struct outbox_error *err)
{
    if (store->entered) /* a statement that the server has forgotten would end the transaction */
        return ob_pg_call_once(store, which, params, res, err);
    ob_code code = ob_pg_ready(store, err);
    if (!code)
        code = rendered(store, which, err);
    if (code)
        return code;
    *res = run(store, which, params);
    if (forgotten(*res) && store->tx == OB_PG_TX_NONE) {
        PQclear(*res);
        ob_pg_unprepare(store);
        *res = run(store, which, params);
    }
    if (PQresultStatus(*res) == PGRES_TUPLES_OK)
        return OUTBOX_OK;
    struct ob_pg_cause cause = cause_of(store, which);
    code = ob_pg_failed(store, &cause, *res, err);
    if (ob_pg_stmt_hooks(which))
        ob_pg_unprepare(store);
    PQclear(*res);
    *res = NULL;
    return code;
}

ob_code ob_pg_call_once(struct ob_pg_store *store, enum ob_pg_stmt which, const struct ob_pg_params *params,
                        PGresult **res, struct outbox_error *err)
{
    ob_code code = ob_pg_ready(store, err);
    if (!code)
        code = rendered(store, which, err);
    if (code)
        return code;
    *res = PQexecParams(store->conn, store->sql[which], params->count, NULL, params->values, params->lengths,
                        params->formats, 1);
    if (PQresultStatus(*res) == PGRES_TUPLES_OK)
        return OUTBOX_OK;
    struct ob_pg_cause cause = cause_of(store, which);
    code = ob_pg_failed(store, &cause, *res, err);
    PQclear(*res);
    *res = NULL;
    return code;
}
