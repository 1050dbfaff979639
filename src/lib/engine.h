/* engine.h - runs a machine (core/machine.h) on an async store (core/async_store.h), with a host that delivers.
 *
 * The daemon and the in-process dispatcher both use it. It has no loop and no thread of its own: the host waits until fd
 * becomes readable or due_us is reached, then calls step. Verdicts may come at any time, even from within deliver; they take
 * effect in the next step, so the host should call step soon after a verdict.
 *
 *     RUNNING ──stop──▶ STOPPING ──nothing held, or the time is over──▶ STOPPED
 *
 * One thread. */
#ifndef OB_LIB_ENGINE_H
#define OB_LIB_ENGINE_H

#include "base/log.h"
#include "core/async_store.h"
#include "core/machine.h"
#include "lib/shared_store.h"

struct ob_engine;

/* The messages of these items stay valid until their verdict or their cancel. */
typedef void ob_deliver_fn(void *ctx, int sink, const struct outbox_sink_item *items, size_t count);

struct ob_engine_settings {
    struct ob_machine_settings machine;
    struct ob_async_store_options async; /* the engine fills in its host */
    struct ob_shared_store *shared;      /* used instead of an async store of the engine's own; may be NULL */
    const char *worker;                  /* unique to this start of the process; copied */
    void *ctx;
    ob_deliver_fn *deliver;
    void (*cancel)(void *ctx, int sink, uint64_t handle); /* NULL: nothing can be cancelled */
    /* Sets the lanes of a claim: with `only`, those that go to a sink that is not shut; otherwise all except those that can
     * only go to a shut sink. What it sets must stay valid until its next call. NULL: always all lanes. */
    void (*lanes)(void *ctx, bool only, const bool *shut, struct outbox_claim *claim);
    int max_attempts;         /* of claims; 0: the message's own */
    const struct ob_log *log; /* borrowed; NULL: none */
};

enum { OB_WORKER_NAME = 120 };
/* How long to wait for an answer of the store. lease_us 0: the default lease. */
int64_t ob_engine_timeout_us(int64_t lease_us);
/* Makes a name that no other process has, nor this one after a restart. given NULL: it starts with the host name. */
void ob_worker_name(const char *given, char name[OB_WORKER_NAME]);

/* Makes no request before the first step. */
enum outbox_code ob_engine_new(const struct ob_engine_settings *settings, struct ob_engine **out,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Messages still held stay claimed until their leases run out; stop the engine first to release them. */
void ob_engine_free(struct ob_engine *engine);

int ob_engine_fd(const struct ob_engine *engine);         /* the same for the engine's whole life */
int64_t ob_engine_due_us(const struct ob_engine *engine); /* on the boot-time clock; INT64_MAX: never; 0: at once */
void ob_engine_step(struct ob_engine *engine);

void ob_engine_verdict(struct ob_engine *engine, uint64_t handle, const struct outbox_verdict *verdict); /* copied */
void ob_engine_wake(struct ob_engine *engine);
void ob_engine_stop(struct ob_engine *engine, int64_t grace_us);
bool ob_engine_stopped(const struct ob_engine *engine);
void ob_engine_pause(struct ob_engine *engine, int sink, bool paused);

/* Another engine uses `count` places at the sink. */
void ob_engine_taken(struct ob_engine *engine, int sink, int count);

/* Changes the size of claims, and how often to poll when nobody rings. True if something changed. */
bool ob_engine_pace(struct ob_engine *engine, int batch, int64_t poll_us);

struct ob_machine *ob_engine_machine(struct ob_engine *engine); /* for stats, tune, pace */
void ob_engine_store_state(const struct ob_engine *engine, struct ob_async_store_state *state);

#endif
