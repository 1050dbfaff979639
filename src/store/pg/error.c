/* error.c - maps PostgreSQL's errors to our codes, by SQLSTATE, and to a text that says what to do.
 *
 * errors.def names the SQLSTATEs that are ours; the table below adds those that the server itself raises. */
#include "store/pg/conn.h"

#include "base/error.h"
#include "store/pg/render.h"

#include <stdio.h>
#include <string.h>

/* A state of two characters covers its whole class. `ours`: applies only if one of our statements raised it; in the
 * application's own SQL it has no meaning for us. */
static const struct {
    const char *state;
    enum outbox_code code;
    bool ours;
} states[] = {
    {"40P01", OUTBOX_CONFLICT, false},    /* deadlock */
    {"40003", OUTBOX_UNREACHABLE, false}, /* completion unknown */
    {"57014", OUTBOX_BUSY, false},        /* cancelled, or a timeout of the session */
    {"57P01", OUTBOX_UNREACHABLE, false}, /* the server is shutting down, or the session was terminated */
    {"57P02", OUTBOX_UNREACHABLE, false},
    {"57P03", OUTBOX_UNREACHABLE, false},
    {"57P04", OUTBOX_UNREACHABLE, false},
    {"57P05", OUTBOX_UNREACHABLE, false},
    {"53300", OUTBOX_UNREACHABLE, false}, /* too many connections */
    {"25P03", OUTBOX_UNREACHABLE, false}, /* idle in transaction for too long: the session has ended */
    {"08", OUTBOX_UNREACHABLE, false},
    {"XX002", OUTBOX_CORRUPT, false},
    {"3F000", OUTBOX_SCHEMA, true}, /* no such schema, function, table, column */
    {"42883", OUTBOX_SCHEMA, true},
    {"42P01", OUTBOX_SCHEMA, true},
    {"42703", OUTBOX_SCHEMA, true},
    {"42704", OUTBOX_SCHEMA, true},
    {"54", OUTBOX_TOO_LARGE, true},
    {"22", OUTBOX_INVALID, true}, /* data exceptions: bad JSON, bad uuid, bad UTF-8, out of range */
    {"23502", OUTBOX_INVALID, true},
    {"23514", OUTBOX_INVALID, true},
};

enum outbox_code ob_pg_code(const char *sqlstate, bool ours)
{
    enum outbox_code code = ob_code_by_sqlstate(sqlstate);
    if (code != OUTBOX_DATABASE && code != OUTBOX_OK)
        return code;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strncmp(sqlstate, states[i].state, strlen(states[i].state)) == 0 && (ours || !states[i].ours))
            return states[i].code;
    return OUTBOX_DATABASE;
}

/* Appends a hint that the server's message does not give; nothing if there is none. */
static void put_todo(struct ob_buf *buf, const struct ob_pg_cause *cause, enum outbox_code code)
{
    if (code == OUTBOX_FORBIDDEN && cause->schema && cause->role) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "_%s", cause->role);
        ob_buf_puts(buf, "an administrator can run: GRANT ");
        ob_pg_quote(buf, cause->schema, suffix);
        ob_buf_puts(buf, " TO ");
        ob_pg_quote(buf, PQuser(cause->conn) ? PQuser(cause->conn) : "", "");
    } else if (code == OUTBOX_SCHEMA && cause->schema) {
        ob_buf_printf(buf, "run: outbox migrate%s%s", strcmp(cause->schema, "outbox") != 0 ? " --schema " : "",
                      strcmp(cause->schema, "outbox") != 0 ? cause->schema : "");
    } else if (code != OUTBOX_DATABASE && code != OUTBOX_INVALID) {
        ob_buf_puts(buf, ob_code_todo(code));
    }
}

static const char *field(const PGresult *res, int which)
{
    const char *text = res ? PQresultErrorField(res, which) : NULL;
    return text ? text : "";
}

/* The connection failed during the statement: libpq has no SQLSTATE for that. */
static enum outbox_code no_state(const struct ob_pg_cause *cause, struct outbox_error *err)
{
    const char *message = PQerrorMessage(cause->conn);
    int len = (int)strcspn(message, "\n");
    if (PQstatus(cause->conn) != CONNECTION_OK)
        return ob_error_set(err, OUTBOX_UNREACHABLE, "the connection was lost: %.*s; the next call connects again", len,
                            message);
    if (len == 0)
        return ob_error_nomem(err);
    return ob_error_set(err, OUTBOX_DATABASE, "%.*s", len, message);
}

enum outbox_code ob_pg_error(const struct ob_pg_cause *cause, const PGresult *res, struct outbox_error *err)
{
    const char *state = field(res, PG_DIAG_SQLSTATE);
    if (!*state)
        return no_state(cause, err);
    enum outbox_code code = ob_pg_code(state, cause->schema != NULL);
    struct ob_buf todo = OB_BUF_INIT;
    const char *hint = field(res, PG_DIAG_MESSAGE_HINT), *detail = field(res, PG_DIAG_MESSAGE_DETAIL);
    bool names_fix = code == OUTBOX_FORBIDDEN || code == OUTBOX_SCHEMA;
    if (strcmp(field(res, PG_DIAG_SOURCE_FUNCTION), "check_enable_rls") == 0) /* no grant would help */
        ob_buf_puts(
            &todo,
            "row_security is off in this session: set it on, in PGOPTIONS, in the URL's options, or by ALTER ROLE "
            "... RESET row_security");
    else if (*hint && !names_fix)
        ob_buf_puts(&todo, hint);
    else
        put_todo(&todo, cause, code);
    const char *what_to_do = ob_buf_text(&todo);
    ob_error_set_sqlstate(err, code, state, "%s%s%s%s%s", field(res, PG_DIAG_MESSAGE_PRIMARY), *detail ? ": " : "",
                          detail, *what_to_do ? "; " : "", what_to_do);
    ob_buf_fini(&todo);
    return code;
}
