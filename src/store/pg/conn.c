/* conn.c - connecting, and hiding passwords.
 *
 * Nothing of libpq's may reach stderr: a library does not talk there. */
#include "store/pg/conn.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "pg_statements.h"
#include "store/pg/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void ignore_notice(void *ctx, const PGresult *res)
{
    (void)ctx;
    (void)res;
}

/* libpq's texts end with a newline and may have several lines. */
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
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "the server is PostgreSQL %d.%d, but Outbox needs %d or later",
                            version / 10000, version % 10000, OB_PG_SERVER_MIN / 10000);
    return OUTBOX_OK;
}

static enum outbox_code set_session(PGconn *conn, struct outbox_error *err)
{
    PQsetNoticeReceiver(conn, ignore_notice, NULL);
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

/* A '/', '@', ':' or '?' in a password that nobody encoded puts a part of it into the host, the port or the database, which
 * libpq and the server then repeat in their errors. */
static bool holds_password(const char *conninfo, const PQconninfoOption *option)
{
    if (!option->val)
        return false;
    if (strcmp(option->keyword, "host") == 0)
        return strchr(*option->val == '@' ? option->val + 1 : option->val, '@') != NULL;
    if (strcmp(option->keyword, "port") == 0)
        return option->val[strspn(option->val, "0123456789, ")] != '\0';
    /* An encoded one is meant. */
    return strcmp(option->keyword, "dbname") == 0 && strstr(conninfo, "://") && strchr(option->val, '@') &&
           strstr(conninfo, option->val);
}

/* Why a conninfo cannot be used; NULL: it can. libpq's own words may quote the password, so they are not passed on. */
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
    return strange ? "a '/', '@', ':' or '?' in a user name or a password is written %2F, %40, %3A, %3F" : NULL;
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

/* Hosts in another order than the conninfo's; NULL: in that one. */
struct hosts {
    char *host, *hostaddr, *port;
};

/* "a,b,c" by one: "b,c,a". NULL: nothing to turn, or no memory. */
static char *turned(const char *list, int turn)
{
    int count = 1;
    for (const char *c = list; c && *c; c++)
        count += *c == ',';
    turn = count > 1 ? turn % count : 0;
    if (!turn)
        return NULL;
    const char *at = list;
    for (; turn; turn--)
        at = strchr(at, ',') + 1;
    struct ob_buf buf = OB_BUF_INIT;
    ob_buf_puts(&buf, at);
    ob_buf_putc(&buf, ',');
    ob_buf_put(&buf, list, (size_t)(at - list) - 1);
    char *text = ob_buf_take(&buf);
    ob_buf_fini(&buf);
    return text;
}

static void hosts_init(struct hosts *hosts, const char *conninfo, int turn)
{
    *hosts = (struct hosts){0};
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    for (const PQconninfoOption *option = options; option && option->keyword; option++) {
        if (strcmp(option->keyword, "host") == 0)
            hosts->host = turned(option->val, turn);
        else if (strcmp(option->keyword, "hostaddr") == 0)
            hosts->hostaddr = turned(option->val, turn);
        else if (strcmp(option->keyword, "port") == 0)
            hosts->port = turned(option->val, turn);
    }
    PQconninfoFree(options);
}

static void hosts_fini(struct hosts *hosts)
{
    ob_free(hosts->host);
    ob_free(hosts->hostaddr);
    ob_free(hosts->port);
}

/* Begins to connect, or connects. NULL: no memory. */
static PGconn *dial(const char *conninfo, const char *application, bool start, const struct hosts *hosts)
{
    /* What stands before dbname gives way to the conninfo; what stands after it does not. A peer that vanished must be
     * noticed within a lease, not after the kernel's two hours. */
    const char *const keys[] = {"connect_timeout",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "tcp_user_timeout",
                                "fallback_application_name",
                                "dbname",
                                "client_encoding",
                                "host",
                                "hostaddr",
                                "port",
                                NULL};
    const char *const values[] = {getenv("PGCONNECT_TIMEOUT") ? NULL : "10",
                                  "10",
                                  "5",
                                  "3",
                                  "25000",
                                  application ? application : "outbox",
                                  conninfo,
                                  "UTF8",
                                  hosts ? hosts->host : NULL,
                                  hosts ? hosts->hostaddr : NULL,
                                  hosts ? hosts->port : NULL,
                                  NULL};
    return start ? PQconnectStartParams(keys, values, 1) : PQconnectdbParams(keys, values, 1);
}

enum outbox_code ob_pg_connect(const char *conninfo, const char *application, PGconn **conn, struct outbox_error *err)
{
    *conn = NULL;
    enum outbox_code code = ob_pg_check(conninfo, err);
    if (code)
        return code;
    PGconn *made = dial(conninfo, application, false, NULL);
    if (!made)
        return ob_error_nomem(err);
    code = PQstatus(made) == CONNECTION_OK ? set_session(made, err) : ob_pg_connect_failed(made, err);
    if (code)
        PQfinish(made);
    else
        *conn = made;
    return code;
}

enum outbox_code ob_pg_connect_start(const char *conninfo, const char *application, PGconn **conn,
                                     struct outbox_error *err)
{
    return ob_pg_connect_turn(conninfo, application, 0, conn, err);
}

enum outbox_code ob_pg_connect_turn(const char *conninfo, const char *application, int turn, PGconn **conn,
                                    struct outbox_error *err)
{
    struct hosts hosts;
    *conn = NULL;
    enum outbox_code code = ob_pg_check(conninfo, err);
    if (code)
        return code;
    hosts_init(&hosts, conninfo, turn);
    PGconn *made = dial(conninfo, application, true, &hosts);
    hosts_fini(&hosts);
    if (!made)
        return ob_error_nomem(err);
    if (PQstatus(made) == CONNECTION_BAD) {
        code = ob_pg_connect_failed(made, err);
        PQfinish(made);
        return code;
    }
    PQsetNoticeReceiver(made, ignore_notice, NULL);
    *conn = made;
    return OUTBOX_OK;
}

enum outbox_code ob_pg_reconnect(PGconn *conn, struct outbox_error *err)
{
    PQreset(conn);
    return PQstatus(conn) == CONNECTION_OK ? set_session(conn, err) : ob_pg_connect_failed(conn, err);
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

/* The length of the word at the beginning that ends the name of a secret; 0: there is none. */
static size_t secret_word(const char *text)
{
    static const char *const words[] = {"password", "secret", "client_key", "server_key"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncasecmp(text, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

/* "password=x" and "sslpassword = 'x y'" lose their values. */
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
    if (fault_of(conninfo, &nomem)) { /* where its password is, nobody knows: show the shape only */
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
