/* due_scan.c - what a claim may take, best first: highest priority, then oldest.
 *
 * The index leads with the lane, so that lanes which are paused or out of scope cost nothing, however full. The lanes are
 * merged here: one cursor per lane, each already sorted, in a heap, together with the expired leases. A cursor reads ahead in
 * chunks into the arena. Rows that the claim takes leave the index during the scan, so a row read ahead may be stale; the claim
 * notices that when it leases it.
 *
 * With many lanes, a cursor for each would be too expensive. Then one cursor scans all but the first few lanes that there ever
 * were, by an index without the lane, and skips rows that the claim may not take. An outbox with few lanes has nothing in that
 * index, and its producers do not pay for it. Every claim would read those at the front, so the store remembers how far they
 * reach, and reads them again twice a second, or less often if there are very many. A row that we wake among them meanwhile,
 * the next of a key, is remembered separately. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

enum { TOP = 10, CHUNK_MIN = 16, MEMOS = 256, EXPIRED_MIN = 64, SLOWER = 20 };
#define LEAD_US 500000LL

/* What is known of a lane, if there are many. */
struct memo {
    struct ob_sqlite_lane lane;
    bool allowed;
    struct memo *next;
};

struct cursor {
    struct ob_heap_node node;
    int64_t lane; /* 0: all but the first few */
    int prio;     /* being read; TOP: not started */
    struct ob_sqlite_entry *buffer;
    size_t filled, place, cap;
    int64_t due, n; /* of the last row that was read */
    bool found;     /* something of this priority */
};

struct ob_sqlite_due_scan {
    struct ob_sqlite_store *store;
    struct ob_arena *arena;
    const char *tenant;
    int64_t now;
    int limit;
    struct ob_heap heap;
    struct ob_sqlite_lane *lanes;
    struct cursor *cursors;
    size_t lane_count;
    struct cursor expired; /* all expired leases, and rows that we woke, sorted */
    bool begun;
    bool wide;
    const struct ob_sqlite_scope *scope;
    struct memo *memos[MEMOS];
    ob_code code; /* of a failed read of a lane */
    struct outbox_error err;
};

static int compare(const struct ob_sqlite_entry *a, const struct ob_sqlite_entry *b)
{
    if (a->prio != b->prio)
        return a->prio > b->prio ? -1 : 1;
    if (a->due != b->due)
        return a->due < b->due ? -1 : 1;
    return a->n < b->n ? -1 : a->n > b->n;
}

static int compare_entries(const void *a, const void *b)
{
    return compare(a, b);
}

static bool less(const struct ob_heap_node *a, const struct ob_heap_node *b)
{
    const struct cursor *x = OB_CONTAINER(a, struct cursor, node), *y = OB_CONTAINER(b, struct cursor, node);
    return compare(&x->buffer[x->place], &y->buffer[y->place]) < 0;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static ob_code add_lane(struct ob_sqlite_due_scan *scan, size_t *cap, const struct ob_sqlite_lane *lane,
                        struct outbox_error *err)
{
    if (scan->lane_count == *cap) {
        size_t grown = *cap ? 2 * *cap : 16;
        struct ob_sqlite_lane *lanes = ob_arena_calloc(scan->arena, grown, sizeof *lanes);
        if (!lanes)
            return ob_error_nomem(err);
        if (scan->lane_count)
            memcpy(lanes, scan->lanes, scan->lane_count * sizeof *lanes);
        scan->lanes = lanes;
        *cap = grown;
    }
    scan->lanes[scan->lane_count++] = *lane;
    return OUTBOX_OK;
}

static ob_code read_lanes(struct ob_sqlite_due_scan *scan, const struct ob_sqlite_scope *scope,
                          struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    size_t cap = 0;
    bool row = true;
    ob_code code = ob_sqlite_start(scan->store, OB_SQLITE_lanes,
                                   OB_ARGS(OB_TEXT(scope->name_space), OB_TEXT(scope->topics), OB_TEXT(scope->only),
                                           OB_TEXT(scope->skip), OB_TEXT(scope->rules),
                                           OB_NUM(scan->tenant ? -1 : OB_SQLITE_LANES_FEW + 1)),
                                   &stmt, err);
    while (!code) {
        code = ob_sqlite_step(scan->store, stmt, &row, err);
        if (code || !row)
            break;
        code = add_lane(scan, &cap,
                        &(struct ob_sqlite_lane){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                                 sqlite3_column_int64(stmt, 2)},
                        err);
        if (code)
            ob_sqlite_done(stmt);
    }
    if (!code && !scan->tenant && scan->lane_count > OB_SQLITE_LANES_FEW) {
        scan->wide = true;
        size_t found = scan->lane_count - 1; /* there is room for one more, whatever numbers the file has */
        for (scan->lane_count = 0; scan->lane_count < found && scan->lanes[scan->lane_count].n <= OB_SQLITE_LANES_FEW;)
            scan->lane_count++;
        scan->lanes[scan->lane_count++] = (struct ob_sqlite_lane){.n = 0};
    }
    return code;
}

bool ob_sqlite_due_scan_wide(const struct ob_sqlite_due_scan *scan)
{
    return scan->wide;
}

static ob_code read_memo(struct ob_sqlite_due_scan *scan, struct memo *memo, struct outbox_error *err)
{
    const struct ob_sqlite_scope *scope = scan->scope;
    sqlite3_stmt *stmt;
    ob_code code = ob_sqlite_start(scan->store, OB_SQLITE_lane_allowed,
                                   OB_ARGS(OB_TEXT(scope->name_space), OB_TEXT(scope->topics), OB_TEXT(scope->only),
                                           OB_TEXT(scope->skip), OB_TEXT(scope->rules), OB_NUM(memo->lane.n)),
                                   &stmt, err);
    if (!code)
        code = ob_sqlite_step(scan->store, stmt, &memo->allowed, err);
    if (!code && memo->allowed) {
        memo->lane.retry_base = sqlite3_column_int64(stmt, 1);
        memo->lane.retry_cap = sqlite3_column_int64(stmt, 2);
        ob_sqlite_done(stmt);
    }
    return code;
}

static const struct ob_sqlite_lane *wide_lane(struct ob_sqlite_due_scan *scan, int64_t lane)
{
    struct memo **slot = &scan->memos[(uint64_t)lane % MEMOS], *memo = *slot;
    while (memo && memo->lane.n != lane)
        memo = memo->next;
    if (!memo && !scan->code) {
        memo = ob_arena_calloc(scan->arena, 1, sizeof *memo);
        if (memo) {
            memo->lane.n = lane;
            memo->next = *slot;
            *slot = memo;
        }
        scan->code = memo ? read_memo(scan, memo, &scan->err) : ob_error_nomem(&scan->err);
    }
    return memo && memo->allowed && !scan->code ? &memo->lane : NULL;
}

const struct ob_sqlite_lane *ob_sqlite_due_scan_lane(struct ob_sqlite_due_scan *scan, int64_t lane)
{
    if (scan->wide)
        return wide_lane(scan, lane);
    size_t low = 0, high = scan->lane_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->lanes[middle].n == lane)
            return &scan->lanes[middle];
        if (scan->lanes[middle].n < lane)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct ob_sqlite_lane *ob_sqlite_due_scan_lanes(const struct ob_sqlite_due_scan *scan, size_t *count)
{
    *count = scan->lane_count;
    return scan->lanes;
}

/* ---- cursors ----------------------------------------------------------------------------------------------------- */

/* Reads the rows of a bound statement and appends them to the cursor's buffer. */
static ob_code read_rows(struct ob_sqlite_due_scan *scan, sqlite3_stmt *stmt, struct cursor *cursor,
                         struct outbox_error *err)
{
    for (bool row;;) {
        ob_code code = ob_sqlite_step(scan->store, stmt, &row, err);
        if (code || !row)
            return code;
        if (cursor->filled == cursor->cap) { /* expired leases of many lanes */
            struct ob_sqlite_entry *grown = ob_arena_alloc(scan->arena, 2 * cursor->cap * sizeof *grown);
            if (!grown) {
                ob_sqlite_done(stmt);
                return ob_error_nomem(err);
            }
            memcpy(grown, cursor->buffer, cursor->filled * sizeof *grown);
            cursor->buffer = grown;
            cursor->cap *= 2;
        }
        struct ob_sqlite_entry *entry = &cursor->buffer[cursor->filled++];
        ob_sqlite_entry_read(stmt, entry);
        const char *holder = ob_sqlite_column(stmt, 13);
        if (holder && !(entry->holder = ob_arena_strdup(scan->arena, holder))) {
            ob_sqlite_done(stmt);
            return ob_error_nomem(err);
        }
    }
}

static ob_code lower_prio(struct ob_sqlite_due_scan *scan, struct cursor *cursor, struct outbox_error *err)
{
    int64_t prio;
    const struct ob_sqlite_arg args[] = {OB_NUM(cursor->lane), OB_NUM(cursor->prio), OB_TEXT(scan->tenant)};
    ob_code code = !cursor->lane ? ob_sqlite_number(scan->store, OB_SQLITE_lower_prio_wide, args + 1, 1, -1, &prio, err)
                   : scan->tenant ? ob_sqlite_number(scan->store, OB_SQLITE_lower_prio_tenant, args, 3, -1, &prio, err)
                                  : ob_sqlite_number(scan->store, OB_SQLITE_lower_prio, args, 2, -1, &prio, err);
    if (!code)
        cursor->prio = (int)prio;
    return code;
}

/* Reads what is due in the cursor's priority, after the row (due, n). */
static ob_code read_chunk(struct ob_sqlite_due_scan *scan, struct cursor *cursor, int64_t due, int64_t n,
                          struct outbox_error *err)
{
    const struct ob_sqlite_arg args[] = {
        OB_NUM(cursor->lane),         OB_NUM(cursor->prio),  OB_NUM(scan->now), OB_NUM(due), OB_NUM(n),
        OB_NUM((int64_t)cursor->cap), OB_TEXT(scan->tenant),
    };
    sqlite3_stmt *stmt;
    ob_code code = !cursor->lane  ? ob_sqlite_start(scan->store, OB_SQLITE_ready_wide, args + 1, 5, &stmt, err)
                   : scan->tenant ? ob_sqlite_start(scan->store, OB_SQLITE_ready_tenant, args, 7, &stmt, err)
                                  : ob_sqlite_start(scan->store, OB_SQLITE_ready, args, 6, &stmt, err);
    return code ? code : read_rows(scan, stmt, cursor, err);
}

/* Removes what the claim may not take, and notes how far such rows reach at the front. */
static void sift(struct ob_sqlite_due_scan *scan, struct cursor *cursor)
{
    size_t kept = 0;
    for (size_t i = 0; i < cursor->filled; i++) {
        const struct ob_sqlite_entry *entry = &cursor->buffer[i];
        bool allowed = ob_sqlite_due_scan_lane(scan, entry->lane) != NULL;
        if (!allowed && !cursor->found && !scan->code) {
            scan->store->lead.at[cursor->prio].due = entry->due;
            scan->store->lead.at[cursor->prio].n = entry->n;
        }
        cursor->found = cursor->found || allowed;
        if (allowed)
            cursor->buffer[kept++] = *entry;
    }
    cursor->filled = kept;
}

/* Reads from the next lower priority that has anything due. */
static ob_code descend(struct ob_sqlite_due_scan *scan, struct cursor *cursor, struct outbox_error *err)
{
    ob_code code = lower_prio(scan, cursor, err);
    cursor->due = cursor->n = 0;
    cursor->found = false;
    if (!code && !cursor->lane && cursor->prio >= 0) {
        cursor->due = scan->store->lead.at[cursor->prio].due;
        cursor->n = scan->store->lead.at[cursor->prio].n;
    }
    return code;
}

/* The next chunk of a lane, of this priority or of the next lower one that has anything due. An empty buffer means that there
 * is no more. */
static ob_code refill(struct ob_sqlite_due_scan *scan, struct cursor *cursor, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    cursor->filled = cursor->place = 0;
    while (!code && !cursor->filled && cursor->prio >= 0) {
        if (cursor->prio < TOP)
            code = read_chunk(scan, cursor, cursor->due, cursor->n, err);
        if (!code && !cursor->filled) {
            code = descend(scan, cursor, err);
        } else if (!code) {
            cursor->due = cursor->buffer[cursor->filled - 1].due;
            cursor->n = cursor->buffer[cursor->filled - 1].n;
            if (!cursor->lane)
                sift(scan, cursor);
        }
        if (!code && scan->code) {
            *err = scan->err;
            code = scan->code;
        }
    }
    return code;
}

static ob_code push(struct ob_sqlite_due_scan *scan, struct cursor *cursor, struct outbox_error *err)
{
    if (cursor->place < cursor->filled && !ob_heap_push(&scan->heap, &cursor->node))
        return ob_error_nomem(err);
    return OUTBOX_OK;
}

static bool is_led(const struct ob_sqlite_lead *lead, int prio, int64_t due, int64_t n)
{
    if (prio < 0 || prio >= TOP) /* not written by us */
        return false;
    return due < lead->at[prio].due || (due == lead->at[prio].due && n <= lead->at[prio].n);
}

/* Notes each row once: it may have been parked and woken again. */
static void note_woken(struct ob_sqlite_lead *lead, int64_t n)
{
    size_t i = 0;
    while (i < lead->woken_count && lead->woken[i] != n)
        i++;
    if (i == OB_SQLITE_WOKEN)
        lead->until_us = 0; /* too many: read from the beginning */
    else if (i == lead->woken_count)
        lead->woken[lead->woken_count++] = n;
}

ob_code ob_sqlite_wake(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                       size_t count, struct outbox_error *err)
{
    struct ob_sqlite_lead *lead = &store->lead;
    sqlite3_stmt *stmt;
    ob_code code = ob_sqlite_start(store, which, args, count, &stmt, err);
    for (bool row = true; !code && row;) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row ||
            !is_led(lead, sqlite3_column_int(stmt, 1), sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 0)))
            continue;
        note_woken(lead, sqlite3_column_int64(stmt, 0));
    }
    return code;
}

/* Reads the woken rows that can still be taken. */
static ob_code read_woken(struct ob_sqlite_due_scan *scan, struct cursor *cursor, struct outbox_error *err)
{
    struct ob_sqlite_lead *lead = &scan->store->lead;
    size_t kept = 0;
    ob_code code = OUTBOX_OK;
    for (size_t i = 0; i < lead->woken_count && !code; i++) {
        size_t before = cursor->filled;
        sqlite3_stmt *stmt;
        code = ob_sqlite_start(scan->store, OB_SQLITE_entry,
                               OB_ARGS(OB_NUM(lead->woken[i]), OB_NUM(scan->now), OB_TEXT(scan->tenant)), &stmt, err);
        if (!code)
            code = read_rows(scan, stmt, cursor, err);
        if (code || cursor->filled == before)
            continue;
        const struct ob_sqlite_entry *entry = &cursor->buffer[before];
        bool ready = entry->state == OB_SQLITE_READY && is_led(lead, entry->prio, entry->due, entry->n);
        if (ready)
            lead->woken[kept++] = entry->n;
        if (!ready || !ob_sqlite_due_scan_lane(scan, entry->lane))
            cursor->filled = before;
    }
    if (!code)
        lead->woken_count = kept;
    return code;
}

/* Reads expired leases in pages, so that those of lanes which the claim may not take from do not hide the others. */
static ob_code read_expired(struct ob_sqlite_due_scan *scan, struct outbox_error *err)
{
    struct cursor *cursor = &scan->expired;
    size_t most = scan->limit > EXPIRED_MIN ? (size_t)scan->limit : EXPIRED_MIN;
    ob_code code = OUTBOX_OK;
    for (size_t page = most; !code && page == most && cursor->filled < most;) {
        size_t before = cursor->filled, kept = before;
        sqlite3_stmt *stmt;
        code = ob_sqlite_start(scan->store, OB_SQLITE_expired,
                               OB_ARGS(OB_NUM(scan->now), OB_NUM(cursor->due), OB_NUM(cursor->n), OB_TEXT(scan->tenant),
                                       OB_NUM((int64_t)most)),
                               &stmt, err);
        if (!code)
            code = read_rows(scan, stmt, cursor, err);
        page = cursor->filled - before;
        for (size_t i = before; !code && i < cursor->filled; i++) {
            cursor->due = cursor->buffer[i].until;
            cursor->n = cursor->buffer[i].n;
            if (ob_sqlite_due_scan_lane(scan, cursor->buffer[i].lane))
                cursor->buffer[kept++] = cursor->buffer[i];
        }
        cursor->filled = kept;
    }
    if (!code && scan->wide)
        code = read_woken(scan, cursor, err);
    if (!code && cursor->filled)
        qsort(cursor->buffer, cursor->filled, sizeof *cursor->buffer, compare_entries);
    return code ? code : push(scan, cursor, err);
}

static ob_code make_cursor(struct ob_sqlite_due_scan *scan, struct cursor *cursor, size_t cap, struct outbox_error *err)
{
    cursor->prio = TOP;
    cursor->cap = cap;
    cursor->buffer = ob_arena_alloc(scan->arena, cap * sizeof *cursor->buffer);
    return cursor->buffer ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code begin(struct ob_sqlite_due_scan *scan, struct outbox_error *err)
{
    size_t chunk = (size_t)scan->limit / (scan->lane_count ? scan->lane_count : 1) + CHUNK_MIN;
    struct ob_sqlite_lead *lead = &scan->store->lead;
    int64_t began = ob_clock_mono_us();
    bool anew = scan->wide && began >= lead->until_us;
    if (anew)
        *lead = (struct ob_sqlite_lead){.until_us = 0};
    scan->cursors = ob_arena_calloc(scan->arena, scan->lane_count + 1, sizeof *scan->cursors);
    if (!scan->cursors)
        return ob_error_nomem(err);
    ob_code code = make_cursor(scan, &scan->expired, CHUNK_MIN, err);
    if (!code)
        code = read_expired(scan, err);
    for (size_t i = 0; i < scan->lane_count && !code; i++) {
        struct cursor *cursor = &scan->cursors[i];
        cursor->lane = scan->lanes[i].n;
        code = make_cursor(scan, cursor, chunk, err);
        if (!code)
            code = refill(scan, cursor, err);
        if (!code)
            code = push(scan, cursor, err);
    }
    if (anew) {
        int64_t now = ob_clock_mono_us(), slow = SLOWER * (now - began);
        lead->until_us = now + (slow > LEAD_US ? slow : LEAD_US);
    }
    scan->begun = true;
    return code;
}

/* ---- the merge --------------------------------------------------------------------------------------------------- */

ob_code ob_sqlite_due_scan_new(struct ob_sqlite_store *store, struct ob_arena *arena,
                               const struct ob_sqlite_scope *scope, const char *tenant, int limit, int64_t now,
                               struct ob_sqlite_due_scan **scan, struct outbox_error *err)
{
    struct ob_sqlite_due_scan *made = ob_arena_calloc(arena, 1, sizeof *made);
    *scan = made;
    if (!made)
        return ob_error_nomem(err);
    made->store = store;
    made->arena = arena;
    made->tenant = tenant;
    made->now = now;
    made->limit = limit;
    made->scope = scope;
    ob_heap_init(&made->heap, less);
    return read_lanes(made, scope, err);
}

void ob_sqlite_due_scan_fini(struct ob_sqlite_due_scan *scan)
{
    if (scan)
        ob_heap_fini(&scan->heap);
}

ob_code ob_sqlite_due_scan_next(struct ob_sqlite_due_scan *scan, struct ob_sqlite_entry *entry, bool *has,
                                struct outbox_error *err)
{
    ob_code code = scan->begun ? OUTBOX_OK : begin(scan, err);
    *has = false;
    if (code)
        return code;
    struct ob_heap_node *node = ob_heap_pop(&scan->heap);
    if (!node)
        return OUTBOX_OK;
    struct cursor *cursor = OB_CONTAINER(node, struct cursor, node);
    *entry = cursor->buffer[cursor->place++];
    *has = true;
    if (cursor->place == cursor->filled && cursor != &scan->expired)
        code = refill(scan, cursor, err);
    return code ? code : push(scan, cursor, err);
}
