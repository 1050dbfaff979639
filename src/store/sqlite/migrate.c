/* migrate.c - finds out which migrations a file has, and applies those that are missing.
 *
 * Migrations are the files of sql/sqlite, in the order of their numbers. All missing ones run in one transaction with their
 * records in outbox_migration: a crash leaves the file as it was, and SQLite's write lock serialises two runs. The file's
 * user_version and application_id belong to the application. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "sqlite_migrations.h"
#include "store/sqlite/migrate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int version_of(size_t i)
{
    return (int)strtol(ob_sqlite_migrations[i].name, NULL, 10);
}

/* "001_tables.sql" → "001_tables" */
static void name_of(size_t i, char name[64])
{
    const char *file = ob_sqlite_migrations[i].name;
    sqlite3_snprintf(64, name, "%.*s", (int)(strlen(file) - strlen(".sql")), file);
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

static void tell(size_t i, enum ob_migration_state state, int64_t applied_at, ob_migration_fn *fn, void *ctx)
{
    char name[64];
    name_of(i, name);
    fn(ctx,
       &(struct ob_migration_row){.version = version_of(i), .name = name, .state = state, .applied_at_us = applied_at});
}

/* One row of outbox_migration; next is the first known migration that was not reported yet. */
static void tell_applied(sqlite3_stmt *stmt, size_t *next, ob_migration_fn *fn, void *ctx)
{
    int version = sqlite3_column_int(stmt, 0);
    for (; *next < ob_sqlite_migrations_count && version_of(*next) < version; ++*next)
        tell(*next, OB_MIGRATION_PENDING, 0, fn, ctx);
    if (*next < ob_sqlite_migrations_count && version_of(*next) == version) {
        const char *sha256 = ob_sqlite_column(stmt, 2);
        bool same = sha256 && strcmp(sha256, ob_sqlite_migrations[*next].sha256) == 0;
        tell(*next, same ? OB_MIGRATION_APPLIED : OB_MIGRATION_DRIFTED, sqlite3_column_int64(stmt, 3), fn, ctx);
        ++*next;
        return;
    }
    fn(ctx, &(struct ob_migration_row){.version = version,
                                       .name = ob_sqlite_column(stmt, 1),
                                       .state = OB_MIGRATION_NEWER,
                                       .applied_at_us = sqlite3_column_int64(stmt, 3)});
}

ob_code ob_sqlite_migrate_walk(sqlite3 *db, ob_migration_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_schema schema;
    sqlite3_stmt *stmt = NULL;
    size_t next = 0;
    ob_code code = ob_sqlite_read(db, &schema, err);
    if (!code && schema.ours) {
        int rc = sqlite3_prepare_v2(db, ob_sqlite_text("migrations.sql"), -1, &stmt, NULL);
        while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            tell_applied(stmt, &next, fn, ctx);
            rc = SQLITE_OK;
        }
        code = rc == SQLITE_DONE ? OUTBOX_OK : ob_sqlite_error(db, rc, err);
        sqlite3_finalize(stmt);
    }
    for (; !code && next < ob_sqlite_migrations_count; next++)
        tell(next, OB_MIGRATION_PENDING, 0, fn, ctx);
    return code;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct run {
    sqlite3 *db;
    const char *path;
    struct outbox_error *err;
    ob_code code;
    bool *applied;
};

/* Marks what is applied; the first row that stops the run decides the error. */
static void judge(void *ctx, const struct ob_migration_row *row)
{
    struct run *run = ctx;
    if (run->code)
        return;
    if (row->state == OB_MIGRATION_DRIFTED)
        run->code =
            ob_error_set(run->err, OUTBOX_SCHEMA,
                         "migration %s in \"%s\" differs from the one this program has; nothing was changed. Use the "
                         "program that applied it",
                         row->name, run->path);
    if (row->state == OB_MIGRATION_NEWER)
        run->code =
            ob_error_set(run->err, OUTBOX_SCHEMA,
                         "\"%s\" was migrated by a newer version of Outbox (it has %s, this program knows up to "
                         "%s); nothing was written. Use that version",
                         run->path, row->name, ob_sqlite_migrations[ob_sqlite_migrations_count - 1].name);
    for (size_t i = 0; i < ob_sqlite_migrations_count; i++)
        if (row->state == OB_MIGRATION_APPLIED && version_of(i) == row->version)
            run->applied[i] = true;
}

static ob_code record(struct run *run, size_t i)
{
    char name[64];
    sqlite3_stmt *stmt = NULL;
    name_of(i, name);
    int rc = sqlite3_prepare_v2(run->db, ob_sqlite_text("migration.sql"), -1, &stmt, NULL);
    if (!rc) {
        sqlite3_bind_int(stmt, 1, version_of(i));
        sqlite3_bind_text(stmt, 2, name, -1, SQLITE_STATIC);
        sqlite3_bind_text(stmt, 3, ob_sqlite_migrations[i].sha256, -1, SQLITE_STATIC);
        sqlite3_bind_int64(stmt, 4, ob_clock_wall_us());
        rc = sqlite3_step(stmt);
    }
    ob_code code = rc == SQLITE_DONE ? OUTBOX_OK : ob_sqlite_error(run->db, rc, run->err);
    sqlite3_finalize(stmt);
    return code;
}

static ob_code apply(struct run *run, size_t i)
{
    struct outbox_error cause;
    ob_code code = ob_sqlite_exec(run->db, ob_sqlite_migrations[i].text, &cause);
    if (code)
        return ob_error_set(run->err, code, "migration %s: %s", ob_sqlite_migrations[i].name, cause.text);
    return record(run, i);
}

/* Checks for obstacles before anything is written. */
static ob_code check_file(struct run *run)
{
    struct ob_sqlite_schema schema;
    sqlite3_stmt *stmt = NULL;
    ob_code code = ob_sqlite_read(run->db, &schema, run->err);
    if (code)
        return code;
    if (schema.clash[0])
        return ob_error_set(run->err, OUTBOX_SCHEMA,
                            "\"%s\" already has a \"%s\", a name the outbox needs; rename it first", run->path,
                            schema.clash);
    if (sqlite3_db_readonly(run->db, "main") == 1)
        return ob_error_set(run->err, OUTBOX_READONLY,
                            "\"%s\" is not writable; check its permissions and its "
                            "directory's",
                            run->path);
    int rc = sqlite3_prepare_v2(run->db, ob_sqlite_text("encoding.sql"), -1, &stmt, NULL);
    if (!rc)
        rc = sqlite3_step(stmt) == SQLITE_ROW ? SQLITE_OK : sqlite3_errcode(run->db);
    if (rc)
        code = ob_sqlite_error(run->db, rc, run->err);
    else if (strcmp(ob_sqlite_column(stmt, 0), "UTF-8") != 0)
        code = ob_error_set(run->err, OUTBOX_UNSUPPORTED, "\"%s\" stores text as %s; an outbox needs UTF-8", run->path,
                            ob_sqlite_column(stmt, 0));
    sqlite3_finalize(stmt);
    return code;
}

/* Applies all that is missing in one transaction: nobody ever sees a partial schema. */
static ob_code migrate(struct run *run, const struct ob_migrate *how)
{
    ob_code code = ob_sqlite_exec(run->db, ob_sqlite_text("begin.sql"), run->err);
    if (code)
        return code;
    code = check_file(run);
    if (!code)
        code = ob_sqlite_migrate_walk(run->db, judge, run, run->err);
    if (!code)
        code = run->code;
    for (size_t i = 0; !code && i < ob_sqlite_migrations_count; i++)
        if (!run->applied[i])
            code = apply(run, i);
    if (!code)
        code = ob_sqlite_exec(run->db, ob_sqlite_text(how->dry_run ? "rollback.sql" : "commit.sql"), run->err);
    if (code && !sqlite3_get_autocommit(run->db))
        sqlite3_exec(run->db, ob_sqlite_text("rollback.sql"), NULL, NULL, NULL);
    for (size_t i = 0; !code && how->applied && i < ob_sqlite_migrations_count; i++)
        if (!run->applied[i])
            tell(i, OB_MIGRATION_APPLIED, 0, how->applied, how->ctx);
    return code;
}

ob_code ob_sqlite_migrate_on(sqlite3 *db, const char *path, const struct ob_migrate *how, struct outbox_error *err)
{
    static const struct ob_migrate plain;
    struct outbox_error local = {.code = OUTBOX_OK};
    struct run run = {.db = db, .path = path, .err = err ? err : &local};
    run.applied = ob_calloc(ob_sqlite_migrations_count + 1, sizeof *run.applied);
    if (!run.applied)
        return ob_error_nomem(err);
    ob_code code = migrate(&run, how ? how : &plain);
    ob_free(run.applied);
    return code;
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

ob_code ob_sqlite_migrate(const char *path, bool create, const struct ob_migrate *how, struct outbox_error *err)
{
    struct ob_sqlite_target target;
    sqlite3 *db = NULL;
    ob_code code = ob_sqlite_target_parse(path, &target, err);
    if (code)
        return code;
    /* A dry run creates no file: it runs in memory. */
    bool imaginary = how && how->dry_run && create && access(target.path, F_OK) != 0;
    struct ob_sqlite_target nowhere = {.path = (char *)":memory:", .busy_ms = target.busy_ms};
    struct ob_sqlite_schema schema = {0};
    code = ob_sqlite_connect(imaginary ? &nowhere : &target, create, &db, err);
    if (!code)
        code = ob_sqlite_read(db, &schema, err);
    if (!code)
        code = ob_sqlite_migrate_on(db, target.path, how, err);
    /* For a file of our own; an application's file is switched to WAL when a relay first opens it. */
    if (!code && schema.tables == 0 && !(how && how->dry_run))
        code = ob_sqlite_use_wal(db, target.path, err);
    sqlite3_close(db);
    ob_sqlite_target_fini(&target);
    return code;
}

ob_code ob_sqlite_migrate_status(const char *path, ob_migration_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_target target;
    sqlite3 *db = NULL;
    ob_code code = ob_sqlite_target_parse(path, &target, err);
    if (code)
        return code;
    code = ob_sqlite_connect(&target, false, &db, err);
    if (!code)
        code = ob_sqlite_migrate_walk(db, fn, ctx, err);
    sqlite3_close(db);
    ob_sqlite_target_fini(&target);
    return code;
}

ob_code ob_sqlite_migrate_print(void (*fn)(void *ctx, const char *name, const char *text), void *ctx,
                                struct outbox_error *err)
{
    struct ob_buf buf = OB_BUF_INIT;
    char name[64];
    ob_buf_puts(&buf, ob_sqlite_text("migration_print.sql"));
    for (size_t i = 0; i < ob_sqlite_migrations_count; i++) {
        name_of(i, name);
        fn(ctx, name, ob_sqlite_migrations[i].text);
        /* Names and checksums are our own and contain no quotes. */
        ob_buf_printf(&buf, "    (%d, '%s', '%s')%s\n", version_of(i), name, ob_sqlite_migrations[i].sha256,
                      i + 1 < ob_sqlite_migrations_count ? "," : ");");
    }
    ob_code code = ob_buf_ok(&buf) ? OUTBOX_OK : ob_error_nomem(err);
    if (!code)
        fn(ctx, "record", ob_buf_text(&buf));
    ob_buf_fini(&buf);
    return code;
}
