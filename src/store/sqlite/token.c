/* token.c - the tokens of the API. A store knows only their SHA-256. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "core/names.h"

#include <stdio.h>
#include <string.h>

static const int64_t hour_us = 3600000000;
struct change {
    const struct ob_token *token; /* NULL: revoke */
    const char *name, *tenant;
    const unsigned char *hash;
    const struct ob_actor *actor;
};

static ob_code record(struct ob_sqlite_store *store, const struct change *change, int64_t now, struct outbox_error *err)
{
    const struct ob_token *token = change->token;
    char expires[OB_CLOCK_TEXT];
    sqlite3_stmt *stmt;
    bool row = false;
    if (token && token->expires_at_us)
        ob_clock_format(token->expires_at_us, expires);
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_detail_token,
                        OB_ARGS(OB_TEXT(change->name), OB_TEXT(token ? ob_role_name(token->role) : NULL),
                                OB_TEXT(change->tenant), OB_TEXT(token && token->expires_at_us ? expires : NULL)),
                        &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, change->actor, token ? "create_token" : "revoke_token", NULL, NULL,
                             row ? ob_sqlite_column(stmt, 0) : NULL, now, err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code apply(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct change *change = ctx;
    const struct ob_token *token = change->token;
    const char *who = change->actor && change->actor->actor ? change->actor->actor : "";
    int64_t now = ob_clock_wall_us(), changed = 0;
    ob_code code = token ? ob_sqlite_run(store, OB_SQLITE_token_create,
                                         OB_ARGS(OB_TEXT(change->name), OB_BYTES(change->hash, OB_TOKEN_HASH),
                                                 OB_TEXT(ob_role_name(token->role)), OB_TEXT(change->tenant),
                                                 OB_NUM(now), OB_TEXT(who), OB_NUM_OR_NULL(token->expires_at_us)),
                                         &changed, err)
                         : ob_sqlite_run(store, OB_SQLITE_token_revoke,
                                         OB_ARGS(OB_TEXT(change->name), OB_NUM(now), OB_TEXT(who)), &changed, err);
    if (!code && !changed && token)
        code =
            ob_error_set(err, OUTBOX_INVALID,
                         "there is a token \"%s\" already; names are not used again: choose another one", change->name);
    else if (!code && !changed)
        code =
            ob_error_set(err, OUTBOX_UNKNOWN_NAME,
                         "there is no token \"%.64s\", or it is revoked already; see: outbox token list", change->name);
    return code ? code : record(store, change, now, err);
}

static ob_code check(const struct ob_token *token, struct outbox_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-";
    size_t len = token->name ? strlen(token->name) : 0;
    if (len < 1 || len > 64 || token->name[strspn(token->name, allowed)])
        return ob_error_set(err, OUTBOX_INVALID,
                            "the name of a token has 1 to 64 letters, digits, and the characters _ . @ -; choose a "
                            "name that says who uses it");
    if (token->role == OB_ROLE_NONE)
        return ob_error_set(err, OUTBOX_INVALID, "the role of a token is viewer, operator or admin; give one of them");
    if (token->tenant_id && token->role == OB_ROLE_ADMIN)
        return ob_error_set(err, OUTBOX_INVALID,
                            "a tenant's token is a viewer's or an operator's; an admin changes what all tenants share");
    if (token->expires_at_us && token->expires_at_us <= ob_clock_wall_us())
        return ob_error_set(err, OUTBOX_INVALID, "the token would have expired already; give a time to come");
    return OUTBOX_OK;
}

ob_code ob_sqlite_token_create(struct ob_store *base, const struct ob_token *token, const unsigned char *hash,
                               const struct ob_actor *actor, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct change change = {.token = token, .name = token->name, .hash = hash, .actor = actor};
    char tenant[37];
    ob_code code = check(token, err);
    if (!code)
        code = ob_sqlite_check_tenant(token->tenant_id, tenant, &change.tenant, err);
    return code ? code : ob_sqlite_transact(store, apply, &change, err);
}

ob_code ob_sqlite_token_revoke(struct ob_store *base, const char *name, const struct ob_actor *actor,
                               struct outbox_error *err)
{
    struct change change = {.name = name, .actor = actor};
    return ob_sqlite_transact(ob_sqlite_store_of(base), apply, &change, err);
}

ob_code ob_sqlite_token_check(struct ob_store *base, const unsigned char *hash, struct ob_bearer *bearer,
                              struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row = false;
    int64_t now = ob_clock_wall_us(), used = 0;
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_token_check, OB_ARGS(OB_BYTES(hash, OB_TOKEN_HASH), OB_NUM(now)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code && row) {
        const char *role = ob_sqlite_column(stmt, 1), *tenant = ob_sqlite_column(stmt, 2);
        bearer->role = ob_role_find(role);
        snprintf(bearer->name, sizeof bearer->name, "%s", ob_sqlite_column(stmt, 0));
        snprintf(bearer->tenant_id, sizeof bearer->tenant_id, "%s", tenant ? tenant : "");
        used = sqlite3_column_int64(stmt, 3);
    }
    ob_sqlite_done(stmt);
    /* A file that cannot be written now may still be read. */
    if (!code && row && used < now - hour_us) {
        ob_code ignored = ob_sqlite_run(store, OB_SQLITE_token_used,
                                        OB_ARGS(OB_TEXT(bearer->name), OB_NUM(now - now % hour_us)), NULL, NULL);
        (void)ignored;
    }
    return code;
}

ob_code ob_sqlite_tokens(struct ob_store *base, ob_token_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row, more = true;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_tokens, OB_NO_ARGS, &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_token_row token = {
            .name = ob_sqlite_column(stmt, 0),
            .role = ob_sqlite_column(stmt, 1),
            .tenant_id = ob_sqlite_column(stmt, 2),
            .created_at_us = sqlite3_column_int64(stmt, 3),
            .created_by = ob_sqlite_column(stmt, 4),
            .expires_at_us = sqlite3_column_int64(stmt, 5),
            .used_at_us = sqlite3_column_int64(stmt, 6),
            .revoked_at_us = sqlite3_column_int64(stmt, 7),
            .revoked_by = ob_sqlite_column(stmt, 8),
        };
        more = fn(ctx, &token);
    }
    ob_sqlite_done(stmt);
    return code;
}
