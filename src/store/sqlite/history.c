/* history.c - the last hour: see core/history.h. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "core/history.h"

static ob_code record(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct ob_history_row *row = ctx;
    int64_t now = ob_clock_wall_us();
    char latencies[OB_LATENCIES_TEXT];
    ob_latencies_write(row->done.latencies, latencies);
    ob_code code =
        ob_sqlite_run(store, OB_SQLITE_record_history,
                      OB_ARGS(OB_NUM(now), OB_TEXT(row->worker), OB_NUM((int64_t)row->done.delivered),
                              OB_NUM((int64_t)row->done.failed), OB_NUM((int64_t)row->done.dead), OB_TEXT(latencies),
                              row->told ? OB_NUM(row->pending) : OB_NULL, row->told ? OB_NUM(row->open) : OB_NULL,
                              row->told ? OB_NUM((int64_t)(row->oldest_s * 1000)) : OB_NULL, OB_NUM(row->estimated)),
                      NULL, err);
    if (!code && row->told)
        code = ob_sqlite_run(store, OB_SQLITE_history_sweep, OB_ARGS(OB_NUM(now)), NULL, err);
    return code;
}

ob_code ob_sqlite_record_history(struct ob_store *base, const struct ob_history_row *row, struct outbox_error *err)
{
    struct ob_history_row copy = *row;
    return ob_sqlite_transact(ob_sqlite_store_of(base), record, &copy, err);
}

ob_code ob_sqlite_history(struct ob_store *base, int minutes, ob_history_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    int64_t minute = OB_HISTORY_STEP_S * INT64_C(1000000), now = ob_clock_wall_us();
    sqlite3_stmt *stmt;
    bool found, more = true;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_history,
                                   OB_ARGS(OB_NUM(now - now % minute - (minutes - 1) * minute)), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &found, err);
        if (code || !found)
            break;
        struct ob_history_row row = {
            .at_us = sqlite3_column_int64(stmt, 0),
            .worker = ob_sqlite_column(stmt, 1),
            .done = {.delivered = (uint64_t)sqlite3_column_int64(stmt, 2),
                     .failed = (uint64_t)sqlite3_column_int64(stmt, 3),
                     .dead = (uint64_t)sqlite3_column_int64(stmt, 4)},
            .told = sqlite3_column_type(stmt, 6) != SQLITE_NULL,
            .pending = sqlite3_column_int64(stmt, 6),
            .open = sqlite3_column_int64(stmt, 7),
            .oldest_s = (double)sqlite3_column_int64(stmt, 8) / 1000,
            .estimated = sqlite3_column_int(stmt, 9) != 0,
        };
        ob_latencies_read(ob_sqlite_column(stmt, 5), row.done.latencies);
        more = fn(ctx, &row);
    }
    ob_sqlite_done(stmt);
    return code;
}
