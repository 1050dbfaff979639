/* async_store.c - the PostgreSQL store without waiting: see core/async_store.h.
 *
 * Three connections: one claims, one settles and extends, one listens (doorbell.c). A slow claim does not delay settles, and an
 * extend is sent after a settle without waiting for its answer. One epoll descriptor covers all sockets.
 *
 * A request is IDLE, on a connection (async_conn.c), or DONE and reported in the next step. It becomes DONE on any failure too,
 * so every request is answered exactly once. Reporting an answer to the host needs no allocation.
 *
 * One thread. Must not know when to retry after a failure. */
#include "store/pg/async_conn.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/async_store.h"
#include "core/batch.h"
#include "store/pg/render.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CLAIMS, SETTLES, BELL, SOCKETS, FALLBACK_US = 500000 };

/* A socket as it is registered with epoll. */
struct watch {
    int fd;
    short events;
    uint64_t dials;
};

struct async {
    struct ob_async_store base; /* first: the ops find us by a cast */
    struct ob_async_store_host host;
    struct ob_pg_conn_common common; /* owns its texts */
    struct ob_pg_async_conn conns[BELL];
    struct ob_pg_doorbell *doorbell;
    struct watch watches[SOCKETS];
    int epoll;
    int64_t fallback_us;
    int64_t looked_us; /* the last claim, or call of woken */

    struct ob_pg_request claim, settle, extend;
    int limit;                               /* of the claim under way */
    bool filtered;                           /* likewise */
    struct outbox_settle *settles, *extends; /* the host's */
    size_t settle_count, extend_count;
    enum ob_pg_words words; /* of the settle under way */

    bool connected;
    uint64_t wakeups;
    struct outbox_error fault, doorbell_fault;
};

static struct async *async_of(struct ob_async_store *base)
{
    return (struct async *)(void *)base;
}

static const struct async *async_of_const(const struct ob_async_store *base)
{
    return (const struct async *)(const void *)base;
}

/* ---- sockets ---- */

/* epoll drops a socket that libpq closes, and its descriptor number may be reused: so every new connection is registered again,
 * whatever its number. */
static void watch(struct async *async, int which, int fd, short events, uint64_t dials, bool sure)
{
    struct watch *told = &async->watches[which];
    if (sure && told->fd == fd && told->events == events && told->dials == dials)
        return;
    *told = (struct watch){fd, events, dials};
    struct epoll_event event = {.events = (uint32_t)events, .data.u32 = (uint32_t)which};
    if (fd >= 0 && epoll_ctl(async->epoll, EPOLL_CTL_MOD, fd, &event) && errno == ENOENT)
        (void)epoll_ctl(async->epoll, EPOLL_CTL_ADD, fd, &event); /* if it fails, deadlines still fire */
}

static void watch_all(struct async *async)
{
    short events;
    for (int i = CLAIMS; i <= SETTLES; i++) {
        const struct ob_pg_async_conn *async_conn = &async->conns[i];
        int fd = ob_pg_async_conn_fd(async_conn, &events);
        watch(async, i, fd, events, async_conn->dials, async_conn->step != OB_PG_CONNECTING);
    }
    int fd = ob_pg_doorbell_fd(async->doorbell, &events);
    watch(async, BELL, fd, events, 0, fd < 0);
}

/* ---- requests ---- */

static void request(struct async *async, int conn, struct ob_pg_request *request)
{
    struct outbox_error err;
    if (ob_pg_params_seal(&request->params)) {
        ob_pg_async_conn_send(&async->conns[conn], request);
    } else {
        ob_error_nomem(&err);
        ob_pg_request_fail(request, &err);
    }
    watch_all(async);
}

static void begin(struct ob_pg_request *request, enum ob_pg_stmt which, int64_t timeout_us)
{
    int64_t now_us = ob_clock_boot_us();
    assert(request->state == OB_PG_IDLE);
    request->which = which;
    request->deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    ob_pg_params_init(&request->params, &request->scratch);
    request->params.copies = true;
}

static void async_claim(struct ob_async_store *base, const struct outbox_claim *want, int64_t timeout_us)
{
    struct async *async = async_of(base);
    begin(&async->claim, OB_PG_claim, timeout_us);
    async->limit = want->limit;
    async->filtered = ob_pg_claim_filtered(want);
    ob_pg_claim_params(&async->claim.params, want);
    request(async, CLAIMS, &async->claim);
}

/* True when the request is answered already: it has nothing to do, or too many items. */
static bool is_settled(struct ob_pg_request *request, size_t count)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    if (!ob_pg_settle_check(count, &err) && count > 0)
        return false;
    ob_pg_request_fail(request, &err);
    return true;
}

static void async_settle(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    struct async *async = async_of(base);
    begin(&async->settle, OB_PG_settle, timeout_us);
    async->settles = items;
    async->settle_count = count;
    async->words = OB_PG_WORDS_AS_SAID;
    if (is_settled(&async->settle, count))
        return;
    ob_pg_settle_params(&async->settle.params, items, count, async->common.worker, async->words);
    request(async, SETTLES, &async->settle);
}

static void async_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                         int64_t timeout_us)
{
    struct async *async = async_of(base);
    begin(&async->extend, OB_PG_extend, timeout_us);
    async->extends = items;
    async->extend_count = count;
    if (is_settled(&async->extend, count))
        return;
    ob_pg_extend_params(&async->extend.params, items, count, async->common.worker, lease_us);
    request(async, SETTLES, &async->extend);
}

/* ---- answers ---- */

/* A server that refuses this call, or reports a conflict, is reachable. */
static void heard(struct async *async, const struct outbox_error *err)
{
    async->connected = err->code == OUTBOX_OK || ob_code_class(err->code) == OUTBOX_CLASS_CALLER ||
                       err->code == OUTBOX_CONFLICT || err->code == OUTBOX_BUSY;
    if (async->connected)
        async->fault = (struct outbox_error){.code = OUTBOX_OK};
    else
        async->fault = *err;
}

static void tell_claimed(struct async *async)
{
    struct outbox_error err = async->claim.err;
    struct outbox_batch *batch = NULL;
    heard(async, &err);
    if (!err.code) {
        err.code = ob_pg_claim_read(async->claim.res, &batch, &err);
        async->claim.res = NULL;
    }
    ob_pg_request_reset(&async->claim);
    async->looked_us = ob_clock_boot_us();
    if (batch)
        ob_pg_doorbell_claimed(async->doorbell, batch->size, batch->more || batch->size == (size_t)async->limit,
                               async->filtered);
    async->host.claimed(async->host.ctx, err.code, &err, batch);
}

static void tell_settled(struct async *async)
{
    struct outbox_error err = async->settle.err;
    if (async->words < OB_PG_WORDS_ASCII && ob_pg_settle_is_ugly(&err)) {
        struct ob_pg_request *again = &async->settle;
        async->words++;
        ob_pg_request_reset(again);
        ob_pg_params_init(&again->params, &again->scratch);
        ob_pg_settle_params(&again->params, async->settles, async->settle_count, async->common.worker, async->words);
        request(async, SETTLES, again);
        return;
    }
    heard(async, &err);
    if (!err.code && async->settle.res)
        ob_pg_settle_read(async->settle.res, async->settles, async->settle_count);
    ob_pg_request_reset(&async->settle);
    async->host.settled(async->host.ctx, err.code, &err);
}

static void tell_extended(struct async *async)
{
    struct outbox_error err = async->extend.err;
    heard(async, &err);
    if (!err.code && async->extend.res)
        ob_pg_extend_read(async->extend.res, async->extends, async->extend_count);
    ob_pg_request_reset(&async->extend);
    async->host.extended(async->host.ctx, err.code, &err);
}

/* ---- waking ---- */

static void listen_on(struct async *async)
{
    struct outbox_error err;
    ob_pg_doorbell_pump(async->doorbell);
    enum ob_doorbell_state state = ob_pg_doorbell_state(async->doorbell);
    if (ob_pg_doorbell_fault(async->doorbell, &err))
        async->doorbell_fault = err;
    else if (state != OB_DOORBELL_OFF && state != OB_DOORBELL_OPENING)
        async->doorbell_fault.code = OUTBOX_OK;
}

/* When to poll though no producer rang; never while a claim is under way. */
static int64_t fallback_at(const struct async *async)
{
    return async->claim.state == OB_PG_IDLE ? async->looked_us + async->fallback_us : INT64_MAX;
}

static void wake(struct async *async, int64_t now_us)
{
    enum ob_doorbell_reason look = ob_pg_doorbell_wake(async->doorbell);
    if (look == OB_WAKE_NOT && now_us < fallback_at(async))
        return;
    async->looked_us = now_us;
    async->wakeups += look == OB_WAKE_RANG;
    async->host.woken(async->host.ctx);
}

/* ---- for the host ---- */

static void async_step(struct ob_async_store *base)
{
    struct async *async = async_of(base);
    struct epoll_event events[SOCKETS];
    unsigned ready = 0;
    int count = epoll_wait(async->epoll, events, SOCKETS, 0);
    for (int i = 0; i < count; i++)
        ready |= 1u << events[i].data.u32;
    int64_t now_us = ob_clock_boot_us();
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_async_conn_step(&async->conns[i], ready & 1u << i, now_us);
    if (ready & 1u << BELL || ob_pg_doorbell_due_us(async->doorbell) <= now_us)
        listen_on(async);
    /* The callback may start a new request at once: its answer is for the next step. */
    bool settled = async->settle.state == OB_PG_DONE, extended = async->extend.state == OB_PG_DONE,
         claimed = async->claim.state == OB_PG_DONE;
    if (settled)
        tell_settled(async);
    if (extended)
        tell_extended(async);
    if (claimed)
        tell_claimed(async);
    wake(async, now_us);
    watch_all(async);
}

static int async_fd(const struct ob_async_store *base)
{
    return async_of_const(base)->epoll;
}

static int64_t async_due_us(const struct ob_async_store *base)
{
    const struct async *async = async_of_const(base);
    if (async->claim.state == OB_PG_DONE || async->settle.state == OB_PG_DONE || async->extend.state == OB_PG_DONE)
        return 0;
    const int64_t dues[] = {ob_pg_async_conn_due_us(&async->conns[CLAIMS]),
                            ob_pg_async_conn_due_us(&async->conns[SETTLES]), ob_pg_doorbell_due_us(async->doorbell),
                            fallback_at(async)};
    int64_t due_us = INT64_MAX;
    for (size_t i = 0; i < sizeof dues / sizeof dues[0]; i++)
        due_us = dues[i] < due_us ? dues[i] : due_us;
    return due_us > 0 ? due_us : 0;
}

/* The store has two connections. Their first connects count as one, so that each further one is a reconnect. */
static uint64_t connects(const struct async *async)
{
    uint64_t claims = async->conns[CLAIMS].connects, settles = async->conns[SETTLES].connects;
    return claims + settles - (claims > 0 && settles > 0);
}

static void async_state(const struct ob_async_store *base, struct ob_async_store_state *state)
{
    const struct async *async = async_of_const(base);
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
    struct async *async = async_of(base);
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_async_conn_fini(&async->conns[i]);
    ob_pg_request_fini(&async->claim);
    ob_pg_request_fini(&async->settle);
    ob_pg_request_fini(&async->extend);
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
    struct async *async = async_of(base);
    async->fallback_us = fallback_us;
    ob_pg_doorbell_pace(async->doorbell, fallback_us);
}

static const struct ob_async_store_ops ops = {
    .kind = "postgresql",
    .close = async_close,
    .claim = async_claim,
    .settle = async_settle,
    .extend = async_extend,
    .fd = async_fd,
    .due_us = async_due_us,
    .step = async_step,
    .state = async_state,
    .pace = async_pace,
};

static ob_code settle_in(struct async *async, const struct ob_async_store_options *options, struct outbox_error *err)
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
    static const enum ob_pg_stmt asked[] = {OB_PG_claim, OB_PG_settle, OB_PG_extend};
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

ob_code ob_pg_async_open(const struct ob_async_store_options *options, struct ob_async_store **out,
                         struct outbox_error *err)
{
    *out = NULL;
    ob_code code = ob_pg_check(options->url, err);
    if (!code && options->schema)
        code = ob_pg_schema_check(options->schema, err);
    if (code)
        return code;
    struct async *async = ob_calloc(1, sizeof *async);
    if (!async)
        return ob_error_nomem(err);
    async->base.ops = &ops;
    async->host = options->host;
    async->fallback_us = options->fallback_us > 0 ? options->fallback_us : FALLBACK_US;
    async->looked_us = ob_clock_boot_us();
    for (int i = 0; i < SOCKETS; i++)
        async->watches[i].fd = -1;
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_async_conn_init(&async->conns[i], &async->common, i == CLAIMS ? "claims" : "settles");
    /* Hooks run in settles: a slow one is cancelled before the connection is given up. */
    async->conns[SETTLES].limit_us = options->timeout_us * 4 / 5;
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
