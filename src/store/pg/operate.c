/* operate.c - what operators do: dead letters, pauses, settings, retention, erasure. Each is one call of one SQL function,
 * which also records the act. */
#include "store/pg/pg.h"

#include "core/filter.h"
#include "core/lever.h"

#include <string.h>

enum { MAX_COUNT = 10000, PURGE_STEPS = 100000 };

/* Runs a statement that returns one bigint, stored in *count unless that is NULL. */
static ob_code call_count(struct ob_pg_store *store, enum ob_pg_stmt which, struct ob_pg_params *params, int64_t *count,
                          struct outbox_error *err)
{
    if (!ob_pg_params_seal(params))
        return ob_error_nomem(err);
    PGresult *res;
    ob_code code = ob_pg_call_once(store, which, params, &res, err);
    if (code)
        return code;
    if (count)
        *count = PQntuples(res) ? ob_pg_int8(res, 0, 0) : 0;
    PQclear(res);
    return OUTBOX_OK;
}

static void put_actor(struct ob_pg_params *params, const struct ob_actor *actor)
{
    ob_pg_put_text(params, actor ? actor->actor : NULL);
    ob_pg_put_text(params, actor ? actor->reason : NULL);
}

/* Refuses what the functions cannot filter by: ignoring it would act on messages that were not meant. */
static ob_code check_filter(const struct ob_filter *filter, struct outbox_error *err)
{
    if (filter->key || filter->subject)
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "dead letters cannot be selected by %s; select them by id",
                            filter->key ? "key" : "subject");
    if (filter->status_plus_1 && filter->status_plus_1 != OB_DEAD + 1)
        return ob_error_set(err, OUTBOX_INVALID, "only dead letters can be retried or discarded");
    return OUTBOX_OK;
}

static ob_code on_dead_letters(struct ob_store *base, enum ob_pg_stmt which, const struct ob_filter *filter,
                               const struct ob_actor *actor, int64_t *count, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    ob_code code = check_filter(filter, err);
    if (code)
        return code;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    if (filter->ids) {
        ob_pg_array_begin(&params, OB_PG_UUID, filter->id_count);
        for (size_t i = 0; i < filter->id_count; i++)
            ob_pg_array_uuid(&params, &filter->ids[i]);
        ob_pg_array_end(&params);
    } else {
        ob_pg_put_null(&params);
    }
    ob_pg_put_text(&params, filter->name_space);
    ob_pg_put_text(&params, filter->topic);
    ob_pg_put_text(&params, filter->tenant_id);
    ob_pg_put_text(&params, filter->code);
    ob_pg_put_time(&params, filter->before_us);
    ob_pg_put_int4(&params, filter->limit ? filter->limit : MAX_COUNT);
    put_actor(&params, actor);
    return call_count(store, which, &params, count, err);
}

ob_code ob_pg_retry(struct ob_store *base, const struct ob_filter *filter, const struct ob_actor *actor, int64_t *count,
                    struct outbox_error *err)
{
    return on_dead_letters(base, OB_PG_retry, filter, actor, count, err);
}

ob_code ob_pg_discard(struct ob_store *base, const struct ob_filter *filter, const struct ob_actor *actor,
                      int64_t *count, struct outbox_error *err)
{
    return on_dead_letters(base, OB_PG_discard, filter, actor, count, err);
}

ob_code ob_pg_operate(struct ob_store *base, const struct ob_operation *operation, ob_operated_fn *fn, void *ctx,
                      struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_code code = ob_operation_check(operation, err);
    if (code)
        return code;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, ob_lever_name(operation->lever));
    ob_pg_array_begin(&params, OB_PG_UUID, operation->id_count);
    for (size_t i = 0; i < operation->id_count; i++)
        ob_pg_array_uuid(&params, &operation->ids[i]);
    ob_pg_array_end(&params);
    ob_pg_put_text(&params, operation->topic);
    ob_pg_put_text(&params, operation->name_space);
    ob_pg_put_text(&params, operation->run);
    put_actor(&params, &operation->actor);
    ob_pg_put_text(&params,
                   operation->status_plus_1 ? ob_status_name((enum ob_status)(operation->status_plus_1 - 1)) : NULL);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    code = ob_pg_call_once(store, OB_PG_operate, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_operated_row row = {
            .result = ob_pg_text(res, i, 1),
            .detail = ob_pg_text(res, i, 2),
            .made = ob_pg_text(res, i, 3),
        };
        row.done = row.result && strcmp(row.result, "ok") == 0;
        ob_pg_uuid(res, i, 0, &row.id);
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}

static ob_code on_scope(struct ob_store *base, enum ob_pg_stmt which, const char *name_space, const char *topic,
                        const char *sink, const struct ob_actor *actor, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, name_space);
    ob_pg_put_text(&params, topic);
    ob_pg_put_text(&params, sink);
    put_actor(&params, actor);
    return call_count(store, which, &params, NULL, err);
}

ob_code ob_pg_pause(struct ob_store *base, const char *name_space, const char *topic, const char *sink,
                    const struct ob_actor *actor, struct outbox_error *err)
{
    return on_scope(base, OB_PG_pause, name_space, topic, sink, actor, err);
}

ob_code ob_pg_resume(struct ob_store *base, const char *name_space, const char *topic, const char *sink,
                     const struct ob_actor *actor, struct outbox_error *err)
{
    return on_scope(base, OB_PG_resume, name_space, topic, sink, actor, err);
}

ob_code ob_pg_configure(struct ob_store *base, const char *name_space, const char *name, const char *value,
                        const struct ob_actor *actor, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, name_space);
    ob_pg_put_text(&params, name);
    ob_pg_put_text(&params, value);
    put_actor(&params, actor);
    return call_count(store, OB_PG_configure, &params, NULL, err);
}

/* Step by step, each in its own transaction, so that no lock is held for the whole purge. */
ob_code ob_pg_purge(struct ob_store *base, int64_t *removed, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    int64_t total = 0;
    bool more = true;
    for (int step = 0; more && step < PURGE_STEPS; step++) {
        struct ob_pg_params params;
        ob_pg_params_init(&params, &store->scratch);
        if (!ob_pg_params_seal(&params))
            return ob_error_nomem(err);
        PGresult *res;
        ob_code code = ob_pg_call(store, OB_PG_purge, &params, &res, err);
        if (code)
            return code;
        more = false;
        for (int row = 0; row < PQntuples(res); row++) {
            total += ob_pg_int8(res, row, 0);
            more |= ob_pg_bool(res, row, 1);
        }
        PQclear(res);
    }
    if (removed)
        *removed = total;
    return OUTBOX_OK;
}

static ob_code call_plain(struct ob_pg_store *store, enum ob_pg_stmt which, PGresult **res, struct outbox_error *err)
{
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    return ob_pg_params_seal(&params) ? ob_pg_call(store, which, &params, res, err) : ob_error_nomem(err);
}

/* Hooks are foreign code: their time limit is set for this transaction only. */
ob_code ob_pg_run_hooks(struct ob_store *base, int64_t *taken, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    PGresult *res = NULL;
    ob_code code = base->ops->begin(base, err);
    if (code)
        return code;
    code = call_plain(store, OB_PG_hooks_limit, &res, err);
    PQclear(res);
    res = NULL;
    if (!code)
        code = call_plain(store, OB_PG_hooks, &res, err);
    *taken = code ? 0 : ob_pg_int4(res, 0, 0);
    PQclear(res);
    if (!code)
        return base->ops->commit(base, err);
    ob_code ignored = base->ops->rollback(base, NULL);
    (void)ignored; /* the first failure is the one to report */
    return code;
}

ob_code ob_pg_erase_tenant(struct ob_store *base, const char *tenant_id, const struct ob_actor *actor, int64_t *removed,
                           struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, tenant_id);
    put_actor(&params, actor);
    return call_count(store, OB_PG_erase_tenant, &params, removed, err);
}
