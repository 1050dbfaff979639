/* relay.c - heartbeats of relays, run-time settings, and the gauges of the queue. */
#include "store/pg/pg.h"

#include "base/value.h"
#include "core/tuning.h"

ob_code ob_pg_tune(struct ob_store *base, const char *name, const char *value, const struct ob_actor *actor,
                   struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_tuning tuning;
    struct ob_pg_params params;
    PGresult *res;
    ob_code code = ob_tuning_parse(name, value, &tuning, err);
    if (code)
        return code;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, name);
    ob_pg_put_text(&params, value);
    ob_pg_put_text(&params, actor ? actor->actor : NULL);
    ob_pg_put_text(&params, actor ? actor->reason : NULL);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    code = ob_pg_call_once(store, OB_PG_tune, &params, &res, err);
    if (!code)
        PQclear(res);
    return code;
}

ob_code ob_pg_beat(struct ob_store *base, const struct ob_beat *beat, bool *leads, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, beat->worker);
    ob_pg_put_text(&params, beat->host);
    ob_pg_put_int4(&params, beat->pid);
    ob_pg_put_text(&params, beat->version);
    ob_pg_put_text(&params, beat->state);
    ob_pg_put_interval(&params, beat->every_us);
    ob_pg_put_text(&params, beat->info);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call(store, OB_PG_beat, &params, &res, err);
    if (code)
        return code;
    if (leads)
        *leads = PQntuples(res) > 0 && ob_pg_bool(res, 0, 0);
    PQclear(res);
    return OUTBOX_OK;
}

/* Runs a statement without parameters. */
static ob_code plain(struct ob_store *base, enum ob_pg_stmt which, PGresult **res, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    return ob_pg_call(store, which, &params, res, err);
}

ob_code ob_pg_relays(struct ob_store *base, ob_relay_fn *fn, void *ctx, struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = plain(base, OB_PG_relays, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_relay_row row = {
            .worker = ob_pg_text(res, i, 0),
            .host = ob_pg_text(res, i, 1),
            .pid = ob_pg_int4(res, i, 2),
            .version = ob_pg_text(res, i, 3),
            .state = ob_pg_text(res, i, 4),
            .started_at_us = ob_pg_time(res, i, 5),
            .seen_at_us = ob_pg_time(res, i, 6),
            .alive = ob_pg_bool(res, i, 7),
            .info = ob_pg_text(res, i, 8),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}

static ob_code report(struct ob_store *base, enum ob_pg_stmt which, ob_problem_fn *fn, void *ctx,
                      struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = plain(base, which, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++)
        fn(ctx, ob_pg_text(res, i, 0), ob_pg_text(res, i, 1));
    PQclear(res);
    return code;
}

ob_code ob_pg_rights(struct ob_store *base, ob_problem_fn *fn, void *ctx, struct outbox_error *err)
{
    return report(base, OB_PG_rights, fn, ctx, err);
}

ob_code ob_pg_log_problems(struct ob_store *base, ob_problem_fn *fn, void *ctx, struct outbox_error *err)
{
    return report(base, OB_PG_log_problems, fn, ctx, err);
}

ob_code ob_pg_control(struct ob_store *base, const struct ob_control *control, struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = plain(base, OB_PG_control, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        const char *first = ob_pg_text(res, i, 1), *second = ob_pg_text(res, i, 2);
        int kind = ob_pg_int4(res, i, 0);
        const char *actor = ob_pg_text(res, i, 4), *reason = ob_pg_text(res, i, 5);
        int64_t at = PQgetisnull(res, i, 6) ? 0 : ob_pg_time(res, i, 6);
        if (kind == 0 && control->paused)
            control->paused(control->ctx,
                            &(struct ob_pause_row){first, second, ob_pg_text(res, i, 3), actor, reason, at});
        else if (kind == 1 && control->tuned)
            control->tuned(control->ctx, &(struct ob_tuning_row){first, second, actor, reason, at});
        else if (kind == 2 && control->lane)
            control->lane(control->ctx, first, second);
    }
    PQclear(res);
    return OUTBOX_OK;
}

ob_code ob_pg_settings(struct ob_store *base, ob_setting_fn *fn, void *ctx, struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = plain(base, OB_PG_settings, &res, err);
    bool more = true;
    for (int i = 0; !code && more && i < PQntuples(res); i++) {
        char span[OB_VALUE_TEXT] = "forever";
        int64_t us = PQgetisnull(res, i, 3) ? 0 : ob_pg_int8(res, i, 3);
        if (us >= 0)
            ob_value_duration_text(us, span);
        more = fn(ctx, ob_pg_text(res, i, 0), ob_pg_text(res, i, 1),
                  PQgetisnull(res, i, 3) ? ob_pg_text(res, i, 2) : span);
    }
    PQclear(res);
    return code;
}

ob_code ob_pg_gauges(struct ob_store *base, ob_gauges_fn *fn, void *ctx, struct outbox_error *err)
{
    PGresult *res = NULL;
    ob_code code = plain(base, OB_PG_gauges, &res, err);
    if (code)
        return code;
    for (int i = 0; i < PQntuples(res); i++) {
        struct ob_gauges_row row = {
            .name_space = ob_pg_text(res, i, 0),
            .pending = ob_pg_int8(res, i, 1),
            .due = ob_pg_int8(res, i, 2),
            .processing = ob_pg_int8(res, i, 3),
            .stuck = ob_pg_int8(res, i, 4),
            .parked = ob_pg_int8(res, i, 5),
            .blocked_keys = ob_pg_int8(res, i, 6),
            .dead = ob_pg_int8(res, i, 7),
            .oldest_due_s = ob_pg_float8(res, i, 8),
            .estimated = ob_pg_bool(res, i, 9),
            .table_bytes = PQgetisnull(res, i, 10) ? -1 : ob_pg_int8(res, i, 10),
            .dead_tuples = PQgetisnull(res, i, 11) ? -1 : ob_pg_int8(res, i, 11),
            .repairs = PQgetisnull(res, i, 12) ? -1 : ob_pg_int8(res, i, 12),
            .partitions = PQgetisnull(res, i, 13) ? 0 : ob_pg_int8(res, i, 13),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return OUTBOX_OK;
}
