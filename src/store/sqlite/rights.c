/* rights.c - what calls may reach, for requests of the API; the tokens themselves are in token.c.
 *
 * SQLite has no roles. While a tenant reads, temporary views stand before the tables of the same names and hide the rows of the
 * others; the authorizer refuses everything that is read past them, and tables that nobody thought of here. While a tenant acts, the
 * operations of operators take its dead letters only, and refuse what all tenants share. Who only reads cannot write. */
#include "store/sqlite/sqlite.h"

#include <stdio.h>
#include <string.h>

/* What all tenants may read: names, settings and pauses, no messages. Everything else is reached through the views. */
static const char *const open_tables[] = {"outbox_lane",  "outbox_namespace", "outbox_log",
                                          "outbox_pause", "outbox_relay",     "outbox_tuning",
                                          "json_each",    "json_tree",        "sqlite_master"};
/* What a tenant that acts does not write: it is every tenant's. The gate opens the way for purge and erasure. */
static const char *const closed_tables[] = {"outbox_namespace", "outbox_pause", "outbox_relay",
                                            "outbox_tuning",    "outbox_token", "outbox_gate"};

static bool is_in(const char *table, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], table) == 0)
            return true;
    return false;
}
#define IS_IN(table, names) is_in(table, names, sizeof names / sizeof names[0])

/* While a tenant reads. */
static int authorize_read(void *ctx, int action, const char *one, const char *two, const char *database,
                          const char *view)
{
    (void)ctx;
    if (action != SQLITE_READ) /* nothing can be written: query_only */
        return action == SQLITE_ATTACH ? SQLITE_DENY : SQLITE_OK;
    /* A view that stands before a table is read with its name; what it reads itself, with its name in `view`. */
    /* A table without a column is one that a view brought in, and of which no value is read. */
    if (view || !*two || !database || strcmp(database, "main") != 0 || IS_IN(one, open_tables))
        return SQLITE_OK;
    return SQLITE_DENY;
}

/* While a tenant acts. */
static int authorize_act(void *ctx, int action, const char *one, const char *two, const char *database,
                         const char *trigger)
{
    (void)ctx;
    (void)two;
    (void)database;
    (void)trigger;
    bool writes = action == SQLITE_INSERT || action == SQLITE_UPDATE || action == SQLITE_DELETE;
    return writes && one && IS_IN(one, closed_tables) ? SQLITE_DENY : SQLITE_OK;
}

ob_code ob_sqlite_own_tenant(const struct ob_sqlite_store *store, const char **tenant, struct outbox_error *err)
{
    if (!store->tenant[0])
        return OUTBOX_OK;
    if (*tenant && strcmp(*tenant, store->tenant) != 0)
        return ob_error_set(err, OUTBOX_TENANT, "the tenant is another one; leave it out");
    *tenant = store->tenant;
    return OUTBOX_OK;
}

static ob_code narrow(struct ob_sqlite_store *store, struct outbox_error *err)
{
    sqlite3_stmt *stmt = NULL;
    ob_code code = ob_sqlite_exec(store->db, ob_sqlite_text("tenant_views.sql"), err);
    if (code)
        return code;
    store->narrowed = true;
    int rc = sqlite3_prepare_v2(store->db, ob_sqlite_text("tenant_session.sql"), -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 1, store->tenant, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    code = rc == SQLITE_DONE ? OUTBOX_OK : ob_sqlite_error(store->db, rc, err);
    sqlite3_finalize(stmt);
    sqlite3_set_authorizer(store->db, authorize_read, NULL);
    return code;
}

static ob_code widen(struct ob_sqlite_store *store, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    sqlite3_set_authorizer(store->db, NULL, NULL);
    if (store->narrowed)
        code = ob_sqlite_exec(store->db, ob_sqlite_text("tenant_views_drop.sql"), err);
    store->narrowed = code != OUTBOX_OK;
    return code;
}

ob_code ob_sqlite_enter(struct ob_store *base, enum ob_rights rights, const char *tenant_id, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    const char *tenant = NULL;
    ob_code code = store->narrowed ? widen(store, err) : OUTBOX_OK;
    store->tenant[0] = '\0';
    if (!code)
        code = ob_sqlite_check_tenant(tenant_id, store->tenant, &tenant, err);
    if (!code && rights == OB_RIGHTS_READ && tenant)
        code = narrow(store, err);
    if (!code && rights != OB_RIGHTS_READ && tenant)
        sqlite3_set_authorizer(store->db, authorize_act, NULL);
    if (!code && rights == OB_RIGHTS_READ)
        code = ob_sqlite_exec(store->db, ob_sqlite_text("query_only_on.sql"), err);
    if (code) {
        ob_code ignored = ob_sqlite_leave(base, false, NULL);
        (void)ignored; /* the first failure is the one to report */
    }
    return code;
}

ob_code ob_sqlite_leave(struct ob_store *base, bool keep, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    (void)keep; /* each call was a transaction of its own */
    store->tenant[0] = '\0';
    sqlite3_set_authorizer(store->db, NULL, NULL);
    ob_code code = ob_sqlite_exec(store->db, ob_sqlite_text("query_only_off.sql"), err);
    ob_code views = widen(store, code ? NULL : err);
    return code ? code : views;
}
