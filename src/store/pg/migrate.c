/* migrate.c - brings a schema to this version.
 *
 * Invariants
 *   1. One run at a time per schema: a session advisory lock is held from before the first check to the end.
 *   2. A migration and its row in the table of migrations commit together. The first migration creates that table.
 *   3. What was applied never changes: a checksum that differs, or a version that is not known here, stops the run
 *      before anything is touched, unless there is an upgrade from it (upgrade.c). */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "pg_migrations.h"
#include "pg_statements.h"
#include "store/pg/migrate.h"
#include "store/pg/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 5 };

static int version_of(const struct ob_sql_file *file)
{
    return (int)strtol(file->name, NULL, 10);
}

/* "001_roles.sql" is the migration "001_roles". */
static void name_of(const struct ob_sql_file *file, char name[64])
{
    size_t len = strcspn(file->name, ".");
    len = len < 63 ? len : 63;
    memcpy(name, file->name, len);
    name[len] = '\0';
}

static const char *statement(const char *file)
{
    return ob_sql_find(ob_pg_statements, ob_pg_statements_count, file)->text;
}

static ob_code render(struct ob_migrate_run *run, const char *text, struct outbox_error *err)
{
    ob_buf_reset(&run->sql);
    ob_pg_render(&run->sql, text, run->schema);
    return ob_buf_ok(&run->sql) ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code fail(struct ob_migrate_run *run, const char *role, const PGresult *res, struct outbox_error *err)
{
    return ob_pg_error(&(struct ob_pg_cause){.conn = run->conn, .schema = run->schema, .role = role}, res, err);
}

/* Runs a statement of the stmt folder; params may be NULL. With out, the caller owns the rows, in binary. */
ob_code ob_migrate_query(struct ob_migrate_run *run, const char *file, struct ob_pg_params *params, PGresult **out,
                         struct outbox_error *err)
{
    ob_code code = render(run, statement(file), err);
    if (code)
        return code;
    if (params && !ob_pg_params_seal(params))
        return ob_error_nomem(err);
    PGresult *res = params ? PQexecParams(run->conn, ob_buf_text(&run->sql), params->count, NULL, params->values,
                                          params->lengths, params->formats, 1)
                           : PQexec(run->conn, ob_buf_text(&run->sql));
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        code = fail(run, run->role, res, err);
    if (out && !code)
        *out = res;
    else
        PQclear(res);
    return code;
}

/* ---- before ------------------------------------------------------------------------------------------------------ */

/* What a first run needs: to create the schema, to find or create the roles, and to be a member of the four owning ones. */
struct rights {
    bool create, roles, join;
    const char *database, *user;
};

static ob_code refuse_rights(const struct ob_migrate_run *run, const struct rights *rights, struct outbox_error *err)
{
    struct ob_buf text = OB_BUF_INIT;
    if (!rights->roles) {
        ob_buf_puts(&text, "the outbox's roles do not exist, and this role may not create them; an administrator can "
                           "run: ALTER ROLE ");
        ob_pg_quote(&text, rights->user, "");
        ob_buf_puts(&text, " CREATEROLE");
    } else if (!rights->join) {
        ob_buf_puts(&text, "the outbox's roles exist, but this role is not a member of its owners; an administrator "
                           "can run: GRANT ");
        static const char *const owners[] = {"_owner", "_api", "_hooks", "_nobody"};
        for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
            ob_buf_puts(&text, i ? ", " : "");
            ob_pg_quote(&text, run->schema, owners[i]);
        }
        ob_buf_puts(&text, " TO ");
        ob_pg_quote(&text, rights->user, "");
    } else {
        ob_buf_puts(&text, "this role may not create a schema in the database; an administrator can run: GRANT CREATE "
                           "ON DATABASE ");
        ob_pg_quote(&text, rights->database, "");
        ob_buf_puts(&text, " TO ");
        ob_pg_quote(&text, rights->user, "");
    }
    ob_code code = ob_error_set_sqlstate(err, OUTBOX_FORBIDDEN, "42501", "%s", ob_buf_text(&text));
    ob_buf_fini(&text);
    return code;
}

/* Checks and changes nothing. For a migration, checks the rights too. */
static ob_code look(struct ob_migrate_run *run, bool to_migrate, struct outbox_error *err)
{
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_pg_put_text(&params, run->schema);
    ob_pg_put_roles(&params, run->schema);
    PGresult *res = NULL;
    ob_code code = ob_migrate_query(run, "migrate_look.sql", &params, &res, err);
    ob_buf_fini(&scratch);
    if (code)
        return code;
    run->migrated = ob_pg_bool(res, 0, 0);
    struct rights rights = {.create = ob_pg_bool(res, 0, 2),
                            .roles = ob_pg_bool(res, 0, 3),
                            .join = ob_pg_bool(res, 0, 4),
                            .database = ob_pg_text(res, 0, 5),
                            .user = ob_pg_text(res, 0, 6)};
    if (ob_pg_bool(res, 0, 1))
        code = ob_error_set(err, OUTBOX_SCHEMA,
                            "the schema %s exists but does not hold an outbox; choose another one with --schema",
                            run->schema);
    else if (to_migrate && !run->migrated && !(rights.create && rights.roles && rights.join))
        code = refuse_rights(run, &rights, err);
    PQclear(res);
    return code;
}

static ob_code take_lock(struct ob_migrate_run *run, struct outbox_error *err)
{
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_pg_put_text(&params, run->schema);
    ob_code code = ob_migrate_query(run, "migrate_lock.sql", &params, NULL, err);
    ob_buf_fini(&scratch);
    return code;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

static void tell_pending(size_t i, ob_migration_fn *fn, void *ctx)
{
    char name[64];
    name_of(&ob_pg_migrations[i], name);
    fn(ctx, &(struct ob_migration_row){.version = version_of(&ob_pg_migrations[i]), .name = name});
}

static enum ob_migration_state state_of(const PGresult *res, int row, size_t known)
{
    if (known == ob_pg_migrations_count)
        return OB_MIGRATION_NEWER;
    const char *checksum = ob_pg_text(res, row, 2);
    return strcmp(checksum, ob_pg_migrations[known].sha256) == 0 ? OB_MIGRATION_APPLIED : OB_MIGRATION_DRIFTED;
}

/* Reports every migration in order: those applied in the database, and those embedded here. */
static ob_code walk(struct ob_migrate_run *run, ob_migration_fn *fn, void *ctx, struct outbox_error *err)
{
    PGresult *res = NULL;
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_code code = run->migrated ? ob_migrate_query(run, "migrate_applied.sql", &params, &res, err) : OUTBOX_OK;
    ob_buf_fini(&scratch);
    if (code)
        return code;
    size_t next = 0;
    for (int row = 0; res && row < PQntuples(res); row++) {
        int version = ob_pg_int4(res, row, 0);
        while (next < ob_pg_migrations_count && version_of(&ob_pg_migrations[next]) < version)
            tell_pending(next++, fn, ctx);
        bool known = next < ob_pg_migrations_count && version_of(&ob_pg_migrations[next]) == version;
        fn(ctx, &(struct ob_migration_row){.version = version,
                                           .name = ob_pg_text(res, row, 1),
                                           .state = state_of(res, row, known ? next : ob_pg_migrations_count),
                                           .applied_at_us = ob_pg_time(res, row, 3),
                                           .applied_by = ob_pg_text(res, row, 4)});
        next += known;
    }
    for (; next < ob_pg_migrations_count; next++)
        tell_pending(next, fn, ctx);
    PQclear(res);
    return OUTBOX_OK;
}

struct verdict {
    struct ob_migrate_run *run;
    struct outbox_error *err;
    ob_code code;
};

/* Marks what is applied; the first row that stops the run decides the error. */
static void judge(void *ctx, const struct ob_migration_row *row)
{
    struct verdict *verdict = ctx;
    if (verdict->code)
        return;
    if (row->state == OB_MIGRATION_DRIFTED)
        verdict->code = ob_error_set(verdict->err, OUTBOX_SCHEMA,
                                     "migration %s differs from the one this program has; nothing was changed. Use "
                                     "the program that applied it, or correct its row in %s.migration",
                                     row->name, verdict->run->schema);
    if (row->state == OB_MIGRATION_NEWER)
        verdict->code = ob_error_set(verdict->err, OUTBOX_SCHEMA,
                                     "the database was migrated by a newer version of Outbox (it has %s, this program "
                                     "knows up to %s); use that version",
                                     row->name, ob_pg_migrations[ob_pg_migrations_count - 1].name);
    for (size_t i = 0; i < ob_pg_migrations_count; i++)
        if (row->state == OB_MIGRATION_APPLIED && version_of(&ob_pg_migrations[i]) == row->version)
            verdict->run->applied[i] = true;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

ob_code ob_migrate_record(struct ob_migrate_run *run, size_t i, struct outbox_error *err)
{
    char name[64];
    name_of(&ob_pg_migrations[i], name);
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_pg_put_int4(&params, version_of(&ob_pg_migrations[i]));
    ob_pg_put_text(&params, name);
    ob_pg_put_text(&params, ob_pg_migrations[i].sha256);
    ob_code code = ob_migrate_query(run, "migrate_record.sql", &params, NULL, err);
    ob_buf_fini(&scratch);
    return code;
}

ob_code ob_migrate_execute(struct ob_migrate_run *run, const struct ob_sql_file *file, struct outbox_error *err)
{
    ob_code code = render(run, file->text, err);
    if (code)
        return code;
    PGresult *res = PQexec(run->conn, ob_buf_text(&run->sql));
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        struct outbox_error cause;
        code = fail(run, "owner", res, &cause);
        ob_error_set_sqlstate(err, code, cause.sqlstate, "migration %s: %s", file->name, cause.text);
    }
    PQclear(res);
    return code;
}

static void tell_applied(const struct ob_migrate *how, size_t i)
{
    char name[64];
    name_of(&ob_pg_migrations[i], name);
    if (how->applied)
        how->applied(how->ctx, &(struct ob_migration_row){.version = version_of(&ob_pg_migrations[i]),
                                                          .name = name,
                                                          .state = OB_MIGRATION_APPLIED});
}

/* Runs a migration and records it, in the open transaction. */
static ob_code apply(struct ob_migrate_run *run, size_t i, struct outbox_error *err)
{
    ob_code code = ob_migrate_execute(run, &ob_pg_migrations[i], err);
    if (!code && !run->migrated) {
        code = ob_migrate_query(run, "migrate_table.sql", NULL, NULL, err);
        run->migrated = code == OUTBOX_OK;
    }
    return code ? code : ob_migrate_record(run, i, err);
}

/* Runs the migrations from first up to, but not including, end in one transaction. */
static ob_code step(struct ob_migrate_run *run, const struct ob_migrate *how, size_t first, size_t end,
                    struct outbox_error *err)
{
    bool migrated = run->migrated;
    ob_code code = ob_migrate_query(run, "migrate_begin.sql", NULL, NULL, err);
    for (size_t i = first; !code && i < end; i++)
        if (!run->applied[i])
            code = apply(run, i, err);
    if (!code)
        code = ob_migrate_query(run, how->dry_run ? "rollback.sql" : "commit.sql", NULL, NULL, err);
    if (code) {
        (void)ob_migrate_query(run, "rollback.sql", NULL, NULL, NULL);
        run->migrated = migrated;
        return code;
    }
    for (size_t i = first; i < end; i++)
        if (!run->applied[i])
            tell_applied(how, i);
    return OUTBOX_OK;
}

/* Roles are shared by all databases of a cluster: first runs in two databases can conflict there. */
static bool worth_another_try(const struct outbox_error *err)
{
    static const char *const states[] = {"XX000", "23505", "42710", "40001", "40P01"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(err->sqlstate, states[i]) == 0)
            return true;
    return false;
}

static ob_code migrate(struct ob_migrate_run *run, const struct ob_migrate *how, struct outbox_error *err)
{
    struct outbox_error local;
    if (!err)
        err = &local;
    run->applied = ob_calloc(ob_pg_migrations_count + 1, sizeof *run->applied);
    if (!run->applied)
        return ob_error_nomem(err);
    ob_code code = take_lock(run, err);
    if (!code)
        code = look(run, true, err);
    if (!code)
        code = ob_pg_check_foreign(run->conn, run->schema, run->migrated, how, err);
    size_t count = ob_pg_migrations_count;
    bool upgraded = false;
    if (!code && run->migrated)
        code = ob_migrate_upgrade(run, how->dry_run, &upgraded, err);
    for (size_t i = 0; !code && upgraded && i < count; i++) {
        tell_applied(how, i);
        run->applied[i] = true;
    }
    struct verdict verdict = {run, err, OUTBOX_OK};
    if (!code && !upgraded)
        code = walk(run, judge, &verdict, err);
    if (!code)
        code = verdict.code;
    for (size_t i = 0; !code && i < count; i++) {
        int tries = 0;
        if (run->applied[i])
            continue;
        do
            code = step(run, how, i, how->dry_run ? count : i + 1, err);
        while (code && ++tries < TRIES && worth_another_try(err));
        if (how->dry_run)
            break;
    }
    ob_free(run->applied);
    return code;
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

static ob_code start(struct ob_migrate_run *run, const char *conninfo, const struct ob_pg_options *options,
                     struct outbox_error *err)
{
    memset(run, 0, sizeof *run);
    run->schema = options && options->schema ? options->schema : "outbox";
    run->role = "owner";
    ob_code code = ob_pg_schema_check(run->schema, err);
    if (!code)
        code = ob_pg_connect(conninfo, options && options->application ? options->application : "outbox migrate",
                             &run->conn, err);
    return code;
}

static void finish(struct ob_migrate_run *run)
{
    PQfinish(run->conn);
    ob_buf_fini(&run->sql);
}

ob_code ob_pg_migrate(const char *conninfo, const struct ob_pg_options *options, const struct ob_migrate *how,
                      struct outbox_error *err)
{
    static const struct ob_migrate plain;
    struct ob_migrate_run run;
    ob_code code = start(&run, conninfo, options, err);
    if (!code)
        code = migrate(&run, how ? how : &plain, err);
    finish(&run);
    return code;
}

ob_code ob_pg_migrate_status(const char *conninfo, const struct ob_pg_options *options, ob_migration_fn *fn, void *ctx,
                             struct outbox_error *err)
{
    struct ob_migrate_run run;
    ob_code code = start(&run, conninfo, options, err);
    run.role = "relay"; /* reading the status never needs more, and the owner's role is granted to nobody */
    if (!code)
        code = look(&run, false, err);
    if (!code)
        code = walk(&run, fn, ctx, err);
    finish(&run);
    return code;
}

/* The rows that a run would have written, as literals: names and checksums are our own and contain no quotes. */
static ob_code print_record(struct ob_migrate_run *run, void (*fn)(void *, const char *, const char *), void *ctx,
                            struct outbox_error *err)
{
    ob_code code = render(run, statement("migrate_print.sql"), err);
    if (code)
        return code;
    for (size_t i = 0; i < ob_pg_migrations_count; i++) {
        char name[64];
        name_of(&ob_pg_migrations[i], name);
        ob_buf_printf(&run->sql, "    (%d, '%s', '%s')%s\n", version_of(&ob_pg_migrations[i]), name,
                      ob_pg_migrations[i].sha256, i + 1 < ob_pg_migrations_count ? "," : ";");
    }
    if (!ob_buf_ok(&run->sql))
        return ob_error_nomem(err);
    fn(ctx, "record", ob_buf_text(&run->sql));
    return OUTBOX_OK;
}

ob_code ob_pg_migrate_print(const char *schema, void (*fn)(void *ctx, const char *name, const char *text), void *ctx,
                            struct outbox_error *err)
{
    struct ob_migrate_run run = {.schema = schema ? schema : "outbox"};
    ob_code code = ob_pg_schema_check(run.schema, err);
    for (size_t i = 0; !code && i < ob_pg_migrations_count; i++) {
        char name[64];
        name_of(&ob_pg_migrations[i], name);
        code = render(&run, ob_pg_migrations[i].text, err);
        if (!code && i == 0) {
            ob_pg_render(&run.sql, statement("migrate_table.sql"), run.schema);
            ob_buf_puts(&run.sql, ";\n");
        }
        if (!code)
            fn(ctx, name, ob_buf_text(&run.sql));
    }
    if (!code)
        code = print_record(&run, fn, ctx, err);
    ob_buf_fini(&run.sql);
    return code;
}
