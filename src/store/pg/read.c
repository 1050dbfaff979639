/* read.c - attempts, acts and status, row by row; messages: list.c. Rows borrow from the result, during the callback only. */
#include "store/pg/pg.h"

#include <string.h>

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
