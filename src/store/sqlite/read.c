/* read.c - reads messages, attempts, acts and status, row by row. Rows borrow from the statement, during the callback only.
 *
 * SQLite plans a statement once, for all parameters, so each filter that has an index has its own statement. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "core/codec.h"

#include <string.h>

static const char *const status_names[OB_STATUS_COUNT] = {
    [OB_PENDING] = "pending", [OB_PROCESSING] = "processing", [OB_STATUS_DELIVERED] = "delivered",
    [OB_DEAD] = "dead",       [OB_DISCARDED] = "discarded",
};

static enum ob_status status_of(const char *name)
{
    for (int i = 0; i < OB_STATUS_COUNT; i++)
        if (name && strcmp(status_names[i], name) == 0)
            return (enum ob_status)i;
    return OB_PENDING;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* In the order of sql/sqlite/stmt/list.sql. */
enum column {
    ID,
    STATUS,
    NAMESPACE,
    TOPIC,
    TENANT_ID,
    KEY,
    DEDUPE_KEY,
    SUBJECT,
    RECIPIENT,
    CORRELATION_ID,
    HEADERS,
    CONTENT_TYPE,
    LOCKED_BY,
    LAST_CODE,
    LAST_ERROR,
    DEAD_REASON,
    PAYLOAD,
    SEQ,
    PRIORITY,
    ATTEMPTS,
    SPENT,
    MAX_ATTEMPTS,
    MAX_ATTEMPTS_FROM,
    DEFERRED,
    REDRIVEN,
    PARKED,
    CREATED_AT,
    UPDATED_AT,
    NEXT_ATTEMPT_AT,
    LOCKED_UNTIL,
    DELIVERED_AT,
    EXPIRES_AT,
    ENCODING,
};

static void read_message(sqlite3_stmt *stmt, struct ob_message_row *row)
{
    *row = (struct ob_message_row){
        .status = status_of(ob_sqlite_column(stmt, STATUS)),
        .name_space = ob_sqlite_column(stmt, NAMESPACE),
        .topic = ob_sqlite_column(stmt, TOPIC),
        .tenant_id = ob_sqlite_column(stmt, TENANT_ID),
        .key = ob_sqlite_column(stmt, KEY),
        .dedupe_key = ob_sqlite_column(stmt, DEDUPE_KEY),
        .subject = ob_sqlite_column(stmt, SUBJECT),
        .recipient = ob_sqlite_column(stmt, RECIPIENT),
        .correlation_id = ob_sqlite_column(stmt, CORRELATION_ID),
        .headers = ob_sqlite_column(stmt, HEADERS),
        .content_type = ob_sqlite_column(stmt, CONTENT_TYPE),
        .locked_by = ob_sqlite_column(stmt, LOCKED_BY),
        .last_code = ob_sqlite_column(stmt, LAST_CODE),
        .last_error = ob_sqlite_column(stmt, LAST_ERROR),
        .dead_reason = ob_sqlite_column(stmt, DEAD_REASON),
        .seq = sqlite3_column_int64(stmt, SEQ),
        .priority = sqlite3_column_int(stmt, PRIORITY),
        .attempts = sqlite3_column_int(stmt, ATTEMPTS),
        .spent = sqlite3_column_int(stmt, SPENT),
        .max_attempts = sqlite3_column_int(stmt, MAX_ATTEMPTS),
        .max_attempts_from = ob_sqlite_column(stmt, MAX_ATTEMPTS_FROM),
        .deferred = sqlite3_column_int(stmt, DEFERRED),
        .redriven = sqlite3_column_int(stmt, REDRIVEN) != 0,
        .parked = sqlite3_column_int(stmt, PARKED) != 0,
        .created_at_us = sqlite3_column_int64(stmt, CREATED_AT),
        .updated_at_us = sqlite3_column_int64(stmt, UPDATED_AT),
        .next_attempt_at_us = sqlite3_column_int64(stmt, NEXT_ATTEMPT_AT),
        .locked_until_us = sqlite3_column_int64(stmt, LOCKED_UNTIL),
        .delivered_at_us = sqlite3_column_int64(stmt, DELIVERED_AT),
        .expires_at_us = sqlite3_column_int64(stmt, EXPIRES_AT),
    };
    if (!outbox_uuid_parse(ob_sqlite_column(stmt, ID), &row->id))
        memset(&row->id, 0, sizeof row->id);
    if (sqlite3_column_type(stmt, PAYLOAD) == SQLITE_TEXT) /* as text: NUL-terminated */
        row->payload = sqlite3_column_text(stmt, PAYLOAD);
    else if (sqlite3_column_type(stmt, PAYLOAD) == SQLITE_BLOB) {
        row->payload = sqlite3_column_blob(stmt, PAYLOAD);
        row->payload = row->payload ? row->payload : "";
    }
    row->payload_len = (size_t)sqlite3_column_bytes(stmt, PAYLOAD);
}

static enum ob_sqlite_stmt way_in(const struct ob_filter *filter)
{
    if (filter->ids)
        return OB_SQLITE_list_ids;
    if (filter->subject)
        return OB_SQLITE_list_subject;
    switch (filter->status_plus_1 - 1) {
    case OB_PENDING:
    case OB_PROCESSING: return OB_SQLITE_list_queue;
    case OB_DEAD:
    case OB_DISCARDED: return OB_SQLITE_list_dead;
    default: return filter->tenant_id ? OB_SQLITE_list_tenant : OB_SQLITE_list;
    }
}

ob_code ob_sqlite_list(struct ob_store *base, const struct ob_filter *filter, ob_message_fn *fn, void *ctx,
                       struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct ob_buf ids = OB_BUF_INIT, room = OB_BUF_INIT;
    char tenant_text[37], after[37];
    const char *tenant;
    sqlite3_stmt *stmt = NULL;
    bool more = true, row;
    if (filter->status_plus_1 < 0 || filter->status_plus_1 > OB_STATUS_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not a status", filter->status_plus_1);
    ob_code code = ob_sqlite_check_tenant(filter->tenant_id, tenant_text, &tenant, err);
    if (code)
        return code;
    if (filter->ids)
        ob_sqlite_json_ids(&ids, filter->ids, filter->id_count);
    if (!ob_buf_ok(&ids))
        return ob_error_nomem(err);
    if (filter->after)
        outbox_uuid_format(filter->after, after);
    code = ob_sqlite_start(store, way_in(filter),
                           OB_ARGS(OB_TEXT(filter->ids ? ob_buf_text(&ids) : NULL), OB_TEXT(filter->name_space),
                                   OB_TEXT(filter->topic), OB_TEXT(tenant), OB_TEXT(filter->key),
                                   OB_TEXT(filter->subject), OB_TEXT(filter->code),
                                   OB_TEXT(filter->status_plus_1 ? status_names[filter->status_plus_1 - 1] : NULL),
                                   OB_NUM_OR_NULL(filter->before_us), OB_NUM(filter->limit ? filter->limit : 100),
                                   OB_NUM(filter->with_payload), OB_TEXT(filter->after ? after : NULL)),
                           &stmt, err);
    while (!code && more) {
        struct ob_message_row message;
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        read_message(stmt, &message);
        ob_codec_show(ob_sqlite_column(stmt, ENCODING), &room, &message);
        more = fn(ctx, &message);
    }
    ob_sqlite_done(stmt);
    ob_buf_fini(&ids);
    ob_buf_fini(&room);
    return code;
}

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
