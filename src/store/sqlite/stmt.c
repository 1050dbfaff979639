/* stmt.c - the store's statements: prepared on first use, kept, bound, stepped.
 *
 * SQLite itself prepares a statement again when the schema has changed. A statement is always left reset, so that no read
 * transaction stays open: that would keep the log from ever being reset. */
#include "store/sqlite/sqlite.h"

#include "sqlite_statements.h"

static const char *const files[] = {
#define STATEMENT(name) #name ".sql",
#include "store/sqlite/statements.def"
#undef STATEMENT
};

const char *ob_sqlite_text(const char *file)
{
    return ob_sql_find(ob_sqlite_statements, ob_sqlite_statements_count, file)->text;
}

static int bind(sqlite3_stmt *stmt, int i, const struct ob_sqlite_arg *arg)
{
    /* A NULL pointer would bind null, but an empty payload is not null. */
    const void *data = arg->data;
    switch (arg->type) {
    case OB_SQLITE_ARG_INT: return sqlite3_bind_int64(stmt, i, arg->number);
    case OB_SQLITE_ARG_TEXT:
        return sqlite3_bind_text64(stmt, i, data, (sqlite3_uint64)arg->number, SQLITE_STATIC, SQLITE_UTF8);
    case OB_SQLITE_ARG_BYTES:
        return sqlite3_bind_blob64(stmt, i, data ? data : "", (sqlite3_uint64)arg->number, SQLITE_STATIC);
    default: return sqlite3_bind_null(stmt, i);
    }
}

ob_code ob_sqlite_start(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                        size_t count, sqlite3_stmt **stmt, struct outbox_error *err)
{
    *stmt = NULL; /* which ob_sqlite_done accepts */
    if (!store->stmts[which]) {
        int rc = sqlite3_prepare_v3(store->db, ob_sqlite_text(files[which]), -1, SQLITE_PREPARE_PERSISTENT,
                                    &store->stmts[which], NULL);
        if (rc)
            return ob_sqlite_error(store->db, rc, err);
    }
    *stmt = store->stmts[which];
    for (size_t i = 0; i < count; i++) {
        int rc = args[i].type == OB_SQLITE_ARG_TEXT && args[i].number < 0
                     ? sqlite3_bind_text(*stmt, (int)i + 1, args[i].data, -1, SQLITE_STATIC)
                     : bind(*stmt, (int)i + 1, &args[i]);
        if (rc)
            return ob_sqlite_error(store->db, rc, err);
    }
    return OUTBOX_OK;
}

ob_code ob_sqlite_step(struct ob_sqlite_store *store, sqlite3_stmt *stmt, bool *row, struct outbox_error *err)
{
    int rc = sqlite3_step(stmt);
    *row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW)
        return OUTBOX_OK;
    ob_code code = rc == SQLITE_DONE ? OUTBOX_OK : ob_sqlite_error(store->db, rc, err);
    sqlite3_reset(stmt);
    return code;
}

void ob_sqlite_done(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
}

ob_code ob_sqlite_run(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                      size_t count, int64_t *changed, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    ob_code code = ob_sqlite_start(store, which, args, count, &stmt, err);
    for (bool row = true; !code && row;)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (changed)
        *changed = code ? 0 : sqlite3_changes64(store->db);
    return code;
}

void ob_sqlite_try(struct ob_sqlite_store *store, enum ob_sqlite_stmt which)
{
    ob_code ignored = ob_sqlite_run(store, which, OB_NO_ARGS, NULL, NULL);
    (void)ignored;
}

ob_code ob_sqlite_number(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                         size_t count, int64_t none, int64_t *number, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(store, which, args, count, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code)
        return code;
    *number = row && sqlite3_column_type(stmt, 0) != SQLITE_NULL ? sqlite3_column_int64(stmt, 0) : none;
    ob_sqlite_done(stmt);
    return OUTBOX_OK;
}

void ob_sqlite_entry_read(sqlite3_stmt *stmt, struct ob_sqlite_entry *entry)
{
    *entry = (struct ob_sqlite_entry){
        .n = sqlite3_column_int64(stmt, 0),
        .state = sqlite3_column_int(stmt, 1),
        .lane = sqlite3_column_int64(stmt, 2),
        .prio = sqlite3_column_int(stmt, 3),
        .due = sqlite3_column_int64(stmt, 4),
        .sid = sqlite3_column_int64(stmt, 5),
        .seq = sqlite3_column_int64(stmt, 6),
        .expires_at = sqlite3_column_int64(stmt, 7),
        .max_attempts = sqlite3_column_int(stmt, 8),
        .attempts = sqlite3_column_int(stmt, 9),
        .spent = sqlite3_column_int(stmt, 10),
        .redriven = sqlite3_column_int(stmt, 11) != 0,
        .claimed_at = sqlite3_column_int64(stmt, 12),
        .deferred = sqlite3_column_int(stmt, 14),
        .bytes = sqlite3_column_int64(stmt, 15),
        .lost = sqlite3_column_int(stmt, 16),
        .until = sqlite3_column_count(stmt) > 17 ? sqlite3_column_int64(stmt, 17) : 0,
    };
}
