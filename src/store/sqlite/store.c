/* store.c - opens and closes the store. The operations have files of their own. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"

static ob_code exec(struct ob_store *base, const char *sql, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    if (store->open_tx && sqlite3_get_autocommit(store->db))
        return ob_error_set(err, OUTBOX_FAILED_TRANSACTION,
                            "the transaction has already failed; roll back, then begin again");
    store->watch.stale = true;
    return ob_sqlite_exec(store->db, sql, err);
}

static void close_store(struct ob_store *base)
{
    if (!base)
        return;
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    for (size_t i = 0; i < OB_SQLITE_STMT_COUNT; i++)
        sqlite3_finalize(store->stmts[i]);
    sqlite3_close(store->db);
    ob_sqlite_watch_fini(&store->watch);
    ob_free(store->path);
    ob_free(store);
}

static void place(struct ob_store *base, struct ob_store_place *place)
{
    const struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    const char *file = sqlite3_db_filename(store->db, NULL); /* the whole path */
    *place = (struct ob_store_place){.file = file && *file ? file : store->path};
}

static const struct ob_store_ops ops = {
    .kind = "sqlite",
    .place = place,
    .close = close_store,
    .begin = ob_sqlite_open_tx,
    .commit = ob_sqlite_commit_tx,
    .rollback = ob_sqlite_rollback_tx,
    .exec = exec,
    .enqueue = ob_sqlite_enqueue,
    .enqueue_many = ob_sqlite_enqueue_many,
    .claim = ob_sqlite_claim,
    .settle = ob_sqlite_settle,
    .extend = ob_sqlite_extend,
    .retry = ob_sqlite_retry,
    .discard = ob_sqlite_discard,
    .operate = ob_sqlite_operate,
    .pause = ob_sqlite_pause,
    .resume = ob_sqlite_resume,
    .configure = ob_sqlite_configure,
    .settings = ob_sqlite_settings,
    .purge = ob_sqlite_purge,
    .erase_tenant = ob_sqlite_erase_tenant,
    .list = ob_sqlite_list,
    .attempts = ob_sqlite_attempts,
    .acts = ob_sqlite_acts,
    .tail_begin = ob_sqlite_tail_begin,
    .tail = ob_sqlite_tail,
    .explain = ob_sqlite_explain,
    .groups = ob_sqlite_groups,
    .dead_news = ob_sqlite_dead_news,
    .tell_news = ob_sqlite_tell_news,
    .record_history = ob_sqlite_record_history,
    .history = ob_sqlite_history,
    .waiting_keys = ob_sqlite_waiting_keys,
    .ids_between = ob_sqlite_ids_between,
    .status = ob_sqlite_status,
    .tune = ob_sqlite_tune,
    .beat = ob_sqlite_beat,
    .relays = ob_sqlite_relays,
    .control = ob_sqlite_control,
    .gauges = ob_sqlite_gauges,
    .enter = ob_sqlite_enter,
    .leave = ob_sqlite_leave,
    .token_create = ob_sqlite_token_create,
    .token_revoke = ob_sqlite_token_revoke,
    .token_check = ob_sqlite_token_check,
    .tokens = ob_sqlite_tokens,
    .wait = ob_sqlite_wait,
};

/* SQLite calls this after each of our commits with the length of the log. The lock is released, but the statement has not
 * returned yet: so tx.c does the checkpoint. */
static int log_grew(void *ctx, sqlite3 *db, const char *name, int pages)
{
    struct ob_sqlite_store *store = ctx;
    (void)db;
    (void)name;
    store->checkpoint = pages >= 1000;
    return SQLITE_OK;
}

/* A file that is missing or empty becomes an outbox; one with an application's tables does not. */
static ob_code make(sqlite3 *db, const char *path, struct outbox_error *err)
{
    struct ob_sqlite_schema schema;
    ob_code code = ob_sqlite_read(db, &schema, err);
    if (code || schema.ours || schema.tables)
        return code;
    return ob_sqlite_migrate_on(db, path, NULL, err);
}

ob_code ob_sqlite_open(const char *path, bool create, struct ob_store **store, struct outbox_error *err)
{
    struct ob_sqlite_target target = {0};
    *store = NULL;
    struct ob_sqlite_store *made = ob_calloc(1, sizeof *made);
    if (!made)
        return ob_error_nomem(err);
    made->base.ops = &ops;
    ob_sqlite_watch_init(&made->watch);
    ob_code code = ob_sqlite_target_parse(path, &target, err);
    if (!code)
        code = ob_sqlite_connect(&target, create, &made->db, err);
    if (!code && create)
        code = make(made->db, target.path, err);
    if (!code)
        code = ob_sqlite_check(made->db, target.path, err);
    if (!code)
        code = ob_sqlite_use_wal(made->db, target.path, err);
    if (!code)
        sqlite3_wal_hook(made->db, log_grew, made);
    made->path = target.path;
    if (code)
        close_store(&made->base);
    else
        *store = &made->base;
    return code;
}
