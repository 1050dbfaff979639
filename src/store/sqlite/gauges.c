/* gauges.c - counts of the queue, cheap however long it is.
 *
 * Up to EXACT rows are counted one by one. Beyond that, windows spread over the queue are counted and extrapolated to the
 * whole; the result is marked as an estimate. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

enum { EXACT = 20000, WINDOWS = 200, WIDTH = 100, COUNT_MOST = 10000, NAMESPACES_MOST = 20 };

struct span {
    int64_t rows, first, last, bytes, repairs, log;
};

static ob_code read_span(struct ob_sqlite_store *store, struct span *span, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_gauges_span, OB_ARGS(OB_NUM(EXACT + 1)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code || !row)
        return code;
    *span = (struct span){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2),
                          sqlite3_column_int64(stmt, 3), sqlite3_column_int64(stmt, 4), sqlite3_column_int64(stmt, 5)};
    ob_sqlite_done(stmt);
    return OUTBOX_OK;
}

static struct ob_gauges_row read_row(sqlite3_stmt *stmt, const struct span *span, int64_t now)
{
    bool total = sqlite3_column_type(stmt, 0) == SQLITE_NULL;
    int64_t oldest = sqlite3_column_int64(stmt, 8), dead = sqlite3_column_int64(stmt, 7);
    int64_t out = sqlite3_column_int64(stmt, 3);
    return (struct ob_gauges_row){
        .name_space = ob_sqlite_column(stmt, 0),
        .pending = sqlite3_column_int64(stmt, 1),
        .due = sqlite3_column_int64(stmt, 2),
        .processing = out,
        .stuck = sqlite3_column_int64(stmt, 4),
        .parked = sqlite3_column_int64(stmt, 5),
        .blocked_keys = sqlite3_column_int64(stmt, 6),
        .dead = dead,
        .oldest_due_s = oldest && oldest < now ? (double)(now - oldest) / 1e6 : 0,
        .estimated = span->rows > EXACT || span->log > COUNT_MOST || out >= COUNT_MOST || dead >= COUNT_MOST,
        .table_bytes = total ? span->bytes : -1,
        .dead_tuples = -1,
        .repairs = total ? span->repairs : -1,
    };
}

static ob_code read_figures(struct ob_sqlite_store *store, const struct span *span, ob_gauges_fn *fn, void *ctx,
                            struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row, more = true;
    int64_t now = ob_clock_wall_us(), length = span->last - span->first + 1;
    bool sampled = span->rows > EXACT && length > (int64_t)WINDOWS * WIDTH;
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_gauges,
                        OB_ARGS(OB_NUM(now), OB_NUM(span->first), OB_NUM(span->last), OB_NUM(sampled ? WINDOWS : 1),
                                OB_NUM(sampled ? WIDTH : length), OB_NUM(sampled ? length / WINDOWS : length),
                                OB_NUM(COUNT_MOST), OB_NUM(NAMESPACES_MOST), OB_NUM(span->log)),
                        &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_gauges_row figures = read_row(stmt, span, now);
        more = fn(ctx, &figures);
    }
    ob_sqlite_done(stmt);
    return code;
}

ob_code ob_sqlite_gauges(struct ob_store *base, ob_gauges_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct span span = {0};
    bool began;
    ob_code code = ob_sqlite_begin_read(store, &began, err);
    if (code)
        return code;
    code = read_span(store, &span, err);
    if (!code)
        code = read_figures(store, &span, fn, ctx, err);
    ob_sqlite_end_read(store, began);
    return code;
}
