/* claim.c - claims messages under a lease.
 *
 *   1 look    without a lock, unless the last claim was full: an idle relay never writes and blocks no producer
 *   2 choose  under the lock: admit the log to the queue; then what goes out of turn (fairness.c), then the best first (due_scan.c)
 *   3 order   of a key, take only the first row, or rows that follow this worker's own; park the rest
 *   4 bury    what has no attempts left, or has expired
 *   5 lease   the others; record the attempt that was lost with an expired lease
 *   6 read    the messages themselves after the commit: they are immutable, and leased to us by then
 *
 * A message whose attempts were all lost may have crashed its worker, or was only in the same batch as one that did: its last
 * attempt is made in a batch of its own, so that it cannot fail other messages. Such batches and others alternate. A batch ends
 * before its payloads exceed max_bytes; the first message is taken whatever its size. In both cases the claim reports that
 * there is more.
 *
 * A claim that crashes after the commit loses nothing: its leases expire. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 500, BURY_CHUNK = 500, BURY_MAX_US = 200000, ADMIT = 2000 };

/* Messages of one lane and priority that need no special handling: no key, attempts left, not expired. They are taken in the
 * order of the index, so the last one determines them all, and one statement leases them. */
struct span {
    int64_t lane, due, n;
    int prio;
    int64_t count;
};

struct claim {
    struct ob_sqlite_store *store;
    const struct outbox_claim *want;
    char tenant_text[37];
    const char *tenant;
    struct ob_buf topics, only, skip, rules; /* JSON, what scope is made of */
    struct ob_sqlite_scope scope;
    struct ob_arena arena; /* of the choice */
    struct ob_sqlite_due_scan *scan;
    int64_t now;
    struct ob_sqlite_taken *taken;
    struct span *spans; /* plain messages that were taken; leased at the end */
    size_t span_count, span_cap;
    size_t count;   /* taken so far */
    int64_t bytes;  /* of them */
    bool more;      /* something was left behind, though there was room */
    bool alone;     /* the message taken is a batch of its own */
    bool died;      /* something was buried: others may be behind it */
    int64_t single; /* a message to be claimed alone now; 0: none */
    int64_t later;  /* the first message that must go alone and was left behind; 0: none */
    bool pressed;   /* probably there is more than it can take */
    bool turns;     /* what is being taken goes out of turn */
    int64_t start_bytes;
    size_t start, room; /* of this write transaction: count before it, and the most after it */
    size_t buried;      /* by it */
};

/* ---- what is wanted ---------------------------------------------------------------------------------------------- */

static ob_code check(struct claim *claim, struct outbox_error *err)
{
    const struct outbox_claim *want = claim->want;
    const struct {
        enum ob_limit limit;
        const char *name;
        int64_t value;
        bool optional; /* 0: not given */
    } values[] = {
        {OB_LIMIT_worker, "worker", want->worker ? (int64_t)strlen(want->worker) : 0, false},
        {OB_LIMIT_claim, "limit", want->limit, false},
        {OB_LIMIT_lease, "lease_us", want->lease_us, false},
        {OB_LIMIT_run, "run", want->run, false},
        {OB_LIMIT_max_attempts, "max_attempts", want->max_attempts, true},
        {OB_LIMIT_retry_base, "retry_base_us", want->retry_base_us, true},
        {OB_LIMIT_retry_cap, "retry_cap_us", want->retry_cap_us, true},
    };
    ob_code code = ob_sqlite_check_utf8("worker", want->worker, err);
    for (size_t i = 0; i < sizeof values / sizeof values[0] && !code; i++)
        if (values[i].value || !values[i].optional)
            code = ob_limit_check(values[i].limit, values[i].name, values[i].value, err);
    return code ? code : ob_sqlite_check_tenant(want->tenant_id, claim->tenant_text, &claim->tenant, err);
}

/* False if memory ran out. */
static bool make_scope(struct claim *claim)
{
    const struct outbox_claim *want = claim->want;
    struct ob_sqlite_scope *scope = &claim->scope;
    if (want->topics)
        ob_sqlite_json_texts(&claim->topics, want->topics, want->topic_count);
    if (want->only)
        ob_sqlite_json_lanes(&claim->only, want->only, want->only_count);
    if (want->skip_count)
        ob_sqlite_json_lanes(&claim->skip, want->skip, want->skip_count);
    if (want->rule_count)
        ob_sqlite_json_rules(&claim->rules, want->rules, want->rule_count);
    scope->name_space = want->name_space;
    scope->topics = want->topics ? ob_buf_text(&claim->topics) : NULL;
    scope->only = want->only ? ob_buf_text(&claim->only) : NULL;
    scope->skip = want->skip_count ? ob_buf_text(&claim->skip) : NULL;
    scope->rules = want->rule_count ? ob_buf_text(&claim->rules) : NULL;
    return ob_buf_ok(&claim->topics) && ob_buf_ok(&claim->only) && ob_buf_ok(&claim->skip) && ob_buf_ok(&claim->rules);
}

static ob_code claim_init(struct claim *claim, struct ob_sqlite_store *store, const struct outbox_claim *want,
                          struct outbox_error *err)
{
    *claim = (struct claim){.store = store, .want = want};
    ob_buf_init(&claim->topics);
    ob_buf_init(&claim->only);
    ob_buf_init(&claim->skip);
    ob_buf_init(&claim->rules);
    ob_arena_init(&claim->arena, 0);
    ob_code code = check(claim, err);
    if (code)
        return code;
    if (!make_scope(claim))
        return ob_error_nomem(err);
    claim->taken = ob_alloc((size_t)want->limit * sizeof *claim->taken);
    return claim->taken ? OUTBOX_OK : ob_error_nomem(err);
}

static void claim_fini(struct claim *claim)
{
    ob_sqlite_due_scan_fini(claim->scan);
    ob_arena_fini(&claim->arena);
    ob_buf_fini(&claim->topics);
    ob_buf_fini(&claim->only);
    ob_buf_fini(&claim->skip);
    ob_buf_fini(&claim->rules);
    ob_free(claim->taken);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* The position of a row in its key. */
struct place {
    bool behind; /* there are rows before it */
    bool own;    /* all of them are leased under this worker's name */
    bool spoken; /* all of them are leased by a claim that may prefetch it */
};

static ob_code place_of(struct claim *claim, const struct ob_sqlite_entry *entry, struct place *place,
                        struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    *place = (struct place){.own = true, .spoken = true};
    ob_code code =
        ob_sqlite_start(claim->store, OB_SQLITE_ahead, OB_ARGS(OB_NUM(entry->sid), OB_NUM(entry->seq)), &stmt, err);
    while (!code && (place->own || place->spoken)) {
        code = ob_sqlite_step(claim->store, stmt, &row, err);
        if (code || !row)
            return code;
        const char *holder = ob_sqlite_column(stmt, 1);
        bool leased = sqlite3_column_int(stmt, 0) == OB_SQLITE_LEASED;
        bool mine = holder && strcmp(holder, claim->want->worker) == 0 && sqlite3_column_int64(stmt, 2) > claim->now;
        place->behind = true;
        place->own = place->own && leased && mine;
        place->spoken = place->spoken && leased && sqlite3_column_int(stmt, 3);
    }
    ob_sqlite_done(stmt);
    return code;
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

static int ceiling_of(const struct claim *claim, const struct ob_sqlite_entry *entry)
{
    int limit = claim->want->max_attempts;
    return limit && limit < entry->max_attempts ? limit : entry->max_attempts;
}

static bool is_dying(const struct claim *claim, const struct ob_sqlite_entry *entry)
{
    return entry->spent >= ceiling_of(claim, entry) || (entry->expires_at && entry->expires_at <= claim->now);
}

static bool is_alone(const struct claim *claim, const struct ob_sqlite_entry *entry)
{
    return entry->spent > 0 && entry->spent == ceiling_of(claim, entry) - 1 &&
           entry->lost + (entry->state == OB_SQLITE_LEASED) >= entry->spent;
}

/* Whether the batch may take it. If not, the batch ends here. */
static bool may_join(struct claim *claim, const struct ob_sqlite_entry *entry)
{
    if (is_alone(claim, entry) && entry->n != claim->single) {
        claim->later = claim->later ? claim->later : entry->n;
        claim->more = true;
        return false;
    }
    if (claim->count > 0 && claim->want->max_bytes &&
        (uint64_t)claim->bytes + (uint64_t)entry->bytes > claim->want->max_bytes) {
        claim->more = true;
        claim->room = claim->count;
        return false;
    }
    return true;
}

static void took(struct claim *claim, const struct ob_sqlite_entry *entry)
{
    const struct outbox_claim *want = claim->want;
    const struct ob_sqlite_lane *lane = ob_sqlite_due_scan_lane(claim->scan, entry->lane);
    claim->taken[claim->count++] =
        (struct ob_sqlite_taken){.entry = *entry,
                                 .ceiling = ceiling_of(claim, entry),
                                 .claimed_at = claim->now,
                                 .retry_base = want->retry_base_us ? want->retry_base_us : lane->retry_base,
                                 .retry_cap = want->retry_cap_us ? want->retry_cap_us : lane->retry_cap};
    claim->bytes += entry->bytes;
}

static ob_code record_lost(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    ob_code code = ob_sqlite_run(claim->store, OB_SQLITE_attempt,
                                 OB_ARGS(OB_NUM(entry->n), OB_NUM(entry->attempts), OB_NUM(OUTBOX_LOST),
                                         OB_NUM(entry->spent), OB_NUM(entry->claimed_at), OB_NUM(claim->now), OB_NULL,
                                         OB_TEXT(entry->holder), OB_TEXT("lease_expired"),
                                         OB_TEXT("the worker did not settle before its lease expired"), OB_NULL),
                                 NULL, err);
    return code ? code : ob_sqlite_run(claim->store, OB_SQLITE_repair, OB_NO_ARGS, NULL, err);
}

static ob_code die(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    struct ob_sqlite_store *store = claim->store;
    char at[OB_CLOCK_TEXT], text[OB_CLOCK_TEXT + 16];
    if (entry->expires_at && entry->expires_at <= claim->now) {
        ob_clock_format(entry->expires_at, at);
        snprintf(text, sizeof text, "expired at %s", at);
        return ob_sqlite_bury(store, entry->n, entry->sid, entry->attempts, "expired", "expired", text,
                              claim->want->worker, claim->now, err);
    }
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_last_failure, OB_ARGS(OB_NUM(entry->n)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code)
        return code;
    code =
        ob_sqlite_bury(store, entry->n, entry->sid, entry->attempts, "attempts", row ? ob_sqlite_column(stmt, 0) : NULL,
                       row ? ob_sqlite_column(stmt, 1) : NULL, claim->want->worker, claim->now, err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code lease(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    const struct outbox_claim *want = claim->want;
    const struct ob_sqlite_lane *lane = ob_sqlite_due_scan_lane(claim->scan, entry->lane);
    int ceiling = ceiling_of(claim, entry);
    int64_t changed = 0;
    ob_code code = entry->state == OB_SQLITE_LEASED ? record_lost(claim, entry, err) : OUTBOX_OK;
    if (code)
        return code;
    code = ob_sqlite_run(claim->store, OB_SQLITE_lease,
                         OB_ARGS(OB_NUM(entry->n), OB_NUM(entry->state), OB_NUM(entry->attempts),
                                 OB_NUM(claim->now + want->lease_us), OB_NUM(claim->now), OB_NUM(ceiling),
                                 OB_NUM(want->retry_base_us ? want->retry_base_us : lane->retry_base),
                                 OB_NUM(want->retry_cap_us ? want->retry_cap_us : lane->retry_cap),
                                 OB_NUM(want->prefetch), OB_TEXT(want->worker)),
                         &changed, err);
    if (!code && changed)
        took(claim, entry);
    return code;
}

static bool is_plain(const struct claim *claim, const struct ob_sqlite_entry *entry)
{
    return entry->state == OB_SQLITE_READY && !entry->sid && !claim->tenant && !claim->turns &&
           !is_dying(claim, entry) && !is_alone(claim, entry) && !ob_sqlite_due_scan_wide(claim->scan);
}

static ob_code take_plain(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    size_t i = 0;
    while (i < claim->span_count && (claim->spans[i].lane != entry->lane || claim->spans[i].prio != entry->prio))
        i++;
    if (i == claim->span_cap) {
        size_t cap = claim->span_cap ? 2 * claim->span_cap : 16;
        struct span *grown = ob_arena_alloc(&claim->arena, cap * sizeof *grown);
        if (!grown)
            return ob_error_nomem(err);
        if (claim->span_count)
            memcpy(grown, claim->spans, claim->span_count * sizeof *grown);
        claim->spans = grown;
        claim->span_cap = cap;
    }
    if (i == claim->span_count)
        claim->spans[claim->span_count++] = (struct span){.lane = entry->lane, .prio = entry->prio};
    claim->spans[i].due = entry->due;
    claim->spans[i].n = entry->n;
    claim->spans[i].count++;
    took(claim, entry);
    return OUTBOX_OK;
}

static ob_code lease_plain(struct claim *claim, const struct span *span, struct outbox_error *err)
{
    const struct outbox_claim *want = claim->want;
    const struct ob_sqlite_lane *lane = ob_sqlite_due_scan_lane(claim->scan, span->lane);
    int64_t changed = 0;
    ob_code code = ob_sqlite_run(claim->store, OB_SQLITE_lease_plain,
                                 OB_ARGS(OB_NUM(span->lane), OB_NUM(span->prio), OB_NUM(span->due), OB_NUM(span->n),
                                         OB_NUM(claim->now),
                                         OB_NUM(want->max_attempts ? want->max_attempts : OB_MOST(max_attempts)),
                                         OB_NUM(claim->now + want->lease_us),
                                         OB_NUM(want->retry_base_us ? want->retry_base_us : lane->retry_base),
                                         OB_NUM(want->retry_cap_us ? want->retry_cap_us : lane->retry_cap),
                                         OB_NUM(want->prefetch), OB_TEXT(want->worker)),
                                 &changed, err);
    if (!code && changed != span->count)
        return ob_error_set(err, OUTBOX_CORRUPT,
                            "the queue's index and its rows disagree: %lld messages read, %lld leased; "
                            "check the file with PRAGMA integrity_check",
                            (long long)span->count, (long long)changed);
    return code;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool may_follow(const struct claim *claim, const struct ob_sqlite_entry *entry)
{
    return (entry->state == OB_SQLITE_READY || entry->state == OB_SQLITE_PARKED) && entry->due <= claim->now &&
           !is_dying(claim, entry) && ob_sqlite_due_scan_lane(claim->scan, entry->lane);
}

/* The rows of a key after the one just leased. All are read first: leasing changes what is being read. */
static ob_code read_run(struct claim *claim, const struct ob_sqlite_entry *head, int64_t most,
                        struct ob_sqlite_entry **run, size_t *count, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    *count = 0;
    *run = ob_arena_alloc(&claim->arena, (size_t)most * sizeof **run);
    if (!*run)
        return ob_error_nomem(err);
    ob_code code = ob_sqlite_start(claim->store, OB_SQLITE_follow,
                                   OB_ARGS(OB_NUM(head->sid), OB_NUM(head->seq), OB_NUM(most)), &stmt, err);
    while (!code) {
        code = ob_sqlite_step(claim->store, stmt, &row, err);
        if (code || !row)
            return code;
        ob_sqlite_entry_read(stmt, &(*run)[*count]);
        if (!may_follow(claim, &(*run)[*count]))
            break;
        ++*count;
    }
    ob_sqlite_done(stmt);
    return code;
}

static ob_code take_run(struct claim *claim, const struct ob_sqlite_entry *head, struct outbox_error *err)
{
    /* A retried message is claimed without its successors: if it failed again, they would only be released. */
    int64_t most = head->spent > 0 ? 0 : claim->want->run - 1;
    if (most > (int64_t)(claim->room - claim->count))
        most = (int64_t)(claim->room - claim->count);
    struct ob_sqlite_entry *run;
    size_t count = 0;
    int64_t seq = head->seq;
    ob_code code = most > 0 ? read_run(claim, head, most, &run, &count, err) : OUTBOX_OK;
    for (size_t i = 0; i < count && !code && may_join(claim, &run[i]); i++) {
        code = lease(claim, &run[i], err);
        seq = run[i].seq;
    }
    if (!code && claim->want->prefetch)
        code = ob_sqlite_wake(claim->store, OB_SQLITE_wake_next, OB_ARGS(OB_NUM(head->sid), OB_NUM(seq)), err);
    return code;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* After a message of a key was buried, the next row may be due, which it was not when the scan began. */
static ob_code find_heir(struct claim *claim, int64_t sid, struct ob_sqlite_entry *heir, bool *has,
                         struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    *has = false;
    ob_code code =
        ob_sqlite_start(claim->store, OB_SQLITE_follow, OB_ARGS(OB_NUM(sid), OB_NUM(0), OB_NUM(1)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(claim->store, stmt, has, err);
    if (code || !*has)
        return code;
    ob_sqlite_entry_read(stmt, heir);
    ob_sqlite_done(stmt);
    *has =
        heir->state == OB_SQLITE_READY && heir->due <= claim->now && ob_sqlite_due_scan_lane(claim->scan, heir->lane);
    return OUTBOX_OK;
}

static ob_code bury(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    ob_code code = entry->state == OB_SQLITE_LEASED ? record_lost(claim, entry, err) : OUTBOX_OK;
    claim->died = true;
    claim->buried++;
    return code ? code : die(claim, entry, err);
}

static ob_code take(struct claim *claim, const struct ob_sqlite_entry *entry, struct outbox_error *err)
{
    struct ob_sqlite_entry heir;
    ob_code code;
    for (bool has;; entry = &heir) { /* a whole key may have expired */
        struct place place = {0};
        code = entry->sid ? place_of(claim, entry, &place, err) : OUTBOX_OK;
        if (code)
            return code;
        if (place.behind && !(place.own && claim->want->prefetch)) {
            if (place.spoken || entry->state != OB_SQLITE_READY)
                return OUTBOX_OK;
            return ob_sqlite_run(claim->store, OB_SQLITE_park, OB_ARGS(OB_NUM(entry->n)), NULL, err);
        }
        if (!is_dying(claim, entry))
            break;
        code = bury(claim, entry, err);
        if (code || !entry->sid || claim->count >= claim->room || claim->buried >= BURY_CHUNK)
            return code;
        code = find_heir(claim, entry->sid, &heir, &has, err);
        if (code || !has)
            return code;
    }
    if (!may_join(claim, entry))
        return OUTBOX_OK;
    if (is_plain(claim, entry))
        return take_plain(claim, entry, err);
    size_t before = claim->count;
    code = lease(claim, entry, err);
    if (!code && entry->sid && claim->count > before)
        code = take_run(claim, entry, err);
    return code;
}

/* Runs before the rest, which then reads the index as these left it. */
static ob_code take_turns(struct claim *claim, struct outbox_error *err)
{
    struct ob_sqlite_entry *entries;
    size_t count;
    ob_code code = ob_sqlite_fairness_take(claim->store, &claim->arena, claim->scan, claim->room - claim->count,
                                           claim->now, &entries, &count, err);
    claim->turns = true;
    for (size_t i = 0; i < count && claim->count < claim->room && !code; i++)
        code = take(claim, &entries[i], err);
    claim->turns = false;
    return code;
}

/* Takes the message that goes alone, if it can still be taken. */
static ob_code take_single(struct claim *claim, struct outbox_error *err)
{
    struct ob_sqlite_entry entry;
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code =
        ob_sqlite_start(claim->store, OB_SQLITE_entry,
                        OB_ARGS(OB_NUM(claim->single), OB_NUM(claim->now), OB_TEXT(claim->tenant)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(claim->store, stmt, &row, err);
    if (code || !row)
        return code;
    ob_sqlite_entry_read(stmt, &entry);
    const char *holder = ob_sqlite_column(stmt, 13);
    entry.holder = holder ? ob_arena_strdup(&claim->arena, holder) : NULL;
    ob_sqlite_done(stmt);
    if (holder && !entry.holder)
        return ob_error_nomem(err);
    if (!is_alone(claim, &entry) || !ob_sqlite_due_scan_lane(claim->scan, entry.lane))
        return OUTBOX_OK;
    code = take(claim, &entry, err);
    claim->alone = !code && claim->count > 0;
    return code;
}

/* The body of a write transaction; it may run twice. */
static ob_code choose(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct claim *claim = ctx;
    claim->count = claim->start;
    claim->bytes = claim->start_bytes;
    claim->buried = 0;
    claim->died = claim->alone = false;
    claim->span_count = claim->span_cap = 0;
    claim->now = ob_clock_wall_us();
    ob_sqlite_due_scan_fini(claim->scan);
    claim->scan = NULL;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_admit, OB_ARGS(OB_NUM(ADMIT)), NULL, err);
    if (!code)
        code = ob_sqlite_due_scan_new(store, &claim->arena, &claim->scope, claim->tenant, claim->want->limit,
                                      claim->now, &claim->scan, err);
    if (!code && claim->single)
        code = take_single(claim, err);
    if (claim->alone)
        return code;
    if (!code && claim->pressed && !claim->tenant)
        code = take_turns(claim, err);
    bool turned = claim->count > claim->start;
    while (!code && claim->count < claim->room && claim->buried < BURY_CHUNK) {
        struct ob_sqlite_entry entry;
        bool has;
        code = ob_sqlite_due_scan_next(claim->scan, &entry, &has, err);
        if (code || !has)
            break;
        code = take(claim, &entry, err);
    }
    for (size_t i = 0; i < claim->span_count && !code; i++)
        code = lease_plain(claim, &claim->spans[i], err);
    claim->more = claim->more || (claim->buried >= BURY_CHUNK && claim->count > 0);
    if (!code && turned)
        code = ob_sqlite_fairness_sort(&claim->arena, claim->taken + claim->start, claim->count - claim->start, err);
    return code;
}

/* Whether there is anything to take, without a lock. */
static ob_code look(struct claim *claim, bool *has, struct outbox_error *err)
{
    struct ob_sqlite_entry entry;
    bool began;
    *has = false;
    ob_code code = ob_sqlite_begin_read(claim->store, &began, err);
    if (code)
        return code;
    claim->now = ob_clock_wall_us();
    code = ob_sqlite_due_scan_new(claim->store, &claim->arena, &claim->scope, claim->tenant, claim->want->limit,
                                  claim->now, &claim->scan, err);
    if (!code)
        code = ob_sqlite_due_scan_next(claim->scan, &entry, has, err);
    if (!code && !*has)
        code = ob_sqlite_log_waits(claim->store, has, err);
    ob_sqlite_end_read(claim->store, began);
    ob_sqlite_due_scan_fini(claim->scan);
    claim->scan = NULL;
    return code;
}

/* One write transaction: takes at most CHUNK messages and buries about as many, so that a large claim does not block others for
 * long. */
static ob_code take_chunk(struct claim *claim, struct outbox_error *err)
{
    size_t left = (size_t)claim->want->limit - claim->count;
    claim->start = claim->count;
    claim->start_bytes = claim->bytes;
    claim->room = claim->count + (left < CHUNK ? left : CHUNK);
    ob_code code = ob_sqlite_transact(claim->store, choose, claim, err);
    if (code) {
        claim->count = claim->start;
        claim->bytes = claim->start_bytes;
    }
    ob_sqlite_due_scan_fini(claim->scan);
    claim->scan = NULL;
    ob_arena_fini(&claim->arena);
    return code;
}

/* Continues while there are more messages and room for them. If all were buried, others are behind them. */
static ob_code take_chunks(struct claim *claim, bool has, struct outbox_error *err)
{
    int64_t until = ob_clock_mono_us() + BURY_MAX_US;
    ob_code code = OUTBOX_OK;
    claim->single = claim->store->alone ? 0 : claim->store->alone_next;
    while (!code && has && claim->count < (size_t)claim->want->limit && !claim->alone &&
           !(claim->more && claim->count)) {
        code = take_chunk(claim, err);
        has = claim->pressed = !code && claim->count == claim->room;
        if (!code && claim->count == 0 && claim->died) {
            has = ob_clock_mono_us() < until;
            claim->more = claim->more || !has;
        } else if (!code && claim->count == 0 && claim->later && !claim->single) {
            claim->single = claim->later;
            has = true;
        }
        if (claim->count) /* what was taken is leased to us, and must be handed out */
            code = OUTBOX_OK;
    }
    return code;
}

/* ---- the claim --------------------------------------------------------------------------------------------------- */

ob_code ob_sqlite_claim(struct ob_store *base, const struct outbox_claim *want, struct outbox_batch **out,
                        struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct claim claim;
    bool has = true;
    *out = NULL;
    ob_code code = claim_init(&claim, store, want, err);
    if (!code && store->open_tx)
        code = ob_error_set(err, OUTBOX_INVALID, "a transaction is open on this handle; end it before you claim");
    if (!code) {
        bool full = store->watch.full;
        code = ob_sqlite_watch_look(store, &claim.scope, err);
        claim.pressed = full;
        if (!full)
            ob_sqlite_fairness_rest(store);
        if (!code && !full)
            code = look(&claim, &has, err);
    }
    if (!code)
        code = take_chunks(&claim, has, err);
    if (!code) {
        store->alone = claim.alone;
        store->alone_next = claim.later;
        store->watch.full = claim.count == (size_t)want->limit || claim.more;
        store->watch.stale = store->watch.full;
        store->watch.looked_us = claim.now;
        code = ob_sqlite_batch_new(store, claim.taken, claim.count, claim.more, want->lease_us, out, err);
    }
    claim_fini(&claim);
    return code;
}
