/* engine.c - see engine.h. Answers of the async store become events of the core, actions of the core become requests to the
 * async store.
 *
 * Every request has a timeout well within half a lease: a later answer would be useless, because the core has given up the
 * messages by then. */
#include "lib/engine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/error.h"
#include "core/batch.h"
#include "lib/open.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORKER_TEXT = 201, STEP_US = 5000 };

struct ob_engine {
    struct ob_machine *core;
    struct ob_async_store *async;
    struct ob_engine_settings set; /* pointers are borrowed, except those below */
    char worker[WORKER_TEXT];
    int64_t timeout_us; /* of a request */
    bool dirty;         /* the machine may have actions */
    bool in_step;
    bool stopped;
    unsigned failing; /* the kinds of requests whose last one failed */
};

static void event(struct ob_engine *engine, const struct ob_event *happened)
{
    engine->dirty = true;
    ob_machine_event(engine->core, ob_clock_boot_us(), happened);
}

/* ---- what the async store says ---- */

enum request { REQUEST_CLAIM = 1, REQUEST_WRITE = 2 };

/* Logs a series of failures once: a store that is down for an hour gives one line in the log, not thousands. A store that
 * allows claims but no settles (its disk is full) counts as down. */
static void heard(struct ob_engine *engine, enum request request, enum outbox_code code, const struct outbox_error *err)
{
    unsigned failing = code ? engine->failing | request : engine->failing & ~(unsigned)request;
    if (failing && !engine->failing)
        ob_log(engine->set.log, OB_LOG_ERROR, "store unavailable: retrying", OB_STR("code", outbox_code_name(code)),
               OB_STR("error", err ? err->text : NULL));
    else if (!failing && engine->failing)
        ob_log(engine->set.log, OB_LOG_INFO, "store connected again");
    engine->failing = failing;
}

static void on_claimed(void *ctx, enum outbox_code code, const struct outbox_error *err, struct outbox_batch *batch)
{
    struct ob_engine *engine = ctx;
    heard(engine, REQUEST_CLAIM, code, err);
    if (code) {
        event(engine, &(struct ob_event){.kind = OB_EVENT_CLAIM_FAILED});
        return;
    }
    if (batch->size > 0)
        OB_CRASH_POINT("claimed");
    event(engine, &(struct ob_event){
                      .kind = OB_EVENT_CLAIMED, .msgs = batch->items, .count = (int)batch->size, .more = batch->more});
    batch->free(batch);
}

static void on_settled(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    heard(ctx, REQUEST_WRITE, code, err);
    OB_CRASH_POINT("settled");
    event(ctx, &(struct ob_event){.kind = code ? OB_EVENT_SETTLE_FAILED : OB_EVENT_SETTLED});
}

static void on_extended(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    heard(ctx, REQUEST_WRITE, code, err);
    event(ctx, &(struct ob_event){.kind = code ? OB_EVENT_EXTEND_FAILED : OB_EVENT_EXTENDED});
}

static void on_woken(void *ctx)
{
    event(ctx, &(struct ob_event){.kind = OB_EVENT_WAKE});
}

/* ---- life ---- */

void ob_worker_name(const char *given, char name[OB_WORKER_NAME])
{
    char host[80] = "host";
    gethostname(host, sizeof host - 1);
    snprintf(name, OB_WORKER_NAME, "%.60s-%d-%llx", given ? given : host, (int)getpid(),
             (unsigned long long)ob_clock_wall_us());
}

int64_t ob_engine_timeout_us(int64_t lease_us)
{
    int64_t third = (lease_us ? lease_us : 30000000) / 3;
    return third < 10000000 ? third : 10000000;
}

enum outbox_code ob_engine_new(const struct ob_engine_settings *settings, struct ob_engine **out,
                               struct outbox_error *err)
{
    struct ob_engine *engine = ob_calloc(1, sizeof *engine);
    *out = NULL;
    if (!engine)
        return ob_error_nomem(err);
    engine->set = *settings;
    engine->dirty = true;
    snprintf(engine->worker, sizeof engine->worker, "%s", settings->worker);
    struct ob_async_store_options async = settings->async;
    async.worker = engine->worker;
    async.host = (struct ob_async_store_host){
        .ctx = engine, .claimed = on_claimed, .settled = on_settled, .extended = on_extended, .woken = on_woken};
    engine->timeout_us = ob_engine_timeout_us(settings->machine.lease_us);
    async.timeout_us = engine->timeout_us;
    enum outbox_code code = ob_machine_new(&settings->machine, ob_clock_boot_us(), &engine->core, err);
    if (!code)
        code = settings->shared ? ob_shared_store_use(settings->shared, &async.host, &engine->async, err)
                                : ob_async_store_open(&async, &engine->async, err);
    if (!code && settings->shared && settings->machine.poll_us)
        engine->async->ops->pace(engine->async, settings->machine.poll_us);
    if (code)
        ob_engine_free(engine);
    else
        *out = engine;
    return code;
}

void ob_engine_free(struct ob_engine *engine)
{
    if (!engine)
        return;
    if (engine->async)
        engine->async->ops->close(engine->async);
    ob_machine_free(engine->core);
    ob_free(engine);
}

/* ---- what the core wants ---- */

static void claim(struct ob_engine *engine, const struct ob_action *action)
{
    char worker[WORKER_TEXT];
    snprintf(worker, sizeof worker, "%.180s.%u", engine->worker, action->incarnation);
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    want.worker = worker;
    want.limit = action->limit;
    want.max_bytes = action->max_bytes;
    want.lease_us = action->lease_us;
    want.run = action->run;
    want.prefetch = action->prefetch;
    want.max_attempts = engine->set.max_attempts;
    if (engine->set.lanes)
        engine->set.lanes(engine->set.ctx, action->only, action->shut, &want);
    engine->async->ops->claim(engine->async, &want, engine->timeout_us);
}

static void act(struct ob_engine *engine, const struct ob_action *action)
{
    struct ob_async_store *async = engine->async;
    switch (action->kind) {
    case OB_ACTION_CLAIM: claim(engine, action); break;
    case OB_ACTION_DELIVER:
        OB_CRASH_POINT("handing");
        engine->set.deliver(engine->set.ctx, action->sink, action->items, (size_t)action->count);
        break;
    case OB_ACTION_CANCEL:
        if (engine->set.cancel)
            engine->set.cancel(engine->set.ctx, action->sink, action->handle);
        break;
    case OB_ACTION_SETTLE:
        async->ops->settle(async, action->settles, (size_t)action->count, engine->timeout_us);
        OB_CRASH_POINT("settling");
        break;
    case OB_ACTION_EXTEND:
        async->ops->extend(async, action->settles, (size_t)action->count, action->lease_us, engine->timeout_us);
        break;
    case OB_ACTION_STOPPED: engine->stopped = true; break;
    default: break;
    }
}

void ob_engine_step(struct ob_engine *engine)
{
    if (engine->in_step)
        return;
    engine->in_step = true;
    engine->async->ops->step(engine->async);
    struct ob_action action;
    int64_t until_us = ob_clock_boot_us() + STEP_US;
    engine->dirty = false;
    while (!engine->stopped && ob_machine_next(engine->core, ob_clock_boot_us(), &action)) {
        act(engine, &action);
        if (action.kind == OB_ACTION_DELIVER && ob_clock_boot_us() >= until_us) {
            engine->dirty = true; /* delivering takes long: read the store's answers in between */
            break;
        }
    }
    engine->in_step = false;
}

int ob_engine_fd(const struct ob_engine *engine)
{
    return engine->async->ops->fd(engine->async);
}

int64_t ob_engine_due_us(const struct ob_engine *engine)
{
    if (engine->stopped)
        return INT64_MAX;
    if (engine->dirty)
        return 0;
    int64_t core = ob_machine_deadline_us(engine->core), async = engine->async->ops->due_us(engine->async);
    return core < async ? core : async;
}

/* ---- what the host says ---- */

void ob_engine_verdict(struct ob_engine *engine, uint64_t handle, const struct outbox_verdict *verdict)
{
    OB_CRASH_POINT("replied");
    event(engine, &(struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = handle, .verdict = verdict});
}

void ob_engine_wake(struct ob_engine *engine)
{
    on_woken(engine);
}

void ob_engine_stop(struct ob_engine *engine, int64_t grace_us)
{
    event(engine, &(struct ob_event){.kind = OB_EVENT_STOP, .grace_us = grace_us});
}

bool ob_engine_stopped(const struct ob_engine *engine)
{
    return engine->stopped;
}

void ob_engine_pause(struct ob_engine *engine, int sink, bool paused)
{
    event(engine, &(struct ob_event){.kind = paused ? OB_EVENT_PAUSE : OB_EVENT_RESUME, .sink = sink});
}

void ob_engine_taken(struct ob_engine *engine, int sink, int count)
{
    if (!ob_machine_set_taken(engine->core, sink, count))
        return;
    engine->dirty = true; /* there may be room now */
}

bool ob_engine_pace(struct ob_engine *engine, int batch, int64_t poll_us)
{
    struct ob_machine_settings *set = &engine->set.machine;
    if (batch == set->claim_limit && poll_us == set->poll_us)
        return false;
    set->claim_limit = batch;
    set->poll_us = poll_us;
    ob_machine_pace(engine->core, batch, poll_us);
    engine->async->ops->pace(engine->async, poll_us);
    engine->dirty = true; /* the deadline may be earlier now */
    return true;
}

struct ob_machine *ob_engine_machine(struct ob_engine *engine)
{
    return engine->core;
}

void ob_engine_store_state(const struct ob_engine *engine, struct ob_async_store_state *state)
{
    engine->async->ops->state(engine->async, state);
}
