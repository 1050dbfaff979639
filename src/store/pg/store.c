/* store.c - opens and closes the store, and the caller's transaction on it. The operations have files of their own. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "pg_statements.h"
#include "store/pg/render.h"

#include <string.h>

/* Runs SQL whose result is not read. With a schema, the statement is ours. */
static ob_code command(struct ob_pg_store *store, const char *sql, PGresult **res, struct outbox_error *err)
{
    PGresult *got = PQexec(store->conn, sql);
    ExecStatusType status = PQresultStatus(got);
    ob_code code = OUTBOX_OK;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY)
        code = ob_pg_failed(store, &(struct ob_pg_cause){.conn = store->conn}, got, err);
    if (res && !code)
        *res = got;
    else
        PQclear(got);
    return code;
}

static const char *text_of(const char *file)
{
    return ob_sql_find(ob_pg_statements, ob_pg_statements_count, file)->text;
}

static ob_code begin(struct ob_store *base, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    if (store->tx == OB_PG_TX_OPEN)
        return ob_error_set(err, OUTBOX_INVALID, "a transaction is already open; commit it or roll it back first");
    ob_code code = ob_pg_ready(store, err);
    if (!code)
        code = command(store, text_of("begin.sql"), NULL, err);
    if (!code)
        store->tx = OB_PG_TX_OPEN;
    return code;
}

static ob_code commit(struct ob_store *base, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    if (store->tx == OB_PG_TX_NONE)
        return ob_error_set(err, OUTBOX_INVALID, "there is no transaction to commit; begin one first");
    PGresult *res = NULL;
    ob_code code = ob_pg_ready(store, err);
    if (!code)
        code = command(store, text_of("commit.sql"), &res, err);
    if (!code && strcmp(PQcmdStatus(res), "COMMIT") != 0)
        code = ob_error_set(err, OUTBOX_FAILED_TRANSACTION,
                            "the transaction had failed and was rolled back; begin a new "
                            "one");
    PQclear(res);
    store->tx = OB_PG_TX_NONE;
    return code;
}

static ob_code rollback(struct ob_store *base, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    enum ob_pg_tx was = store->tx;
    store->tx = OB_PG_TX_NONE;
    if (was == OB_PG_TX_LOST) /* the server has already rolled back */
        return OUTBOX_OK;
    if (was == OB_PG_TX_NONE)
        return ob_error_set(err, OUTBOX_INVALID, "there is no transaction to roll back; begin one first");
    return command(store, text_of("rollback.sql"), NULL, err);
}

static ob_code exec(struct ob_store *base, const char *sql, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    ob_code code = ob_pg_ready(store, err);
    return code ? code : command(store, sql, NULL, err);
}

static void close_store(struct ob_store *base)
{
    if (!base)
        return;
    struct ob_pg_store *store = ob_pg_store_of(base);
    PQfinish(store->conn);
    ob_pg_doorbell_free(store->doorbell);
    ob_free(store->conninfo);
    ob_free(store->application);
    ob_free(store->schema);
    for (size_t i = 0; i < OB_PG_STMT_COUNT; i++)
        ob_free(store->sql[i]);
    ob_buf_fini(&store->scratch);
    ob_free(store);
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static void place(struct ob_store *base, struct ob_store_place *place)
{
    const struct ob_pg_store *store = ob_pg_store_of(base);
    *place = (struct ob_store_place){.host = or_null(PQhost(store->conn)),
                                     .port = or_null(PQport(store->conn)),
                                     .database = or_null(PQdb(store->conn)),
                                     .user = or_null(PQuser(store->conn)),
                                     .schema = store->schema};
}

static const struct ob_store_ops ops = {
    .kind = "postgresql",
    .place = place,
    .close = close_store,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .exec = exec,
    .enqueue = ob_pg_enqueue,
    .enqueue_many = ob_pg_enqueue_many,
    .claim = ob_pg_claim,
    .settle = ob_pg_settle,
    .extend = ob_pg_extend,
    .retry = ob_pg_retry,
    .discard = ob_pg_discard,
    .operate = ob_pg_operate,
    .pause = ob_pg_pause,
    .resume = ob_pg_resume,
    .configure = ob_pg_configure,
    .settings = ob_pg_settings,
    .purge = ob_pg_purge,
    .run_hooks = ob_pg_run_hooks,
    .erase_tenant = ob_pg_erase_tenant,
    .list = ob_pg_list,
    .attempts = ob_pg_attempts,
    .acts = ob_pg_acts,
    .tail_begin = ob_pg_tail_begin,
    .tail = ob_pg_tail,
    .explain = ob_pg_explain,
    .groups = ob_pg_groups,
    .dead_news = ob_pg_dead_news,
    .tell_news = ob_pg_tell_news,
    .record_history = ob_pg_record_history,
    .history = ob_pg_history,
    .waiting_keys = ob_pg_waiting_keys,
    .ids_between = ob_pg_ids_between,
    .status = ob_pg_status,
    .tune = ob_pg_tune,
    .beat = ob_pg_beat,
    .relays = ob_pg_relays,
    .control = ob_pg_control,
    .gauges = ob_pg_gauges,
    .rights = ob_pg_rights,
    .log_problems = ob_pg_log_problems,
    .enter = ob_pg_enter,
    .leave = ob_pg_leave,
    .token_create = ob_pg_token_create,
    .token_revoke = ob_pg_token_revoke,
    .token_check = ob_pg_token_check,
    .tokens = ob_pg_tokens,
    .wait = ob_pg_wait,
};

static ob_code limit_statements(struct ob_pg_store *store, int64_t limit_us, struct outbox_error *err)
{
    char limit[32];
    const char *const values[] = {limit};
    snprintf(limit, sizeof limit, "%lld", (long long)limit_us / 1000);
    PGresult *res = PQexecParams(store->conn, text_of("session_limit.sql"), 1, NULL, values, NULL, NULL, 0);
    struct ob_pg_cause cause = {.conn = store->conn};
    ob_code code = PQresultStatus(res) == PGRES_TUPLES_OK ? OUTBOX_OK : ob_pg_error(&cause, res, err);
    PQclear(res);
    return code;
}

ob_code ob_pg_open(const char *conninfo, const struct ob_pg_options *options, struct ob_store **out,
                   struct outbox_error *err)
{
    *out = NULL;
    const char *schema = options && options->schema ? options->schema : "outbox";
    const char *application = options && options->application ? options->application : "outbox";
    ob_code code = ob_pg_schema_check(schema, err);
    if (code)
        return code;
    struct ob_pg_store *store = ob_calloc(1, sizeof *store);
    if (!store)
        return ob_error_nomem(err);
    store->base.ops = &ops;
    if (options) {
        store->doorbell_number = options->doorbell_number;
        store->doorbell_settings = options->doorbell_settings;
        store->log = options->log;
    }
    store->conninfo = ob_strdup(conninfo);
    store->application = ob_strdup(application);
    store->schema = ob_strdup(schema);
    if (!store->conninfo || !store->application || !store->schema)
        code = ob_error_nomem(err);
    else
        code = ob_pg_connect(conninfo, application, &store->conn, err);
    if (!code && options && options->limit_us)
        code = limit_statements(store, options->limit_us, err);
    if (code)
        close_store(&store->base);
    else
        *out = &store->base;
    return code;
}
