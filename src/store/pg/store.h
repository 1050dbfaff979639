/* store.h - the PostgreSQL store, as the rooms above see it. Everything else in this folder is private. */
#ifndef OB_STORE_PG_STORE_H
#define OB_STORE_PG_STORE_H

#include "base/log.h"
#include "core/async_store.h"
#include "core/doorbell.h"
#include "core/migration.h"
#include "core/store.h"

struct ob_pg_options {
    const char *schema;       /* NULL: "outbox" */
    const char *application;  /* NULL: "outbox" */
    const struct ob_log *log; /* NULL: none. Must outlive the store. */
    int64_t limit_us;         /* how long a statement may take; 0: as the server says */
    struct ob_doorbell_settings doorbell_settings;
    int doorbell_number; /* held by a busy worker; if not 0, the one that assign_doorbell gave its topics */
};

/* Connects. conninfo: a URL or libpq's key=value string; PG* variables and defaults fill in the rest.
 * options may be NULL. *out is owned by the caller: ops->close. */
ob_code ob_pg_open(const char *conninfo, const struct ob_pg_options *options, struct ob_store **out,
                   struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An async store, see core/async_store.h. Does not connect yet. *out is owned by the caller: ops->close. */
ob_code ob_pg_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                         struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- migrations: see migrate.c ---- */

/* Brings the schema to this version. Safe to run repeatedly and concurrently. */
ob_code ob_pg_migrate(const char *conninfo, const struct ob_pg_options *options, const struct ob_migrate *how,
                      struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Calls back for every migration known here or applied there, in order. Changes nothing. */
ob_code ob_pg_migrate_status(const char *conninfo, const struct ob_pg_options *options, ob_migration_fn *fn, void *ctx,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The SQL of every migration as it would be sent, in order, and last the statement that records them all. Needs no
 * server. Texts are borrowed for the duration of the call. */
ob_code ob_pg_migrate_print(const char *schema, void (*fn)(void *ctx, const char *name, const char *text), void *ctx,
                            struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- scratch schemas, for benchmarks: see lib/scratch.h ---- */

ob_code ob_pg_scratch_drop(const char *conninfo, const char *schema, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Drops those that no session uses; *dropped: how many. */
ob_code ob_pg_scratch_sweep(const char *conninfo, int *dropped, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* What the server has written to its log so far. */
ob_code ob_pg_wal_bytes(const char *conninfo, int64_t *bytes, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Whether libpq can read it; err never holds the password. */
enum outbox_code ob_pg_check(const char *conninfo, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The conninfo without its passwords, for messages. Always NUL-terminated, truncated if too long. */
void ob_pg_redact(const char *conninfo, char *text, size_t size);

#endif
