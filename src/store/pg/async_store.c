/* async_store.c - the PostgreSQL store without waiting: see core/async_store.h.
 *
 * Three connections: one claims, one settles and extends, one listens (doorbell.c). A slow claim does not delay settles, and an
 * extend is sent after a settle without waiting for its answer. One epoll descriptor covers all sockets.
 *
 * The host sees one claim, one settle and one extend. Below it there are two lanes, the log and the queue; which of them a message is
 * in, only async_claim.c, async_settle.c, async_eject.c and log.c know. Each request of the host becomes one transaction or a few in a row,
 * and is answered exactly once, also after any failure. Reporting an answer to the host needs no allocation.
 *
 * One thread. Must not know when to retry after a failure. */
#include "store/pg/async_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "store/pg/render.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

enum { FALLBACK_US = 500000, TIMEOUT_US = 30000000 };

static const struct ob_pg_async *async_of_const(const struct ob_async_store *base)
{
    return (const struct ob_pg_async *)(const void *)base;
}

/* ---- sockets ---- */

/* epoll drops a socket that libpq closes, and its descriptor number may be reused: so every new connection is registered again,
 * whatever its number. */
static void watch(struct ob_pg_async *async, int which, int fd, short events, uint64_t dials, bool sure)
{
    struct ob_pg_watch *told = &async->watches[which];
    if (sure && told->fd == fd && told->events == events && told->dials == dials)
        return;
    *told = (struct ob_pg_watch){fd, events, dials};
    struct epoll_event event = {.events = (uint32_t)events, .data.u32 = (uint32_t)which};
    if (fd >= 0 && epoll_ctl(async->epoll, EPOLL_CTL_MOD, fd, &event) && errno == ENOENT)
        (void)epoll_ctl(async->epoll, EPOLL_CTL_ADD, fd, &event); /* if it fails, deadlines still fire */
}

static void watch_all(struct ob_pg_async *async)
{
    short events;
    for (int i = OB_PG_CLAIMS; i <= OB_PG_SETTLES; i++) {
        const struct ob_pg_async_conn *async_conn = &async->conns[i];
        int fd = ob_pg_async_conn_fd(async_conn, &events);
        watch(async, i, fd, events, async_conn->dials, async_conn->step != OB_PG_CONNECTING);
    }
    int fd = ob_pg_doorbell_fd(async->doorbell, &events);
    watch(async, OB_PG_BELL, fd, events, 0, fd < 0);
}

/* ---- requests ---- */

void ob_pg_async_send(struct ob_pg_async *async, int conn, struct ob_pg_request *request)
{
    struct outbox_error err;
    if (ob_pg_request_seal(request)) {
        ob_pg_async_conn_send(&async->conns[conn], request);
    } else {
        ob_error_nomem(&err);
        ob_pg_request_fail(request, &err);
    }
    watch_all(async);
}

int64_t ob_pg_async_deadline(int64_t timeout_us)
{
    int64_t now_us = ob_clock_boot_us();
    return timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
}

/* A server that refuses this call, or reports a conflict, is reachable. */
void ob_pg_async_heard(struct ob_pg_async *async, const struct outbox_error *err)
{
    async->connected = err->code == OUTBOX_OK || ob_code_class(err->code) == OUTBOX_CLASS_CALLER ||
                       err->code == OUTBOX_CONFLICT || err->code == OUTBOX_BUSY;
    if (async->connected)
        async->fault = (struct outbox_error){.code = OUTBOX_OK};
    else
        async->fault = *err;
}

/* ---- waking ---- */

static void listen_on(struct ob_pg_async *async)
{
    struct outbox_error err;
    ob_pg_doorbell_pump(async->doorbell);
    enum ob_doorbell_state state = ob_pg_doorbell_state(async->doorbell);
    if (ob_pg_doorbell_fault(async->doorbell, &err))
        async->doorbell_fault = err;
    else if (state != OB_DOORBELL_OFF && state != OB_DOORBELL_OPENING)
        async->doorbell_fault.code = OUTBOX_OK;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When to poll though no producer rang; never while a claim is under way. */
static int64_t fallback_at(const struct ob_pg_async *async)
{
    return async->claiming.step == OB_PG_CLAIM_NONE ? async->looked_us + async->fallback_us : INT64_MAX;
}

/* When to look again for a reason of our own; likewise. */
static int64_t look_at(const struct ob_pg_async *async)
{
    return async->claiming.step == OB_PG_CLAIM_NONE ? async->wake_us : INT64_MAX;
}

static void wake(struct ob_pg_async *async, int64_t now_us)
{
    enum ob_doorbell_reason look = ob_pg_doorbell_wake(async->doorbell);
    bool polls = now_us >= fallback_at(async);
    if (look == OB_WAKE_NOT && !polls && now_us < look_at(async))
        return;
    /* A busy relay looks all the time: the queue has a pace of its own then. */
    bool stirred = polls || (look != OB_WAKE_NOT && look != OB_WAKE_BUSY);
    ob_pg_async_stir(async, true, stirred);
    async->wake_us = INT64_MAX;
    async->woken_again = !stirred;
    async->looked_us = now_us;
    async->wakeups += look == OB_WAKE_RANG;
    async->host.woken(async->host.ctx);
}

/* ---- for the host ---- */

static void async_step(struct ob_async_store *base)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    struct epoll_event events[OB_PG_SOCKETS];
    unsigned ready = 0;
    int count = epoll_wait(async->epoll, events, OB_PG_SOCKETS, 0);
    for (int i = 0; i < count; i++)
        ready |= 1u << events[i].data.u32;
    int64_t now_us = ob_clock_boot_us();
    for (int i = OB_PG_CLAIMS; i <= OB_PG_SETTLES; i++)
        ob_pg_async_conn_step(&async->conns[i], ready & 1u << i, now_us);
    if (ready & 1u << OB_PG_BELL || ob_pg_doorbell_due_us(async->doorbell) <= now_us)
        listen_on(async);
    bool claimed = ob_pg_async_claim_ready(async); /* a callback may start the next: its answer is for the next step */
    ob_pg_async_settle_go_on(async, now_us);
    if (claimed)
        ob_pg_async_claim_go_on(async);
    wake(async, now_us);
    watch_all(async);
}

static int async_fd(const struct ob_async_store *base)
{
    return async_of_const(base)->epoll;
}

static int64_t async_due_us(const struct ob_async_store *base)
{
    const struct ob_pg_async *async = async_of_const(base);
    if (ob_pg_async_claim_ready(async))
        return 0;
    const int64_t dues[] = {ob_pg_async_conn_due_us(&async->conns[OB_PG_CLAIMS]),
                            ob_pg_async_conn_due_us(&async->conns[OB_PG_SETTLES]),
                            ob_pg_doorbell_due_us(async->doorbell),
                            ob_pg_async_settle_due_us(async),
                            fallback_at(async),
                            look_at(async)};
    int64_t due_us = INT64_MAX;
    for (size_t i = 0; i < sizeof dues / sizeof dues[0]; i++)
        due_us = earlier(dues[i], due_us);
    return due_us > 0 ? due_us : 0;
}

/* The store has two connections. Their first connects count as one, so that each further one is a reconnect. */
static uint64_t connects(const struct ob_pg_async *async)
{
    uint64_t claims = async->conns[OB_PG_CLAIMS].connects, settles = async->conns[OB_PG_SETTLES].connects;
    return claims + settles - (claims > 0 && settles > 0);
}

static void async_state(const struct ob_async_store *base, struct ob_async_store_state *state)
{
    const struct ob_pg_async *async = async_of_const(base);
    *state = (struct ob_async_store_state){
        .connected = async->connected,
        .polling = ob_pg_doorbell_state(async->doorbell) == OB_DOORBELL_POLLING,
        .connects = connects(async),
        .wakeups = async->wakeups,
        .fault = async->fault.code ? async->fault : async->doorbell_fault,
    };
}

/* ---- life ---- */

static void async_close(struct ob_async_store *base)
{
    if (!base)
        return;
    struct ob_pg_async *async = ob_pg_async_of(base);
    for (int i = OB_PG_CLAIMS; i <= OB_PG_SETTLES; i++)
        ob_pg_async_conn_fini(&async->conns[i]);
    ob_pg_async_claim_fini(async);
    ob_pg_async_settle_fini(async);
    ob_pg_log_fini(&async->log);
    ob_pg_doorbell_free(async->doorbell);
    for (size_t i = 0; i < OB_PG_STMT_COUNT; i++)
        ob_free(async->common.sql[i]);
    ob_free(async->common.conninfo);
    ob_free(async->common.application);
    ob_free(async->common.schema);
    ob_free(async->common.worker);
    if (async->epoll >= 0)
        close(async->epoll);
    ob_free(async);
}

static void async_pace(struct ob_async_store *base, int64_t fallback_us)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    async->fallback_us = fallback_us;
    ob_pg_doorbell_pace(async->doorbell, fallback_us);
}

static const struct ob_async_store_ops ops = {
    .kind = "postgresql",
    .close = async_close,
    .claim = ob_pg_async_claim,
    .settle = ob_pg_async_settle,
    .extend = ob_pg_async_extend,
    .fd = async_fd,
    .due_us = async_due_us,
    .step = async_step,
    .state = async_state,
    .pace = async_pace,
};

static ob_code settle_in(struct ob_pg_async *async, const struct ob_async_store_options *options,
                         struct outbox_error *err)
{
    struct ob_pg_conn_common *common = &async->common;
    common->conninfo = ob_strdup(options->url);
    common->schema = ob_strdup(options->schema ? options->schema : "outbox");
    common->application = ob_strdup(options->application ? options->application : "outbox");
    common->relaxed = options->relaxed;
    common->log = options->log;
    common->worker = options->worker ? ob_strdup(options->worker) : NULL;
    if (!common->conninfo || !common->schema || !common->application || (options->worker && !common->worker))
        return ob_error_nomem(err);
    static const enum ob_pg_stmt asked[] = {OB_PG_claim,  OB_PG_take,          OB_PG_page,  OB_PG_rebase,
                                            OB_PG_settle, OB_PG_settle_window, OB_PG_extend};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        ob_code code = ob_pg_stmt_render(asked[i], common->schema, &common->sql[asked[i]], err);
        if (code)
            return code;
    }
    struct ob_pg_doorbell_options doorbell = {
        .conninfo = common->conninfo,
        .application = common->application,
        .schema = common->schema,
        .settings = {.fallback_us = async->fallback_us, .polling = options->polling},
        .log = options->log,
    };
    return ob_pg_doorbell_new(&doorbell, &async->doorbell, err);
}

/* Nonces must not repeat in any store. Without random bytes, the clock and the address must do. */
static uint64_t random_number(const struct ob_pg_async *async)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = (uint64_t)ob_clock_wall_us() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)async;
    return number;
}

ob_code ob_pg_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                         struct outbox_error *err)
{
    *out = NULL;
    ob_code code = ob_pg_check(options->url, err);
    if (!code && options->schema)
        code = ob_pg_schema_check(options->schema, err);
    if (code)
        return code;
    struct ob_pg_async *async = ob_calloc(1, sizeof *async);
    if (!async)
        return ob_error_nomem(err);
    ob_pg_log_init(&async->log, random_number(async));
    async->timeout_us = options->timeout_us > 0 ? options->timeout_us : TIMEOUT_US;
    async->wake_us = INT64_MAX;
    async->base.ops = &ops;
    async->host = options->host;
    async->fallback_us = options->fallback_us > 0 ? options->fallback_us : FALLBACK_US;
    async->looked_us = ob_clock_boot_us();
    for (int i = 0; i < OB_PG_SOCKETS; i++)
        async->watches[i].fd = -1;
    for (int i = OB_PG_CLAIMS; i <= OB_PG_SETTLES; i++)
        ob_pg_async_conn_init(&async->conns[i], &async->common, i == OB_PG_CLAIMS ? "claims" : "settles");
    /* Hooks run in settles: a slow one is cancelled before the connection is given up. */
    async->conns[OB_PG_SETTLES].limit_us = options->timeout_us * 4 / 5;
    async->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (async->epoll < 0)
        code = ob_error_set(err, OUTBOX_INTERNAL, "epoll: %s", strerror(errno));
    else
        code = settle_in(async, options, err);
    if (code)
        async_close(&async->base);
    else
        *out = &async->base;
    return code;
}
