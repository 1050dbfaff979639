/* doorbell.c - the doorbell's connection: jobs of core/doorbell.h become statements, results become answers.
 *
 * The connection is used for nothing else, so that unlocking everything unlocks the doorbell, waiting in the lock's queue
 * blocks no other work, and closing it is always safe. No statement runs in a transaction block: LISTEN would hold up the
 * server's notification queue for its duration.
 *
 * Opening has these steps, one statement each:
 *
 *   RESOLVING ──▶ CONNECTING ──▶ HELLO ──▶ LISTENING ──▶ SESSION ──▶ READY
 *                                  └──the server's process is not the one that libpq was told of──▶ a pooler is in between
 *
 * A pooler answers in place of the server and reports its own process number. With transaction pooling, a session's LISTEN and
 * locks would end up in another client's session, so HELLO leaves no trace, and nothing is sent after it.
 *
 * One thread. Must not know of claims or settles. */
#include "store/pg/doorbell.h"

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

struct ob_pg_doorbell {
    struct ob_doorbell core;
    const char *conninfo, *application, *schema; /* borrowed */
    const struct ob_log *log;                    /* borrowed */
    char number[12];                             /* of the doorbell, as text */
    char patience_ms[24];                        /* how long the server lets an idle session hold the lock */

    struct ob_pg_dial *dial; /* while RESOLVING */
    PGconn *conn;            /* from CONNECTING on */
    PGcancel *cancel;
    enum step step;
    PostgresPollingStatusType connecting; /* what PQconnectPoll waits for */
    bool flushing;                        /* there is unsent output */
    PGresult *res;                        /* of the statement under way: its last result, or its first error */
    int64_t opening_until_us;
    char fence[XID_TEXT];

    bool said_lost; /* until it is connected again */
    struct outbox_error fault;
};

enum outbox_code ob_pg_doorbell_new(const struct ob_pg_doorbell_options *options, struct ob_pg_doorbell **out,
                                    struct outbox_error *err)
{
    struct ob_pg_doorbell *doorbell = *out = ob_calloc(1, sizeof *doorbell);
    if (!doorbell)
        return ob_error_nomem(err);
    struct ob_doorbell_settings settings = options->settings;
    settings.own = options->number != 0;
    ob_doorbell_init(&doorbell->core, &settings, ob_clock_boot_us());
    doorbell->conninfo = options->conninfo;
    doorbell->application = options->application;
    doorbell->schema = options->schema;
    doorbell->log = options->log;
    snprintf(doorbell->number, sizeof doorbell->number, "%d", options->number);
    snprintf(doorbell->patience_ms, sizeof doorbell->patience_ms, "%lld",
             (long long)doorbell->core.set.beat_us * 3 / 1000);
    return OUTBOX_OK;
}

/* ---- closing ---- */

static void cancel(struct ob_pg_doorbell *doorbell)
{
    char why[256];
    if (doorbell->cancel && !PQcancel(doorbell->cancel, why, sizeof why))
        ob_log(doorbell->log, OB_LOG_DEBUG, "doorbell: cannot cancel", OB_STR("error", why));
}

static void hang_up(struct ob_pg_doorbell *doorbell)
{
    /* A backend that waits in the lock's queue does not notice at once that we are gone, and would silence producers. */
    if (doorbell->conn && doorbell->core.out == OB_DOORBELL_ASK)
        cancel(doorbell);
    PQclear(doorbell->res);
    ob_pg_dial_free(doorbell->dial);
    PQfreeCancel(doorbell->cancel);
    PQfinish(doorbell->conn);
    doorbell->res = NULL;
    doorbell->dial = NULL;
    doorbell->cancel = NULL;
    doorbell->conn = NULL;
    doorbell->flushing = false;
    doorbell->step = CLOSED;
}

void ob_pg_doorbell_free(struct ob_pg_doorbell *doorbell)
{
    if (!doorbell)
        return;
    hang_up(doorbell);
    ob_free(doorbell);
}

static void lost(struct ob_pg_doorbell *doorbell, const char *why, int64_t now_us)
{
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(why, "\n"), why);
    if (!doorbell->said_lost)
        ob_log(doorbell->log, OB_LOG_WARN, "doorbell disconnected: polling", OB_STR("error", line),
               OB_INT("every_ms", doorbell->core.set.fallback_us / 1000));
    doorbell->said_lost = true;
    ob_doorbell_lost(&doorbell->core, now_us);
    hang_up(doorbell);
}

/* The statement failed for a reason that a new connection may not fix. */
static void broken(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    struct outbox_error err;
    struct ob_pg_cause cause = {.conn = doorbell->conn, .schema = doorbell->schema, .role = "relay"};
    ob_pg_error(&cause, doorbell->res, &err);
    if (err.class_ != OUTBOX_CLASS_RETRY)
        doorbell->fault = err;
    lost(doorbell, err.text, now_us);
}

/* ---- sending ---- */

static void send_text(struct ob_pg_doorbell *doorbell, const char *sql, int count, const char *const *params,
                      int64_t now_us)
{
    int sent = count < 0 ? PQsendQuery(doorbell->conn, sql)
                         : PQsendQueryParams(doorbell->conn, sql, count, NULL, params, NULL, NULL, 0);
    doorbell->flushing = true;
    if (!sent)
        lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
}

static void send_file(struct ob_pg_doorbell *doorbell, const char *name, int count, const char *const *params,
                      int64_t now_us)
{
    struct ob_buf sql = OB_BUF_INIT;
    ob_pg_render(&sql, ob_sql_find(ob_pg_statements, ob_pg_statements_count, name)->text, doorbell->schema);
    if (ob_buf_ok(&sql))
        send_text(doorbell, ob_buf_text(&sql), count, params, now_us);
    else
        lost(doorbell, "out of memory", now_us);
    ob_buf_fini(&sql);
}

static void cannot_connect(struct ob_pg_doorbell *doorbell, const struct outbox_error *err, int64_t now_us)
{
    if (err->class_ != OUTBOX_CLASS_RETRY)
        doorbell->fault = *err;
    lost(doorbell, err->text, now_us);
}

static void open_connection(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    struct outbox_error err;
    doorbell->opening_until_us = now_us + OPEN_TIMEOUT_US;
    if (ob_pg_dial_start(doorbell->conninfo, doorbell->application, 0, &doorbell->dial, &err))
        cannot_connect(doorbell, &err, now_us);
    else
        doorbell->step = RESOLVING;
}

static void go_on_dialing(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    struct outbox_error err;
    if (ob_pg_dial_go(doorbell->dial, &doorbell->conn, &err)) {
        cannot_connect(doorbell, &err, now_us);
    } else if (doorbell->conn) {
        ob_pg_dial_free(doorbell->dial);
        doorbell->dial = NULL;
        doorbell->step = CONNECTING;
        doorbell->connecting = PGRES_POLLING_WRITING;
    }
}

static void start(struct ob_pg_doorbell *doorbell, enum ob_doorbell_job job, int64_t now_us)
{
    switch (job) {
    case OB_DOORBELL_OPEN: open_connection(doorbell, now_us); break;
    case OB_DOORBELL_CLOSE: hang_up(doorbell); break;
    case OB_DOORBELL_CANCEL: cancel(doorbell); break;
    case OB_DOORBELL_ASK:
        send_file(doorbell, "doorbell_ask.sql", 2, (const char *const[]){doorbell->number, doorbell->patience_ms},
                  now_us);
        break;
    case OB_DOORBELL_UNLOCK: send_file(doorbell, "doorbell_unlock.sql", 0, NULL, now_us); break;
    case OB_DOORBELL_MARK: send_file(doorbell, "doorbell_mark.sql", 0, NULL, now_us); break;
    case OB_DOORBELL_PROBE:
        send_file(doorbell, "doorbell_probe.sql", 1, (const char *const[]){doorbell->fence}, now_us);
        break;
    case OB_DOORBELL_BEAT: send_file(doorbell, "doorbell_beat.sql", 0, NULL, now_us); break;
    case OB_DOORBELL_CROWD: send_file(doorbell, "doorbell_crowd.sql", 0, NULL, now_us); break;
    default: break;
    }
}

/* ---- opening, step by step ---- */

/* Each row of HELLO names a channel. A channel is an identifier, so it is quoted and put into the SQL text. */
static void send_listen(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    static const char mark[] = "@channel@";
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "listen.sql")->text;
    const char *at = strstr(text, mark);
    struct ob_buf sql = OB_BUF_INIT;
    for (int row = 0; row < PQntuples(doorbell->res); row++) {
        ob_buf_put(&sql, text, (size_t)(at - text));
        ob_pg_quote(&sql, PQgetvalue(doorbell->res, row, 1), "");
        ob_buf_puts(&sql, at + strlen(mark));
        ob_buf_puts(&sql, ";\n");
    }
    if (ob_buf_ok(&sql))
        send_text(doorbell, ob_buf_text(&sql), -1, NULL, now_us);
    else
        lost(doorbell, "out of memory", now_us);
    ob_buf_fini(&sql);
}

static void greeted(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    if (PQntuples(doorbell->res) < 1 ||
        strtol(PQgetvalue(doorbell->res, 0, 0), NULL, 10) != PQbackendPID(doorbell->conn)) {
        ob_log(doorbell->log, OB_LOG_WARN,
               "doorbell unavailable behind a connection pooler: polling. For wake-ups, connect to the server directly",
               OB_INT("every_ms", doorbell->core.set.fallback_us / 1000));
        ob_doorbell_answered(&doorbell->core, OB_DOORBELL_OPEN, OB_DOORBELL_POOLED, now_us);
        hang_up(doorbell);
        return;
    }
    doorbell->step = LISTENING;
    send_listen(doorbell, now_us);
}

static void opened(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    doorbell->step = READY;
    doorbell->cancel = PQgetCancel(doorbell->conn);
    if (doorbell->said_lost)
        ob_log(doorbell->log, OB_LOG_INFO, "doorbell connected again");
    doorbell->said_lost = false;
    ob_doorbell_answered(&doorbell->core, OB_DOORBELL_OPEN, OB_DOORBELL_DONE, now_us);
}

/* The socket is ready for what PQconnectPoll wants, or the time is up. */
static void go_on_connecting(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    doorbell->connecting = PQconnectPoll(doorbell->conn);
    if (doorbell->connecting == PGRES_POLLING_FAILED) {
        lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
    } else if (doorbell->connecting == PGRES_POLLING_OK) {
        doorbell->step = HELLO;
        if (PQsetnonblocking(doorbell->conn, 1) != 0)
            lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
        else
            send_file(doorbell, "doorbell_hello.sql", 1, (const char *const[]){doorbell->number}, now_us);
    }
}

/* ---- receiving ---- */

static bool succeeded(const PGresult *res)
{
    return PQresultStatus(res) == PGRES_TUPLES_OK || PQresultStatus(res) == PGRES_COMMAND_OK;
}

/* True once all results of the statement have arrived; keeps the first error, otherwise the last result. */
static bool collect(struct ob_pg_doorbell *doorbell)
{
    while (!PQisBusy(doorbell->conn)) {
        PGresult *res = PQgetResult(doorbell->conn);
        if (!res)
            return true;
        if (doorbell->res && !succeeded(doorbell->res)) {
            PQclear(res);
            continue;
        }
        PQclear(doorbell->res);
        doorbell->res = res;
    }
    return false;
}

static void opening_answered(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    if (!succeeded(doorbell->res)) {
        broken(doorbell, now_us);
        return;
    }
    switch (doorbell->step) {
    case HELLO: greeted(doorbell, now_us); break;
    case LISTENING:
        doorbell->step = SESSION;
        send_file(doorbell, "doorbell_session.sql", 0, NULL, now_us);
        break;
    default: opened(doorbell, now_us); break;
    }
}

static enum ob_doorbell_answer answer_of(struct ob_pg_doorbell *doorbell)
{
    if (!succeeded(doorbell->res))
        return OB_DOORBELL_FAILED;
    if (doorbell->core.out == OB_DOORBELL_MARK)
        snprintf(doorbell->fence, sizeof doorbell->fence, "%s", PQgetvalue(doorbell->res, 0, 0));
    bool requests = doorbell->core.out == OB_DOORBELL_PROBE || doorbell->core.out == OB_DOORBELL_CROWD;
    if (requests && strcmp(PQgetvalue(doorbell->res, 0, 0), "true") != 0)
        return OB_DOORBELL_NOT_YET;
    return OB_DOORBELL_DONE;
}

static void answered(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    if (doorbell->step != READY) {
        opening_answered(doorbell, now_us);
    } else if (PQstatus(doorbell->conn) != CONNECTION_OK) {
        lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
    } else {
        enum ob_doorbell_answer answer = answer_of(doorbell);
        if (answer == OB_DOORBELL_FAILED)
            ob_log(doorbell->log, OB_LOG_DEBUG, "doorbell: refused",
                   OB_STR("job", ob_doorbell_job_name(doorbell->core.out)),
                   OB_STR("error", PQresultErrorMessage(doorbell->res)));
        ob_doorbell_answered(&doorbell->core, doorbell->core.out, answer, now_us);
    }
    /* A statement sent meanwhile has no result yet. */
    PQclear(doorbell->res);
    doorbell->res = NULL;
}

static bool socket_ready(const struct ob_pg_doorbell *doorbell)
{
    short events;
    struct pollfd fd = {.fd = ob_pg_doorbell_fd(doorbell, &events)};
    fd.events = events;
    return poll(&fd, 1, 0) > 0;
}

static void receive(struct ob_pg_doorbell *doorbell, int64_t now_us)
{
    if (doorbell->step == RESOLVING)
        go_on_dialing(doorbell, now_us);
    if (doorbell->step == CONNECTING && socket_ready(doorbell))
        go_on_connecting(doorbell, now_us);
    if (doorbell->step != CLOSED && doorbell->step != READY && now_us >= doorbell->opening_until_us)
        lost(doorbell, "it took too long", now_us);
    if (doorbell->step == CLOSED || doorbell->step == RESOLVING || doorbell->step == CONNECTING)
        return;
    if (!PQconsumeInput(doorbell->conn)) {
        lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
        return;
    }
    if (doorbell->core.out != OB_DOORBELL_NOTHING && collect(doorbell))
        answered(doorbell, now_us);
    for (PGnotify *note; doorbell->conn && (note = PQnotifies(doorbell->conn)); PQfreemem(note))
        ob_doorbell_rang(&doorbell->core, now_us);
}

/* ---- for the caller ---- */

void ob_pg_doorbell_pump(struct ob_pg_doorbell *doorbell)
{
    int64_t now_us = ob_clock_boot_us();
    enum ob_doorbell_state was = doorbell->core.state;
    receive(doorbell, now_us);
    for (enum ob_doorbell_job job; (job = ob_doorbell_next(&doorbell->core, now_us)) != OB_DOORBELL_NOTHING;)
        start(doorbell, job, now_us);
    if (doorbell->flushing && doorbell->conn) {
        int left = PQflush(doorbell->conn);
        doorbell->flushing = left > 0;
        if (left < 0)
            lost(doorbell, PQerrorMessage(doorbell->conn), now_us);
    }
    if (doorbell->core.state != was)
        ob_log(doorbell->log, OB_LOG_DEBUG, "doorbell", OB_STR("from", ob_doorbell_state_name(was)),
               OB_STR("to", ob_doorbell_state_name(doorbell->core.state)));
}

void ob_pg_doorbell_claiming(struct ob_pg_doorbell *doorbell)
{
    if (doorbell)
        ob_doorbell_claiming(&doorbell->core, ob_clock_boot_us());
}

void ob_pg_doorbell_claimed(struct ob_pg_doorbell *doorbell, size_t count, bool full, bool filtered)
{
    if (!doorbell)
        return;
    ob_doorbell_claimed(&doorbell->core, count, full, filtered, ob_clock_boot_us());
    ob_pg_doorbell_pump(doorbell);
}

int ob_pg_doorbell_fd(const struct ob_pg_doorbell *doorbell, short *events)
{
    if (doorbell->step == CONNECTING)
        *events = doorbell->connecting == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    else
        *events = (short)(POLLIN | (doorbell->flushing ? POLLOUT : 0));
    if (doorbell->step == RESOLVING)
        return ob_pg_dial_fd(doorbell->dial);
    return doorbell->conn ? PQsocket(doorbell->conn) : -1;
}

int64_t ob_pg_doorbell_due_us(const struct ob_pg_doorbell *doorbell)
{
    int64_t due_us = ob_doorbell_due_us(&doorbell->core);
    bool opening = doorbell->step != CLOSED && doorbell->step != READY;
    if (doorbell->dial && ob_pg_dial_due_us(doorbell->dial) < due_us)
        due_us = ob_pg_dial_due_us(doorbell->dial);
    return opening && doorbell->opening_until_us < due_us ? doorbell->opening_until_us : due_us;
}

enum ob_doorbell_reason ob_pg_doorbell_wake(struct ob_pg_doorbell *doorbell)
{
    return ob_doorbell_wake(&doorbell->core, ob_clock_boot_us());
}

enum ob_doorbell_state ob_pg_doorbell_state(const struct ob_pg_doorbell *doorbell)
{
    return doorbell->core.state;
}

void ob_pg_doorbell_pace(struct ob_pg_doorbell *doorbell, int64_t fallback_us)
{
    doorbell->core.set.fallback_us = fallback_us;
}

enum outbox_code ob_pg_doorbell_fault(struct ob_pg_doorbell *doorbell, struct outbox_error *err)
{
    enum outbox_code code = doorbell->fault.code;
    if (code && err)
        *err = doorbell->fault;
    doorbell->fault = (struct outbox_error){0};
    return code;
}

/* Sleeps until the socket is ready or until_us; false after a signal. */
static bool sleep_until(const struct ob_pg_doorbell *doorbell, int64_t until_us)
{
    int64_t left_us = until_us - ob_clock_boot_us();
    if (left_us <= 0)
        return true;
    short events;
    struct pollfd fd = {.fd = ob_pg_doorbell_fd(doorbell, &events)};
    fd.events = events;
    struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
    return ppoll(&fd, 1, &left, NULL) >= 0;
}

enum outbox_code ob_pg_doorbell_wait(struct ob_pg_doorbell *doorbell, int64_t timeout_us, enum ob_doorbell_reason *look,
                                     struct outbox_error *err)
{
    int64_t now_us = ob_clock_boot_us();
    int64_t deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    for (;;) {
        ob_pg_doorbell_pump(doorbell);
        *look = ob_pg_doorbell_wake(doorbell);
        enum outbox_code code = ob_pg_doorbell_fault(doorbell, err);
        if (code || *look != OB_WAKE_NOT || ob_clock_boot_us() >= deadline_us)
            return code;
        int64_t due_us = ob_pg_doorbell_due_us(doorbell);
        if (!sleep_until(doorbell, due_us < deadline_us ? due_us : deadline_us))
            return OUTBOX_OK;
    }
}
