/* aconn.c - see aconn.h.
 *
 * What libpq says in pipeline mode, for an ask whose statement is prepared on the way: a result for the prepare, NULL, a
 * result for the execution, NULL, a result for the sync. After an error the rest up to the sync is "aborted". The set-up
 * of the session is sent first, and its answer therefore comes first. */
#include "store/pg/aconn.h"

#include "base/clock.h"
#include "pg_statements.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { EMPTIES_MAX = 4 };

/* ---- asks ---- */

static void finish(struct ob_pg_ask *ask, PGresult *res, const struct outbox_error *err)
{
    PQclear(ask->res);
    ask->res = res;
    ask->err = err ? *err : (struct outbox_error){.code = OUTBOX_OK};
    ask->state = OB_PG_DONE;
}

void ob_pg_ask_fail(struct ob_pg_ask *ask, const struct outbox_error *err)
{
    finish(ask, NULL, err);
}

void ob_pg_ask_reset(struct ob_pg_ask *ask)
{
    PQclear(ask->res);
    ask->res = NULL;
    ask->state = OB_PG_IDLE;
    ask->preparing = ask->repeated = false;
}

void ob_pg_ask_fini(struct ob_pg_ask *ask)
{
    ob_pg_ask_reset(ask);
    ob_buf_fini(&ask->scratch);
}

/* ---- opening and closing ---- */

void ob_pg_aconn_init(struct ob_pg_aconn *aconn, const struct ob_pg_home *home, const char *name)
{
    *aconn = (struct ob_pg_aconn){.home = home, .name = name};
    /* Without chance the address must do: a clash only costs a prepare. */
    if (getrandom(&aconn->number, sizeof aconn->number, GRND_NONBLOCK) != sizeof aconn->number)
        aconn->number = (uint64_t)(uintptr_t)aconn ^ (uint64_t)ob_clock_wall_us();
}

static void hang_up(struct ob_pg_aconn *aconn)
{
    ob_pg_dial_free(aconn->dial);
    aconn->dial = NULL;
    PQfinish(aconn->conn);
    aconn->conn = NULL;
    aconn->step = OB_PG_CLOSED;
    aconn->flushing = false;
    aconn->unnamed = false;
    aconn->empties = 0;
    memset(aconn->prepared, 0, sizeof aconn->prepared);
}

void ob_pg_aconn_fini(struct ob_pg_aconn *aconn)
{
    hang_up(aconn);
    aconn->count = 0;
}

/* The connection is of no more use: whoever asked on it hears so. An ask that has an error of its own keeps it. */
static void lost(struct ob_pg_aconn *aconn, const struct outbox_error *err)
{
    hang_up(aconn);
    size_t count = aconn->count;
    aconn->count = 0;
    for (size_t i = 0; i < count && i < OB_PG_ASKS_MAX; i++)
        finish(aconn->asks[i], NULL, err);
}

static void lost_with(struct ob_pg_aconn *aconn, const PGresult *res)
{
    struct outbox_error err;
    ob_pg_error(&(struct ob_pg_cause){.conn = aconn->conn, .schema = aconn->home->schema, .role = "relay"}, res, &err);
    if (err.code != OUTBOX_UNREACHABLE && PQstatus(aconn->conn) != CONNECTION_OK)
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the connection was lost");
    lost(aconn, &err);
}

static void cannot_connect(struct ob_pg_aconn *aconn)
{
    struct outbox_error err;
    ob_pg_connect_failed(aconn->conn, &err);
    lost(aconn, &err);
}

static void dial(struct ob_pg_aconn *aconn)
{
    struct outbox_error err;
    const struct ob_pg_home *home = aconn->home;
    aconn->dials++;
    if (ob_pg_dial_start(home->conninfo, home->application, aconn->turn, &aconn->dial, &err))
        lost(aconn, &err);
    else
        aconn->step = OB_PG_RESOLVING;
}

static void go_on_dialing(struct ob_pg_aconn *aconn)
{
    struct outbox_error err;
    if (ob_pg_dial_go(aconn->dial, &aconn->conn, &err)) {
        aconn->turn++;
        lost(aconn, &err);
    } else if (aconn->conn) {
        ob_pg_dial_free(aconn->dial);
        aconn->dial = NULL;
        aconn->step = OB_PG_CONNECTING;
        aconn->connecting = PGRES_POLLING_WRITING;
    }
}

static bool send_text(PGconn *conn, const char *file)
{
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, file)->text;
    return PQsendQueryParams(conn, text, 0, NULL, NULL, NULL, NULL, 0);
}

static bool send_limit(struct ob_pg_aconn *aconn)
{
    const char *text = ob_sql_find(ob_pg_statements, ob_pg_statements_count, "session_limit.sql")->text;
    char limit[32];
    const char *const values[] = {limit};
    snprintf(limit, sizeof limit, "%lld", (long long)aconn->limit_us / 1000);
    return !aconn->limit_us || PQsendQueryParams(aconn->conn, text, 1, NULL, values, NULL, NULL, 0);
}

static void send_asks(struct ob_pg_aconn *aconn);

static void connected(struct ob_pg_aconn *aconn)
{
    PGconn *conn = aconn->conn;
    struct outbox_error err;
    if (ob_pg_check_server(conn, &err)) {
        lost(aconn, &err);
        return;
    }
    aconn->step = OB_PG_SETTING_UP;
    aconn->connects++;
    if (PQsetnonblocking(conn, 1) != 0 || !PQenterPipelineMode(conn) || !send_text(conn, "session.sql") ||
        (aconn->home->relaxed && !send_text(conn, "session_relaxed.sql")) || !send_limit(aconn) ||
        !PQpipelineSync(conn)) {
        lost_with(aconn, NULL);
        return;
    }
    aconn->flushing = true;
    send_asks(aconn);
}

static void go_on_connecting(struct ob_pg_aconn *aconn)
{
    aconn->connecting = PQconnectPoll(aconn->conn);
    if (aconn->connecting == PGRES_POLLING_FAILED)
        cannot_connect(aconn);
    else if (aconn->connecting == PGRES_POLLING_OK)
        connected(aconn);
}

/* ---- sending ---- */

static bool send_ask(struct ob_pg_aconn *aconn, struct ob_pg_ask *ask)
{
    PGconn *conn = aconn->conn;
    const struct ob_pg_params *p = &ask->params;
    const char *sql = aconn->home->sql[ask->which];
    char name[64];
    snprintf(name, sizeof name, "ob_%d_%llx_%u", (int)ask->which, (unsigned long long)aconn->number, aconn->generation);
    bool sent;
    if (aconn->unnamed) {
        sent = PQsendQueryParams(conn, sql, p->count, NULL, p->values, p->lengths, p->formats, 1);
    } else {
        ask->preparing = !aconn->prepared[ask->which];
        sent = !ask->preparing || PQsendPrepare(conn, name, sql, 0, NULL);
        sent = sent && PQsendQueryPrepared(conn, name, p->count, p->values, p->lengths, p->formats, 1);
    }
    aconn->prepared[ask->which] = true;
    ask->state = OB_PG_SENT;
    aconn->flushing = true;
    return sent && PQpipelineSync(conn);
}

static void flush(struct ob_pg_aconn *aconn)
{
    if (!aconn->flushing || !aconn->conn)
        return;
    int left = PQflush(aconn->conn);
    aconn->flushing = left > 0;
    if (left < 0)
        lost_with(aconn, NULL);
}

static void send_asks(struct ob_pg_aconn *aconn)
{
    for (size_t i = 0; i < aconn->count; i++) {
        if (aconn->asks[i]->state == OB_PG_QUEUED && !send_ask(aconn, aconn->asks[i])) {
            lost_with(aconn, NULL);
            return;
        }
    }
    flush(aconn);
}

void ob_pg_aconn_ask(struct ob_pg_aconn *aconn, struct ob_pg_ask *ask)
{
    PQclear(ask->res);
    ask->res = NULL;
    ask->state = OB_PG_QUEUED;
    aconn->asks[aconn->count++] = ask;
    if (aconn->step == OB_PG_CLOSED)
        dial(aconn);
    else if (aconn->step > OB_PG_CONNECTING)
        send_asks(aconn);
}

/* ---- receiving ---- */

static bool is_state(const PGresult *res, const char *state)
{
    const char *has = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    return has && strcmp(has, state) == 0;
}

static void prepare_anew(struct ob_pg_aconn *aconn)
{
    aconn->generation++;
    memset(aconn->prepared, 0, sizeof aconn->prepared);
}

/* The server does not know the statement any more, or another by its name: see stmt.c. */
static bool forgotten(struct ob_pg_aconn *aconn, const PGresult *res)
{
    if (is_state(res, "26000") || is_state(res, "42P05"))
        aconn->unnamed = true;
    else if (!is_state(res, "0A000"))
        return false;
    prepare_anew(aconn);
    return true;
}

static struct ob_pg_ask *pop(struct ob_pg_aconn *aconn)
{
    struct ob_pg_ask *ask = aconn->asks[0];
    memmove(aconn->asks, aconn->asks + 1, --aconn->count * sizeof aconn->asks[0]);
    return ask;
}

/* The sync of the first ask is there: so is all that it will get. */
static void answered(struct ob_pg_aconn *aconn)
{
    struct ob_pg_ask *ask = pop(aconn);
    PGresult *res = ask->res;
    ask->res = NULL;
    if (PQresultStatus(res) == PGRES_TUPLES_OK) {
        finish(ask, res, NULL);
        return;
    }
    if (!ask->repeated && forgotten(aconn, res)) {
        PQclear(res);
        ask->repeated = true;
        ob_pg_aconn_ask(aconn, ask);
        return;
    }
    struct outbox_error err;
    if (ask->preparing)
        aconn->prepared[ask->which] = false;
    if (ob_pg_stmt_hooks(ask->which))
        prepare_anew(aconn);
    ob_pg_error(&(struct ob_pg_cause){aconn->conn, aconn->home->schema, ob_pg_stmt_role(ask->which)}, res, &err);
    PQclear(res);
    finish(ask, NULL, &err);
    /* Read-only is an old primary that came back, or a standby: another connection may lead to the server that takes
     * writes. */
    aconn->turn += err.code == OUTBOX_READONLY;
    if (ob_pg_lost(aconn->conn, err.code) || err.code == OUTBOX_READONLY)
        lost(aconn, &err);
}

/* One result. The first failure of an ask is kept, else the rows. False: the connection is gone. */
static bool take(struct ob_pg_aconn *aconn, PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);
    struct ob_pg_ask *ask = aconn->step == OB_PG_READY && aconn->count ? aconn->asks[0] : NULL;
    bool failed = status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
    if (failed && (!ask || PQstatus(aconn->conn) != CONNECTION_OK)) {
        lost_with(aconn, res);
        PQclear(res);
        return false;
    }
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(res);
        if (aconn->step == OB_PG_SETTING_UP)
            aconn->step = OB_PG_READY;
        else if (ask)
            answered(aconn);
        return aconn->conn != NULL;
    }
    if (ask && status == PGRES_COMMAND_OK)
        ask->preparing = false;
    bool keep =
        ask && (failed || status == PGRES_TUPLES_OK) && !(ask->res && PQresultStatus(ask->res) != PGRES_TUPLES_OK);
    if (keep) {
        PQclear(ask->res);
        ask->res = res;
    } else {
        PQclear(res);
    }
    return true;
}

static bool expects(const struct ob_pg_aconn *aconn)
{
    return aconn->step == OB_PG_SETTING_UP || (aconn->count && aconn->asks[0]->state == OB_PG_SENT);
}

static void receive(struct ob_pg_aconn *aconn)
{
    bool open = PQconsumeInput(aconn->conn); /* what the server said before it hung up may still be there */
    while (expects(aconn) && !PQisBusy(aconn->conn)) {
        PGresult *res = PQgetResult(aconn->conn);
        aconn->empties = res ? 0 : aconn->empties + 1;
        if (res ? !take(aconn, res) : aconn->empties > EMPTIES_MAX)
            break;
    }
    if (aconn->conn && (!open || aconn->empties > EMPTIES_MAX))
        lost_with(aconn, NULL);
}

/* ---- for the caller ---- */

static void too_late(struct ob_pg_aconn *aconn)
{
    struct outbox_error err;
    if (aconn->step == OB_PG_CONNECTING) {
        const char *host = PQhost(aconn->conn);
        ob_error_set(&err, OUTBOX_UNREACHABLE, "cannot connect: no answer in time from %s",
                     host && *host ? host : "the server");
        aconn->turn++;
    } else if (aconn->step == OB_PG_RESOLVING) {
        const char *name = ob_pg_dial_awaits(aconn->dial);
        ob_error_set(&err, OUTBOX_UNREACHABLE, "cannot connect: no name server said in time what the address of %s is",
                     name ? name : "the server");
    } else {
        ob_error_set(&err, OUTBOX_UNREACHABLE, "the server did not answer in time; the next call connects again");
    }
    lost(aconn, &err);
}

static int64_t deadline_us(const struct ob_pg_aconn *aconn)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < aconn->count; i++)
        if (aconn->asks[i]->deadline_us < due)
            due = aconn->asks[i]->deadline_us;
    return due;
}

void ob_pg_aconn_step(struct ob_pg_aconn *aconn, bool ready, int64_t now_us)
{
    if (aconn->step == OB_PG_RESOLVING)
        go_on_dialing(aconn);
    else if (ready && aconn->step == OB_PG_CONNECTING)
        go_on_connecting(aconn);
    else if (ready && aconn->conn)
        receive(aconn);
    flush(aconn);
    if (deadline_us(aconn) <= now_us)
        too_late(aconn);
}

int ob_pg_aconn_fd(const struct ob_pg_aconn *aconn, short *events)
{
    if (aconn->step == OB_PG_CONNECTING)
        *events = aconn->connecting == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    else
        *events = (short)(POLLIN | (aconn->flushing ? POLLOUT : 0));
    if (aconn->step == OB_PG_RESOLVING) {
        *events = POLLIN;
        return ob_pg_dial_fd(aconn->dial);
    }
    return aconn->conn ? PQsocket(aconn->conn) : -1;
}

int64_t ob_pg_aconn_due_us(const struct ob_pg_aconn *aconn)
{
    int64_t due = deadline_us(aconn), resolved = aconn->dial ? ob_pg_dial_due_us(aconn->dial) : INT64_MAX;
    return due < resolved ? due : resolved;
}
