/* read.c - reads attempts, acts and status, row by row; messages: list.c. Rows borrow from the statement, during the callback
 * only. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

#include <string.h>

/* ---- attempts, acts, status -------------------------------------------------------------------------------------- */

/* Runs a statement whose only parameter is a message's id, or null, and passes each row to read. */
static ob_code each(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct outbox_uuid *id, size_t args,
                    bool (*read)(sqlite3_stmt *stmt, void *ctx), void *ctx, struct outbox_error *err)
{
    char text[37];
    sqlite3_stmt *stmt;
    bool more = true, row;
    if (id)
        outbox_uuid_format(id, text);
    const struct ob_sqlite_arg arg[] = {OB_TEXT(id ? text : NULL)};
    ob_code code = ob_sqlite_start(store, which, arg, args, &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        more = read(stmt, ctx);
    }
    ob_sqlite_done(stmt);
    return code;
}

struct reader {
    const struct outbox_uuid *id;
    ob_attempt_fn *attempt;
    ob_act_fn *act;
    ob_status_fn *status;
    void *ctx;
};

static bool read_attempt(sqlite3_stmt *stmt, void *ctx)
{
    const struct reader *reader = ctx;
    struct ob_attempt_row row = {
        .message_id = *reader->id,
        .attempt = sqlite3_column_int(stmt, 0),
        .outcome = (enum outbox_outcome)sqlite3_column_int(stmt, 1),
        .worker = ob_sqlite_column(stmt, 2),
        .code = ob_sqlite_column(stmt, 3),
        .error = ob_sqlite_column(stmt, 4),
        .reference = ob_sqlite_column(stmt, 5),
        .claimed_at_us = sqlite3_column_int64(stmt, 6),
        .completed_at_us = sqlite3_column_int64(stmt, 7),
        .latency_us = sqlite3_column_type(stmt, 8) == SQLITE_NULL ? -1 : sqlite3_column_int64(stmt, 8),
    };
    return reader->attempt(reader->ctx, &row);
}

ob_code ob_sqlite_attempts(struct ob_store *base, const struct outbox_uuid *id, ob_attempt_fn *fn, void *ctx,
                           struct outbox_error *err)
{
    struct reader reader = {.id = id, .attempt = fn, .ctx = ctx};
    return each(ob_sqlite_store_of(base), OB_SQLITE_attempts, id, 1, read_attempt, &reader, err);
}

static bool read_act(sqlite3_stmt *stmt, void *ctx)
{
    const struct reader *reader = ctx;
    struct ob_act_row row = {
        .at_us = sqlite3_column_int64(stmt, 0),
        .actor = ob_sqlite_column(stmt, 1),
        .action = ob_sqlite_column(stmt, 2),
        .reason = ob_sqlite_column(stmt, 3),
        .message_id = ob_sqlite_column(stmt, 4),
        .detail = ob_sqlite_column(stmt, 5),
    };
    return reader->act(reader->ctx, &row);
}

ob_code ob_sqlite_acts(struct ob_store *base, const struct outbox_uuid *id, ob_act_fn *fn, void *ctx,
                       struct outbox_error *err)
{
    struct reader reader = {.act = fn, .ctx = ctx};
    return each(ob_sqlite_store_of(base), OB_SQLITE_acts, id, 1, read_act, &reader, err);
}

ob_code ob_sqlite_explain(struct ob_store *base, const struct outbox_uuid *id, ob_explain_fn *fn, void *ctx,
                          struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    char text[37];
    sqlite3_stmt *stmt;
    bool row, more = true;
    int64_t made_ms = 0; /* an id begins with the time at which it was made */
    outbox_uuid_format(id, text);
    for (int i = 0; i < 6; i++)
        made_ms = made_ms << 8 | id->bytes[i];
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_explain,
                        OB_ARGS(OB_TEXT(text), OB_NUM(ob_clock_wall_us()), OB_NUM(made_ms * 1000)), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_explain_row found = {
            .step = sqlite3_column_int(stmt, 0),
            .message_id = ob_sqlite_column(stmt, 1),
            .state = ob_sqlite_column(stmt, 2),
            .reason = ob_sqlite_column(stmt, 3),
            .facts = ob_sqlite_column(stmt, 4),
            .command = ob_sqlite_column(stmt, 5),
        };
        more = fn(ctx, &found);
    }
    ob_sqlite_done(stmt);
    return code;
}

ob_code ob_sqlite_ids_between(struct ob_store *base, const struct outbox_uuid *from, const struct outbox_uuid *to,
                              ob_id_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    char low[37], high[37];
    sqlite3_stmt *stmt;
    bool row, more = true;
    outbox_uuid_format(from, low);
    outbox_uuid_format(to, high);
    ob_code code = ob_sqlite_start(store, OB_SQLITE_prefix, OB_ARGS(OB_TEXT(low), OB_TEXT(high)), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        more = fn(ctx, ob_sqlite_column(stmt, 0));
    }
    ob_sqlite_done(stmt);
    return code;
}

static bool read_status(sqlite3_stmt *stmt, void *ctx)
{
    const struct reader *reader = ctx;
    struct ob_status_row row = {
        .name_space = ob_sqlite_column(stmt, 0),
        .topic = ob_sqlite_column(stmt, 1),
        .pending = sqlite3_column_int64(stmt, 2),
        .due = sqlite3_column_int64(stmt, 3),
        .processing = sqlite3_column_int64(stmt, 4),
        .stuck = sqlite3_column_int64(stmt, 5),
        .parked = sqlite3_column_int64(stmt, 6),
        .dead = sqlite3_column_int64(stmt, 7),
        .oldest_due_s = sqlite3_column_double(stmt, 8),
        .paused = sqlite3_column_int(stmt, 9) != 0,
        .delayed = sqlite3_column_int64(stmt, 10),
        .retrying = sqlite3_column_int64(stmt, 11),
        .oldest_undelivered_s = sqlite3_column_double(stmt, 12),
        .last_code = ob_sqlite_column(stmt, 13),
        .last_error = ob_sqlite_column(stmt, 14),
        .last_error_at_us = sqlite3_column_int64(stmt, 15),
        .estimated = sqlite3_column_int(stmt, 16) != 0,
        .dead_last_hour = sqlite3_column_int64(stmt, 17),
    };
    return reader->status(reader->ctx, &row);
}

ob_code ob_sqlite_status(struct ob_store *base, ob_status_fn *fn, void *ctx, struct outbox_error *err)
{
    struct reader reader = {.status = fn, .ctx = ctx};
    return each(ob_sqlite_store_of(base), OB_SQLITE_status, NULL, 0, read_status, &reader, err);
}
