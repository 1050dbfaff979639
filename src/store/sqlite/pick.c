/* pick.c - what a claim may take, best first: highest priority, then oldest.
 *
 * The index leads with the lane, so that lanes which are paused or out of scope cost nothing, however full. What comes
 * out is merged here: one cursor per lane, each in the right order by itself, in a heap; and with them the leases that
 * have ended. A cursor reads ahead in chunks into the arena. Rows that the claim takes leave the index while it goes
 * on; a row read ahead may therefore be stale, which the claim notices when it leases it. */
#include "store/sqlite/sqlite.h"

#include "base/heap.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

enum { TOP = 10, CHUNK_MIN = 16 };

struct cursor {
    struct ob_heap_node node;
    int64_t lane;
    int prio; /* being read; TOP: not begun */
    struct ob_sqlite_entry *buffer;
    size_t filled, place, cap;
};

struct ob_sqlite_pick {
    struct ob_sqlite_store *store;
    struct ob_arena *arena;
    const char *tenant;
    int64_t now;
    int limit;
    struct ob_heap heap;
    struct ob_sqlite_lane *lanes;
    struct cursor *cursors;
    size_t lane_count;
    struct cursor expired; /* all leases that have ended, sorted */
    bool begun;
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

static ob_code add_lane(struct ob_sqlite_pick *pick, size_t *cap, const struct ob_sqlite_lane *lane,
                        struct outbox_error *err)
{
    if (pick->lane_count == *cap) {
        size_t grown = *cap ? 2 * *cap : 16;
        struct ob_sqlite_lane *lanes = ob_arena_calloc(pick->arena, grown, sizeof *lanes);
        if (!lanes)
            return ob_error_nomem(err);
        if (pick->lane_count)
            memcpy(lanes, pick->lanes, pick->lane_count * sizeof *lanes);
        pick->lanes = lanes;
        *cap = grown;
    }
    pick->lanes[pick->lane_count++] = *lane;
    return OUTBOX_OK;
}

static ob_code read_lanes(struct ob_sqlite_pick *pick, const struct ob_sqlite_scope *scope, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    size_t cap = 0;
    bool row = true;
    ob_code code = ob_sqlite_start(
        pick->store, OB_SQLITE_lanes,
        OB_ARGS(OB_TEXT(scope->name_space), OB_TEXT(scope->topics), OB_TEXT(scope->only), OB_TEXT(scope->skip),
                OB_TEXT(scope->rules)),
        &stmt, err);
    while (!code) {
        code = ob_sqlite_step(pick->store, stmt, &row, err);
        if (code || !row)
            return code;
        code = add_lane(pick, &cap,
                        &(struct ob_sqlite_lane){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                                 sqlite3_column_int64(stmt, 2)},
                        err);
        if (code)
            ob_sqlite_done(stmt);
    }
    return code;
}

const struct ob_sqlite_lane *ob_sqlite_pick_lane(const struct ob_sqlite_pick *pick, int64_t lane)
{
    size_t low = 0, high = pick->lane_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pick->lanes[middle].n == lane)
            return &pick->lanes[middle];
        if (pick->lanes[middle].n < lane)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct ob_sqlite_lane *ob_sqlite_pick_lanes(const struct ob_sqlite_pick *pick, size_t *count)
{
    *count = pick->lane_count;
    return pick->lanes;
}

/* ---- cursors ----------------------------------------------------------------------------------------------------- */

/* Reads rows of a statement that is bound into the cursor's buffer, behind what is there. */
static ob_code read_rows(struct ob_sqlite_pick *pick, sqlite3_stmt *stmt, struct cursor *cursor,
                         struct outbox_error *err)
{
    for (bool row;;) {
        ob_code code = ob_sqlite_step(pick->store, stmt, &row, err);
        if (code || !row)
            return code;
        if (cursor->filled == cursor->cap) { /* the expired ones, of many lanes */
            struct ob_sqlite_entry *grown = ob_arena_alloc(pick->arena, 2 * cursor->cap * sizeof *grown);
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
        if (holder && !(entry->holder = ob_arena_strdup(pick->arena, holder))) {
            ob_sqlite_done(stmt);
            return ob_error_nomem(err);
        }
    }
}

static ob_code lower_prio(struct ob_sqlite_pick *pick, struct cursor *cursor, struct outbox_error *err)
{
    int64_t prio;
    const struct ob_sqlite_arg args[] = {OB_NUM(cursor->lane), OB_NUM(cursor->prio), OB_TEXT(pick->tenant)};
    ob_code code = pick->tenant ? ob_sqlite_number(pick->store, OB_SQLITE_lower_prio_tenant, args, 3, -1, &prio, err)
                                : ob_sqlite_number(pick->store, OB_SQLITE_lower_prio, args, 2, -1, &prio, err);
    if (!code)
        cursor->prio = (int)prio;
    return code;
}

/* What is due of the cursor's priority, after a row. */
static ob_code read_chunk(struct ob_sqlite_pick *pick, struct cursor *cursor, int64_t due, int64_t n,
                          struct outbox_error *err)
{
    const struct ob_sqlite_arg args[] = {
        OB_NUM(cursor->lane),         OB_NUM(cursor->prio),  OB_NUM(pick->now), OB_NUM(due), OB_NUM(n),
        OB_NUM((int64_t)cursor->cap), OB_TEXT(pick->tenant),
    };
    sqlite3_stmt *stmt;
    ob_code code = pick->tenant ? ob_sqlite_start(pick->store, OB_SQLITE_ready_tenant, args, 7, &stmt, err)
                                : ob_sqlite_start(pick->store, OB_SQLITE_ready, args, 6, &stmt, err);
    return code ? code : read_rows(pick, stmt, cursor, err);
}

/* The next chunk of a lane, of this priority or of the next lower one that has anything due. An empty buffer: no more.
 * */
static ob_code refill(struct ob_sqlite_pick *pick, struct cursor *cursor, struct outbox_error *err)
{
    int64_t due = 0, n = 0;
    ob_code code = OUTBOX_OK;
    if (cursor->filled) {
        due = cursor->buffer[cursor->filled - 1].due;
        n = cursor->buffer[cursor->filled - 1].n;
    }
    cursor->filled = cursor->place = 0;
    while (!code && !cursor->filled && cursor->prio >= 0) {
        if (cursor->prio < TOP)
            code = read_chunk(pick, cursor, due, n, err);
        if (!code && !cursor->filled)
            code = lower_prio(pick, cursor, err);
        due = n = 0;
    }
    return code;
}

static ob_code push(struct ob_sqlite_pick *pick, struct cursor *cursor, struct outbox_error *err)
{
    if (cursor->place < cursor->filled && !ob_heap_push(&pick->heap, &cursor->node))
        return ob_error_nomem(err);
    return OUTBOX_OK;
}

static ob_code read_expired(struct ob_sqlite_pick *pick, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    for (size_t i = 0; i < pick->lane_count && !code; i++) {
        sqlite3_stmt *stmt;
        code = ob_sqlite_start(
            pick->store, OB_SQLITE_expired,
            OB_ARGS(OB_NUM(pick->lanes[i].n), OB_NUM(pick->now), OB_TEXT(pick->tenant), OB_NUM(pick->limit)), &stmt,
            err);
        if (!code)
            code = read_rows(pick, stmt, &pick->expired, err);
    }
    if (!code && pick->expired.filled)
        qsort(pick->expired.buffer, pick->expired.filled, sizeof *pick->expired.buffer, compare_entries);
    return code ? code : push(pick, &pick->expired, err);
}

static ob_code make_cursor(struct ob_sqlite_pick *pick, struct cursor *cursor, size_t cap, struct outbox_error *err)
{
    cursor->prio = TOP;
    cursor->cap = cap;
    cursor->buffer = ob_arena_alloc(pick->arena, cap * sizeof *cursor->buffer);
    return cursor->buffer ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code begin(struct ob_sqlite_pick *pick, struct outbox_error *err)
{
    size_t chunk = (size_t)pick->limit / (pick->lane_count ? pick->lane_count : 1) + CHUNK_MIN;
    pick->cursors = ob_arena_calloc(pick->arena, pick->lane_count + 1, sizeof *pick->cursors);
    if (!pick->cursors)
        return ob_error_nomem(err);
    ob_code code = make_cursor(pick, &pick->expired, CHUNK_MIN, err);
    if (!code)
        code = read_expired(pick, err);
    for (size_t i = 0; i < pick->lane_count && !code; i++) {
        struct cursor *cursor = &pick->cursors[i];
        cursor->lane = pick->lanes[i].n;
        code = make_cursor(pick, cursor, chunk, err);
        if (!code)
            code = refill(pick, cursor, err);
        if (!code)
            code = push(pick, cursor, err);
    }
    pick->begun = true;
    return code;
}

/* ---- the merge --------------------------------------------------------------------------------------------------- */

ob_code ob_sqlite_pick_new(struct ob_sqlite_store *store, struct ob_arena *arena, const struct ob_sqlite_scope *scope,
                           const char *tenant, int limit, int64_t now, struct ob_sqlite_pick **pick,
                           struct outbox_error *err)
{
    struct ob_sqlite_pick *made = ob_arena_calloc(arena, 1, sizeof *made);
    *pick = made;
    if (!made)
        return ob_error_nomem(err);
    made->store = store;
    made->arena = arena;
    made->tenant = tenant;
    made->now = now;
    made->limit = limit;
    ob_heap_init(&made->heap, less);
    return read_lanes(made, scope, err);
}

void ob_sqlite_pick_fini(struct ob_sqlite_pick *pick)
{
    if (pick)
        ob_heap_fini(&pick->heap);
}

ob_code ob_sqlite_pick_next(struct ob_sqlite_pick *pick, struct ob_sqlite_entry *entry, bool *has,
                            struct outbox_error *err)
{
    ob_code code = pick->begun ? OUTBOX_OK : begin(pick, err);
    *has = false;
    if (code)
        return code;
    struct ob_heap_node *node = ob_heap_pop(&pick->heap);
    if (!node)
        return OUTBOX_OK;
    struct cursor *cursor = OB_CONTAINER(node, struct cursor, node);
    *entry = cursor->buffer[cursor->place++];
    *has = true;
    if (cursor->place == cursor->filled && cursor != &pick->expired)
        code = refill(pick, cursor, err);
    return code ? code : push(pick, cursor, err);
}
