/* async_settle.c - settles and extends of the async store, and the ejecting of windows.
 *
 * A settle is one transaction: settle_window for messages that are in windows (log.h), settle for all others. What is reported
 * lost because its window is not ours any more is settled once more, by settle: whoever repaired the window has put it into the
 * queue, where it is still ours until it is claimed.
 *
 * To eject a window means to turn all that is left of it into rows of the queue, leased to us. That is how a lease is
 * extended, and how a shard of keyed messages is freed for others when its messages take long. At most one settle of windows or eject
 * is under way, so that no message of a key overtakes another on its way to the queue:
 *
 *   a settle    waits for the eject under way; and for that of a window if one of its messages is being ejected, or would go
 *               to the queue before an earlier message of its key
 *   an extend   waits until all its messages have left their windows
 *   an eject    waits for the settle of windows under way
 *
 * A failed eject is repeated before anything else is said of its messages: they may be rows of the queue by now. */
#include "store/pg/async_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

enum { REPEAT_US = 1000000 };

/* ---- bundles ---- */

static bool make_room(struct ob_pg_bundle *bundle, size_t count)
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

static void bundle_fini(struct ob_pg_bundle *bundle)
{
    ob_free(bundle->items);
    ob_free(bundle->from);
    ob_free(bundle->windows);
    ob_free(bundle->held);
}

static void put(struct ob_pg_bundle *bundle, const struct outbox_settle *item, size_t from)
{
    bundle->items[bundle->count] = *item;
    bundle->from[bundle->count++] = from;
}

static void put_held(struct ob_pg_bundle *bundle, struct ob_pg_window *window, struct ob_pg_held *held)
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

static void add_windows(struct ob_pg_async *async, struct ob_pg_request *request, const struct ob_pg_bundle *bundle,
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
    ob_pg_settle_window_params(ob_pg_request_add(request, OB_PG_settle_window), &what, async->common.worker, words);
}

/* ---- settles ---- */

static void send_settle(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    const struct ob_pg_bundle *bundle = &settling->bundle;
    settling->step = OB_PG_SETTLE_SENT;
    ob_pg_request_begin(&settling->request, settling->deadline_us);
    if (bundle->windowed)
        add_windows(async, &settling->request, bundle, false, settling->words);
    if (bundle->windowed < bundle->count)
        ob_pg_settle_params(ob_pg_request_add(&settling->request, OB_PG_settle), bundle->items + bundle->windowed,
                            bundle->count - bundle->windowed, async->common.worker, settling->words);
    ob_pg_async_send(async, OB_PG_SETTLES, &settling->request);
}

/* Collects the items, those that are in windows first: they are SETTLING. What occurs twice is settled once. */
static void collect(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    struct ob_pg_bundle *bundle = &settling->bundle;
    struct ob_pg_window *window;
    for (size_t i = 0; i < settling->count; i++) {
        const struct outbox_settle *item = &settling->items[i];
        struct ob_pg_held *held = ob_pg_log_find(&async->log, item->token, &item->id, &window);
        if (!held || held->state != OB_PG_HELD)
            continue;
        held->state = OB_PG_SETTLING;
        put(bundle, item, i);
        put_held(bundle, window, held);
    }
    for (size_t i = 0, next = 0; i < settling->count; i++) {
        if (next < bundle->windowed && bundle->from[next] == i)
            next++;
        else
            put(bundle, &settling->items[i], i);
    }
}

/* Whether a window must be ejected before this can be settled; if so, it will be. */
static bool is_held_up(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    struct ob_pg_window *window;
    bool held_up = false;
    for (size_t i = 0; i < settling->count; i++) {
        const struct outbox_settle *item = &settling->items[i];
        const struct ob_pg_held *held = ob_pg_log_find(&async->log, item->token, &item->id, &window);
        if (!held ||
            (held->state != OB_PG_EJECTING && (item->outcome == OUTBOX_DELIVERED || !ob_pg_log_precedes(window, held))))
            continue;
        ob_pg_log_eject_at(&async->log, window, 0);
        held_up = true;
    }
    return held_up;
}

static void release(const struct ob_pg_bundle *bundle, bool doubt)
{
    for (size_t i = 0; i < bundle->windowed; i++) {
        bundle->held[i]->state = OB_PG_HELD;
        bundle->held[i]->doubt |= doubt;
    }
}

static void try_settle(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    struct outbox_error err;
    if (!make_room(&settling->bundle, settling->count)) {
        ob_error_nomem(&err);
        ob_pg_request_fail(&settling->request, &err);
        settling->step = OB_PG_SETTLE_SENT;
        return;
    }
    collect(async);
    if (is_held_up(async) || (settling->bundle.windowed && async->eject.state != OB_PG_IDLE)) {
        release(&settling->bundle, false);
        settling->step = OB_PG_SETTLE_WAITS;
    } else {
        send_settle(async);
    }
}

static void tell_settled(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    struct outbox_error err = settling->request.err;
    ob_pg_async_heard(async, &err);
    ob_pg_request_reset(&settling->request);
    settling->step = OB_PG_SETTLE_NONE;
    async->host.settled(async->host.ctx, err.code, &err);
}

/* Takes what was settled out of its windows. What lost its window is kept in the bundle, to be settled once more. */
static void leave_windows(struct ob_pg_async *async)
{
    struct ob_pg_bundle *bundle = &async->settling.bundle;
    size_t windowed = bundle->windowed;
    bundle->count = bundle->windowed = 0;
    for (size_t i = 0; i < windowed; i++) {
        const struct outbox_settle item = bundle->items[i];
        struct ob_pg_window *window;
        struct ob_pg_held *held = ob_pg_log_find(&async->log, item.token, &item.id, &window);
        if (item.result == OUTBOX_SETTLE_LOST) {
            put(bundle, &item, bundle->from[i]);
            if (held)
                ob_pg_log_lost(&async->log, window);
        } else if (held && ob_pg_log_gone(&async->log, window, held)) {
            ob_pg_async_window_closed(async);
        }
    }
}

static void read_settled(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    struct ob_pg_bundle *bundle = &settling->bundle;
    size_t windowed = bundle->windowed;
    bool stirs = windowed < bundle->count;
    if (windowed)
        ob_pg_settle_read(settling->request.parts[0].res, bundle->items, windowed);
    if (windowed < bundle->count)
        ob_pg_settle_read(settling->request.parts[windowed > 0].res, bundle->items + windowed,
                          bundle->count - windowed);
    for (size_t i = 0; i < bundle->count; i++) {
        struct outbox_settle *item = &settling->items[bundle->from[i]];
        item->result = bundle->items[i].result;
        item->dead = bundle->items[i].dead;
        stirs = stirs || item->outcome != OUTBOX_DELIVERED;
    }
    ob_pg_async_stir(async, false, stirs);
}

static void settled(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    const struct outbox_error *err = &settling->request.err;
    if (settling->words < OB_PG_WORDS_ASCII && ob_pg_settle_is_ugly(err)) {
        settling->words++;
        ob_pg_request_reset(&settling->request);
        send_settle(async);
        return;
    }
    if (err->code) {
        release(&settling->bundle, true);
    } else if (settling->bundle.count) {
        read_settled(async);
        leave_windows(async);
        if (settling->bundle.count) {
            ob_pg_request_reset(&settling->request);
            send_settle(async);
            return;
        }
    }
    tell_settled(async);
}

/* ---- extends ---- */

static void try_extend(struct ob_pg_async *async)
{
    struct ob_pg_settling *extending = &async->extending;
    struct ob_pg_window *window;
    extending->step = OB_PG_SETTLE_SENT;
    for (size_t i = 0; i < extending->count; i++) {
        if (!ob_pg_log_find(&async->log, extending->items[i].token, &extending->items[i].id, &window))
            continue;
        ob_pg_log_eject_at(&async->log, window, 0);
        extending->step = OB_PG_SETTLE_WAITS;
    }
    if (extending->step == OB_PG_SETTLE_WAITS)
        return;
    ob_pg_request_begin(&extending->request, extending->deadline_us);
    ob_pg_extend_params(ob_pg_request_add(&extending->request, OB_PG_extend), extending->items, extending->count,
                        async->common.worker, extending->lease_us);
    ob_pg_async_send(async, OB_PG_SETTLES, &extending->request);
}

static void extended(struct ob_pg_async *async)
{
    struct ob_pg_settling *extending = &async->extending;
    struct outbox_error err = extending->request.err;
    ob_pg_async_heard(async, &err);
    if (!err.code && extending->count)
        ob_pg_extend_read(extending->request.parts[0].res, extending->items, extending->count);
    ob_pg_request_reset(&extending->request);
    extending->step = OB_PG_SETTLE_NONE;
    async->host.extended(async->host.ctx, err.code, &err);
}

/* ---- ejecting ---- */

/* Whether an eject must wait for a settle of windows. */
static bool eject_waits(const struct ob_pg_async *async)
{
    return async->eject.state != OB_PG_IDLE ||
           (async->settling.step == OB_PG_SETTLE_SENT && async->settling.bundle.windowed > 0);
}

static void eject_window(struct ob_pg_bundle *bundle, struct ob_pg_window *window)
{
    for (int i = 0; i < window->count; i++) {
        struct ob_pg_held *held = &window->held[i];
        if (held->state == OB_PG_GONE)
            continue;
        held->state = OB_PG_EJECTING;
        struct outbox_settle item = {.id = held->id, .delay_us = -1, .latency_us = -1};
        item.token = OB_PG_TOKEN_WINDOW | (int64_t)window->serial << 32 | (int64_t)i << 16 | 1;
        put(bundle, &item, 0);
        put_held(bundle, window, held);
    }
}

static void fail_waiting(struct ob_pg_settling *settling, const struct outbox_error *err)
{
    if (settling->step != OB_PG_SETTLE_WAITS)
        return;
    ob_pg_request_fail(&settling->request, err);
    settling->step = OB_PG_SETTLE_SENT;
}

/* How many messages are in windows that are due. */
static size_t due_count(const struct ob_pg_log *log, int64_t now_us)
{
    size_t count = 0;
    OB_LIST_EACH (it, &log->timed) {
        const struct ob_pg_window *window = OB_CONTAINER(it, struct ob_pg_window, timed);
        count += window->eject_us <= now_us ? (size_t)window->left : 0;
    }
    return count;
}

/* Ejects the windows that are due, as many as fit into one call. */
static void send_eject(struct ob_pg_async *async, int64_t now_us)
{
    size_t count = due_count(&async->log, now_us), most = (size_t)ob_limit_most(OB_LIMIT_settle);
    struct outbox_error err;
    if (!make_room(&async->ejected, count < most ? count : most)) {
        ob_error_nomem(&err);
        ob_pg_request_fail(&async->eject, &err);
        return;
    }
    OB_LIST_EACH (it, &async->log.timed) {
        struct ob_pg_window *window = OB_CONTAINER(it, struct ob_pg_window, timed);
        if (window->eject_us <= now_us && async->ejected.count + (size_t)window->left <= async->ejected.room)
            eject_window(&async->ejected, window);
    }
    ob_pg_request_begin(&async->eject, ob_pg_async_deadline(async->timeout_us));
    add_windows(async, &async->eject, &async->ejected, true, OB_PG_WORDS_AS_SAID);
    ob_pg_async_send(async, OB_PG_SETTLES, &async->eject);
}

/* An eject that somebody waits for must be answered in their time. */
static void hurry(struct ob_pg_async *async, const struct ob_pg_settling *settling)
{
    if (settling->step == OB_PG_SETTLE_WAITS && settling->deadline_us < async->eject.deadline_us)
        async->eject.deadline_us = settling->deadline_us;
}

static void try_eject(struct ob_pg_async *async, int64_t now_us)
{
    if (!eject_waits(async) && ob_pg_log_due_us(&async->log) <= now_us)
        send_eject(async, now_us);
    hurry(async, &async->settling);
    hurry(async, &async->extending);
}

/* All windows of an eject without memory are put off, too: the bundle does not name them. */
static void put_off(struct ob_pg_log *log, int64_t until_us)
{
    OB_LIST_EACH (it, &log->timed) {
        struct ob_pg_window *window = OB_CONTAINER(it, struct ob_pg_window, timed);
        window->eject_us = window->eject_us < until_us ? until_us : window->eject_us;
    }
}

static void ejected(struct ob_pg_async *async, int64_t now_us)
{
    const struct ob_pg_bundle *bundle = &async->ejected;
    struct outbox_error err = async->eject.err;
    ob_pg_async_heard(async, &err);
    for (size_t i = 0; i < bundle->count; i++) {
        struct ob_pg_window *window;
        struct ob_pg_held *held = ob_pg_log_find(&async->log, bundle->items[i].token, &bundle->items[i].id, &window);
        if (held && err.code)
            held->doubt = true;
        else if (held && ob_pg_log_gone(&async->log, window, held))
            ob_pg_async_window_closed(async);
    }
    ob_pg_request_reset(&async->eject);
    if (err.code) {
        put_off(&async->log, now_us + REPEAT_US);
        fail_waiting(&async->settling, &err);
        fail_waiting(&async->extending, &err);
    }
}

/* ---- for the host ---- */

/* True when the request is answered already: it has nothing to do, or too many items. */
static bool begin(struct ob_pg_settling *settling, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    settling->items = items;
    settling->count = count;
    settling->bundle.count = settling->bundle.windowed = 0;
    settling->deadline_us = ob_pg_async_deadline(timeout_us);
    settling->words = OB_PG_WORDS_AS_SAID;
    if (!ob_pg_settle_check(count, &err) && count > 0)
        return false;
    ob_pg_request_fail(&settling->request, &err);
    settling->step = OB_PG_SETTLE_SENT;
    return true;
}

void ob_pg_async_settle(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t timeout_us)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    if (begin(&async->settling, items, count, timeout_us))
        return;
    try_settle(async);
    try_eject(async, ob_clock_boot_us());
}

void ob_pg_async_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    async->extending.lease_us = lease_us;
    if (begin(&async->extending, items, count, timeout_us))
        return;
    try_extend(async);
    try_eject(async, ob_clock_boot_us());
}

static void time_out_waiting(struct ob_pg_settling *settling, int64_t now_us)
{
    struct outbox_error err;
    if (settling->step != OB_PG_SETTLE_WAITS || now_us < settling->deadline_us)
        return;
    ob_error_set(&err, OUTBOX_UNREACHABLE, "the server did not answer in time; the next call connects again");
    fail_waiting(settling, &err);
}

static bool is_done(const struct ob_pg_settling *settling)
{
    return settling->step == OB_PG_SETTLE_SENT && settling->request.state == OB_PG_DONE;
}

static int64_t waiting_until(const struct ob_pg_settling *settling)
{
    return settling->step == OB_PG_SETTLE_WAITS ? settling->deadline_us : INT64_MAX;
}

int64_t ob_pg_async_settle_due_us(const struct ob_pg_async *async)
{
    if (async->eject.state == OB_PG_DONE || is_done(&async->settling) || is_done(&async->extending))
        return 0;
    int64_t eject_us = eject_waits(async) ? INT64_MAX : ob_pg_log_due_us(&async->log);
    int64_t settle_us = waiting_until(&async->settling), extend_us = waiting_until(&async->extending);
    int64_t due_us = settle_us < extend_us ? settle_us : extend_us;
    return eject_us < due_us ? eject_us : due_us;
}

void ob_pg_async_settle_go_on(struct ob_pg_async *async, int64_t now_us)
{
    bool was_settled = is_done(&async->settling), was_extended = is_done(&async->extending);
    if (async->eject.state == OB_PG_DONE)
        ejected(async, now_us);
    if (was_settled)
        settled(async);
    if (was_extended)
        extended(async);
    time_out_waiting(&async->settling, now_us);
    time_out_waiting(&async->extending, now_us);
    if (async->settling.step == OB_PG_SETTLE_WAITS)
        try_settle(async);
    if (async->extending.step == OB_PG_SETTLE_WAITS)
        try_extend(async);
    try_eject(async, now_us);
}

void ob_pg_async_settle_fini(struct ob_pg_async *async)
{
    ob_pg_request_fini(&async->settling.request);
    ob_pg_request_fini(&async->extending.request);
    ob_pg_request_fini(&async->eject);
    bundle_fini(&async->settling.bundle);
    bundle_fini(&async->extending.bundle);
    bundle_fini(&async->ejected);
}
