/* store.h - the SQLite store, as the rooms above see it. All else in this folder is its own business. */
#ifndef OB_STORE_SQLITE_STORE_H
#define OB_STORE_SQLITE_STORE_H

#include "core/async_store.h"
#include "core/migration.h"
#include "core/store.h"

/* Opens an outbox in a file. path may end in settings of this handle: "shop.db?synchronous=normal&busy_timeout=2000".
 *
 *   synchronous   full (default): a commit survives a power failure; normal: it survives a crash of the process
 *   busy_timeout  how long to wait for another writer, in milliseconds; default 10000
 *
 * create: a file that is missing or empty becomes an outbox. A database with tables of another application never does
 * here; it takes an explicit ob_sqlite_migrate. *store is owned by the caller: store->ops->close. */
ob_code ob_sqlite_open(const char *path, bool create, struct ob_store **store,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An async store, see core/async_store.h: the same on a thread of its own, which also takes the relay's lock. The url of
 * the options is the path, with settings. *out is owned by the caller: ops->close. */
ob_code ob_sqlite_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- one relay a file: see lock.c ---- */

struct ob_sqlite_lock;

/* OUTBOX_LOCKED, with the holder's process id, when another relay has it. Freed by the kernel when the process dies. */
ob_code ob_sqlite_relay_lock(const char *path, struct ob_sqlite_lock **lock,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_relay_unlock(struct ob_sqlite_lock *lock);

/* ---- migrations: see migrate.c ---- */

/* Brings the schema to this version, in a file of our own or of an application's. create makes a missing file. Safe to
 * run twice and by many at once. how may be NULL. */
ob_code ob_sqlite_migrate(const char *path, bool create, const struct ob_migrate *how,
                          struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Calls back for every migration known here or applied there, in order. Changes nothing. */
ob_code ob_sqlite_migrate_status(const char *path, ob_migration_fn *fn, void *ctx,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The SQL of every migration, in order, and last the statement that records them all. Needs no file. */
ob_code ob_sqlite_migrate_print(void (*fn)(void *ctx, const char *name, const char *text), void *ctx,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Gives events that the application's triggers refused to them again, oldest first; *taken says how many they took. */
ob_code ob_sqlite_run_failed_hooks(struct ob_store *base, int max_count, int64_t *taken,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
