/* migrate.c - calls the migrations of the store that a URL names. */
#include "lib/migrate.h"

#include "base/error.h"
#ifdef HAVE_POSTGRES
#include "store/pg/store.h"
#endif
#ifdef HAVE_SQLITE
#include "store/sqlite/store.h"
#endif

static ob_code lacking(enum ob_url kind, struct outbox_error *err)
{
    if (kind == OB_URL_UNKNOWN)
        return ob_error_set(err, OUTBOX_INVALID,
                            "the URL does not name a store; write postgresql://USER@HOST/DATABASE or sqlite:PATH");
    return ob_error_set(err, OUTBOX_UNSUPPORTED, "this build has no %s store",
                        kind == OB_URL_SQLITE ? "SQLite" : "PostgreSQL");
}

ob_code ob_store_migrate(const char *url, const struct ob_open *options, const struct ob_migrate *how,
                         struct outbox_error *err)
{
    enum ob_url kind = ob_url_kind(url);
#ifdef HAVE_POSTGRES
    if (kind == OB_URL_POSTGRES)
        return ob_pg_migrate(
            url, &(struct ob_pg_options){.schema = options->schema, .application = options->application}, how, err);
#endif
#ifdef HAVE_SQLITE
    if (kind == OB_URL_SQLITE)
        return ob_sqlite_migrate(ob_url_path(url), options->create, how, err);
#endif
    (void)options;
    (void)how;
    return lacking(kind, err);
}

ob_code ob_store_migrate_status(const char *url, const struct ob_open *options, ob_migration_fn *fn, void *ctx,
                                struct outbox_error *err)
{
    enum ob_url kind = ob_url_kind(url);
#ifdef HAVE_POSTGRES
    if (kind == OB_URL_POSTGRES)
        return ob_pg_migrate_status(
            url, &(struct ob_pg_options){.schema = options->schema, .application = options->application}, fn, ctx, err);
#endif
#ifdef HAVE_SQLITE
    if (kind == OB_URL_SQLITE)
        return ob_sqlite_migrate_status(ob_url_path(url), fn, ctx, err);
#endif
    (void)options;
    (void)fn;
    (void)ctx;
    return lacking(kind, err);
}

ob_code ob_store_migrate_print(enum ob_url kind, const char *schema, ob_migration_text_fn *fn, void *ctx,
                               struct outbox_error *err)
{
#ifdef HAVE_POSTGRES
    if (kind == OB_URL_POSTGRES)
        return ob_pg_migrate_print(schema, fn, ctx, err);
#endif
#ifdef HAVE_SQLITE
    if (kind == OB_URL_SQLITE)
        return ob_sqlite_migrate_print(fn, ctx, err);
#endif
    (void)schema;
    (void)fn;
    (void)ctx;
    return lacking(kind, err);
}
