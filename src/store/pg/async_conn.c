/* async_conn.c - see async_conn.h.
 *
 * What libpq returns in pipeline mode for a statement that is also prepared: a result for the prepare, NULL, a result for the
 * execution, NULL; and after the last statement of a request a result for the sync. After an error, everything up to the sync is "aborted". The session's
 * set-up is sent first, so its answer comes first. */
#include "store/pg/async_conn.h"

#include "base/clock.h"
#include "pg_statements.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { EMPTIES_MAX = 4 };

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
        ob_pg_request_fail(async_conn->requests[i], err);
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

static bool send_part(struct ob_pg_async_conn *async_conn, struct ob_pg_part *part)
{
    PGconn *conn = async_conn->conn;
    const struct ob_pg_params *p = &part->params;
    const char *sql = async_conn->common->sql[part->which];
    char name[64];
    if (async_conn->unnamed)
        return PQsendQueryParams(conn, sql, p->count, NULL, p->values, p->lengths, p->formats, 1);
    snprintf(name, sizeof name, "ob_%d_%llx_%u", (int)part->which, (unsigned long long)async_conn->number,
             async_conn->epoch);
    part->preparing = !async_conn->prepared[part->which];
    async_conn->prepared[part->which] = true;
    return (!part->preparing || PQsendPrepare(conn, name, sql, 0, NULL)) &&
           PQsendQueryPrepared(conn, name, p->count, p->values, p->lengths, p->formats, 1);
}

static bool send_request(struct ob_pg_async_conn *async_conn, struct ob_pg_request *request)
{
    request->state = OB_PG_SENT;
    async_conn->flushing = true;
    for (int i = 0; i < request->count; i++)
        if (!send_part(async_conn, &request->parts[i]))
            return false;
    return PQpipelineSync(async_conn->conn);
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
        if (async_conn->requests[i]->state == OB_PG_QUEUED && !send_request(async_conn, async_conn->requests[i])) {
            lost_with(async_conn, NULL);
            return;
        }
    }
    flush(async_conn);
}

void ob_pg_async_conn_send(struct ob_pg_async_conn *async_conn, struct ob_pg_request *request)
{
    assert(async_conn->count < OB_PG_REQUESTS_MAX);
    ob_pg_request_queue(request);
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

/* What a failed request leaves behind in the session. */
static void note_failure(struct ob_pg_async_conn *async_conn, const struct ob_pg_request *request)
{
    bool hooks = false;
    for (int i = 0; i < request->count; i++) {
        const struct ob_pg_part *part = &request->parts[i];
        if (part->preparing)
            async_conn->prepared[part->which] = false;
        hooks = hooks || ob_pg_stmt_hooks(part->which);
    }
    if (hooks)
        prepare_anew(async_conn);
}

/* The sync of the first request has arrived, so its answer is complete. */
static void answered(struct ob_pg_async_conn *async_conn)
{
    struct ob_pg_request *request = pop(async_conn);
    if (!request->failure && request->answered == request->count) {
        request->state = OB_PG_DONE;
        return;
    }
    if (!request->repeated && forgotten(async_conn, request->failure)) {
        request->repeated = true;
        ob_pg_async_conn_send(async_conn, request);
        return;
    }
    struct outbox_error err;
    int at = request->answered < request->count ? request->answered : request->count - 1;
    note_failure(async_conn, request);
    ob_pg_error(
        &(struct ob_pg_cause){async_conn->conn, async_conn->common->schema, ob_pg_stmt_role(request->parts[at].which)},
        request->failure, &err);
    ob_pg_request_fail(request, &err);
    /* A read-only server is a former primary or a standby: another connection may reach the server that accepts writes. */
    async_conn->turn += err.code == OUTBOX_READONLY;
    if (ob_pg_lost(async_conn->conn, err.code) || err.code == OUTBOX_READONLY)
        lost(async_conn, &err);
}

/* Handles one result. False: the connection is lost. */
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
    if (request)
        ob_pg_request_keep(request, res);
    else
        PQclear(res);
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
