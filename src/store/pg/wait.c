/* wait.c - sleeps until somebody enqueued: LISTEN on a connection of its own, so that no transaction of the store's is
 * in the way, and poll(2) on its socket. Whoever gets no bell still wakes at the timeout.
 *
 * What was enqueued before the LISTEN rang for nobody; therefore the first wait on a new connection returns at once. */
#include "store/pg/pg.h"

#include "base/clock.h"
#include "pg_statements.h"
#include "store/pg/render.h"

#include "base/alloc.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static void hang_up(struct ob_pg_store *store)
{
    PQfinish(store->listener);
    store->listener = NULL;
}

/* The channel is an identifier, so it is put into the text, quoted. */
static ob_code listen_on(struct ob_pg_store *store, const char *channel, struct outbox_error *err)
{
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "listen.sql")->text;
    struct ob_buf sql = OB_BUF_INIT;
    const char *at = strstr(text, "@channel@");
    ob_buf_put(&sql, text, (size_t)(at - text));
    ob_pg_quote(&sql, channel, "");
    ob_buf_puts(&sql, at + strlen("@channel@"));
    PGresult *res = ob_buf_ok(&sql) ? PQexec(store->listener, ob_buf_text(&sql)) : NULL;
    ob_code code = OUTBOX_OK;
    if (!ob_buf_ok(&sql))
        code = ob_error_nomem(err);
    else if (PQresultStatus(res) != PGRES_COMMAND_OK)
        code = ob_pg_error(&(struct ob_pg_cause){.conn = store->listener}, res, err);
    PQclear(res);
    ob_buf_fini(&sql);
    return code;
}

static ob_code connect_listener(struct ob_pg_store *store, struct outbox_error *err)
{
    ob_code code = ob_pg_connect(store->conninfo, store->application, &store->listener, err);
    if (code)
        return code;
    char *sql = NULL;
    PGresult *res = NULL;
    code = ob_pg_stmt_render(OB_PG_bell_channel, store->schema, &sql, err);
    if (code)
        goto done;
    res = PQexecParams(store->listener, sql, 0, NULL, NULL, NULL, NULL, 0);
    if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1)
        code = listen_on(store, PQgetvalue(res, 0, 0), err);
    else
        code = ob_pg_error(&(struct ob_pg_cause){.conn = store->listener,
                                                 .schema = store->schema,
                                                 .role = ob_pg_stmt_role(OB_PG_bell_channel)},
                           res, err);
done:
    PQclear(res);
    ob_free(sql);
    if (code)
        hang_up(store);
    return code;
}

static bool take_notifies(PGconn *conn)
{
    bool any = false;
    for (PGnotify *note; (note = PQnotifies(conn)); any = true)
        PQfreemem(note);
    return any;
}

/* Waits for the socket; *readable is false at the deadline. */
static ob_code wait_socket(PGconn *conn, int64_t deadline_us, bool *readable, struct outbox_error *err)
{
    int64_t left_us = deadline_us - ob_clock_mono_us();
    struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
    int ms = left_us <= 0 ? 0 : left_us / 1000 > 3600000 ? 3600000 : (int)((left_us + 999) / 1000);
    int n = poll(&fd, 1, ms);
    if (n < 0 && errno != EINTR)
        return ob_error_set(err, OUTBOX_DATABASE, "poll: %s", strerror(errno));
    *readable = n > 0;
    return OUTBOX_OK;
}

ob_code ob_pg_wait(struct ob_store *base, int64_t timeout_us, bool *woken, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    int64_t deadline_us = ob_clock_mono_us() + timeout_us;
    *woken = false;
    if (!store->listener) {
        ob_code code = connect_listener(store, err);
        *woken = code == OUTBOX_OK;
        return code;
    }
    for (;;) {
        if (take_notifies(store->listener)) {
            *woken = true;
            return OUTBOX_OK;
        }
        bool readable = false;
        ob_code code = wait_socket(store->listener, deadline_us, &readable, err);
        if (code)
            return code;
        if (readable && !PQconsumeInput(store->listener)) {
            code = ob_pg_error(&(struct ob_pg_cause){.conn = store->listener}, NULL, err);
            hang_up(store);
            return code;
        }
        if (!readable && ob_clock_mono_us() >= deadline_us)
            return OUTBOX_OK;
    }
}
