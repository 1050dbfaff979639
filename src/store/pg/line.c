/* line.c - the PostgreSQL store without waiting: see core/line.h.
 *
 * Three connections: one claims, one settles and extends, one listens (bell.c). A claim that takes its time is in no
 * settle's way, and an extend goes out behind a settle without waiting for its answer. One epoll descriptor stands for
 * all sockets.
 *
 * An ask is IDLE, on a connection (aconn.c), or DONE and told in the next step. Whatever fails, it becomes DONE: that is
 * what makes every ask answered once. Nothing that must be allocated stands between an answer and the host.
 *
 * One thread. Must not know when to ask again after a failure. */
#include "store/pg/aconn.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/batch.h"
#include "core/line.h"
#include "store/pg/render.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CLAIMS, SETTLES, BELL, SOCKETS, FALLBACK_US = 500000 };

/* What epoll was told of a socket. */
struct watch {
    int fd;
    short events;
    uint64_t dials;
};

struct line {
    struct ob_line base; /* first: the ops find us by a cast */
    struct ob_line_host host;
    struct ob_pg_home home; /* owns its texts */
    struct ob_pg_aconn conns[BELL];
    struct ob_pg_bell *bell;
    struct watch watches[SOCKETS];
    int epoll;
    int64_t fallback_us;
    int64_t looked_us; /* the last claim, or call of woken */

    struct ob_pg_ask claim, settle, extend;
    int limit;                               /* of the claim that is out */
    bool filtered;                           /* likewise */
    struct outbox_settle *settles, *extends; /* the host's */
    size_t settle_count, extend_count;
    enum ob_pg_words words; /* of the settle that is out */

    bool connected;
    uint64_t wakeups;
    struct outbox_error fault, bell_fault;
};

static struct line *line_of(struct ob_line *base)
{
    return (struct line *)(void *)base;
}

static const struct line *line_of_const(const struct ob_line *base)
{
    return (const struct line *)(const void *)base;
}

/* ---- sockets ---- */

/* A socket that libpq has closed is gone from epoll by itself, and its number may be another's by now: so a new connection
 * is told of anew, whatever its number. */
static void watch(struct line *line, int which, int fd, short events, uint64_t dials, bool sure)
{
    struct watch *told = &line->watches[which];
    if (sure && told->fd == fd && told->events == events && told->dials == dials)
        return;
    *told = (struct watch){fd, events, dials};
    struct epoll_event event = {.events = (uint32_t)events, .data.u32 = (uint32_t)which};
    if (fd >= 0 && epoll_ctl(line->epoll, EPOLL_CTL_MOD, fd, &event) && errno == ENOENT)
        (void)epoll_ctl(line->epoll, EPOLL_CTL_ADD, fd, &event); /* without it the deadlines still come */
}

static void watch_all(struct line *line)
{
    short events;
    for (int i = CLAIMS; i <= SETTLES; i++) {
        const struct ob_pg_aconn *aconn = &line->conns[i];
        int fd = ob_pg_aconn_fd(aconn, &events);
        watch(line, i, fd, events, aconn->dials, aconn->step != OB_PG_CONNECTING);
    }
    int fd = ob_pg_bell_fd(line->bell, &events);
    watch(line, BELL, fd, events, 0, fd < 0);
}

/* ---- asking ---- */

static void ask(struct line *line, int conn, struct ob_pg_ask *ask)
{
    struct outbox_error err;
    if (ob_pg_params_seal(&ask->params)) {
        ob_pg_aconn_ask(&line->conns[conn], ask);
    } else {
        ob_error_nomem(&err);
        ob_pg_ask_fail(ask, &err);
    }
    watch_all(line);
}

static void begin(struct ob_pg_ask *ask, enum ob_pg_stmt which, int64_t timeout_us)
{
    int64_t now_us = ob_clock_boot_us();
    assert(ask->state == OB_PG_IDLE);
    ask->which = which;
    ask->deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    ob_pg_params_init(&ask->params, &ask->scratch);
    ask->params.copies = true;
}

static void line_claim(struct ob_line *base, const struct outbox_claim *want, int64_t timeout_us)
{
    struct line *line = line_of(base);
    begin(&line->claim, OB_PG_claim, timeout_us);
    line->limit = want->limit;
    line->filtered = ob_pg_claim_filtered(want);
    ob_pg_claim_params(&line->claim.params, want);
    ask(line, CLAIMS, &line->claim);
}

/* Nothing to do, or too much of it: true when the answer is there already. */
static bool is_settled(struct ob_pg_ask *ask, size_t count)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    if (!ob_pg_settle_check(count, &err) && count > 0)
        return false;
    ob_pg_ask_fail(ask, &err);
    return true;
}

static void line_settle(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    struct line *line = line_of(base);
    begin(&line->settle, OB_PG_settle, timeout_us);
    line->settles = items;
    line->settle_count = count;
    line->words = OB_PG_WORDS_AS_SAID;
    if (is_settled(&line->settle, count))
        return;
    ob_pg_settle_params(&line->settle.params, items, count, line->home.worker, line->words);
    ask(line, SETTLES, &line->settle);
}

static void line_extend(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    struct line *line = line_of(base);
    begin(&line->extend, OB_PG_extend, timeout_us);
    line->extends = items;
    line->extend_count = count;
    if (is_settled(&line->extend, count))
        return;
    ob_pg_extend_params(&line->extend.params, items, count, line->home.worker, lease_us);
    ask(line, SETTLES, &line->extend);
}

/* ---- answers ---- */

/* A refusal of this very call, or a clash with another, comes from a server that works. */
static void heard(struct line *line, const struct outbox_error *err)
{
    line->connected = err->code == OUTBOX_OK || ob_code_class(err->code) == OUTBOX_CLASS_CALLER ||
                      err->code == OUTBOX_CONFLICT || err->code == OUTBOX_BUSY;
    if (line->connected)
        line->fault = (struct outbox_error){.code = OUTBOX_OK};
    else
        line->fault = *err;
}

static void tell_claimed(struct line *line)
{
    struct outbox_error err = line->claim.err;
    struct outbox_batch *batch = NULL;
    heard(line, &err);
    if (!err.code) {
        err.code = ob_pg_claim_read(line->claim.res, &batch, &err);
        line->claim.res = NULL;
    }
    ob_pg_ask_reset(&line->claim);
    line->looked_us = ob_clock_boot_us();
    if (batch)
        ob_pg_bell_claimed(line->bell, batch->size, batch->more || batch->size == (size_t)line->limit, line->filtered);
    line->host.claimed(line->host.ctx, err.code, &err, batch);
}

static void tell_settled(struct line *line)
{
    struct outbox_error err = line->settle.err;
    if (line->words < OB_PG_WORDS_ASCII && ob_pg_settle_is_ugly(&err)) {
        struct ob_pg_ask *again = &line->settle;
        line->words++;
        ob_pg_ask_reset(again);
        ob_pg_params_init(&again->params, &again->scratch);
        ob_pg_settle_params(&again->params, line->settles, line->settle_count, line->home.worker, line->words);
        ask(line, SETTLES, again);
        return;
    }
    heard(line, &err);
    if (!err.code && line->settle.res)
        ob_pg_settle_read(line->settle.res, line->settles, line->settle_count);
    ob_pg_ask_reset(&line->settle);
    line->host.settled(line->host.ctx, err.code, &err);
}

static void tell_extended(struct line *line)
{
    struct outbox_error err = line->extend.err;
    heard(line, &err);
    if (!err.code && line->extend.res)
        ob_pg_extend_read(line->extend.res, line->extends, line->extend_count);
    ob_pg_ask_reset(&line->extend);
    line->host.extended(line->host.ctx, err.code, &err);
}

/* ---- waking ---- */

static void listen_on(struct line *line)
{
    struct outbox_error err;
    ob_pg_bell_pump(line->bell);
    enum ob_bell_state state = ob_pg_bell_state(line->bell);
    if (ob_pg_bell_fault(line->bell, &err))
        line->bell_fault = err;
    else if (state != OB_BELL_OFF && state != OB_BELL_OPENING)
        line->bell_fault.code = OUTBOX_OK;
}

/* When to look though nobody rang; not while somebody is looking. */
static int64_t fallback_at(const struct line *line)
{
    return line->claim.state == OB_PG_IDLE ? line->looked_us + line->fallback_us : INT64_MAX;
}

static void wake(struct line *line, int64_t now_us)
{
    enum ob_bell_look look = ob_pg_bell_look(line->bell);
    if (look == OB_LOOK_NOT && now_us < fallback_at(line))
        return;
    line->looked_us = now_us;
    line->wakeups += look == OB_LOOK_RANG;
    line->host.woken(line->host.ctx);
}

/* ---- for the host ---- */

static void line_step(struct ob_line *base)
{
    struct line *line = line_of(base);
    struct epoll_event events[SOCKETS];
    unsigned ready = 0;
    int count = epoll_wait(line->epoll, events, SOCKETS, 0);
    for (int i = 0; i < count; i++)
        ready |= 1u << events[i].data.u32;
    int64_t now_us = ob_clock_boot_us();
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_aconn_step(&line->conns[i], ready & 1u << i, now_us);
    if (ready & 1u << BELL || ob_pg_bell_due_us(line->bell) <= now_us)
        listen_on(line);
    /* Who is told may ask again at once: that answer is for the next step. */
    bool settled = line->settle.state == OB_PG_DONE, extended = line->extend.state == OB_PG_DONE,
         claimed = line->claim.state == OB_PG_DONE;
    if (settled)
        tell_settled(line);
    if (extended)
        tell_extended(line);
    if (claimed)
        tell_claimed(line);
    wake(line, now_us);
    watch_all(line);
}

static int line_fd(const struct ob_line *base)
{
    return line_of_const(base)->epoll;
}

static int64_t line_due_us(const struct ob_line *base)
{
    const struct line *line = line_of_const(base);
    if (line->claim.state == OB_PG_DONE || line->settle.state == OB_PG_DONE || line->extend.state == OB_PG_DONE)
        return 0;
    const int64_t dues[] = {ob_pg_aconn_due_us(&line->conns[CLAIMS]), ob_pg_aconn_due_us(&line->conns[SETTLES]),
                            ob_pg_bell_due_us(line->bell), fallback_at(line)};
    int64_t due_us = INT64_MAX;
    for (size_t i = 0; i < sizeof dues / sizeof dues[0]; i++)
        due_us = dues[i] < due_us ? dues[i] : due_us;
    return due_us > 0 ? due_us : 0;
}

/* The line has two connections; the first of each counts as one, so that all others were made anew. */
static uint64_t connects(const struct line *line)
{
    uint64_t claims = line->conns[CLAIMS].connects, settles = line->conns[SETTLES].connects;
    return claims + settles - (claims > 0 && settles > 0);
}

static void line_state(const struct ob_line *base, struct ob_line_state *state)
{
    const struct line *line = line_of_const(base);
    *state = (struct ob_line_state){
        .connected = line->connected,
        .polling = ob_pg_bell_state(line->bell) == OB_BELL_POLLING,
        .connects = connects(line),
        .wakeups = line->wakeups,
        .fault = line->fault.code ? line->fault : line->bell_fault,
    };
}

/* ---- life ---- */

static void line_close(struct ob_line *base)
{
    if (!base)
        return;
    struct line *line = line_of(base);
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_aconn_fini(&line->conns[i]);
    ob_pg_ask_fini(&line->claim);
    ob_pg_ask_fini(&line->settle);
    ob_pg_ask_fini(&line->extend);
    ob_pg_bell_free(line->bell);
    for (size_t i = 0; i < OB_PG_STMT_COUNT; i++)
        ob_free(line->home.sql[i]);
    ob_free(line->home.conninfo);
    ob_free(line->home.application);
    ob_free(line->home.schema);
    ob_free(line->home.worker);
    if (line->epoll >= 0)
        close(line->epoll);
    ob_free(line);
}

static void line_pace(struct ob_line *base, int64_t fallback_us)
{
    struct line *line = line_of(base);
    line->fallback_us = fallback_us;
    ob_pg_bell_pace(line->bell, fallback_us);
}

static const struct ob_line_ops ops = {
    .kind = "postgresql",
    .close = line_close,
    .claim = line_claim,
    .settle = line_settle,
    .extend = line_extend,
    .fd = line_fd,
    .due_us = line_due_us,
    .step = line_step,
    .state = line_state,
    .pace = line_pace,
};

static ob_code settle_in(struct line *line, const struct ob_line_options *options, struct outbox_error *err)
{
    struct ob_pg_home *home = &line->home;
    home->conninfo = ob_strdup(options->url);
    home->schema = ob_strdup(options->schema ? options->schema : "outbox");
    home->application = ob_strdup(options->application ? options->application : "outbox");
    home->relaxed = options->relaxed;
    home->log = options->log;
    home->worker = options->worker ? ob_strdup(options->worker) : NULL;
    if (!home->conninfo || !home->schema || !home->application || (options->worker && !home->worker))
        return ob_error_nomem(err);
    static const enum ob_pg_stmt asked[] = {OB_PG_claim, OB_PG_settle, OB_PG_extend};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        ob_code code = ob_pg_stmt_render(asked[i], home->schema, &home->sql[asked[i]], err);
        if (code)
            return code;
    }
    struct ob_pg_bell_options bell = {
        .conninfo = home->conninfo,
        .application = home->application,
        .schema = home->schema,
        .settings = {.fallback_us = line->fallback_us, .polling = options->polling},
        .log = options->log,
    };
    return ob_pg_bell_new(&bell, &line->bell, err);
}

ob_code ob_pg_line_open(const struct ob_line_options *options, struct ob_line **out, struct outbox_error *err)
{
    *out = NULL;
    ob_code code = ob_pg_check(options->url, err);
    if (!code && options->schema)
        code = ob_pg_schema_check(options->schema, err);
    if (code)
        return code;
    struct line *line = ob_calloc(1, sizeof *line);
    if (!line)
        return ob_error_nomem(err);
    line->base.ops = &ops;
    line->host = options->host;
    line->fallback_us = options->fallback_us > 0 ? options->fallback_us : FALLBACK_US;
    line->looked_us = ob_clock_boot_us();
    for (int i = 0; i < SOCKETS; i++)
        line->watches[i].fd = -1;
    for (int i = CLAIMS; i <= SETTLES; i++)
        ob_pg_aconn_init(&line->conns[i], &line->home, i == CLAIMS ? "claims" : "settles");
    /* Hooks run in settles: one that takes too long is cancelled before the connection is given up. */
    line->conns[SETTLES].limit_us = options->timeout_us * 4 / 5;
    line->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (line->epoll < 0)
        code = ob_error_set(err, OUTBOX_INTERNAL, "epoll: %s", strerror(errno));
    else
        code = settle_in(line, options, err);
    if (code)
        line_close(&line->base);
    else
        *out = &line->base;
    return code;
}
