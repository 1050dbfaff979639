/* bundle.c - see bundle.h. */
#include "store/pg/bundle.h"

#include "base/alloc.h"

bool ob_pg_bundle_room(struct ob_pg_bundle *bundle, size_t count)
{
    bundle->count = bundle->windowed = 0;
    if (count <= bundle->room)
        return true;
    struct ob_pg_bundle bigger = {.items = ob_calloc(count, sizeof *bigger.items),
                                  .from = ob_calloc(count, sizeof *bigger.from),
                                  .order = ob_calloc(count, sizeof *bigger.order),
                                  .windows = ob_calloc(count, sizeof(struct ob_pg_window *)),
                                  .held = ob_calloc(count, sizeof(struct ob_pg_held *)),
                                  .room = count};
    bool ok = bigger.items && bigger.from && bigger.order && bigger.windows && bigger.held;
    struct ob_pg_bundle *old = ok ? bundle : &bigger;
    ob_free(old->items);
    ob_free(old->from);
    ob_free(old->order);
    ob_free(old->windows);
    ob_free(old->held);
    if (ok)
        *bundle = bigger;
    return ok;
}

void ob_pg_bundle_fini(struct ob_pg_bundle *bundle)
{
    ob_free(bundle->items);
    ob_free(bundle->from);
    ob_free(bundle->order);
    ob_free(bundle->windows);
    ob_free(bundle->held);
}

void ob_pg_bundle_put(struct ob_pg_bundle *bundle, const struct outbox_settle *item, size_t from)
{
    bundle->items[bundle->count] = *item;
    bundle->from[bundle->count++] = from;
}

void ob_pg_bundle_put_held(struct ob_pg_bundle *bundle, struct ob_pg_window *window, struct ob_pg_held *held)
{
    bundle->windows[bundle->windowed] = window;
    bundle->held[bundle->windowed++] = held;
}

/* ---- side by side ---- */

static bool precedes(const struct ob_pg_window *a, const struct ob_pg_window *b)
{
    return a->taken.shard < b->taken.shard || (a->taken.shard == b->taken.shard && a->taken.id < b->taken.id);
}

static bool is_grouped(const struct ob_pg_bundle *bundle)
{
    for (size_t i = 1; i < bundle->windowed; i++)
        if (precedes(bundle->windows[i], bundle->windows[i - 1]))
            return false;
    return true;
}

/* Where each item belongs. There are few windows, so each is looked for in turn. */
static void find_places(const struct ob_pg_bundle *bundle)
{
    const struct ob_pg_window *last = NULL;
    for (size_t put = 0; put < bundle->windowed;) {
        const struct ob_pg_window *next = NULL;
        for (size_t i = 0; i < bundle->windowed; i++) {
            const struct ob_pg_window *it = bundle->windows[i];
            if ((!last || precedes(last, it)) && (!next || precedes(it, next)))
                next = it;
        }
        for (size_t i = 0; i < bundle->windowed; i++)
            if (bundle->windows[i] == next)
                bundle->order[i] = put++;
        last = next;
    }
}

static void swap(struct ob_pg_bundle *bundle, size_t a, size_t b)
{
#define SWAP(type, array) \
    do { \
        type kept = bundle->array[a]; \
        bundle->array[a] = bundle->array[b]; \
        bundle->array[b] = kept; \
    } while (0)
    SWAP(struct outbox_settle, items);
    SWAP(size_t, from);
    SWAP(size_t, order);
    SWAP(struct ob_pg_window *, windows);
    SWAP(struct ob_pg_held *, held);
#undef SWAP
}

void ob_pg_bundle_group(struct ob_pg_bundle *bundle)
{
    if (is_grouped(bundle))
        return;
    find_places(bundle);
    for (size_t i = 0; i < bundle->windowed; i++)
        while (bundle->order[i] != i)
            swap(bundle, i, bundle->order[i]);
}

/* ---- the call ---- */

/* Numbers the windows of a bundle, see ob_pg_window_settle. */
static int mark_windows(const struct ob_pg_bundle *bundle)
{
    int count = 0;
    for (size_t i = 0; i < bundle->windowed; i++)
        bundle->windows[i]->mark = 0;
    for (size_t i = 0; i < bundle->windowed; i++)
        if (bundle->windows[i]->mark == 0)
            bundle->windows[i]->mark = ++count;
    return count;
}

void ob_pg_bundle_add(const struct ob_pg_bundle *bundle, struct ob_pg_request *request, const char *worker,
                      bool under_way, enum ob_pg_words words)
{
    struct ob_pg_window_settle what = {.items = bundle->items,
                                       .windows = bundle->windows,
                                       .held = bundle->held,
                                       .count = bundle->windowed,
                                       .window_count = mark_windows(bundle),
                                       .under_way = under_way};
    for (size_t i = 0; i < bundle->windowed; i++)
        what.again |= bundle->held[i]->doubt;
    ob_pg_settle_window_params(ob_pg_request_add(request, OB_PG_settle_window), &what, worker, words);
}
