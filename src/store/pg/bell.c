/* bell.c - the doorbell's connection: jobs of core/doorbell.h become statements, results become answers.
 *
 * The connection is used for nothing else, so that unlocking everything unlocks the bell, a wait in the lock's queue is
 * in nobody's way, and closing it is always a way out. No statement runs in a transaction: LISTEN would hold the
 * server's queue of notifications for all of it.
 *
 * Opening has steps of its own, one statement each:
 *
 *   RESOLVING ──▶ CONNECTING ──▶ HELLO ──▶ LISTENING ──▶ SESSION ──▶ READY
 *                                  └──the server's process is not the one that libpq was told of──▶ a pooler is in between
 *
 * A pooler answers for the server and hands out a process number of its own. Behind one that pools transactions a
 * session's LISTEN and locks would belong to somebody else, so HELLO leaves no trace, and nothing comes after it.
 *
 * One thread. Must not know of claims or settles. */
#include "store/pg/bell.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "pg_statements.h"
#include "store/pg/conn.h"
#include "store/pg/dial.h"
#include "store/pg/render.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum step { CLOSED, RESOLVING, CONNECTING, HELLO, LISTENING, SESSION, READY };

enum { OPEN_TIMEOUT_US = 10000000, XID_TEXT = 24 };

struct ob_pg_bell {
    struct ob_doorbell core;
    const char *conninfo, *application, *schema; /* borrowed */
    const struct ob_log *log;                    /* borrowed */
    char number[12];                             /* of the bell, as text */
    char patience_ms[24];                        /* how long the server lets us hold the lock without a sign of life */

    struct ob_pg_dial *dial; /* while RESOLVING */
    PGconn *conn;            /* from CONNECTING on */
    PGcancel *cancel;
    enum step step;
    PostgresPollingStatusType connecting; /* what PQconnectPoll waits for */
    bool flushing;                        /* output is left */
    PGresult *res;                        /* of the statement that is out: its last result, or its first error */
    int64_t opening_until_us;
    char fence[XID_TEXT];

    bool said_lost; /* until it is connected again */
    struct outbox_error fault;
};

enum outbox_code ob_pg_bell_new(const struct ob_pg_bell_options *options, struct ob_pg_bell **out,
                                struct outbox_error *err)
{
    struct ob_pg_bell *bell = *out = ob_calloc(1, sizeof *bell);
    if (!bell)
        return ob_error_nomem(err);
    struct ob_doorbell_settings settings = options->settings;
    settings.own = options->number != 0;
    ob_doorbell_init(&bell->core, &settings, ob_clock_boot_us());
    bell->conninfo = options->conninfo;
    bell->application = options->application;
    bell->schema = options->schema;
    bell->log = options->log;
    snprintf(bell->number, sizeof bell->number, "%d", options->number);
    snprintf(bell->patience_ms, sizeof bell->patience_ms, "%lld", (long long)bell->core.set.beat_us * 3 / 1000);
    return OUTBOX_OK;
}

/* ---- closing ---- */

static void cancel(struct ob_pg_bell *bell)
{
    char why[256];
    if (bell->cancel && !PQcancel(bell->cancel, why, sizeof why))
        ob_log(bell->log, OB_LOG_DEBUG, "doorbell: cannot cancel", OB_STR("error", why));
}

static void hang_up(struct ob_pg_bell *bell)
{
    /* A server that waits in the lock's queue does not see at once that we are gone, and would silence producers. */
    if (bell->conn && bell->core.out == OB_BELL_ASK)
        cancel(bell);
    PQclear(bell->res);
    ob_pg_dial_free(bell->dial);
    PQfreeCancel(bell->cancel);
    PQfinish(bell->conn);
    bell->res = NULL;
    bell->dial = NULL;
    bell->cancel = NULL;
    bell->conn = NULL;
    bell->flushing = false;
    bell->step = CLOSED;
}

void ob_pg_bell_free(struct ob_pg_bell *bell)
{
    if (!bell)
        return;
    hang_up(bell);
    ob_free(bell);
}

static void lost(struct ob_pg_bell *bell, const char *why, int64_t now_us)
{
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(why, "\n"), why);
    if (!bell->said_lost)
        ob_log(bell->log, OB_LOG_WARN, "doorbell: no connection; looking by itself until there is one",
               OB_STR("error", line), OB_INT("every_ms", bell->core.set.fallback_us / 1000));
    bell->said_lost = true;
    ob_doorbell_lost(&bell->core, now_us);
    hang_up(bell);
}

/* The statement failed for a reason that a new connection may not mend. */
static void broken(struct ob_pg_bell *bell, int64_t now_us)
{
    struct outbox_error err;
    struct ob_pg_cause cause = {.conn = bell->conn, .schema = bell->schema, .role = "relay"};
    ob_pg_error(&cause, bell->res, &err);
    if (err.class_ != OUTBOX_CLASS_RETRY)
        bell->fault = err;
    lost(bell, err.text, now_us);
}

/* ---- sending ---- */

static void send_text(struct ob_pg_bell *bell, const char *sql, int count, const char *const *params, int64_t now_us)
{
    int sent = count < 0 ? PQsendQuery(bell->conn, sql)
                         : PQsendQueryParams(bell->conn, sql, count, NULL, params, NULL, NULL, 0);
    bell->flushing = true;
    if (!sent)
        lost(bell, PQerrorMessage(bell->conn), now_us);
}

static void send_file(struct ob_pg_bell *bell, const char *name, int count, const char *const *params, int64_t now_us)
{
    struct ob_buf sql = OB_BUF_INIT;
    ob_pg_render(&sql, ob_sql_find(ob_pg_statements, ob_pg_statements_count, name)->text, bell->schema);
    if (ob_buf_ok(&sql))
        send_text(bell, ob_buf_text(&sql), count, params, now_us);
    else
        lost(bell, "out of memory", now_us);
    ob_buf_fini(&sql);
}

static void cannot_connect(struct ob_pg_bell *bell, const struct outbox_error *err, int64_t now_us)
{
    if (err->class_ != OUTBOX_CLASS_RETRY)
        bell->fault = *err;
    lost(bell, err->text, now_us);
}

static void open_connection(struct ob_pg_bell *bell, int64_t now_us)
{
    struct outbox_error err;
    bell->opening_until_us = now_us + OPEN_TIMEOUT_US;
    if (ob_pg_dial_start(bell->conninfo, bell->application, 0, &bell->dial, &err))
        cannot_connect(bell, &err, now_us);
    else
        bell->step = RESOLVING;
}

static void go_on_dialing(struct ob_pg_bell *bell, int64_t now_us)
{
    struct outbox_error err;
    if (ob_pg_dial_go(bell->dial, &bell->conn, &err)) {
        cannot_connect(bell, &err, now_us);
    } else if (bell->conn) {
        ob_pg_dial_free(bell->dial);
        bell->dial = NULL;
        bell->step = CONNECTING;
        bell->connecting = PGRES_POLLING_WRITING;
    }
}

static void start(struct ob_pg_bell *bell, enum ob_bell_job job, int64_t now_us)
{
    switch (job) {
    case OB_BELL_OPEN: open_connection(bell, now_us); break;
    case OB_BELL_CLOSE: hang_up(bell); break;
    case OB_BELL_CANCEL: cancel(bell); break;
    case OB_BELL_ASK:
        send_file(bell, "bell_ask.sql", 2, (const char *const[]){bell->number, bell->patience_ms}, now_us);
        break;
    case OB_BELL_UNLOCK: send_file(bell, "bell_unlock.sql", 0, NULL, now_us); break;
    case OB_BELL_MARK: send_file(bell, "bell_mark.sql", 0, NULL, now_us); break;
    case OB_BELL_PROBE: send_file(bell, "bell_probe.sql", 1, (const char *const[]){bell->fence}, now_us); break;
    case OB_BELL_BEAT: send_file(bell, "bell_beat.sql", 0, NULL, now_us); break;
    case OB_BELL_CROWD: send_file(bell, "bell_crowd.sql", 0, NULL, now_us); break;
    default: break;
    }
}

/* ---- opening, step by step ---- */

/* HELLO's rows name a channel each. A channel is an identifier, so it is put into the text, quoted. */
static void send_listen(struct ob_pg_bell *bell, int64_t now_us)
{
    static const char mark[] = "@channel@";
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "listen.sql")->text;
    const char *at = strstr(text, mark);
    struct ob_buf sql = OB_BUF_INIT;
    for (int row = 0; row < PQntuples(bell->res); row++) {
        ob_buf_put(&sql, text, (size_t)(at - text));
        ob_pg_quote(&sql, PQgetvalue(bell->res, row, 1), "");
        ob_buf_puts(&sql, at + strlen(mark));
        ob_buf_puts(&sql, ";\n");
    }
    if (ob_buf_ok(&sql))
        send_text(bell, ob_buf_text(&sql), -1, NULL, now_us);
    else
        lost(bell, "out of memory", now_us);
    ob_buf_fini(&sql);
}

static void greeted(struct ob_pg_bell *bell, int64_t now_us)
{
    if (PQntuples(bell->res) < 1 || strtol(PQgetvalue(bell->res, 0, 0), NULL, 10) != PQbackendPID(bell->conn)) {
        ob_log(
            bell->log, OB_LOG_WARN,
            "doorbell: a pooler is between us and the server, so nobody can ring; polling instead. Connect directly to "
            "be woken",
            OB_INT("every_ms", bell->core.set.fallback_us / 1000));
        ob_doorbell_answered(&bell->core, OB_BELL_OPEN, OB_BELL_POOLED, now_us);
        hang_up(bell);
        return;
    }
    bell->step = LISTENING;
    send_listen(bell, now_us);
}

static void opened(struct ob_pg_bell *bell, int64_t now_us)
{
    bell->step = READY;
    bell->cancel = PQgetCancel(bell->conn);
    if (bell->said_lost)
        ob_log(bell->log, OB_LOG_INFO, "doorbell: connected again");
    bell->said_lost = false;
    ob_doorbell_answered(&bell->core, OB_BELL_OPEN, OB_BELL_DONE, now_us);
}

/* The socket is ready for what PQconnectPoll wants, or the time is up. */
static void go_on_connecting(struct ob_pg_bell *bell, int64_t now_us)
{
    bell->connecting = PQconnectPoll(bell->conn);
    if (bell->connecting == PGRES_POLLING_FAILED) {
        lost(bell, PQerrorMessage(bell->conn), now_us);
    } else if (bell->connecting == PGRES_POLLING_OK) {
        bell->step = HELLO;
        if (PQsetnonblocking(bell->conn, 1) != 0)
            lost(bell, PQerrorMessage(bell->conn), now_us);
        else
            send_file(bell, "bell_hello.sql", 1, (const char *const[]){bell->number}, now_us);
    }
}

/* ---- receiving ---- */

static bool succeeded(const PGresult *res)
{
    return PQresultStatus(res) == PGRES_TUPLES_OK || PQresultStatus(res) == PGRES_COMMAND_OK;
}

/* True once all results of the statement are there; the first error, else the last result, is kept. */
static bool collect(struct ob_pg_bell *bell)
{
    while (!PQisBusy(bell->conn)) {
        PGresult *res = PQgetResult(bell->conn);
        if (!res)
            return true;
        if (bell->res && !succeeded(bell->res)) {
            PQclear(res);
            continue;
        }
        PQclear(bell->res);
        bell->res = res;
    }
    return false;
}

static void opening_answered(struct ob_pg_bell *bell, int64_t now_us)
{
    if (!succeeded(bell->res)) {
        broken(bell, now_us);
        return;
    }
    switch (bell->step) {
    case HELLO: greeted(bell, now_us); break;
    case LISTENING:
        bell->step = SESSION;
        send_file(bell, "bell_session.sql", 0, NULL, now_us);
        break;
    default: opened(bell, now_us); break;
    }
}

static enum ob_bell_answer answer_of(struct ob_pg_bell *bell)
{
    if (!succeeded(bell->res))
        return OB_BELL_FAILED;
    if (bell->core.out == OB_BELL_MARK)
        snprintf(bell->fence, sizeof bell->fence, "%s", PQgetvalue(bell->res, 0, 0));
    bool asks = bell->core.out == OB_BELL_PROBE || bell->core.out == OB_BELL_CROWD;
    if (asks && strcmp(PQgetvalue(bell->res, 0, 0), "true") != 0)
        return OB_BELL_NOT_YET;
    return OB_BELL_DONE;
}

static void answered(struct ob_pg_bell *bell, int64_t now_us)
{
    if (bell->step != READY) {
        opening_answered(bell, now_us);
    } else if (PQstatus(bell->conn) != CONNECTION_OK) {
        lost(bell, PQerrorMessage(bell->conn), now_us);
    } else {
        enum ob_bell_answer answer = answer_of(bell);
        if (answer == OB_BELL_FAILED)
            ob_log(bell->log, OB_LOG_DEBUG, "doorbell: refused", OB_STR("job", ob_bell_job_name(bell->core.out)),
                   OB_STR("error", PQresultErrorMessage(bell->res)));
        ob_doorbell_answered(&bell->core, bell->core.out, answer, now_us);
    }
    /* A statement sent meanwhile has no result yet. */
    PQclear(bell->res);
    bell->res = NULL;
}

static bool socket_ready(const struct ob_pg_bell *bell)
{
    short events;
    struct pollfd fd = {.fd = ob_pg_bell_fd(bell, &events)};
    fd.events = events;
    return poll(&fd, 1, 0) > 0;
}

static void receive(struct ob_pg_bell *bell, int64_t now_us)
{
    if (bell->step == RESOLVING)
        go_on_dialing(bell, now_us);
    if (bell->step == CONNECTING && socket_ready(bell))
        go_on_connecting(bell, now_us);
    if (bell->step != CLOSED && bell->step != READY && now_us >= bell->opening_until_us)
        lost(bell, "it took too long", now_us);
    if (bell->step == CLOSED || bell->step == RESOLVING || bell->step == CONNECTING)
        return;
    if (!PQconsumeInput(bell->conn)) {
        lost(bell, PQerrorMessage(bell->conn), now_us);
        return;
    }
    if (bell->core.out != OB_BELL_NOTHING && collect(bell))
        answered(bell, now_us);
    for (PGnotify *note; bell->conn && (note = PQnotifies(bell->conn)); PQfreemem(note))
        ob_doorbell_rang(&bell->core, now_us);
}

/* ---- for the caller ---- */

void ob_pg_bell_pump(struct ob_pg_bell *bell)
{
    int64_t now_us = ob_clock_boot_us();
    enum ob_bell_state was = bell->core.state;
    receive(bell, now_us);
    for (enum ob_bell_job job; (job = ob_doorbell_next(&bell->core, now_us)) != OB_BELL_NOTHING;)
        start(bell, job, now_us);
    if (bell->flushing && bell->conn) {
        int left = PQflush(bell->conn);
        bell->flushing = left > 0;
        if (left < 0)
            lost(bell, PQerrorMessage(bell->conn), now_us);
    }
    if (bell->core.state != was)
        ob_log(bell->log, OB_LOG_DEBUG, "doorbell", OB_STR("from", ob_bell_state_name(was)),
               OB_STR("to", ob_bell_state_name(bell->core.state)));
}

void ob_pg_bell_claimed(struct ob_pg_bell *bell, size_t count, bool full, bool filtered)
{
    if (!bell)
        return;
    ob_doorbell_claimed(&bell->core, count, full, filtered, ob_clock_boot_us());
    ob_pg_bell_pump(bell);
}

int ob_pg_bell_fd(const struct ob_pg_bell *bell, short *events)
{
    if (bell->step == CONNECTING)
        *events = bell->connecting == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    else
        *events = (short)(POLLIN | (bell->flushing ? POLLOUT : 0));
    if (bell->step == RESOLVING)
        return ob_pg_dial_fd(bell->dial);
    return bell->conn ? PQsocket(bell->conn) : -1;
}

int64_t ob_pg_bell_due_us(const struct ob_pg_bell *bell)
{
    int64_t due_us = ob_doorbell_due_us(&bell->core);
    bool opening = bell->step != CLOSED && bell->step != READY;
    if (bell->dial && ob_pg_dial_due_us(bell->dial) < due_us)
        due_us = ob_pg_dial_due_us(bell->dial);
    return opening && bell->opening_until_us < due_us ? bell->opening_until_us : due_us;
}

enum ob_bell_look ob_pg_bell_look(struct ob_pg_bell *bell)
{
    return ob_doorbell_look(&bell->core, ob_clock_boot_us());
}

enum ob_bell_state ob_pg_bell_state(const struct ob_pg_bell *bell)
{
    return bell->core.state;
}

void ob_pg_bell_pace(struct ob_pg_bell *bell, int64_t fallback_us)
{
    bell->core.set.fallback_us = fallback_us;
}

enum outbox_code ob_pg_bell_fault(struct ob_pg_bell *bell, struct outbox_error *err)
{
    enum outbox_code code = bell->fault.code;
    if (code && err)
        *err = bell->fault;
    bell->fault = (struct outbox_error){0};
    return code;
}

/* Sleeps until the socket is ready, or until then; false after a signal. */
static bool sleep_until(const struct ob_pg_bell *bell, int64_t until_us)
{
    int64_t left_us = until_us - ob_clock_boot_us();
    if (left_us <= 0)
        return true;
    short events;
    struct pollfd fd = {.fd = ob_pg_bell_fd(bell, &events)};
    fd.events = events;
    struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
    return ppoll(&fd, 1, &left, NULL) >= 0;
}

enum outbox_code ob_pg_bell_wait(struct ob_pg_bell *bell, int64_t timeout_us, enum ob_bell_look *look,
                                 struct outbox_error *err)
{
    int64_t now_us = ob_clock_boot_us();
    int64_t deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    for (;;) {
        ob_pg_bell_pump(bell);
        *look = ob_pg_bell_look(bell);
        enum outbox_code code = ob_pg_bell_fault(bell, err);
        if (code || *look != OB_LOOK_NOT || ob_clock_boot_us() >= deadline_us)
            return code;
        int64_t due_us = ob_pg_bell_due_us(bell);
        if (!sleep_until(bell, due_us < deadline_us ? due_us : deadline_us))
            return OUTBOX_OK;
    }
}
