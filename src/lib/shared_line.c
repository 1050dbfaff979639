/* shared_line.c - see shared_line.h.
 *
 * An ask of a user is NONE, WAITING for its turn, or OUT on the line beneath. One of each kind is out at a time; the next
 * one goes when that was answered, from within step.
 *
 * A user may go while its ask is out. So the line beneath is never given a user's own items: it works on a copy, and the
 * results are handed on if the user is still there. */
#include "lib/shared_line.h"

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

struct ask {
    enum state state;
    bool nomem;      /* it could not be copied: told in the next step */
    uint64_t number; /* the lowest of those that wait goes first */
    int64_t deadline_us;
    struct ob_arena arena;       /* of the claim, while it waits */
    struct outbox_claim want;    /* likewise */
    struct outbox_settle *items; /* the host's */
    size_t count;
    int64_t lease_us;
};

struct user {
    struct ob_line base; /* first: the ops find us by a cast */
    struct ob_shared_line *shared;
    struct ob_list node;
    struct ob_line_host host;
    int fd; /* a duplicate: a loop does not watch one descriptor twice */
    struct ask asks[KINDS];
};

struct ob_shared_line {
    struct ob_line *line;
    int refs;
    struct ob_list users;
    uint64_t asked;
    struct {
        bool out;
        struct user *user; /* whose it is; NULL: that one has gone */
        struct outbox_settle *items;
        size_t count, room;
    } beneath[KINDS];
};

static struct user *user_of(struct ob_line *base)
{
    return (struct user *)(void *)base;
}

static const struct user *user_of_const(const struct ob_line *base)
{
    return (const struct user *)(const void *)base;
}

/* ---- answers ---- */

static void ask_over(struct ask *ask)
{
    ob_arena_fini(&ask->arena);
    ask->state = NONE;
    ask->nomem = false;
}

static void tell(struct user *user, enum kind kind, enum outbox_code code, const struct outbox_error *err,
                 struct outbox_batch *batch)
{
    const struct ob_line_host *host = &user->host;
    ask_over(&user->asks[kind]);
    switch (kind) {
    case CLAIM: host->claimed(host->ctx, code, err, batch); break;
    case SETTLE: host->settled(host->ctx, code, err); break;
    default: host->extended(host->ctx, code, err); break;
    }
}

/* Whose ask was answered; NULL when nobody waits for it any more. */
static struct user *answered(struct ob_shared_line *shared, enum kind kind, enum outbox_code code)
{
    struct user *user = shared->beneath[kind].user;
    shared->beneath[kind].out = false;
    shared->beneath[kind].user = NULL;
    for (size_t i = 0; user && !code && i < shared->beneath[kind].count; i++) {
        user->asks[kind].items[i].result = shared->beneath[kind].items[i].result;
        user->asks[kind].items[i].dead = shared->beneath[kind].items[i].dead;
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
    struct ob_shared_line *shared = ctx;
    OB_LIST_EACH (it, &shared->users) {
        const struct user *user = OB_CONTAINER(it, struct user, node);
        user->host.woken(user->host.ctx);
    }
}

/* ---- asking ---- */

static bool copy_items(struct ob_shared_line *shared, enum kind kind, const struct ask *ask)
{
    if (ask->count > shared->beneath[kind].room) {
        struct outbox_settle *items = ob_calloc(ask->count, sizeof *items);
        if (!items)
            return false;
        ob_free(shared->beneath[kind].items);
        shared->beneath[kind].items = items;
        shared->beneath[kind].room = ask->count;
    }
    if (ask->count > 0)
        memcpy(shared->beneath[kind].items, ask->items, ask->count * sizeof *ask->items);
    shared->beneath[kind].count = ask->count;
    return true;
}

static void pass_on(struct ob_shared_line *shared, struct user *user, enum kind kind, const struct outbox_claim *want,
                    int64_t timeout_us)
{
    struct ob_line *line = shared->line;
    struct ask *ask = &user->asks[kind];
    if (!copy_items(shared, kind, ask)) {
        ask->state = OUT;
        ask->nomem = true;
        return;
    }
    struct outbox_settle *items = shared->beneath[kind].items;
    ask->state = OUT;
    shared->beneath[kind].out = true;
    shared->beneath[kind].user = user;
    switch (kind) {
    case CLAIM: line->ops->claim(line, want, timeout_us); break;
    case SETTLE: line->ops->settle(line, items, ask->count, timeout_us); break;
    default: line->ops->extend(line, items, ask->count, ask->lease_us, timeout_us); break;
    }
}

/* The one that has waited longest. */
static struct user *next_user(struct ob_shared_line *shared, enum kind kind)
{
    struct user *first = NULL;
    OB_LIST_EACH (it, &shared->users) {
        struct user *user = OB_CONTAINER(it, struct user, node);
        const struct ask *ask = &user->asks[kind];
        if (ask->state == WAITING && !ask->nomem && (!first || ask->number < first->asks[kind].number))
            first = user;
    }
    return first;
}

static void pass_on_waiting(struct ob_shared_line *shared)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct user *user = shared->beneath[kind].out ? NULL : next_user(shared, (enum kind)kind);
        if (!user)
            continue;
        struct ask *ask = &user->asks[kind];
        int64_t left = ask->deadline_us - ob_clock_boot_us();
        pass_on(shared, user, (enum kind)kind, &ask->want, left > 1 ? left : 1);
    }
}

static struct ask *begin(struct user *user, enum kind kind, int64_t timeout_us)
{
    struct ask *ask = &user->asks[kind];
    int64_t now_us = ob_clock_boot_us();
    assert(ask->state == NONE);
    *ask = (struct ask){.state = WAITING, .number = ++user->shared->asked};
    ask->deadline_us = timeout_us < INT64_MAX - now_us ? now_us + timeout_us : INT64_MAX;
    ob_arena_init(&ask->arena, 0);
    return ask;
}

static bool may_go(struct user *user, enum kind kind)
{
    return !user->shared->beneath[kind].out && next_user(user->shared, kind) == user;
}

static void user_claim(struct ob_line *base, const struct outbox_claim *want, int64_t timeout_us)
{
    struct user *user = user_of(base);
    struct ask *ask = begin(user, CLAIM, timeout_us);
    if (may_go(user, CLAIM))
        pass_on(user->shared, user, CLAIM, want, timeout_us);
    else
        ask->nomem = !ob_claim_copy(&ask->arena, want, &ask->want);
}

static void ask_with_items(struct user *user, enum kind kind, struct outbox_settle *items, size_t count,
                           int64_t lease_us, int64_t timeout_us)
{
    struct ask *ask = begin(user, kind, timeout_us);
    ask->items = items;
    ask->count = count;
    ask->lease_us = lease_us;
    if (may_go(user, kind))
        pass_on(user->shared, user, kind, NULL, timeout_us);
}

static void user_settle(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    ask_with_items(user_of(base), SETTLE, items, count, 0, timeout_us);
}

static void user_extend(struct ob_line *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    ask_with_items(user_of(base), EXTEND, items, count, lease_us, timeout_us);
}

/* ---- for the host ---- */

/* What waits has a deadline too, and what found no memory is told so. */
static void tell_failed(struct user *user, int64_t now_us)
{
    struct outbox_error err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct ask *ask = &user->asks[kind];
        if (ask->nomem) {
            ob_error_nomem(&err);
            tell(user, (enum kind)kind, err.code, &err, NULL);
        } else if (ask->state == WAITING && now_us >= ask->deadline_us) {
            ob_error_set(&err, OUTBOX_UNREACHABLE, "the store did not answer in time");
            tell(user, (enum kind)kind, err.code, &err, NULL);
        }
    }
}

static void user_step(struct ob_line *base)
{
    struct user *user = user_of(base);
    struct ob_shared_line *shared = user->shared;
    shared->line->ops->step(shared->line);
    tell_failed(user, ob_clock_boot_us());
    pass_on_waiting(shared);
}

static int user_fd(const struct ob_line *base)
{
    return user_of_const(base)->fd;
}

static int64_t user_due_us(const struct ob_line *base)
{
    const struct user *user = user_of_const(base);
    const struct ob_line *line = user->shared->line;
    int64_t due_us = line->ops->due_us(line);
    for (int kind = 0; kind < KINDS; kind++) {
        const struct ask *ask = &user->asks[kind];
        if (ask->nomem)
            return 0;
        if (ask->state == WAITING && ask->deadline_us < due_us)
            due_us = ask->deadline_us;
    }
    return due_us;
}

static void user_state(const struct ob_line *base, struct ob_line_state *state)
{
    const struct ob_line *line = user_of_const(base)->shared->line;
    line->ops->state(line, state);
}

static void user_pace(struct ob_line *base, int64_t fallback_us)
{
    struct ob_line *line = user_of(base)->shared->line;
    line->ops->pace(line, fallback_us);
}

/* The texts of what is out are the user's, and go with it. */
static void forget(struct ob_shared_line *shared, const struct user *user)
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

static void user_close(struct ob_line *base)
{
    if (!base)
        return;
    struct user *user = user_of(base);
    ob_list_remove(&user->node);
    forget(user->shared, user);
    for (int kind = 0; kind < KINDS; kind++)
        if (user->asks[kind].state != NONE)
            ask_over(&user->asks[kind]);
    close(user->fd);
    ob_shared_line_unref(user->shared);
    ob_free(user);
}

static const struct ob_line_ops ops = {
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

enum outbox_code ob_shared_line_open(const struct ob_line_options *options, struct ob_shared_line **out,
                                     struct outbox_error *err)
{
    struct ob_shared_line *shared = ob_calloc(1, sizeof *shared);
    struct ob_line_options beneath = *options;
    *out = NULL;
    if (!shared)
        return ob_error_nomem(err);
    shared->refs = 1;
    ob_list_init(&shared->users);
    beneath.host = (struct ob_line_host){
        .ctx = shared, .claimed = on_claimed, .settled = on_settled, .extended = on_extended, .woken = on_woken};
    enum outbox_code code = ob_line_open(&beneath, &shared->line, err);
    if (code)
        ob_shared_line_unref(shared);
    else
        *out = shared;
    return code;
}

struct ob_shared_line *ob_shared_line_ref(struct ob_shared_line *shared)
{
    if (shared)
        shared->refs++;
    return shared;
}

void ob_shared_line_unref(struct ob_shared_line *shared)
{
    if (!shared || --shared->refs > 0)
        return;
    if (shared->line)
        shared->line->ops->close(shared->line);
    for (int kind = 0; kind < KINDS; kind++)
        ob_free(shared->beneath[kind].items);
    ob_free(shared);
}

enum outbox_code ob_shared_line_use(struct ob_shared_line *shared, const struct ob_line_host *host,
                                    struct ob_line **line, struct outbox_error *err)
{
    struct user *user = ob_calloc(1, sizeof *user);
    *line = NULL;
    if (!user)
        return ob_error_nomem(err);
    user->fd = fcntl(shared->line->ops->fd(shared->line), F_DUPFD_CLOEXEC, 3);
    if (user->fd < 0) {
        int cause = errno;
        ob_free(user);
        return ob_error_set(err, OUTBOX_INTERNAL, "cannot watch the store's connections: %s", strerror(cause));
    }
    user->base.ops = &ops;
    user->shared = ob_shared_line_ref(shared);
    user->host = *host;
    ob_list_push(&shared->users, &user->node);
    *line = &user->base;
    return OUTBOX_OK;
}
