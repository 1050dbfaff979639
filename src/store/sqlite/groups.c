/* groups.c - failures by fingerprint. Rows borrow from the statement, during the callback only. */
#include "store/sqlite/sqlite.h"

enum { MOST = 100 };

ob_code ob_sqlite_groups(struct ob_store *base, int limit, ob_group_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row, more = true;
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_groups, OB_ARGS(OB_NUM(limit > 0 && limit < MOST ? limit : MOST)), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_group_row found = {
            .fingerprint = ob_sqlite_column(stmt, 0),
            .code = ob_sqlite_column(stmt, 1),
            .sample = ob_sqlite_column(stmt, 2),
            .count = sqlite3_column_int64(stmt, 3),
            .dead = sqlite3_column_int64(stmt, 4),
            .retrying = sqlite3_column_int64(stmt, 5),
            .estimated = sqlite3_column_int(stmt, 6) != 0,
            .first_seen_us = sqlite3_column_int64(stmt, 7),
            .last_seen_us = sqlite3_column_int64(stmt, 8),
            .topics = ob_sqlite_column(stmt, 9),
            .sinks = ob_sqlite_column(stmt, 10),
            .message_id = ob_sqlite_column(stmt, 11),
        };
        more = fn(ctx, &found);
    }
    ob_sqlite_done(stmt);
    return code;
}
