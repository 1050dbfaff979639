/* groups.c - failures by fingerprint. Rows borrow from the result, during the callback only. */
#include "store/pg/pg.h"

enum { MOST = 100 };

ob_code ob_pg_groups(struct ob_store *base, int limit, ob_group_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_int4(&params, limit > 0 && limit < MOST ? limit : MOST);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_groups, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_group_row row = {
            .fingerprint = ob_pg_text(res, i, 0),
            .code = ob_pg_text(res, i, 1),
            .sample = ob_pg_text(res, i, 2),
            .count = ob_pg_int8(res, i, 3),
            .dead = ob_pg_int8(res, i, 4),
            .retrying = ob_pg_int8(res, i, 5),
            .estimated = ob_pg_bool(res, i, 6),
            .first_seen_us = ob_pg_time(res, i, 7),
            .last_seen_us = ob_pg_time(res, i, 8),
            .topics = ob_pg_text(res, i, 9),
            .sinks = ob_pg_text(res, i, 10),
            .message_id = ob_pg_text(res, i, 11),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}
