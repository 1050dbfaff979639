/* history.c - the last hour: see core/history.h. */
#include "core/history.h"
#include "store/pg/pg.h"

ob_code ob_pg_record_history(struct ob_store *base, const struct ob_history_row *row, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    char latencies[OB_LATENCIES_TEXT];
    PGresult *res = NULL;
    ob_latencies_write(row->done.latencies, latencies);
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, row->worker);
    ob_pg_put_int8(&params, (int64_t)row->done.delivered);
    ob_pg_put_int8(&params, (int64_t)row->done.failed);
    ob_pg_put_int8(&params, (int64_t)row->done.dead);
    ob_pg_put_text(&params, latencies);
    if (row->told) {
        ob_pg_put_int8(&params, row->pending);
        ob_pg_put_int8(&params, row->open);
        ob_pg_put_int8(&params, (int64_t)(row->oldest_s * 1000));
        ob_pg_put_bool(&params, row->estimated);
    }
    for (int i = row->told ? 4 : 0; i < 4; i++)
        ob_pg_put_null(&params);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_record_history, &params, &res, err);
    PQclear(res);
    return code;
}

ob_code ob_pg_history(struct ob_store *base, int minutes, ob_history_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_int4(&params, minutes);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_history, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_history_row row = {
            .at_us = ob_pg_time(res, i, 0),
            .worker = ob_pg_text(res, i, 1),
            .done = {.delivered = (uint64_t)ob_pg_int8(res, i, 2),
                     .failed = (uint64_t)ob_pg_int8(res, i, 3),
                     .dead = (uint64_t)ob_pg_int8(res, i, 4)},
            .told = !PQgetisnull(res, i, 6),
            .pending = ob_pg_int8(res, i, 6),
            .open = ob_pg_int8(res, i, 7),
            .oldest_s = (double)ob_pg_int8(res, i, 8) / 1000,
            .estimated = ob_pg_bool(res, i, 9),
        };
        ob_latencies_read(ob_pg_text(res, i, 5), row.done.latencies);
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}
