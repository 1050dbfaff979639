/* keys.c - keys that wait behind their first message. Rows borrow from the statement, during the callback only. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

enum { MOST = 100 };

ob_code ob_sqlite_waiting_keys(struct ob_store *base, int limit, ob_key_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row, more = true;
    ob_code code = ob_sqlite_start(
        store, OB_SQLITE_waiting_keys,
        OB_ARGS(OB_NUM(limit > 0 && limit < MOST ? limit : MOST), OB_NUM(ob_clock_wall_us())), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_key_row found = {
            .name_space = ob_sqlite_column(stmt, 0),
            .topic = ob_sqlite_column(stmt, 1),
            .key = ob_sqlite_column(stmt, 2),
            .tenant_id = ob_sqlite_column(stmt, 3),
            .head = ob_sqlite_column(stmt, 4),
            .head_status = ob_sqlite_column(stmt, 5),
            .waiting = sqlite3_column_int64(stmt, 6),
            .since_us = sqlite3_column_int64(stmt, 7),
            .why = ob_sqlite_column(stmt, 8),
        };
        more = fn(ctx, &found);
    }
    ob_sqlite_done(stmt);
    return code;
}
