/* async_conn.c - see async_conn.h.
 *
 * What libpq returns in pipeline mode for a request that also prepares its statement: a result for the prepare, NULL, a
 * result for the execution, NULL, a result for the sync. After an error, everything up to the sync is "aborted". The session's
 * set-up is sent first, so its answer comes first. */
#include "store/pg/async_conn.h"

#include "base/clock.h"
#include "pg_statements.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { EMPTIES_MAX = 4 };

/* ---- requests ---- */

static void finish(struct ob_pg_request *request, PGresult *res, const struct outbox_error *err)
{
    PQclear(request->res);
    request->res = res;
    request->err = err ? *err : (struct outbox_error){.code = OUTBOX_OK};
    request->state = OB_PG_DONE;
}

void ob_pg_request_fail(struct ob_pg_request *request, const struct outbox_error *err)
{
    finish(request, NULL, err);
}

void ob_pg_request_reset(struct ob_pg_request *request)
{
    PQclear(request->res);
    request->res = NULL;
    request->state = OB_PG_IDLE;
    request->preparing = request->repeated = false;
}

void ob_pg_request_fini(struct ob_pg_request *request)
{
    ob_pg_request_reset(request);
    ob_buf_fini(&request->scratch);
}

/* ---- opening and closing ---- */

void ob_pg_async_conn_init(struct ob_pg_async_conn *async_conn, const struct ob_pg_conn_common *common,
                           const char *name)
{
    *async_conn = (struct ob_pg_async_conn){.common = common, .name = name};
    /* Without random bytes the address must do: a clash only costs a prepare. */
    if (getrandom(&async_conn->number, sizeof async_conn->number, GRND_NONBLOCK) != sizeof async_conn->number)
        async_conn->number = (uint64_t)(uintptr_t)async_conn ^ (uint64_t)ob_clock_wall_us();
}

static void hang_up(struct ob_pg_async_conn *async_conn)
{
    ob_pg_dial_free(async_conn->dial);
    async_conn->dial = NULL;
    PQfinish(async_conn->conn);
    async_conn->conn = NULL;
    async_conn->step = OB_PG_CLOSED;
    async_conn->flushing = false;
    async_conn->unnamed = false;
    async_conn->empties = 0;
    memset(async_conn->prepared, 0, sizeof async_conn->prepared);
}

void ob_pg_async_conn_fini(struct ob_pg_async_conn *async_conn)
{
    hang_up(async_conn);
    async_conn->count = 0;
}

/* The connection is lost: all its requests fail. A request that already has its own error keeps it. */
static void lost(struct ob_pg_async_conn *async_conn, const struct outbox_error *err)
{
    hang_up(async_conn);
    size_t count = async_conn->count;
    async_conn->count = 0;
    for (size_t i = 0; i < count && i < OB_PG_REQUESTS_MAX; i++)
        finish(async_conn->requests[i], NULL, err);
}

static void lost_with(struct ob_pg_async_conn *async_conn, const PGresult *res)
{
    struct outbox_error err;
    ob_pg_error(&(struct ob_pg_cause){.conn = async_conn->conn, .schema = async_conn->common->schema, .role = "relay"},
                res, &err);
    if (err.code != OUTBOX_UNREACHABLE && PQstatus(async_conn->conn) != CONNECTION_OK)
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the connection was lost");
    lost(async_conn, &err);
}

static void cannot_connect(struct ob_pg_async_conn *async_conn)
{
    struct outbox_error err;
    ob_pg_connect_failed(async_conn->conn, &err);
    lost(async_conn, &err);
}

static void dial(struct ob_pg_async_conn *async_conn)
{
    struct outbox_error err;
    const struct ob_pg_conn_common *common = async_conn->common;
    async_conn->dials++;
    if (ob_pg_dial_start(common->conninfo, common->application, async_conn->turn, &async_conn->dial, &err))
        lost(async_conn, &err);
    else
        async_conn->step = OB_PG_RESOLVING;
}

static void go_on_dialing(struct ob_pg_async_conn *async_conn)
{
    struct outbox_error err;
    if (ob_pg_dial_go(async_conn->dial, &async_conn->conn, &err)) {
        async_conn->turn++;
        lost(async_conn, &err);
    } else if (async_conn->conn) {
        ob_pg_dial_free(async_conn->dial);
        async_conn->dial = NULL;
        async_conn->step = OB_PG_CONNECTING;
        async_conn->connecting = PGRES_POLLING_WRITING;
    }
}

static bool send_text(PGconn *conn, const char *file)
{
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, file)->text;
    return PQsendQueryParams(conn, text, 0, NULL, NULL, NULL, NULL, 0);
}

static bool send_limit(struct ob_pg_async_conn *async_conn)
{
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "session_limit.sql")->text;
    char limit[32];
    const char *const values[] = {limit};
    snprintf(limit, sizeof limit, "%lld", (long long)async_conn->limit_us / 1000);
    return !async_conn->limit_us || PQsendQueryParams(async_conn->conn, text, 1, NULL, values, NULL, NULL, 0);
}

static void send_requests(struct ob_pg_async_conn *async_conn);

static void connected(struct ob_pg_async_conn *async_conn)
{
    PGconn *conn = async_conn->conn;
    struct outbox_error err;
    if (ob_pg_check_server(conn, &err)) {
        lost(async_conn, &err);
        return;
    }
    async_conn->step = OB_PG_SETTING_UP;
    async_conn->connects++;
    if (PQsetnonblocking(conn, 1) != 0 || !PQenterPipelineMode(conn) || !send_text(conn, "session.sql") ||
        (async_conn->common->relaxed && !send_text(conn, "session_relaxed.sql")) || !send_limit(async_conn) ||
        !PQpipelineSync(conn)) {
        lost_with(async_conn, NULL);
        return;
    }
    async_conn->flushing = true;
    send_requests(async_conn);
}

static void go_on_connecting(struct ob_pg_async_conn *async_conn)
{
    async_conn->connecting = PQconnectPoll(async_conn->conn);
    if (async_conn->connecting == PGRES_POLLING_FAILED)
        cannot_connect(async_conn);
    else if (async_conn->connecting == PGRES_POLLING_OK)
        connected(async_conn);
}

/* ---- sending ---- */

static bool send_ask(struct ob_pg_async_conn *async_conn, struct ob_pg_request *request)
{
    PGconn *conn = async_conn->conn;
    const struct ob_pg_params *p = &request->params;
    const char *sql = async_conn->common->sql[request->which];
    char name[64];
    snprintf(name, sizeof name, "ob_%d_%llx_%u", (int)request->which, (unsigned long long)async_conn->number,
             async_conn->epoch);
    bool sent;
    if (async_conn->unnamed) {
        sent = PQsendQueryParams(conn, sql, p->count, NULL, p->values, p->lengths, p->formats, 1);
    } else {
        request->preparing = !async_conn->prepared[request->which];
        sent = !request->preparing || PQsendPrepare(conn, name, sql, 0, NULL);
        sent = sent && PQsendQueryPrepared(conn, name, p->count, p->values, p->lengths, p->formats, 1);
    }
    async_conn->prepared[request->which] = true;
    request->state = OB_PG_SENT;
    async_conn->flushing = true;
    return sent && PQpipelineSync(conn);
}

static void flush(struct ob_pg_async_conn *async_conn)
{
    if (!async_conn->flushing || !async_conn->conn)
        return;
    int left = PQflush(async_conn->conn);
    async_conn->flushing = left > 0;
    if (left < 0)
        lost_with(async_conn, NULL);
}

static void send_requests(struct ob_pg_async_conn *async_conn)
{
    for (size_t i = 0; i < async_conn->count; i++) {
        if (async_conn->requests[i]->state == OB_PG_QUEUED && !send_ask(async_conn, async_conn->requests[i])) {
            lost_with(async_conn, NULL);
            return;
        }
    }
    flush(async_conn);
}

void ob_pg_async_conn_send(struct ob_pg_async_conn *async_conn, struct ob_pg_request *request)
{
    PQclear(request->res);
    request->res = NULL;
    request->state = OB_PG_QUEUED;
    async_conn->requests[async_conn->count++] = request;
    if (async_conn->step == OB_PG_CLOSED)
        dial(async_conn);
    else if (async_conn->step > OB_PG_CONNECTING)
        send_requests(async_conn);
}

/* ---- receiving ---- */

static bool is_state(const PGresult *res, const char *state)
{
    const char *has = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    return has && strcmp(has, state) == 0;
}

static void prepare_anew(struct ob_pg_async_conn *async_conn)
{
    async_conn->epoch++;
    memset(async_conn->prepared, 0, sizeof async_conn->prepared);
}

/* The server no longer knows the statement, or has another one of that name: see stmt.c. */
static bool forgotten(struct ob_pg_async_conn *async_conn, const PGresult *res)
{
    if (is_state(res, "26000") || is_state(res, "42P05"))
        async_conn->unnamed = true;
    else if (!is_state(res, "0A000"))
        return false;
    prepare_anew(async_conn);
    return true;
}

static struct ob_pg_request *pop(struct ob_pg_async_conn *async_conn)
{
    struct ob_pg_request *request = async_conn->requests[0];
    memmove(async_conn->requests, async_conn->requests + 1, --async_conn->count * sizeof async_conn->requests[0]);
    return request;
}

/* The sync of the first request has arrived, so its answer is complete. */
static void answered(struct ob_pg_async_conn *async_conn)
{
    struct ob_pg_request *request = pop(async_conn);
    PGresult *res = request->res;
    request->res = NULL;
    if (PQresultStatus(res) == PGRES_TUPLES_OK) {
        finish(request, res, NULL);
        return;
    }
    if (!request->repeated && forgotten(async_conn, res)) {
        PQclear(res);
        request->repeated = true;
        ob_pg_async_conn_send(async_conn, request);
        return;
    }
    struct outbox_error err;
    if (request->preparing)
        async_conn->prepared[request->which] = false;
    if (ob_pg_stmt_hooks(request->which))
        prepare_anew(async_conn);
    ob_pg_error(&(struct ob_pg_cause){async_conn->conn, async_conn->common->schema, ob_pg_stmt_role(request->which)},
                res, &err);
    PQclear(res);
    finish(request, NULL, &err);
    /* A read-only server is a former primary or a standby: another connection may reach the server that accepts writes. */
    async_conn->turn += err.code == OUTBOX_READONLY;
    if (ob_pg_lost(async_conn->conn, err.code) || err.code == OUTBOX_READONLY)
        lost(async_conn, &err);
}

/* Handles one result: keeps the first failure of a request, otherwise its rows. False: the connection is lost. */
static bool take(struct ob_pg_async_conn *async_conn, PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);
    struct ob_pg_request *request =
        async_conn->step == OB_PG_READY && async_conn->count ? async_conn->requests[0] : NULL;
    bool failed = status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
    if (failed && (!request || PQstatus(async_conn->conn) != CONNECTION_OK)) {
        lost_with(async_conn, res);
        PQclear(res);
        return false;
    }
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(res);
        if (async_conn->step == OB_PG_SETTING_UP)
            async_conn->step = OB_PG_READY;
        else if (request)
            answered(async_conn);
        return async_conn->conn != NULL;
    }
    if (request && status == PGRES_COMMAND_OK)
        request->preparing = false;
    bool keep = request && (failed || status == PGRES_TUPLES_OK) &&
                !(request->res && PQresultStatus(request->res) != PGRES_TUPLES_OK);
    if (keep) {
        PQclear(request->res);
        request->res = res;
    } else {
        PQclear(res);
    }
    return true;
}

static bool expects(const struct ob_pg_async_conn *async_conn)
{
    return async_conn->step == OB_PG_SETTING_UP || (async_conn->count && async_conn->requests[0]->state == OB_PG_SENT);
}

static void receive(struct ob_pg_async_conn *async_conn)
{
    bool open = PQconsumeInput(async_conn->conn); /* what the server sent before it closed may still be buffered */
    while (expects(async_conn) && !PQisBusy(async_conn->conn)) {
        PGresult *res = PQgetResult(async_conn->conn);
        async_conn->empties = res ? 0 : async_conn->empties + 1;
        if (res ? !take(async_conn, res) : async_conn->empties > EMPTIES_MAX)
            break;
    }
    if (async_conn->conn && (!open || async_conn->empties > EMPTIES_MAX))
        lost_with(async_conn, NULL);
}

/* ---- for the caller ---- */

static void too_late(struct ob_pg_async_conn *async_conn)
{
    struct outbox_error err;
    if (async_conn->step == OB_PG_CONNECTING) {
        const char *host = PQhost(async_conn->conn);
        ob_error_set(&err, OUTBOX_UNREACHABLE, "cannot connect: no answer from %s in time",
                     host && *host ? host : "the server");
        async_conn->turn++;
    } else if (async_conn->step == OB_PG_RESOLVING) {
        const char *name = ob_pg_dial_awaits(async_conn->dial);
        ob_error_set(&err, OUTBOX_UNREACHABLE, "cannot connect: resolving %s timed out", name ? name : "the server");
    } else {
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the server did not answer in time; the next call connects again");
    }
    lost(async_conn, &err);
}

static int64_t deadline_us(const struct ob_pg_async_conn *async_conn)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < async_conn->count; i++)
        if (async_conn->requests[i]->deadline_us < due)
            due = async_conn->requests[i]->deadline_us;
    return due;
}

void ob_pg_async_conn_step(struct ob_pg_async_conn *async_conn, bool ready, int64_t now_us)
{
    if (async_conn->step == OB_PG_RESOLVING)
        go_on_dialing(async_conn);
    else if (ready && async_conn->step == OB_PG_CONNECTING)
        go_on_connecting(async_conn);
    else if (ready && async_conn->conn)
        receive(async_conn);
    flush(async_conn);
    if (deadline_us(async_conn) <= now_us)
        too_late(async_conn);
}

int ob_pg_async_conn_fd(const struct ob_pg_async_conn *async_conn, short *events)
{
    if (async_conn->step == OB_PG_CONNECTING)
        *events = async_conn->connecting == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    else
        *events = (short)(POLLIN | (async_conn->flushing ? POLLOUT : 0));
    if (async_conn->step == OB_PG_RESOLVING) {
        *events = POLLIN;
        return ob_pg_dial_fd(async_conn->dial);
    }
    return async_conn->conn ? PQsocket(async_conn->conn) : -1;
}

int64_t ob_pg_async_conn_due_us(const struct ob_pg_async_conn *async_conn)
{
    int64_t due = deadline_us(async_conn),
            resolved = async_conn->dial ? ob_pg_dial_due_us(async_conn->dial) : INT64_MAX;
    return due < resolved ? due : resolved;
}
