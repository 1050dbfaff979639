/* engine.h - a machine (core/machine.h) at work on an async store (core/async_store.h), with a host that delivers.
 *
 * The daemon and the in-process dispatcher both run this. It has no loop and no thread of its own: the host waits for fd to
 * become readable, until due_us, then calls step. Verdicts may come at any time, also from within deliver; they are acted
 * upon in the next step, so the host calls step soon after one.
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

/* The messages of these items stay valid until their verdict, or their cancel. */
typedef void ob_deliver_fn(void *ctx, int sink, const struct outbox_sink_item *items, size_t count);

struct ob_engine_settings {
    struct ob_machine_settings machine;
    struct ob_async_store_options async; /* its host is filled in here */
    struct ob_shared_store *shared;      /* used instead of an async store of its own; NULL: none */
    const char *worker;                  /* unique to this process and its start; copied */
    void *ctx;
    ob_deliver_fn *deliver;
    void (*cancel)(void *ctx, int sink, uint64_t handle); /* NULL: nothing can be cancelled */
    /* Names the lanes of a claim: with `only` those that go to a sink that is not shut, else all but those that can only go
     * to one that is. What it sets must stay valid until its next call. NULL: always all lanes. */
    void (*lanes)(void *ctx, bool only, const bool *shut, struct outbox_claim *claim);
    int max_attempts;         /* of claims; 0: the message's own */
    const struct ob_log *log; /* borrowed; NULL: none */
};

enum { OB_WORKER_NAME = 120 };
/* How long a store has for an answer. 0: the default lease. */
int64_t ob_engine_timeout_us(int64_t lease_us);
/* A name that no other process has, nor this one after a restart; given NULL: made from the host's. */
void ob_worker_name(const char *given, char name[OB_WORKER_NAME]);

/* Makes no request before the first step. */
enum outbox_code ob_engine_new(const struct ob_engine_settings *settings, struct ob_engine **out,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
/* What is held is left to its leases; stop first to give it back. */
void ob_engine_free(struct ob_engine *engine);

int ob_engine_fd(const struct ob_engine *engine);         /* the same for the engine's whole life */
int64_t ob_engine_due_us(const struct ob_engine *engine); /* of the boot-time clock; INT64_MAX: never; 0: at once */
void ob_engine_step(struct ob_engine *engine);

void ob_engine_verdict(struct ob_engine *engine, uint64_t handle, const struct outbox_verdict *verdict); /* copied */
void ob_engine_wake(struct ob_engine *engine);
void ob_engine_stop(struct ob_engine *engine, int64_t grace_us);
bool ob_engine_stopped(const struct ob_engine *engine);
void ob_engine_pause(struct ob_engine *engine, int sink, bool paused);

/* So many places at the sink are used by another engine. */
void ob_engine_taken(struct ob_engine *engine, int sink, int count);

/* How many messages a claim asks for, and how often to look when nobody rings. True when that is a change. */
bool ob_engine_pace(struct ob_engine *engine, int batch, int64_t poll_us);

struct ob_machine *ob_engine_machine(struct ob_engine *engine); /* for stats, tune, pace */
void ob_engine_store_state(const struct ob_engine *engine, struct ob_async_store_state *state);

#endif
