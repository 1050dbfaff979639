/* settle.c - records outcomes and extends leases.
 *
 * The token of a claim holds its attempt number, which never repeats: a late worker finds another number there, or no
 * lease, and changes nothing. The lease's end is not compared with the clock: an ack after expiry is valid as long as no other
 * claim has taken the message.
 *
 * The token also holds the message's number, and the numbers of a batch are mostly contiguous: so leases are read, and
 * delivered messages removed from the queue, in stretches of numbers. Only the attempts are written one by one. Keys are fixed
 * up at the end, once each: whatever left or came back, a key's first row is not parked.
 *
 * An outcome is never refused because of its text: invalid UTF-8 is replaced, and what is too long is truncated. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "core/fingerprint.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUT_MAX = 1048576 };

/* The lease that an item answers; n is 0 if there is none, or another claim holds it. */
struct held {
    int64_t n, sid, expires_at, claimed_at, base, cap;
    int attempt, spent, ceiling, deferred;
    const char *holder;
};

struct settle {
    struct outbox_settle *items;
    size_t count;
    size_t *order;     /* the items by the number of their message */
    struct held *held; /* one per item */
    int64_t *gone;     /* numbers that leave the queue, in order */
    size_t gone_count;
    int64_t *sids; /* keys to fix up */
    size_t sid_count;
    int64_t now, lease_us;
    struct ob_arena arena;                /* of texts */
    const char *print_code, *print_error; /* the last failure, and its fingerprint */
    int64_t print;
    bool printed;
};

/* ---- before the transaction -------------------------------------------------------------------------------------- */

static ob_code check(const struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].outcome < OUTBOX_DELIVERED || items[i].outcome > OUTBOX_SILENT || items[i].outcome == OUTBOX_LOST)
            return ob_error_set(err, OUTBOX_INVALID, "item %zu: %d is not an outcome that a worker can report", i + 1,
                                (int)items[i].outcome);
        if (items[i].delay_us > OB_MOST(delay))
            return ob_limit_check(OB_LIMIT_delay, "delay_us", items[i].delay_us, err);
        if (items[i].max_attempts < 0 || items[i].max_attempts > OB_MOST(max_attempts))
            return ob_limit_check(OB_LIMIT_max_attempts, "max_attempts", items[i].max_attempts, err);
    }
    return OUTBOX_OK;
}

static ob_code settle_init(struct settle *settle, struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    *settle = (struct settle){.items = items, .count = count};
    ob_arena_init(&settle->arena, 0);
    if (count > (size_t)OB_MOST(settle))
        return ob_limit_check(OB_LIMIT_settle, "count", (int64_t)count, err);
    settle->order = ob_calloc(count, sizeof *settle->order);
    settle->held = ob_calloc(count, sizeof *settle->held);
    settle->gone = ob_calloc(count, sizeof *settle->gone);
    settle->sids = ob_calloc(count, sizeof *settle->sids);
    return settle->order && settle->held && settle->gone && settle->sids ? OUTBOX_OK : ob_error_nomem(err);
}

static void settle_fini(struct settle *settle)
{
    ob_arena_fini(&settle->arena);
    ob_free(settle->order);
    ob_free(settle->held);
    ob_free(settle->gone);
    ob_free(settle->sids);
}

static int by_number(const void *a, const void *b, void *ctx)
{
    const struct outbox_settle *items = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int64_t left = ob_sqlite_token_number(items[x].token), right = ob_sqlite_token_number(items[y].token);
    return left != right ? (left < right ? -1 : 1) : (x > y) - (x < y);
}

static void sort_items(struct settle *settle)
{
    for (size_t i = 0; i < settle->count; i++)
        settle->order[i] = i;
    qsort_r(settle->order, settle->count, sizeof *settle->order, by_number, settle->items);
}

static int64_t number_at(const struct settle *settle, size_t place)
{
    return ob_sqlite_token_number(settle->items[settle->order[place]].token);
}

/* ---- the leases -------------------------------------------------------------------------------------------------- */

/* Whether the lease in this row is the one that an item answers. */
static bool is_answer(const struct ob_sqlite_store *store, const struct outbox_settle *item, sqlite3_stmt *stmt)
{
    struct outbox_uuid id;
    const char *holder = ob_sqlite_column(stmt, 8);
    if (store->worker && (!holder || strncmp(holder, store->worker, strlen(store->worker)) != 0))
        return false;
    return item->token == ob_sqlite_token(sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 2)) &&
           outbox_uuid_parse(ob_sqlite_column(stmt, 1), &id) && memcmp(&id, &item->id, sizeof id) == 0;
}

static bool read_held(struct settle *settle, sqlite3_stmt *stmt, struct held *held)
{
    *held = (struct held){
        .n = sqlite3_column_int64(stmt, 0),
        .attempt = sqlite3_column_int(stmt, 2),
        .sid = sqlite3_column_int64(stmt, 3),
        .spent = sqlite3_column_int(stmt, 4),
        .ceiling = sqlite3_column_int(stmt, 5),
        .expires_at = sqlite3_column_int64(stmt, 6),
        .claimed_at = sqlite3_column_int64(stmt, 7),
        .holder = ob_arena_strdup(&settle->arena, ob_sqlite_column(stmt, 8)),
        .base = sqlite3_column_int64(stmt, 9),
        .cap = sqlite3_column_int64(stmt, 10),
        .deferred = sqlite3_column_int(stmt, 11),
    };
    return held->holder != NULL;
}

/* Reads the leases of the items from first up to, but not including, end, whose numbers have no gap. If the same message occurs
 * twice in one call, the token is valid only for the first. */
static ob_code read_stretch(struct ob_sqlite_store *store, struct settle *settle, size_t first, size_t end,
                            struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ob_code code =
        ob_sqlite_start(store, OB_SQLITE_leased,
                        OB_ARGS(OB_NUM(number_at(settle, first)), OB_NUM(number_at(settle, end - 1))), &stmt, err);
    for (size_t place = first; !code;) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        int64_t n = sqlite3_column_int64(stmt, 0);
        while (place < end && number_at(settle, place) < n)
            place++;
        for (bool found = false; place < end && number_at(settle, place) == n; place++) {
            size_t i = settle->order[place];
            if (found || !is_answer(store, &settle->items[i], stmt))
                continue;
            found = true;
            if (!read_held(settle, stmt, &settle->held[i]))
                code = ob_error_nomem(err);
        }
    }
    ob_sqlite_done(stmt);
    return code;
}

static ob_code read_leases(struct ob_sqlite_store *store, struct settle *settle, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    memset(settle->held, 0, settle->count * sizeof *settle->held);
    for (size_t first = 0, end; first < settle->count && !code; first = end) {
        for (end = first + 1; end < settle->count && number_at(settle, end) <= number_at(settle, end - 1) + 1;)
            end++;
        code = read_stretch(store, settle, first, end, err);
    }
    return code;
}

/* ---- one item ---------------------------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* A deferred attempt spends nothing, so deferrals are counted separately. */
static bool puts_off(enum outbox_outcome outcome)
{
    return outcome == OUTBOX_LIMITED || outcome == OUTBOX_BLOCKED || outcome == OUTBOX_SILENT;
}

/* M11: min(base * 2^(n - 1), cap), then uniform in [d/2, d]; n counts the attempts that were spent, or the deferrals. */
static int64_t backoff(const struct held *held, enum outbox_outcome outcome)
{
    double delay = (double)held->base;
    uint64_t chance;
    int n = puts_off(outcome) ? held->deferred + 1 : held->spent;
    for (int i = 1; i < n && delay < (double)held->cap; i++)
        delay *= 2;
    if (delay > (double)held->cap)
        delay = (double)held->cap;
    sqlite3_randomness(sizeof chance, &chance);
    return (int64_t)(delay / 2 + delay / 2 * ((double)(chance >> 11) / (double)(1ULL << 53)));
}

static int64_t due_of(const struct settle *settle, const struct held *held, const struct outbox_settle *item)
{
    bool at_once = item->outcome == OUTBOX_RELEASED || item->outcome == OUTBOX_INTERRUPTED;
    int64_t delay = item->delay_us >= 0 ? item->delay_us : at_once ? 0 : backoff(held, item->outcome);
    int64_t due = settle->now + delay;
    /* A message that expires while it waits is due then, so that it is buried on time. */
    return held->expires_at && held->expires_at < due ? held->expires_at : due;
}

static void touch(struct settle *settle, const struct held *held)
{
    if (held->sid)
        settle->sids[settle->sid_count++] = held->sid;
}

static ob_code record(struct ob_sqlite_store *store, struct settle *settle, const struct held *held,
                      const struct outbox_settle *item, int outcome, int spent, struct outbox_error *err)
{
    return ob_sqlite_run(store, OB_SQLITE_attempt,
                         OB_ARGS(OB_NUM(held->n), OB_NUM(held->attempt), OB_NUM(outcome), OB_NUM(spent),
                                 OB_NUM(held->claimed_at), OB_NUM(settle->now),
                                 item->latency_us < 0 ? OB_NULL : OB_NUM(item->latency_us), OB_TEXT(held->holder),
                                 OB_TEXT(item->code), OB_TEXT(item->error), OB_TEXT(item->reference)),
                         NULL, err);
}

static ob_code fire(struct ob_sqlite_store *store, const struct settle *settle, const struct held *held,
                    const struct outbox_settle *item, const char *event, const char *status, struct outbox_error *err)
{
    return ob_sqlite_fire(store,
                          &(struct ob_sqlite_event){.n = held->n,
                                                    .now = settle->now,
                                                    .event = event,
                                                    .status = status,
                                                    .attempt = held->attempt,
                                                    .actor = held->holder,
                                                    .code = item->code,
                                                    .error = item->error,
                                                    .reference = item->reference,
                                                    .output = item->output},
                          err);
}

static ob_code delivered(struct ob_sqlite_store *store, struct settle *settle, const struct held *held,
                         const struct outbox_settle *item, struct outbox_error *err)
{
    ob_code code = record(store, settle, held, item, OUTBOX_DELIVERED, held->spent, err);
    if (code || !store->hooked) {
        settle->gone[settle->gone_count++] = held->n;
        return code;
    }
    /* A hook must see the message as delivered. */
    code = ob_sqlite_run(store, OB_SQLITE_gone, OB_ARGS(OB_NUM(held->n), OB_NUM(held->n)), NULL, err);
    return code ? code : fire(store, settle, held, item, "delivered", "delivered", err);
}

static ob_code dead(struct ob_sqlite_store *store, struct settle *settle, const struct held *held,
                    const struct outbox_settle *item, struct outbox_error *err)
{
    bool terminal = item->outcome == OUTBOX_FAILED;
    int outcome = item->outcome == OUTBOX_UNKNOWN ? OUTBOX_UNKNOWN : OUTBOX_FAILED;
    ob_code code = record(store, settle, held, item, outcome, held->spent, err);
    if (!code && item->max_attempts) /* for the dead letter's record */
        code = ob_sqlite_run(store, OB_SQLITE_limit_attempts, OB_ARGS(OB_NUM(held->n), OB_NUM(item->max_attempts)),
                             NULL, err);
    if (code)
        return code;
    return ob_sqlite_bury(store, held->n, held->sid, held->attempt, terminal ? "terminal" : "attempts", item->code,
                          item->error, held->holder, settle->now, err);
}

/* Limited or blocked for the same reason as the last attempt: that is not recorded again. */
static ob_code is_again(struct ob_sqlite_store *store, const struct held *held, const struct outbox_settle *item,
                        bool *again, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    *again = false;
    if (held->deferred == 0 || (item->outcome != OUTBOX_LIMITED && item->outcome != OUTBOX_BLOCKED))
        return OUTBOX_OK;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_last_attempt, OB_ARGS(OB_NUM(held->n)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code && row) {
        const char *last = ob_sqlite_column(stmt, 1);
        bool same = last && item->code ? strcmp(last, item->code) == 0 : last == item->code;
        *again = same && sqlite3_column_int(stmt, 0) == (int)item->outcome;
    }
    ob_sqlite_done(stmt);
    return code;
}

static int deferred_after(const struct held *held, enum outbox_outcome outcome)
{
    if (puts_off(outcome))
        return held->deferred + 1;
    return outcome == OUTBOX_RELEASED || outcome == OUTBOX_INTERRUPTED ? held->deferred : 0;
}

/* What was only given back has not failed. Most failures of a batch are alike, so the last one is remembered. */
static struct ob_sqlite_arg print_of(struct settle *settle, const struct outbox_settle *item)
{
    if (item->outcome == OUTBOX_RELEASED || item->outcome == OUTBOX_INTERRUPTED)
        return OB_NULL;
    if (!settle->printed || !same_text(settle->print_code, item->code) ||
        !same_text(settle->print_error, item->error)) {
        settle->print = ob_fingerprint(item->code, item->error);
        settle->print_code = item->code;
        settle->print_error = item->error;
        settle->printed = true;
    }
    return OB_NUM(settle->print);
}

static ob_code back(struct ob_sqlite_store *store, struct settle *settle, const struct held *held,
                    const struct outbox_settle *item, struct outbox_error *err)
{
    bool unspent = item->outcome != OUTBOX_RETRY && item->outcome != OUTBOX_UNKNOWN;
    int spent = held->spent - unspent;
    bool again;
    ob_code code = is_again(store, held, item, &again, err);
    if (!code && !again && item->outcome != OUTBOX_RELEASED)
        code = record(store, settle, held, item, item->outcome == OUTBOX_SILENT ? OUTBOX_UNKNOWN : (int)item->outcome,
                      spent, err);
    /* A row of a key is parked here and, when it is the first, woken at the end. */
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_back,
                             OB_ARGS(OB_NUM(held->n), OB_NUM(held->sid ? OB_SQLITE_PARKED : OB_SQLITE_READY),
                                     OB_NUM(due_of(settle, held, item)), OB_NUM(spent), OB_NUM(settle->now),
                                     OB_NUM(deferred_after(held, item->outcome)), OB_NUM_OR_NULL(item->max_attempts),
                                     print_of(settle, item)),
                             NULL, err);
    if (code || (item->outcome != OUTBOX_RETRY && item->outcome != OUTBOX_UNKNOWN))
        return code;
    return fire(store, settle, held, item, "retry", "pending", err);
}

static bool is_dying(const struct held *held, const struct outbox_settle *item)
{
    int limit = item->max_attempts ? item->max_attempts : held->ceiling;
    return item->outcome == OUTBOX_FAILED || ((item->outcome == OUTBOX_RETRY || item->outcome == OUTBOX_UNKNOWN) &&
                                              (held->spent >= limit || item->delay_us == OUTBOX_NEVER));
}

/* Converts the texts so that they can be stored. False if memory ran out. */
static bool tidy(struct settle *settle, const struct outbox_settle *given, struct outbox_settle *item)
{
    *item = *given;
    item->code = ob_sqlite_lossy(&settle->arena, given->code, OB_MOST(code));
    item->error = ob_sqlite_lossy(&settle->arena, given->error, OB_MOST(error));
    item->reference = ob_sqlite_lossy(&settle->arena, given->reference, OB_MOST(reference));
    item->output = ob_sqlite_lossy(&settle->arena, given->output, OUTPUT_MAX);
    return !item->code == !given->code && !item->error == !given->error && !item->reference == !given->reference &&
           !item->output == !given->output;
}

static ob_code end_attempt(struct ob_sqlite_store *store, struct settle *settle, const struct held *held,
                           struct outbox_settle *given, struct outbox_error *err)
{
    struct outbox_settle item;
    if (!tidy(settle, given, &item))
        return ob_error_nomem(err);
    touch(settle, held);
    given->result = OUTBOX_SETTLED;
    given->dead = is_dying(held, &item);
    if (given->dead)
        return dead(store, settle, held, &item, err);
    return item.outcome == OUTBOX_DELIVERED ? delivered(store, settle, held, &item, err)
                                            : back(store, settle, held, &item, err);
}

/* Another claim holds the lease, or none does; or there is no such message. */
static ob_code refuse(struct ob_sqlite_store *store, struct outbox_settle *item, struct outbox_error *err)
{
    char id[37];
    int64_t n;
    outbox_uuid_format(&item->id, id);
    ob_code code = ob_sqlite_number(store, OB_SQLITE_find, OB_ARGS(OB_TEXT(id)), 0, &n, err);
    item->result = n ? OUTBOX_SETTLE_LOST : OUTBOX_SETTLE_UNKNOWN;
    return code;
}

static ob_code settle_one(struct ob_sqlite_store *store, struct settle *settle, size_t i, struct outbox_error *err)
{
    struct outbox_settle *item = &settle->items[i];
    item->dead = false;
    return settle->held[i].n ? end_attempt(store, settle, &settle->held[i], item, err) : refuse(store, item, err);
}

/* ---- the transaction --------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static ob_code wake_heads(struct ob_sqlite_store *store, struct settle *settle, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    qsort(settle->sids, settle->sid_count, sizeof *settle->sids, compare);
    for (size_t i = 0; i < settle->sid_count && !code; i++)
        if (i == 0 || settle->sids[i] != settle->sids[i - 1])
            code = ob_sqlite_wake(store, OB_SQLITE_wake_head, OB_ARGS(OB_NUM(settle->sids[i])), err);
    return code;
}

static ob_code leave_queue(struct ob_sqlite_store *store, struct settle *settle, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    qsort(settle->gone, settle->gone_count, sizeof *settle->gone, compare);
    for (size_t first = 0, end; first < settle->gone_count && !code; first = end) {
        for (end = first + 1; end < settle->gone_count && settle->gone[end] == settle->gone[end - 1] + 1;)
            end++;
        code = ob_sqlite_run(store, OB_SQLITE_gone, OB_ARGS(OB_NUM(settle->gone[first]), OB_NUM(settle->gone[end - 1])),
                             NULL, err);
    }
    return code;
}

static ob_code settle_all(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct settle *settle = ctx;
    ob_code code;
    settle->now = ob_clock_wall_us();
    settle->sid_count = settle->gone_count = 0;
    code = read_leases(store, settle, err);
    for (size_t i = 0; i < settle->count && !code; i++)
        code = settle_one(store, settle, i, err);
    if (!code)
        code = leave_queue(store, settle, err);
    return code ? code : wake_heads(store, settle, err);
}

ob_code ob_sqlite_settle(struct ob_store *base, struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct settle settle;
    if (count == 0)
        return OUTBOX_OK;
    ob_code code = check(items, count, err);
    if (code)
        return code;
    code = settle_init(&settle, items, count, err);
    if (!code) {
        sort_items(&settle);
        code = ob_sqlite_transact(store, settle_all, &settle, err);
    }
    settle_fini(&settle);
    return code;
}

static ob_code extend_all(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct settle *settle = ctx;
    ob_code code = OUTBOX_OK;
    int64_t until = ob_clock_wall_us() + settle->lease_us;
    for (size_t i = 0; i < settle->count && !code; i++) {
        struct outbox_settle *item = &settle->items[i];
        int64_t changed = 0, n = ob_sqlite_token_number(item->token);
        char id[37];
        outbox_uuid_format(&item->id, id);
        item->dead = false;
        item->result = OUTBOX_SETTLED;
        code = ob_sqlite_run(store, OB_SQLITE_extend,
                             OB_ARGS(OB_NUM(n), OB_NUM(item->token - ob_sqlite_token(n, 0)), OB_NUM(until), OB_TEXT(id),
                                     OB_TEXT(store->worker)),
                             &changed, err);
        if (!code && !changed)
            code = refuse(store, item, err);
    }
    return code;
}

ob_code ob_sqlite_extend(struct ob_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                         struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct settle settle;
    ob_code code = ob_limit_check(OB_LIMIT_lease, "lease_us", lease_us, err);
    if (code || count == 0)
        return code;
    code = settle_init(&settle, items, count, err);
    settle.lease_us = lease_us;
    if (!code)
        code = ob_sqlite_transact(store, extend_all, &settle, err);
    settle_fini(&settle);
    return code;
}
