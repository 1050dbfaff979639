/* foreign.c - a schema or roles with our names that somebody else created: refused, or taken over on request.
 *
 * The owner of an outbox's schema, and any role that may create in it, can put functions there that run with the outbox's
 * rights; a member of its owning roles has full access to it. */
#include "store/pg/pg.h"

#include "pg_statements.h"
#include "store/pg/render.h"

#include <stdio.h>

void ob_pg_put_roles(struct ob_pg_params *params, const char *schema)
{
    int count = 0;
    while (ob_pg_role((size_t)count))
        count++;
    ob_pg_array_begin(params, OB_PG_TEXT, count);
    for (int i = 0; i < count; i++) {
        char name[OB_PG_SCHEMA_MAX + 16];
        snprintf(name, sizeof name, "%s_%s", schema, ob_pg_role((size_t)i));
        ob_pg_array_text(params, name);
    }
    ob_pg_array_end(params);
}

static ob_code failed(PGconn *conn, const char *schema, const PGresult *res, struct outbox_error *err)
{
    return ob_pg_error(&(struct ob_pg_cause){.conn = conn, .schema = schema, .role = "owner"}, res, err);
}

static ob_code find_foreign(PGconn *conn, const char *schema, bool migrated, PGresult **out, struct outbox_error *err)
{
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_pg_put_text(&params, schema);
    ob_pg_put_roles(&params, schema);
    ob_pg_put_bool(&params, migrated);
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "migrate_foreign.sql")->text;
    PGresult *res = NULL;
    ob_code code = OUTBOX_OK;
    if (!ob_pg_params_seal(&params))
        code = ob_error_nomem(err);
    else
        res = PQexecParams(conn, text, params.count, NULL, params.values, params.lengths, params.formats, 1);
    if (!code && PQresultStatus(res) != PGRES_TUPLES_OK)
        code = failed(conn, schema, res, err);
    ob_buf_fini(&scratch);
    if (!code)
        *out = res;
    else
        PQclear(res);
    return code;
}

static ob_code adopt(PGconn *conn, const char *schema, const struct ob_migrate *how, const char *fix,
                     struct outbox_error *err)
{
    if (how->adopted)
        how->adopted(how->ctx, fix);
    if (how->dry_run)
        return OUTBOX_OK;
    PGresult *res = PQexec(conn, fix);
    ob_code code = PQresultStatus(res) == PGRES_COMMAND_OK ? OUTBOX_OK : failed(conn, schema, res, err);
    PQclear(res);
    return code;
}

ob_code ob_pg_check_foreign(PGconn *conn, const char *schema, bool migrated, const struct ob_migrate *how,
                            struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = find_foreign(conn, schema, migrated, &res, err);
    if (!code && PQntuples(res) > 0 && !how->adopt)
        code = ob_error_set(err, OUTBOX_SCHEMA,
                            "%s. Choose another name with --schema, or take it over with --adopt, which runs: %s",
                            ob_pg_text(res, 0, 0), ob_pg_text(res, 0, 1));
    for (int row = 0; !code && row < PQntuples(res); row++)
        code = adopt(conn, schema, how, ob_pg_text(res, row, 1), err);
    PQclear(res);
    return code;
}
