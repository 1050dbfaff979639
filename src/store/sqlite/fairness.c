/* fairness.c - what is claimed out of turn, so that a flood starves no tenant or priority.
 *
 * A batch is filled by priority and age (due_scan.c), except for two shares:
 *   - A sixteenth is for the priorities below the highest, in equal parts, the oldest of each. A claim for fewer than 16
 *     gives them one message a second.
 *   - Half is for tenants in turn, in equal parts: of each, the highest priority and oldest first. A claim for one message
 *     gives them one twice a second, and a single tenant gets its share only twice a second.
 * Both apply only while claims are full: otherwise everything is taken anyway. The search may use a twentieth of the time.
 * Rows are only chosen here: the claim keeps the order of keys, and notices what was chosen twice. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { TOP = 10, LOWER = 16, EXPIRED = 64, GROUPS = 500, SLOWER = 20 };
#define PAUSE_MAX_US 2000000LL
#define PAUSE_US 500000LL
#define LOWER_PAUSE_US 1000000LL

/* A tenant's messages of a lane and priority. */
struct group {
    char tenant[37];
    int64_t lane, due;
    int prio;
};

struct choice {
    struct ob_sqlite_store *store;
    struct ob_arena *arena;
    struct ob_sqlite_due_scan *scan;
    int64_t now;
    struct ob_sqlite_entry *entries;
    size_t count, cap;
};

static ob_code read_rows(struct choice *choice, sqlite3_stmt *stmt, struct outbox_error *err)
{
    for (bool row;;) {
        ob_code code = ob_sqlite_step(choice->store, stmt, &row, err);
        if (code || !row)
            return code;
        if (choice->count == choice->cap) {
            size_t cap = choice->cap ? 2 * choice->cap : 64;
            struct ob_sqlite_entry *grown = ob_arena_alloc(choice->arena, cap * sizeof *grown);
            if (grown && choice->count)
                memcpy(grown, choice->entries, choice->count * sizeof *grown);
            if (!grown) {
                ob_sqlite_done(stmt);
                return ob_error_nomem(err);
            }
            choice->entries = grown;
            choice->cap = cap;
        }
        struct ob_sqlite_entry *entry = &choice->entries[choice->count++];
        ob_sqlite_entry_read(stmt, entry);
        const char *holder = ob_sqlite_column(stmt, 13);
        if (holder && !(entry->holder = ob_arena_strdup(choice->arena, holder))) {
            ob_sqlite_done(stmt);
            return ob_error_nomem(err);
        }
    }
}

static ob_code read_ready(struct choice *choice, const char *tenant, int64_t lane, int prio, size_t most,
                          struct outbox_error *err)
{
    const struct ob_sqlite_lead *lead = &choice->store->lead;
    bool wide = !tenant && lane == 0; /* rows at the front may not be taken: see due_scan.c */
    const struct ob_sqlite_arg args[] = {OB_NUM(lane),
                                         OB_NUM(prio),
                                         OB_NUM(choice->now),
                                         OB_NUM(wide ? lead->at[prio].due : 0),
                                         OB_NUM(wide ? lead->at[prio].n : 0),
                                         OB_NUM(most),
                                         OB_TEXT(tenant)};
    sqlite3_stmt *stmt;
    ob_code code = tenant ? ob_sqlite_start(choice->store, OB_SQLITE_ready_tenant, args, 7, &stmt, err)
                   : wide ? ob_sqlite_start(choice->store, OB_SQLITE_ready_wide, args + 1, 5, &stmt, err)
                          : ob_sqlite_start(choice->store, OB_SQLITE_ready, args, 6, &stmt, err);
    return code ? code : read_rows(choice, stmt, err);
}

/* ---- lower priorities -------------------------------------------------------------------------------------------- */

/* By priority, then age: the youngest of each priority are left out. */
static int compare(const void *a, const void *b)
{
    const struct ob_sqlite_entry *x = a, *y = b;
    if (x->prio != y->prio)
        return x->prio > y->prio ? -1 : 1;
    return x->due < y->due ? -1 : x->due > y->due;
}

/* Which priorities have anything in these lanes, as bits. */
static ob_code read_prios(struct choice *choice, const struct ob_sqlite_lane *lanes, size_t count, unsigned *prios,
                          unsigned *all, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    for (size_t i = 0; i < count && !code; i++) {
        prios[i] = 0;
        for (int64_t prio = TOP; prio >= 0 && !code;) {
            const struct ob_sqlite_arg args[] = {OB_NUM(lanes[i].n), OB_NUM(prio)};
            code = lanes[i].n ? ob_sqlite_number(choice->store, OB_SQLITE_lower_prio, args, 2, -1, &prio, err)
                              : ob_sqlite_number(choice->store, OB_SQLITE_lower_prio_wide, args + 1, 1, -1, &prio, err);
            if (!code && prio >= 0)
                prios[i] |= 1U << prio;
        }
        *all |= prios[i];
    }
    return code;
}

static int bits(unsigned set)
{
    int n = 0;
    for (; set; set &= set - 1)
        n++;
    return n;
}

/* Sorts what was read, and keeps no more than the share of each priority below the top. */
static void cut(struct choice *choice, int top, size_t share)
{
    size_t kept = 0, same = 0;
    if (choice->count)
        qsort(choice->entries, choice->count, sizeof *choice->entries, compare);
    for (size_t i = 0; i < choice->count; i++) {
        same = i && choice->entries[i].prio == choice->entries[i - 1].prio ? same + 1 : 0;
        if (choice->entries[i].prio < top && same < share &&
            ob_sqlite_due_scan_lane(choice->scan, choice->entries[i].lane))
            choice->entries[kept++] = choice->entries[i];
    }
    choice->count = kept;
}

static ob_code choose_lower(struct choice *choice, size_t most, struct outbox_error *err)
{
    size_t lane_count;
    const struct ob_sqlite_lane *lanes = ob_sqlite_due_scan_lanes(choice->scan, &lane_count);
    unsigned all = 0, *prios = ob_arena_alloc(choice->arena, (lane_count + 1) * sizeof *prios);
    if (!prios)
        return ob_error_nomem(err);
    ob_code code = read_prios(choice, lanes, lane_count, prios, &all, err);
    int top = TOP - 1, levels = bits(all) - 1;
    if (code || levels < 1)
        return code;
    while (!(all & 1U << top))
        top--;
    size_t share = (most + (size_t)levels - 1) / (size_t)levels;
    sqlite3_stmt *stmt;
    code = ob_sqlite_start(choice->store, OB_SQLITE_expired,
                           OB_ARGS(OB_NUM(choice->now), OB_NUM(0), OB_NUM(0), OB_NULL, OB_NUM(EXPIRED)), &stmt, err);
    if (!code)
        code = read_rows(choice, stmt, err);
    for (size_t i = 0; i < lane_count && !code; i++) {
        for (int prio = top - 1; prio >= 0 && !code; prio--)
            if (prios[i] & 1U << prio)
                code = read_ready(choice, NULL, lanes[i].n, prio, share, err);
    }
    cut(choice, top, share);
    return code;
}

/* ---- tenants ----------------------------------------------------------------------------------------------------- */

/* The next groups, of at most *tenants tenants; sets *tenants to the number found. */
static ob_code read_groups(struct choice *choice, struct group *groups, size_t *count, size_t *tenants,
                           struct outbox_error *err)
{
    struct ob_sqlite_fairness *turn = &choice->store->turn;
    size_t most = *tenants;
    ob_code code = OUTBOX_OK;
    *count = *tenants = 0;
    while (!code && *count < GROUPS) {
        struct group *group = &groups[*count];
        sqlite3_stmt *stmt;
        bool row = false;
        code = ob_sqlite_start(choice->store, OB_SQLITE_turn,
                               OB_ARGS(OB_TEXT(turn->tenant), OB_NUM(turn->lane), OB_NUM(turn->prio)), &stmt, err);
        if (!code)
            code = ob_sqlite_step(choice->store, stmt, &row, err);
        if (code || !row)
            break;
        const char *tenant = ob_sqlite_column(stmt, 0);
        bool other = *count == 0 || strcmp(groups[*count - 1].tenant, tenant) != 0;
        if (other && *tenants == most) {
            ob_sqlite_done(stmt);
            break;
        }
        memccpy(group->tenant, tenant, '\0', sizeof group->tenant - 1);
        group->lane = sqlite3_column_int64(stmt, 1);
        group->prio = sqlite3_column_int(stmt, 2);
        group->due = sqlite3_column_int64(stmt, 3);
        ob_sqlite_done(stmt);
        memcpy(turn->tenant, group->tenant, sizeof turn->tenant);
        turn->lane = group->lane;
        turn->prio = group->prio;
        *tenants += other;
        ++*count;
    }
    return code;
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = strcmp(x->tenant, y->tenant);
    if (order || x->prio != y->prio)
        return order ? order : y->prio - x->prio;
    return x->due < y->due ? -1 : x->due > y->due;
}

static ob_code choose_tenants(struct choice *choice, size_t most, bool *alone, struct outbox_error *err)
{
    struct ob_sqlite_fairness *turn = &choice->store->turn;
    struct group *groups = ob_arena_calloc(choice->arena, GROUPS, sizeof *groups);
    size_t count = 0, tenants = most;
    if (!groups)
        return ob_error_nomem(err);
    ob_code code = read_groups(choice, groups, &count, &tenants, err);
    if (!code && !count && turn->tenant[0]) { /* start again from the first */
        turn->tenant[0] = '\0';
        turn->lane = turn->prio = 0;
        tenants = most;
        code = read_groups(choice, groups, &count, &tenants, err);
    }
    *alone = tenants < 2;
    if (code || !count)
        return code;
    qsort(groups, count, sizeof *groups, compare_groups);
    size_t share = most / tenants ? most / tenants : 1, before = choice->count;
    for (size_t i = 0; i < count && !code; i++) {
        if (i && strcmp(groups[i].tenant, groups[i - 1].tenant) != 0)
            before = choice->count;
        size_t left = share - (choice->count - before);
        if (left && groups[i].due <= choice->now && ob_sqlite_due_scan_lane(choice->scan, groups[i].lane))
            code = read_ready(choice, groups[i].tenant, groups[i].lane, groups[i].prio, left, err);
    }
    return code;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* When to search again after a search that began then: after a pause, and later if searching is expensive. */
static int64_t again(int64_t began, int64_t pause)
{
    int64_t now = ob_clock_mono_us(), slow = SLOWER * (now - began);
    if (slow > PAUSE_MAX_US)
        slow = PAUSE_MAX_US;
    return now + (slow > pause ? slow : pause);
}

ob_code ob_sqlite_fairness_take(struct ob_sqlite_store *store, struct ob_arena *arena, struct ob_sqlite_due_scan *scan,
                                size_t room, int64_t now, struct ob_sqlite_entry **entries, size_t *count,
                                struct outbox_error *err)
{
    struct ob_sqlite_fairness *turn = &store->turn;
    struct choice choice = {.store = store, .arena = arena, .scan = scan, .now = now};
    size_t lower = room / LOWER ? room / LOWER : 1, half = room > 1 ? room / 2 : 1;
    int64_t began = ob_clock_mono_us();
    bool alone = true;
    ob_code code = OUTBOX_OK;
    if (began >= turn->lower_us && (room >= LOWER || began >= turn->rest_us + LOWER_PAUSE_US)) {
        code = choose_lower(&choice, lower, err);
        turn->lower_us = again(began, 0);
        turn->rest_us = began;
        began = ob_clock_mono_us();
    }
    if (!code && began >= turn->tenants_us) {
        code = choose_tenants(&choice, half, &alone, err);
        turn->tenants_us = again(began, alone || room == 1 ? PAUSE_US : 0);
    }
    *entries = choice.entries;
    *count = choice.count;
    return code;
}

void ob_sqlite_fairness_rest(struct ob_sqlite_store *store)
{
    store->turn.rest_us = ob_clock_mono_us();
}

/* ---- the order of a batch ---------------------------------------------------------------------------------------- */

/* A message and its position: the messages of a key stay together, at the position of the best of them. */
struct rank {
    struct ob_sqlite_taken taken;
    int prio;
    int64_t due;
};

static int compare_keys(const void *a, const void *b)
{
    const struct ob_sqlite_entry *x = &((const struct rank *)a)->taken.entry,
                                 *y = &((const struct rank *)b)->taken.entry;
    if (x->sid != y->sid)
        return x->sid < y->sid ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->prio != y->prio)
        return x->prio > y->prio ? -1 : 1;
    if (x->due != y->due)
        return x->due < y->due ? -1 : 1;
    int order = compare_keys(a, b);
    return order ? order : x->taken.entry.n < y->taken.entry.n ? -1 : x->taken.entry.n > y->taken.entry.n;
}

ob_code ob_sqlite_fairness_sort(struct ob_arena *arena, struct ob_sqlite_taken *taken, size_t count,
                                struct outbox_error *err)
{
    struct rank *ranks = ob_arena_alloc(arena, (count + 1) * sizeof *ranks);
    if (!ranks)
        return ob_error_nomem(err);
    for (size_t i = 0; i < count; i++)
        ranks[i] = (struct rank){taken[i], taken[i].entry.prio, taken[i].entry.due};
    qsort(ranks, count, sizeof *ranks, compare_keys);
    for (size_t i = 0, end; i < count; i = end) {
        int prio = ranks[i].prio;
        int64_t due = ranks[i].due, sid = ranks[i].taken.entry.sid;
        for (end = i + 1; sid && end < count && ranks[end].taken.entry.sid == sid; end++) {
            prio = ranks[end].prio > prio ? ranks[end].prio : prio;
            due = ranks[end].due < due ? ranks[end].due : due;
        }
        for (size_t k = i; k < end; k++) {
            ranks[k].prio = prio;
            ranks[k].due = due;
        }
    }
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < count; i++)
        taken[i] = ranks[i].taken;
    return OUTBOX_OK;
}
