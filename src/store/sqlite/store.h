/* store.h - the SQLite store, as the rooms above see it. Everything else in this folder is private. */
#ifndef OB_STORE_SQLITE_STORE_H
#define OB_STORE_SQLITE_STORE_H

#include "core/async_store.h"
#include "core/migration.h"
#include "core/store.h"

/* Opens an outbox in a file. path may end with settings for this handle: "shop.db?synchronous=normal&busy_timeout=2000".
 *
 *   synchronous   full (default): a commit survives a power failure; normal: it survives a crash of the process
 *   busy_timeout  how long to wait for another writer, in milliseconds; default 10000
 *
 * create: a file that is missing or empty becomes an outbox. A database with an application's tables is never changed here;
 * that takes an explicit ob_sqlite_migrate. *store is owned by the caller: store->ops->close. */
ob_code ob_sqlite_open(const char *path, bool create, struct ob_store **store,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An async store, see core/async_store.h: the same on a separate thread, which also takes the relay's lock. options->url is the
 * path, with settings. *out is owned by the caller: ops->close. */
ob_code ob_sqlite_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- one relay per file: see lock.c ---- */

struct ob_sqlite_lock;

/* OUTBOX_LOCKED, with the holder's process id, if another relay holds it. The kernel releases it when the process ends. */
ob_code ob_sqlite_relay_lock(const char *path, struct ob_sqlite_lock **lock,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_relay_unlock(struct ob_sqlite_lock *lock);

/* ---- migrations: see migrate.c ---- */

/* Brings the schema to this version, in a file of our own or an application's. With create, a missing file is created. Safe to
 * run repeatedly and concurrently. how may be NULL. */
ob_code ob_sqlite_migrate(const char *path, bool create, const struct ob_migrate *how,
                          struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Calls back for every migration known here or applied there, in order. Changes nothing. */
ob_code ob_sqlite_migrate_status(const char *path, ob_migration_fn *fn, void *ctx,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The SQL of every migration, in order, and last the statement that records them all. Needs no file. */
ob_code ob_sqlite_migrate_print(void (*fn)(void *ctx, const char *name, const char *text), void *ctx,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Passes events that the application's triggers refused to them again, oldest first; *taken: how many were accepted. */
ob_code ob_sqlite_run_failed_hooks(struct ob_store *base, int max_count, int64_t *taken,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
