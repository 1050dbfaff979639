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
                                  .windows = ob_calloc(count, sizeof(struct ob_pg_window *)),
                                  .held = ob_calloc(count, sizeof(struct ob_pg_held *)),
                                  .room = count};
    bool ok = bigger.items && bigger.from && bigger.windows && bigger.held;
    struct ob_pg_bundle *old = ok ? bundle : &bigger;
    ob_free(old->items);
    ob_free(old->from);
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
