/* error.c - maps SQLite's errors to our codes.
 *
 * Our own triggers raise texts that begin with the SQLSTATE PostgreSQL would have: "OB001: ..."; only bad JSON is refused with
 * SQLite's own text, see sql/sqlite/004_enqueue.sql. All other errors are mapped by SQLite's extended result code or, where
 * that is too coarse, by the operating system's error behind it. */
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <string.h>

static bool no_room(int cause)
{
    return cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
}

/* SQLite reports "full" only for ENOSPC; a quota or a limit is an I/O error to it. The connection, the database file and its
 * log each keep their last error of the operating system. */
static bool is_full(sqlite3 *db)
{
    sqlite3_file *log = NULL;
    int cause = 0;
    if (!db)
        return false;
    if (no_room(sqlite3_system_errno(db)))
        return true;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &cause) == SQLITE_OK && no_room(cause))
        return true;
    cause = 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&log);
    if (log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &cause);
    return no_room(cause);
}

static ob_code code_of(sqlite3 *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return OUTBOX_BUSY;
    case SQLITE_NOMEM: return OUTBOX_NOMEM;
    case SQLITE_FULL: return OUTBOX_FULL;
    case SQLITE_READONLY: return OUTBOX_READONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return OUTBOX_CORRUPT;
    case SQLITE_CANTOPEN: return OUTBOX_UNREACHABLE;
    case SQLITE_PERM:
    case SQLITE_AUTH: return OUTBOX_FORBIDDEN;
    case SQLITE_TOOBIG: return OUTBOX_TOO_LARGE;
    case SQLITE_MISMATCH: return OUTBOX_INVALID;
    case SQLITE_CONSTRAINT: return rc == SQLITE_CONSTRAINT_DATATYPE ? OUTBOX_INVALID : OUTBOX_DATABASE;
    case SQLITE_IOERR: return rc == SQLITE_IOERR_NOMEM ? OUTBOX_NOMEM : is_full(db) ? OUTBOX_FULL : OUTBOX_DATABASE;
    default: return OUTBOX_DATABASE;
    }
}

/* "OB003: text" */
static bool is_ours(const char *text)
{
    return strncmp(text, "OB0", 3) == 0 && strlen(text) > 7 && text[5] == ':';
}

ob_code ob_sqlite_error(sqlite3 *db, int rc, struct outbox_error *err)
{
    const char *text = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    if (db && sqlite3_extended_errcode(db) != SQLITE_OK && (sqlite3_extended_errcode(db) & 0xff) == (rc & 0xff))
        rc = sqlite3_extended_errcode(db);
    if (rc == SQLITE_CONSTRAINT_TRIGGER && is_ours(text)) {
        char state[6] = {0};
        memcpy(state, text, 5);
        return ob_error_set_sqlstate(err, ob_code_by_sqlstate(state), state, "%s", text + 7);
    }
    if (rc == SQLITE_ERROR && strstr(text, "malformed JSON"))
        return ob_error_set_sqlstate(err, OUTBOX_INVALID, "OB001",
                                     "the payload or the headers are not valid JSON; bytes need a content_type");
    ob_code code = code_of(db, rc);
    switch (code) {
    case OUTBOX_NOMEM: return ob_error_nomem(err);
    case OUTBOX_BUSY:
        return ob_error_set(err, code, "the database is busy: another process has been writing for too long (%s)",
                            text);
    case OUTBOX_FULL: return ob_error_set(err, code, "no space left for the database (%s); nothing was lost", text);
    case OUTBOX_READONLY: return ob_error_set(err, code, "the database file cannot be written (%s)", text);
    case OUTBOX_CORRUPT:
        return ob_error_set(err, code, "the file is damaged or not an SQLite database (%s); nothing was changed", text);
    default: break;
    }
    int cause = db ? sqlite3_system_errno(db) : 0;
    if ((rc & 0xff) == SQLITE_IOERR && cause)
        return ob_error_set(err, code, "SQLite: %s: %s", text, strerror(cause));
    return ob_error_set(err, code, "SQLite: %s", text);
}
