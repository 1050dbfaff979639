/* conn.c - opens a path, and finds out what kind of file it is.
 *
 * A file can be: missing or empty; ours; an application's, without an outbox; migrated by a newer version; damaged; or no
 * database at all. Each case is recognised before anything is written. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "store/sqlite/migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 10000, BUSY_MAX_MS = 3600000, SQLITE_OLDEST = 3038000 };

void ob_sqlite_target_fini(struct ob_sqlite_target *target)
{
    ob_free(target->path);
    target->path = NULL;
}

static ob_code setting(struct ob_sqlite_target *target, const char *text, struct outbox_error *err)
{
    char *end;
    if (strcmp(text, "synchronous=full") == 0 || strcmp(text, "synchronous=normal") == 0) {
        target->normal = text[strlen("synchronous=")] == 'n';
        return OUTBOX_OK;
    }
    if (strncmp(text, "busy_timeout=", 13) == 0) {
        long ms = strtol(text + 13, &end, 10);
        if (end != text + 13 && !*end && ms >= 0 && ms <= BUSY_MAX_MS) {
            target->busy_ms = (int)ms;
            return OUTBOX_OK;
        }
    }
    return ob_error_set(err, OUTBOX_INVALID,
                        "\"%.64s\" is not a setting of an SQLite store; the settings are synchronous=full|normal and "
                        "busy_timeout=MILLISECONDS",
                        text);
}

ob_code ob_sqlite_target_parse(const char *text, struct ob_sqlite_target *target, struct outbox_error *err)
{
    *target = (struct ob_sqlite_target){.busy_ms = BUSY_MS};
    target->path = ob_strdup(text);
    if (!target->path)
        return ob_error_nomem(err);
    ob_code code = OUTBOX_OK;
    char *rest = strchr(target->path, '?'), *next;
    if (rest)
        *rest++ = '\0';
    for (; rest && *rest && !code; rest = next) {
        next = strchr(rest, '&');
        if (next)
            *next++ = '\0';
        code = setting(target, rest, err);
    }
    if (!code && !*target->path)
        code = ob_error_set(err, OUTBOX_INVALID, "the path of the database is empty");
    if (code)
        ob_sqlite_target_fini(target);
    return code;
}

ob_code ob_sqlite_exec(sqlite3 *db, const char *sql, struct outbox_error *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc ? ob_sqlite_error(db, rc, err) : OUTBOX_OK;
}

static ob_code cannot_open(const char *path, bool create, int rc, sqlite3 *db, struct outbox_error *err)
{
    struct stat st;
    if (stat(path, &st) && errno == ENOENT && create)
        return ob_error_set(err, OUTBOX_UNREACHABLE,
                            "cannot create \"%s\": check that its directory exists and is writable", path);
    if (stat(path, &st) && errno == ENOENT)
        return ob_error_set(err, OUTBOX_UNREACHABLE, "file \"%s\" does not exist; to create it, run: outbox init",
                            path);
    if (db && (rc & 0xff) == SQLITE_CANTOPEN)
        return ob_error_set(err, OUTBOX_UNREACHABLE, "cannot open \"%s\": %s", path,
                            sqlite3_system_errno(db) ? strerror(sqlite3_system_errno(db)) : sqlite3_errmsg(db));
    struct outbox_error cause;
    ob_code code = ob_sqlite_error(db, rc, &cause);
    return ob_error_set(err, code, "\"%s\": %s", path, cause.text);
}

/* Only the owner may access a new file; SQLite gives its log and its index the same mode. An existing file is unchanged. */
static void make_private(const char *path)
{
    int fd =
        *path == ':' || strncmp(path, "file:", 5) == 0 ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

ob_code ob_sqlite_connect(const struct ob_sqlite_target *target, bool create, sqlite3 **db, struct outbox_error *err)
{
    *db = NULL;
    if (sqlite3_libversion_number() < SQLITE_OLDEST)
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "SQLite %s is too old; 3.38 or later is required",
                            sqlite3_libversion());
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (create ? SQLITE_OPEN_CREATE : 0);
    if (create)
        make_private(target->path);
    int rc = sqlite3_open_v2(target->path, db, flags, NULL);
    if (!rc)
        rc = sqlite3_busy_timeout(*db, target->busy_ms);
    if (!rc)
        rc = sqlite3_exec(*db, ob_sqlite_text("session.sql"), NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_exec(*db, ob_sqlite_text(target->normal ? "synchronous_normal.sql" : "synchronous_full.sql"), NULL,
                          NULL, NULL);
    if (!rc)
        rc = sqlite3_exec(*db, ob_sqlite_text("schema_version.sql"), NULL, NULL, NULL);
    if (!rc)
        return OUTBOX_OK;
    ob_code code = cannot_open(target->path, create, rc, *db, err);
    sqlite3_close(*db);
    *db = NULL;
    return code;
}

/* The first row of a statement that is used once. */
static ob_code first_row(sqlite3 *db, const char *file, sqlite3_stmt **stmt, struct outbox_error *err)
{
    int rc = sqlite3_prepare_v2(db, ob_sqlite_text(file), -1, stmt, NULL);
    if (!rc)
        rc = sqlite3_step(*stmt) == SQLITE_ROW ? SQLITE_OK : sqlite3_errcode(db);
    return rc ? ob_sqlite_error(db, rc, err) : OUTBOX_OK;
}

/* Readers and one writer at the same time. The mode stays with the file, so this writes only the first time. */
ob_code ob_sqlite_use_wal(sqlite3 *db, const char *path, struct outbox_error *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_db_readonly(db, "main") == 1)
        return OUTBOX_OK; /* reading needs no log; a write will report what is wrong */
    ob_code code = first_row(db, "journal.sql", &stmt, err);
    const char *mode = code ? NULL : ob_sqlite_column(stmt, 0);
    if (mode && strcmp(mode, "wal") != 0 && strcmp(mode, "memory") != 0)
        code = ob_error_set(err, OUTBOX_UNSUPPORTED,
                            "\"%s\" cannot be used in WAL mode (it is in mode \"%s\"); is it on a network file system?",
                            path, mode);
    sqlite3_finalize(stmt);
    return code;
}

ob_code ob_sqlite_read(sqlite3 *db, struct ob_sqlite_schema *schema, struct outbox_error *err)
{
    sqlite3_stmt *stmt = NULL;
    *schema = (struct ob_sqlite_schema){0};
    ob_code code = first_row(db, "schema_objects.sql", &stmt, err);
    if (!code) {
        const char *clash = ob_sqlite_column(stmt, 2);
        schema->tables = sqlite3_column_int64(stmt, 0);
        schema->ours = sqlite3_column_int(stmt, 1) != 0;
        if (clash && !schema->ours)
            sqlite3_snprintf(sizeof schema->clash, schema->clash, "%s", clash);
    }
    sqlite3_finalize(stmt);
    return code;
}

struct verdict {
    const char *path;
    struct outbox_error *err;
    ob_code code;
};

static void judge(void *ctx, const struct ob_migration_row *row)
{
    struct verdict *verdict = ctx;
    if (row->state == OB_MIGRATION_NEWER && !verdict->code)
        verdict->code =
            ob_error_set(verdict->err, OUTBOX_SCHEMA,
                         "\"%s\" was migrated by a newer version of Outbox (it has %s); nothing was written. "
                         "Use that version",
                         verdict->path, row->name);
    else if (row->state == OB_MIGRATION_PENDING && !verdict->code)
        verdict->code =
            ob_error_set(verdict->err, OUTBOX_SCHEMA, "\"%s\" is missing the migration %s; run: outbox migrate",
                         verdict->path, row->name);
}

ob_code ob_sqlite_check(sqlite3 *db, const char *path, struct outbox_error *err)
{
    struct ob_sqlite_schema schema;
    ob_code code = ob_sqlite_read(db, &schema, err);
    if (code)
        return code;
    if (!schema.ours)
        return ob_error_set(err, OUTBOX_SCHEMA, "\"%s\" is %s; run: outbox init", path,
                            schema.tables ? "a database without an outbox" : "empty");
    struct verdict verdict = {.path = path, .err = err};
    code = ob_sqlite_migrate_walk(db, judge, &verdict, err);
    return code ? code : verdict.code;
}
