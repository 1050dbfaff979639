/* keys.c - keys that wait behind their first message. Rows borrow from the result, during the callback only. */
#include "store/pg/pg.h"

enum { MOST = 100 };

ob_code ob_pg_waiting_keys(struct ob_store *base, int limit, ob_key_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_int4(&params, limit > 0 && limit < MOST ? limit : MOST);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_waiting_keys, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_key_row row = {
            .name_space = ob_pg_text(res, i, 0),
            .topic = ob_pg_text(res, i, 1),
            .key = ob_pg_text(res, i, 2),
            .tenant_id = ob_pg_text(res, i, 3),
            .head = ob_pg_text(res, i, 4),
            .head_status = ob_pg_text(res, i, 5),
            .waiting = ob_pg_int8(res, i, 6),
            .since_us = ob_pg_time(res, i, 7),
            .why = ob_pg_text(res, i, 8),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}
