/* read.c - the views, row by row. Rows borrow from the result, during the callback only. */
#include "store/pg/pg.h"

#include "core/codec.h"

#include <string.h>

static const char *const status_names[OB_STATUS_COUNT] = {
    [OB_PENDING] = "pending", [OB_PROCESSING] = "processing", [OB_STATUS_DELIVERED] = "delivered",
    [OB_DEAD] = "dead",       [OB_DISCARDED] = "discarded",
};

static const char *const outcome_names[] = {
    "processing", "delivered", "retry", "failed", "lost", "limited", "blocked", "unknown", "released", "interrupted",
};

/* The index of a name in a list; 0 if it is not found. */
static int index_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return 0;
}
#define INDEX_OF(name, names) index_of(name, names, sizeof names / sizeof names[0])

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* In the order of sql/postgres/stmt/list.sql. */
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
    BODY,
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

static void read_message(const PGresult *res, int row, struct ob_message_row *out)
{
    *out = (struct ob_message_row){
        .status = (enum ob_status)INDEX_OF(ob_pg_text(res, row, STATUS), status_names),
        .name_space = ob_pg_text(res, row, NAMESPACE),
        .topic = ob_pg_text(res, row, TOPIC),
        .tenant_id = ob_pg_text(res, row, TENANT_ID),
        .key = ob_pg_text(res, row, KEY),
        .dedupe_key = ob_pg_text(res, row, DEDUPE_KEY),
        .subject = ob_pg_text(res, row, SUBJECT),
        .recipient = ob_pg_text(res, row, RECIPIENT),
        .correlation_id = ob_pg_text(res, row, CORRELATION_ID),
        .headers = ob_pg_jsonb(res, row, HEADERS),
        .content_type = ob_pg_text(res, row, CONTENT_TYPE),
        .locked_by = ob_pg_text(res, row, LOCKED_BY),
        .last_code = ob_pg_text(res, row, LAST_CODE),
        .last_error = ob_pg_text(res, row, LAST_ERROR),
        .dead_reason = ob_pg_text(res, row, DEAD_REASON),
        .seq = ob_pg_int8(res, row, SEQ),
        .priority = ob_pg_int4(res, row, PRIORITY),
        .attempts = ob_pg_int4(res, row, ATTEMPTS),
        .spent = ob_pg_int4(res, row, SPENT),
        .max_attempts = ob_pg_int4(res, row, MAX_ATTEMPTS),
        .max_attempts_from = ob_pg_text(res, row, MAX_ATTEMPTS_FROM),
        .deferred = ob_pg_int4(res, row, DEFERRED),
        .redriven = ob_pg_bool(res, row, REDRIVEN),
        .parked = ob_pg_bool(res, row, PARKED),
        .created_at_us = ob_pg_time(res, row, CREATED_AT),
        .updated_at_us = ob_pg_time(res, row, UPDATED_AT),
        .next_attempt_at_us = ob_pg_time(res, row, NEXT_ATTEMPT_AT),
        .locked_until_us = ob_pg_time(res, row, LOCKED_UNTIL),
        .delivered_at_us = ob_pg_time(res, row, DELIVERED_AT),
        .expires_at_us = ob_pg_time(res, row, EXPIRES_AT),
    };
    ob_pg_uuid(res, row, ID, &out->id);
    if (!PQgetisnull(res, row, BODY)) {
        out->payload = PQgetvalue(res, row, BODY);
        out->payload_len = (size_t)PQgetlength(res, row, BODY);
    } else if (!PQgetisnull(res, row, PAYLOAD)) {
        out->payload = ob_pg_jsonb(res, row, PAYLOAD);
        out->payload_len = (size_t)PQgetlength(res, row, PAYLOAD) - 1;
    }
}

/* The parameters borrow from the filter, and from after. */
static void put_filter(struct ob_pg_params *params, const struct ob_filter *filter, char after[37])
{
    if (filter->ids) {
        ob_pg_array_begin(params, OB_PG_UUID, filter->id_count);
        for (size_t i = 0; i < filter->id_count; i++)
            ob_pg_array_uuid(params, &filter->ids[i]);
        ob_pg_array_end(params);
    } else {
        ob_pg_put_null(params);
    }
    ob_pg_put_text(params, filter->name_space);
    ob_pg_put_text(params, filter->topic);
    ob_pg_put_text(params, filter->tenant_id);
    ob_pg_put_text(params, filter->key);
    ob_pg_put_text(params, filter->subject);
    ob_pg_put_text(params, filter->code);
    ob_pg_put_text(params, filter->status_plus_1 ? status_names[filter->status_plus_1 - 1] : NULL);
    ob_pg_put_time(params, filter->before_us);
    ob_pg_put_int4(params, filter->limit ? filter->limit : 100);
    ob_pg_put_bool(params, filter->with_payload);
    if (filter->after)
        outbox_uuid_format(filter->after, after);
    ob_pg_put_text(params, filter->after ? after : NULL);
}

/* Some statuses have a statement that reads only the messages in that status. */
static enum ob_pg_stmt way_in(const struct ob_filter *filter)
{
    switch (filter->status_plus_1 - 1) {
    case OB_PENDING:
    case OB_PROCESSING: return OB_PG_list_queued;
    case OB_DEAD: return OB_PG_list_dead;
    case OB_DISCARDED: return OB_PG_list_discarded;
    default: return OB_PG_list;
    }
}

ob_code ob_pg_list(struct ob_store *base, const struct ob_filter *filter, ob_message_fn *fn, void *ctx,
                   struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    if (filter->status_plus_1 < 0 || filter->status_plus_1 > OB_STATUS_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not a status", filter->status_plus_1);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    char after[37];
    put_filter(&params, filter, after);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    PGresult *res = NULL;
    ob_code code = ob_pg_call_once(store, way_in(filter), &params, &res, err);
    if (code)
        return code;
    struct ob_message_row row;
    struct ob_buf room = OB_BUF_INIT;
    for (int i = 0; i < PQntuples(res); i++) {
        read_message(res, i, &row);
        if (!PQgetisnull(res, i, ENCODING))
            ob_codec_show(ob_pg_text(res, i, ENCODING), &room, &row);
        if (!fn(ctx, &row))
            break;
    }
    ob_buf_fini(&room);
    PQclear(res);
    return OUTBOX_OK;
}

/* ---- attempts, acts, status -------------------------------------------------------------------------------------- */

/* Runs a statement whose only parameter is a message's id, or null. */
static ob_code by_id(struct ob_pg_store *store, enum ob_pg_stmt which, const struct outbox_uuid *id, PGresult **res,
                     struct outbox_error *err)
{
    struct ob_pg_params params;
    char text[37];
    if (id)
        outbox_uuid_format(id, text);
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, id ? text : NULL);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    return ob_pg_call_once(store, which, &params, res, err);
}

ob_code ob_pg_attempts(struct ob_store *base, const struct outbox_uuid *id, ob_attempt_fn *fn, void *ctx,
                       struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = by_id(ob_pg_store_of(base), OB_PG_attempts, id, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_attempt_row row = {
            .attempt = ob_pg_int4(res, i, 1),
            .outcome = (enum outbox_outcome)INDEX_OF(ob_pg_text(res, i, 2), outcome_names),
            .worker = ob_pg_text(res, i, 3),
            .code = ob_pg_text(res, i, 4),
            .error = ob_pg_text(res, i, 5),
            .reference = ob_pg_text(res, i, 6),
            .claimed_at_us = ob_pg_time(res, i, 7),
            .completed_at_us = ob_pg_time(res, i, 8),
            .latency_us = PQgetisnull(res, i, 9) ? -1 : ob_pg_int8(res, i, 9),
        };
        ob_pg_uuid(res, i, 0, &row.message_id);
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}

ob_code ob_pg_acts(struct ob_store *base, const struct outbox_uuid *id, ob_act_fn *fn, void *ctx,
                   struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = by_id(ob_pg_store_of(base), OB_PG_acts, id, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_act_row row = {
            .at_us = ob_pg_time(res, i, 0),
            .actor = ob_pg_text(res, i, 1),
            .action = ob_pg_text(res, i, 2),
            .reason = ob_pg_text(res, i, 3),
            .message_id = ob_pg_text(res, i, 4),
            .detail = ob_pg_text(res, i, 5),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}

ob_code ob_pg_explain(struct ob_store *base, const struct outbox_uuid *id, ob_explain_fn *fn, void *ctx,
                      struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = by_id(ob_pg_store_of(base), OB_PG_explain, id, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_explain_row row = {
            .step = ob_pg_int4(res, i, 0),
            .message_id = ob_pg_text(res, i, 1),
            .state = ob_pg_text(res, i, 2),
            .reason = ob_pg_text(res, i, 3),
            .facts = ob_pg_text(res, i, 4),
            .command = ob_pg_text(res, i, 5),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}

ob_code ob_pg_ids_between(struct ob_store *base, const struct outbox_uuid *from, const struct outbox_uuid *to,
                          ob_id_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    char low[37], high[37];
    PGresult *res = NULL;
    outbox_uuid_format(from, low);
    outbox_uuid_format(to, high);
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, low);
    ob_pg_put_text(&params, high);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_prefix, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++)
        if (!fn(ctx, ob_pg_text(res, i, 0)))
            break;
    PQclear(res);
    return code;
}

ob_code ob_pg_status(struct ob_store *base, ob_status_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    PGresult *res = NULL;
    ob_code code = ob_pg_call_once(store, OB_PG_status, &params, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_status_row row = {
            .name_space = ob_pg_text(res, i, 0),
            .topic = ob_pg_text(res, i, 1),
            .pending = ob_pg_int8(res, i, 2),
            .due = ob_pg_int8(res, i, 3),
            .processing = ob_pg_int8(res, i, 4),
            .stuck = ob_pg_int8(res, i, 5),
            .parked = ob_pg_int8(res, i, 6),
            .dead = ob_pg_int8(res, i, 7),
            .oldest_due_s = ob_pg_float8(res, i, 8),
            .paused = ob_pg_bool(res, i, 9),
            .delayed = ob_pg_int8(res, i, 10),
            .retrying = ob_pg_int8(res, i, 11),
            .oldest_undelivered_s = ob_pg_float8(res, i, 12),
            .last_code = ob_pg_text(res, i, 13),
            .last_error = ob_pg_text(res, i, 14),
            .last_error_at_us = PQgetisnull(res, i, 15) ? 0 : ob_pg_time(res, i, 15),
            .estimated = ob_pg_bool(res, i, 16),
            .dead_last_hour = ob_pg_int8(res, i, 17),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}
