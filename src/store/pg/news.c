/* news.c - news of dead letters, for operators: see sql/postgres/014_groups.sql. */
#include "store/pg/pg.h"

#include "base/alloc.h"

#include <string.h>

ob_code ob_pg_dead_news(struct ob_store *base, const struct ob_news_terms *terms, struct ob_news *news, ob_group_fn *fn,
                        void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    *news = (struct ob_news){.total = 0};
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_interval(&params, terms->every_us);
    ob_pg_put_int4(&params, terms->minimum);
    ob_pg_put_text(&params, terms->name_space);
    ob_pg_put_text(&params, terms->topic);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_dead_news, &params, &res, err);
    if (!code && PQntuples(res)) {
        news->total = ob_pg_int8(res, 0, 6);
        news->since_us = ob_pg_time(res, 0, 7);
        news->upto = ob_strdup(ob_pg_text(res, 0, 8));
        if (!news->upto)
            code = ob_error_nomem(err);
    }
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_group_row row = {.fingerprint = ob_pg_text(res, i, 0),
                                   .code = ob_pg_text(res, i, 1),
                                   .sample = ob_pg_text(res, i, 2),
                                   .count = ob_pg_int8(res, i, 3),
                                   .topics = ob_pg_text(res, i, 4),
                                   .message_id = ob_pg_text(res, i, 5)};
        row.dead = row.count;
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}

ob_code ob_pg_tell_news(struct ob_store *base, const char *payload, const char *recipient, const char *upto,
                        struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_jsonb(&params, payload, strlen(payload));
    ob_pg_put_text(&params, recipient);
    ob_pg_put_text(&params, upto);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_tell_news, &params, &res, err);
    PQclear(res);
    return code;
}
