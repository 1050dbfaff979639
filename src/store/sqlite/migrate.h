/* migrate.h - which migrations a file has; shared by the check at opening and by migrate. */
#ifndef OB_STORE_SQLITE_MIGRATE_H
#define OB_STORE_SQLITE_MIGRATE_H

#include "core/migration.h"

#include <sqlite3.h>

/* Calls back for every migration known here or applied there, in order. */
enum outbox_code ob_sqlite_migrate_walk(sqlite3 *db, ob_migration_fn *fn, void *ctx,
                                        struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
