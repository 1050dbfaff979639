/* rights.c - in whose name calls are made, and the tokens of the API.
 *
 * Between enter and leave there is one transaction that has become another role: what a caller forgets to check, the server
 * refuses. The login must be a member of these roles. */
#include "store/pg/pg.h"

#include "core/names.h"

#include <stdio.h>
#include <string.h>

/* No statement of a request may take longer. */
static const char statement_timeout[] = "8s";

static const char *role_suffix(enum ob_rights rights, const char *tenant_id)
{
    switch (rights) {
    case OB_RIGHTS_ACT: return "operator";
    case OB_RIGHTS_SEND: return "producer";
    default: return tenant_id ? "tenant" : "auditor";
    }
}

static ob_code become(struct ob_pg_store *store, const char *role, const char *tenant_id, struct outbox_error *err)
{
    struct ob_pg_params params;
    struct outbox_error cause = {0};
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, tenant_id ? tenant_id : "");
    ob_pg_put_text(&params, role);
    ob_pg_put_text(&params, statement_timeout);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_enter, &params, &res, &cause);
    PQclear(res);
    if (code == OUTBOX_FORBIDDEN)
        return ob_error_set_sqlstate(err, code, cause.sqlstate,
                                     "the relay's login %s is not a member of the role %s; an administrator can run: "
                                     "GRANT %s TO %s",
                                     PQuser(store->conn), role, role, PQuser(store->conn));
    if (code && err)
        *err = cause;
    return code;
}

ob_code ob_pg_enter(struct ob_store *base, enum ob_rights rights, const char *tenant_id, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    char role[100];
    snprintf(role, sizeof role, "%s_%s", store->schema, role_suffix(rights, tenant_id));
    ob_code code = base->ops->begin(base, err);
    if (code)
        return code;
    code = become(store, role, tenant_id, err);
    store->entered = !code;
    if (code) {
        ob_code ignored = base->ops->rollback(base, NULL);
        (void)ignored; /* the first failure is the one to report */
    }
    return code;
}

ob_code ob_pg_leave(struct ob_store *base, bool keep, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    store->entered = false;
    return keep ? base->ops->commit(base, err) : base->ops->rollback(base, err);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void put_actor(struct ob_pg_params *params, const struct ob_actor *actor)
{
    ob_pg_put_text(params, actor ? actor->actor : NULL);
    ob_pg_put_text(params, actor ? actor->reason : NULL);
}

ob_code ob_pg_token_create(struct ob_store *base, const struct ob_token *token, const unsigned char *hash,
                           const struct ob_actor *actor, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, token->name);
    ob_pg_put_bytes(&params, hash, OB_TOKEN_HASH);
    ob_pg_put_text(&params, ob_role_name(token->role));
    ob_pg_put_text(&params, token->tenant_id);
    ob_pg_put_time(&params, token->expires_at_us);
    put_actor(&params, actor);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_token_create, &params, &res, err);
    PQclear(res);
    return code;
}

ob_code ob_pg_token_revoke(struct ob_store *base, const char *name, const struct ob_actor *actor,
                           struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, name);
    put_actor(&params, actor);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_token_revoke, &params, &res, err);
    if (!code && !ob_pg_bool(res, 0, 0))
        code = ob_error_set(err, OUTBOX_UNKNOWN_NAME,
                            "there is no token \"%.64s\", or it is revoked already; see: outbox token list", name);
    PQclear(res);
    return code;
}

ob_code ob_pg_token_check(struct ob_store *base, const unsigned char *hash, struct ob_bearer *bearer,
                          struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_bytes(&params, hash, OB_TOKEN_HASH);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call(store, OB_PG_token_check, &params, &res, err);
    if (!code && PQntuples(res) == 1) {
        const char *name = ob_pg_text(res, 0, 0), *role = ob_pg_text(res, 0, 1), *tenant = ob_pg_text(res, 0, 2);
        bearer->role = ob_role_find(role);
        snprintf(bearer->name, sizeof bearer->name, "%s", name ? name : "");
        snprintf(bearer->tenant_id, sizeof bearer->tenant_id, "%s", tenant ? tenant : "");
    }
    PQclear(res);
    return code;
}

ob_code ob_pg_tokens(struct ob_store *base, ob_token_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call_once(store, OB_PG_tokens, &params, &res, err);
    for (int i = 0; !code && i < PQntuples(res); i++) {
        struct ob_token_row row = {
            .name = ob_pg_text(res, i, 0),
            .role = ob_pg_text(res, i, 1),
            .tenant_id = ob_pg_text(res, i, 2),
            .created_at_us = ob_pg_time(res, i, 3),
            .created_by = ob_pg_text(res, i, 4),
            .expires_at_us = PQgetisnull(res, i, 5) ? 0 : ob_pg_time(res, i, 5),
            .used_at_us = PQgetisnull(res, i, 6) ? 0 : ob_pg_time(res, i, 6),
            .revoked_at_us = PQgetisnull(res, i, 7) ? 0 : ob_pg_time(res, i, 7),
            .revoked_by = ob_pg_text(res, i, 8),
        };
        if (!fn(ctx, &row))
            break;
    }
    PQclear(res);
    return code;
}
