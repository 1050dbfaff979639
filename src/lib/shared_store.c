/* shared_store.c - see shared_store.h.
 *
 * A request of a user is NONE, WAITING for its turn, or OUT (under way) on the underlying async store. One request of each
 * kind is under way at a time; the next one is sent when it was answered, from within step.
 *
 * A user may close while its request is under way. So the underlying async store never gets a user's own items: it works on a
 * copy, and the results are passed on if the user still exists. */
#include "lib/shared_store.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "core/batch.h"
#include "core/claim_copy.h"
#include "lib/open.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum kind { CLAIM, SETTLE, EXTEND, KINDS };
enum state { NONE, WAITING, OUT };

struct request {
    enum state state;
    bool nomem;      /* no memory for a copy: reported in the next step */
    uint64_t number; /* of the waiting requests, the lowest number goes first */
    int64_t deadline_us;
    struct ob_arena arena;       /* of the claim, while it waits */
    struct outbox_claim want;    /* likewise */
    struct outbox_settle *items; /* the host's */
    size_t count;
    int64_t lease_us;
};

struct user {
    struct ob_async_store base; /* first: the ops find us by a cast */
    struct ob_shared_store *shared;
    struct ob_list node;
    struct ob_async_store_host host;
    int fd; /* a duplicate: a loop cannot watch one descriptor twice */
    struct request requests[KINDS];
};

struct ob_shared_store {
    struct ob_async_store *async;
    int refs;
    struct ob_list users;
    uint64_t requested;
    struct {
        bool out;
        struct user *user; /* whose request it is; NULL: that user was closed */
        struct outbox_settle *items;
        size_t count, room;
    } beneath[KINDS];
};

static struct user *user_of(struct ob_async_store *base)
{
    return (struct user *)(void *)base;
}

static const struct user *user_of_const(const struct ob_async_store *base)
{
    return (const struct user *)(const void *)base;
}

/* ---- answers ---- */

static void request_over(struct request *request)
{
    ob_arena_fini(&request->arena);
    request->state = NONE;
    request->nomem = false;
}

static void tell(struct user *user, enum kind kind, enum outbox_code code, const struct outbox_error *err,
                 struct outbox_batch *batch)
{
    const struct ob_async_store_host *host = &user->host;
    request_over(&user->requests[kind]);
    switch (kind) {
    case CLAIM: host->claimed(host->ctx, code, err, batch); break;
    case SETTLE: host->settled(host->ctx, code, err); break;
    default: host->extended(host->ctx, code, err); break;
    }
}

/* Whose request was answered; NULL when its user was closed. */
static struct user *answered(struct ob_shared_store *shared, enum kind kind, enum outbox_code code)
{
    struct user *user = shared->beneath[kind].user;
    shared->beneath[kind].out = false;
    shared->beneath[kind].user = NULL;
    for (size_t i = 0; user && !code && i < shared->beneath[kind].count; i++) {
        user->requests[kind].items[i].result = shared->beneath[kind].items[i].result;
        user->requests[kind].items[i].dead = shared->beneath[kind].items[i].dead;
    }
    return user;
}

static void on_claimed(void *ctx, enum outbox_code code, const struct outbox_error *err, struct outbox_batch *batch)
{
    struct user *user = answered(ctx, CLAIM, code);
    if (user)
        tell(user, CLAIM, code, err, batch);
    else if (batch)
        batch->free(batch); /* their leases end */
}

static void on_settled(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    struct user *user = answered(ctx, SETTLE, code);
    if (user)
        tell(user, SETTLE, code, err, NULL);
}

static void on_extended(void *ctx, enum outbox_code code, const struct outbox_error *err)
{
    struct user *user = answered(ctx, EXTEND, code);
    if (user)
        tell(user, EXTEND, code, err, NULL);
}

static void on_woken(void *ctx)
{
    struct ob_shared_store *shared = ctx;
    OB_LIST_EACH (it, &shared->users) {
        const struct user *user = OB_CONTAINER(it, struct user, node);
        user->host.woken(user->host.ctx);
    }
}

/* ---- requests ---- */

static bool copy_items(struct ob_shared_store *shared, enum kind kind, const struct request *request)
{
    if (request->count > shared->beneath[kind].room) {
        struct outbox_settle *items = ob_calloc(request->count, sizeof *items);
        if (!items)
            return false;
        ob_free(shared->beneath[kind].items);
        shared->beneath[kind].items = items;
        shared->beneath[kind].room = request->count;
    }
    if (request->count > 0)
        memcpy(shared->beneath[kind].items, request->items, request->count * sizeof *request->items);
    shared->beneath[kind].count = request->count;
    return true;
}

static void pass_on(struct ob_shared_store *shared, struct user *user, enum kind kind, const struct outbox_claim *want,
                    int64_t timeout_us)
{
    struct ob_async_store *async = shared->async;
    struct request *request = &user->requests[kind];
    if (!copy_items(shared, kind, request)) {
        request->state = OUT;
        request->nomem = true;
        return;
    }
    struct outbox_settle *items = shared->beneath[kind].items;
    request->state = OUT;
    shared->beneath[kind].out = true;
    shared->beneath[kind].user = user;
    switch (kind) {
    case CLAIM: async->ops->claim(async, want, timeout_us); break;
    case SETTLE: async->ops->settle(async, items, request->count, timeout_us); break;
    default: async->ops->extend(async, items, request->count, request->lease_us, timeout_us); break;
    }
}

/* The user that has waited longest. */
static struct user *next_user(struct ob_shared_store *shared, enum kind kind)
{
    struct user *first = NULL;
    OB_LIST_EACH (it, &shared->users) {
        struct user *user = OB_CONTAINER(it, struct user, node);
        const struct request *request = &user->requests[kind];
        if (request->state == WAITING && !request->nomem && (!first || request->number < first->requests[kind].number))
            first = user;
    }
    return first;
}

static void pass_on_waiting(struct ob_shared_store *shared)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct user *user = shared->beneath[kind].out ? NULL : next_user(shared, (enum kind)kind);
        if (!user)
            continue;
        struct request *request = &user->requests[kind];
        int64_t left = request->deadline_us - ob_clock_boot_us();
        pass_on(shared, user, (enum kind)kind, &request->want, left > 1 ? left : 1);
    }
}

static struct request *begin(struct user *user, enum kind kind, int64_t timeout_us)
{
    struct request *request = &user->requests[kind];
    int64_t now_us = ob_clock_boot_us();
    assert(request->state == NONE);
    *request = (struct request){.state = WAITING, .number = ++user->shared->requested};
    request->deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    ob_arena_init(&request->arena, 0);
    return request;
}

static bool may_go(struct user *user, enum kind kind)
{
    return !user->shared->beneath[kind].out && next_user(user->shared, kind) == user;
}

static void user_claim(struct ob_async_store *base, const struct outbox_claim *want, int64_t timeout_us)
{
    struct user *user = user_of(base);
    struct request *request = begin(user, CLAIM, timeout_us);
    if (may_go(user, CLAIM))
        pass_on(user->shared, user, CLAIM, want, timeout_us);
    else
        request->nomem = !ob_claim_copy(&request->arena, want, &request->want);
}

static void request_with_items(struct user *user, enum kind kind, struct outbox_settle *items, size_t count,
                               int64_t lease_us, int64_t timeout_us)
{
    struct request *request = begin(user, kind, timeout_us);
    request->items = items;
    request->count = count;
    request->lease_us = lease_us;
    if (may_go(user, kind))
        pass_on(user->shared, user, kind, NULL, timeout_us);
}

static void user_settle(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    request_with_items(user_of(base), SETTLE, items, count, 0, timeout_us);
}

static void user_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    request_with_items(user_of(base), EXTEND, items, count, lease_us, timeout_us);
}

/* ---- for the host ---- */

/* Reports waiting requests that timed out, and requests for which there was no memory. */
static void tell_failed(struct user *user, int64_t now_us)
{
    struct outbox_error err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct request *request = &user->requests[kind];
        if (request->nomem) {
            ob_error_nomem(&err);
            tell(user, (enum kind)kind, err.code, &err, NULL);
        } else if (request->state == WAITING && now_us >= request->deadline_us) {
            ob_error_set(&err, OUTBOX_UNREACHABLE, "the store did not answer in time");
            tell(user, (enum kind)kind, err.code, &err, NULL);
        }
    }
}

static void user_step(struct ob_async_store *base)
{
    struct user *user = user_of(base);
    struct ob_shared_store *shared = user->shared;
    shared->async->ops->step(shared->async);
    tell_failed(user, ob_clock_boot_us());
    pass_on_waiting(shared);
}

static int user_fd(const struct ob_async_store *base)
{
    return user_of_const(base)->fd;
}

static int64_t user_due_us(const struct ob_async_store *base)
{
    const struct user *user = user_of_const(base);
    const struct ob_async_store *async = user->shared->async;
    int64_t due_us = async->ops->due_us(async);
    for (int kind = 0; kind < KINDS; kind++) {
        const struct request *request = &user->requests[kind];
        if (request->nomem)
            return 0;
        if (request->state == WAITING && request->deadline_us < due_us)
            due_us = request->deadline_us;
    }
    return due_us;
}

static void user_state(const struct ob_async_store *base, struct ob_async_store_state *state)
{
    const struct ob_async_store *async = user_of_const(base)->shared->async;
    async->ops->state(async, state);
}

static void user_pace(struct ob_async_store *base, int64_t fallback_us)
{
    struct ob_async_store *async = user_of(base)->shared->async;
    async->ops->pace(async, fallback_us);
}

/* The texts of requests under way belong to the user and are freed with it. */
static void forget(struct ob_shared_store *shared, const struct user *user)
{
    for (int kind = 0; kind < KINDS; kind++) {
        if (shared->beneath[kind].user != user)
            continue;
        shared->beneath[kind].user = NULL;
        for (size_t i = 0; i < shared->beneath[kind].count; i++) {
            struct outbox_settle *item = &shared->beneath[kind].items[i];
            item->code = item->error = item->reference = item->output = NULL;
        }
    }
}

static void user_close(struct ob_async_store *base)
{
    if (!base)
        return;
    struct user *user = user_of(base);
    ob_list_remove(&user->node);
    forget(user->shared, user);
    for (int kind = 0; kind < KINDS; kind++)
        if (user->requests[kind].state != NONE)
            request_over(&user->requests[kind]);
    close(user->fd);
    ob_shared_store_unref(user->shared);
    ob_free(user);
}

static const struct ob_async_store_ops ops = {
    .kind = "shared",
    .close = user_close,
    .claim = user_claim,
    .settle = user_settle,
    .extend = user_extend,
    .fd = user_fd,
    .due_us = user_due_us,
    .step = user_step,
    .state = user_state,
    .pace = user_pace,
};

/* ---- life ---- */

enum outbox_code ob_shared_store_open(const struct ob_async_store_options *options, struct ob_shared_store **out,
                                      struct outbox_error *err)
{
    struct ob_shared_store *shared = ob_calloc(1, sizeof *shared);
    struct ob_async_store_options beneath = *options;
    *out = NULL;
    if (!shared)
        return ob_error_nomem(err);
    shared->refs = 1;
    ob_list_init(&shared->users);
    beneath.host = (struct ob_async_store_host){
        .ctx = shared, .claimed = on_claimed, .settled = on_settled, .extended = on_extended, .woken = on_woken};
    enum outbox_code code = ob_async_store_open(&beneath, &shared->async, err);
    if (code)
        ob_shared_store_unref(shared);
    else
        *out = shared;
    return code;
}

struct ob_shared_store *ob_shared_store_ref(struct ob_shared_store *shared)
{
    if (shared)
        shared->refs++;
    return shared;
}

void ob_shared_store_unref(struct ob_shared_store *shared)
{
    if (!shared || --shared->refs > 0)
        return;
    if (shared->async)
        shared->async->ops->close(shared->async);
    for (int kind = 0; kind < KINDS; kind++)
        ob_free(shared->beneath[kind].items);
    ob_free(shared);
}

enum outbox_code ob_shared_store_use(struct ob_shared_store *shared, const struct ob_async_store_host *host,
                                     struct ob_async_store **async, struct outbox_error *err)
{
    struct user *user = ob_calloc(1, sizeof *user);
    *async = NULL;
    if (!user)
        return ob_error_nomem(err);
    user->fd = fcntl(shared->async->ops->fd(shared->async), F_DUPFD_CLOEXEC, 3);
    if (user->fd < 0) {
        int cause = errno;
        ob_free(user);
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot watch the store's connections: %s", strerror(cause));
    }
    user->base.ops = &ops;
    user->shared = ob_shared_store_ref(shared);
    user->host = *host;
    ob_list_push(&shared->users, &user->node);
    *async = &user->base;
    return OUTBOX_OK;
}
