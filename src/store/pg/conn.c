/* conn.c - connecting, and hiding passwords.
 *
 * No output of libpq may reach stderr: a library does not write there. */
#include "store/pg/conn.h"

#include "base/error.h"
#include "pg_statements.h"
#include "store/pg/dial.h"
#include "store/pg/store.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void ob_pg_ignore_notice(void *ctx, const PGresult *res)
{
    (void)ctx;
    (void)res;
}

/* libpq's messages end with a newline and may have several lines. */
static void first_lines(const char *message, char *text, size_t size)
{
    size_t len = 0;
    for (; *message && len + 3 < size; message++) {
        if (*message != '\n')
            text[len++] = (char)(*message == '\t' ? ' ' : *message);
        else if (message[1])
            text[len++] = ';', text[len++] = ' ';
    }
    text[len] = '\0';
}

enum outbox_code ob_pg_connect_failed(PGconn *conn, struct outbox_error *err)
{
    char text[400];
    first_lines(PQerrorMessage(conn), text, sizeof text);
    return ob_error_set(err, OUTBOX_UNREACHABLE, "cannot connect: %s", *text ? text : "no reason given");
}

enum outbox_code ob_pg_check_server(PGconn *conn, struct outbox_error *err)
{
    int version = PQserverVersion(conn);
    if (version < OB_PG_SERVER_MIN)
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "the server runs PostgreSQL %d.%d, but Outbox needs %d or later",
                            version / 10000, version % 10000, OB_PG_SERVER_MIN / 10000);
    return OUTBOX_OK;
}

static enum outbox_code set_session(PGconn *conn, struct outbox_error *err)
{
    PQsetNoticeReceiver(conn, ob_pg_ignore_notice, NULL);
    enum outbox_code code = ob_pg_check_server(conn, err);
    if (code)
        return code;
    const struct ob_sql_file *file = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "session.sql");
    PGresult *res = PQexecParams(conn, file->text, 0, NULL, NULL, NULL, NULL, 0);
    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        code = ob_pg_error(&(struct ob_pg_cause){.conn = conn}, res, err);
    PQclear(res);
    return code;
}

/* An unencoded '/', '@', ':' or '?' in a password moves part of it into the host, the port or the database name, which libpq
 * and the server then repeat in their errors. */
static bool holds_password(const char *conninfo, const PQconninfoOption *option)
{
    if (!option->val)
        return false;
    if (strcmp(option->keyword, "host") == 0)
        return strchr(*option->val == '@' ? option->val + 1 : option->val, '@') != NULL;
    if (strcmp(option->keyword, "port") == 0)
        return option->val[strspn(option->val, "0123456789, ")] != '\0';
    /* An encoded '@' is intended. */
    return strcmp(option->keyword, "dbname") == 0 && strstr(conninfo, "://") && strchr(option->val, '@') &&
           strstr(conninfo, option->val);
}

/* Why a conninfo cannot be used; NULL: it can. libpq's own message may quote the password, so it is not passed on. */
static const char *fault_of(const char *conninfo, bool *nomem)
{
    char *reason = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &reason);
    bool strange = false;
    *nomem = !options && !reason;
    PQfreemem(reason);
    for (const PQconninfoOption *option = options; option && option->keyword; option++)
        strange = strange || holds_password(conninfo, option);
    PQconninfoFree(options);
    if (!options)
        return "write postgresql://USER@HOST/DATABASE or key=value pairs";
    return strange ? "write '/', '@', ':' and '?' in user names and passwords as %2F, %40, %3A, %3F" : NULL;
}

enum outbox_code ob_pg_check(const char *conninfo, struct outbox_error *err)
{
    bool nomem;
    char shown[200];
    const char *todo = fault_of(conninfo, &nomem);
    if (nomem)
        return ob_error_nomem(err);
    if (!todo)
        return OUTBOX_OK;
    ob_pg_redact(conninfo, shown, sizeof shown);
    return ob_error_set(err, OUTBOX_INVALID, "not a connection string: %s; %s", shown, todo);
}

enum outbox_code ob_pg_connect(const char *conninfo, const char *application, PGconn **conn, struct outbox_error *err)
{
    struct ob_pg_dial *dial;
    *conn = NULL;
    enum outbox_code code = ob_pg_dial_start(conninfo, application, 0, &dial, err);
    if (code)
        return code;
    code = ob_pg_dial_wait(dial, conn, err);
    ob_pg_dial_free(dial);
    if (!code && (code = set_session(*conn, err))) {
        PQfinish(*conn);
        *conn = NULL;
    }
    return code;
}

enum outbox_code ob_pg_reconnect(const char *conninfo, const char *application, PGconn **conn, struct outbox_error *err)
{
    PGconn *made;
    enum outbox_code code = ob_pg_connect(conninfo, application, &made, err);
    if (!code) {
        PQfinish(*conn);
        *conn = made;
    }
    return code;
}

bool ob_pg_lost(PGconn *conn, enum outbox_code code)
{
    return code == OUTBOX_UNREACHABLE || PQstatus(conn) != CONNECTION_OK;
}

/* ---- redaction --------------------------------------------------------------------------------------------------- */

struct out {
    char *text;
    size_t len, size;
};

static void put(struct out *out, const char *from, size_t len)
{
    if (len > out->size - 1 - out->len)
        len = out->size - 1 - out->len;
    memcpy(out->text + out->len, from, len);
    out->len += len;
    out->text[out->len] = '\0';
}

/* Where the value that begins at c ends: at white space or '&', or after its closing quote. */
static const char *value_end(const char *c, bool url)
{
    if (url)
        return c + strcspn(c, "&");
    if (*c != '\'') {
        for (; *c && !strchr(" \t\r\n", *c); c++)
            if (*c == '\\' && c[1])
                c++;
        return c;
    }
    for (c++; *c && *c != '\''; c++)
        if (*c == '\\' && c[1])
            c++;
    return *c ? c + 1 : c;
}

/* The length of the word at the start of text that ends the name of a secret; 0: there is none. */
static size_t secret_word(const char *text)
{
    static const char *const words[] = {"password", "secret", "client_key", "server_key"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncasecmp(text, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

/* "password=x" and "sslpassword = 'x y'" are written without their values. */
static void put_pairs(struct out *out, const char *pairs, bool url)
{
    while (*pairs) {
        size_t len = secret_word(pairs);
        if (len == 0) {
            put(out, pairs++, 1);
            continue;
        }
        len += strspn(pairs + len, " \t\r\n");
        if (pairs[len] == '=') {
            len++;
            len += strspn(pairs + len, " \t\r\n");
            put(out, pairs, len);
            put(out, "***", 3);
            pairs = value_end(pairs + len, url);
        } else {
            put(out, pairs, len);
            pairs += len;
        }
    }
}

void ob_pg_redact(const char *conninfo, char *text, size_t size)
{
    struct out out = {text, 0, size};
    bool nomem, url = strncmp(conninfo, "postgresql://", 13) == 0 || strncmp(conninfo, "postgres://", 11) == 0;
    const char *rest = url ? strstr(conninfo, "://") + 3 : conninfo;
    text[0] = '\0';
    if (fault_of(conninfo, &nomem)) { /* the password may be anywhere in it: show the shape only */
        snprintf(text, size, "%.*s... (%zu bytes)", (int)(rest - conninfo), conninfo, strlen(conninfo));
        return;
    }
    if (!url) {
        put_pairs(&out, conninfo, false);
        return;
    }
    const char *at = memchr(rest, '@', strcspn(rest, "/"));
    const char *colon = at ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
    if (colon) {
        put(&out, conninfo, (size_t)(colon + 1 - conninfo));
        put(&out, "***", 3);
        rest = at;
    } else {
        put(&out, conninfo, (size_t)(rest - conninfo));
    }
    const char *query = rest + strcspn(rest, "?");
    put(&out, rest, (size_t)(query - rest));
    put_pairs(&out, query, true);
}
