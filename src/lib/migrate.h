/* migrate.h - migrations of the store that a URL names. For the command line and tests. */
#ifndef OB_LIB_MIGRATE_H
#define OB_LIB_MIGRATE_H

#include "core/migration.h"
#include "lib/open.h"

/* Migrates the schema to this version; options->create creates a missing SQLite file. */
ob_code ob_store_migrate(const char *url, const struct ob_open *options, const struct ob_migrate *how,
                         struct outbox_error *err) OUTBOX_MUST_CHECK;
ob_code ob_store_migrate_status(const char *url, const struct ob_open *options, ob_migration_fn *fn, void *ctx,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Passes on the SQL of every migration, in order, then the SQL that records them. Needs no database. */
typedef void ob_migration_text_fn(void *ctx, const char *name, const char *text);
ob_code ob_store_migrate_print(enum ob_url kind, const char *schema, ob_migration_text_fn *fn, void *ctx,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
