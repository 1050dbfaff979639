/* async_settle.c - settles and extends of the async store, and the ejecting of windows.
 *
 * A settle is one transaction: settle_window for messages that are in windows (log.h), settle for all others. What is reported
 * lost because its window is not ours any more is settled once more, by settle: whoever repaired the window has put it into the
 * queue, where it is still ours until it is claimed.
 *
 * A settle waits for the eject under way; and for that of a window if one of its messages is being ejected, or would go to the
 * queue before an earlier message of its key. An extend waits until all its messages have left their windows: async_eject.c. */
#include "store/pg/async_int.h"

#include "base/clock.h"

/* ---- settles ---- */

static void send_settle(struct ob_pg_async *async)
{
    struct ob_pg_settling *settling = &async->settling;
    const struct ob_pg_bundle *bundle = &settling->bundle;
    settling->step = OB_PG_SETTLE_SENT;
    ob_pg_request_begin(&settling->request, settling->deadline_us);
    if (bundle->windowed)
        ob_pg_bundle_add(bundle, &settling->request, async->common.worker, false, settling->words);
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
        ob_pg_bundle_put(bundle, item, i);
        ob_pg_bundle_put_held(bundle, window, held);
    }
    for (size_t i = 0, next = 0; i < settling->count; i++) {
        if (next < bundle->windowed && bundle->from[next] == i)
            next++;
        else
            ob_pg_bundle_put(bundle, &settling->items[i], i);
    }
    ob_pg_bundle_group(bundle);
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
    if (!ob_pg_bundle_room(&settling->bundle, settling->count)) {
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
            ob_pg_bundle_put(bundle, &item, bundle->from[i]);
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

/* ---- for the host ---- */

void ob_pg_settling_fail(struct ob_pg_settling *settling, const struct outbox_error *err)
{
    if (settling->step != OB_PG_SETTLE_WAITS)
        return;
    ob_pg_request_fail(&settling->request, err);
    settling->step = OB_PG_SETTLE_SENT;
}

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
    ob_pg_async_eject(async, ob_clock_boot_us());
}

void ob_pg_async_extend(struct ob_async_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                        int64_t timeout_us)
{
    struct ob_pg_async *async = ob_pg_async_of(base);
    async->extending.lease_us = lease_us;
    if (begin(&async->extending, items, count, timeout_us))
        return;
    try_extend(async);
    ob_pg_async_eject(async, ob_clock_boot_us());
}

static void time_out_waiting(struct ob_pg_settling *settling, int64_t now_us)
{
    struct outbox_error err;
    if (settling->step != OB_PG_SETTLE_WAITS || now_us < settling->deadline_us)
        return;
    ob_error_set(&err, OUTBOX_UNREACHABLE, "the server did not answer in time; the next call connects again");
    ob_pg_settling_fail(settling, &err);
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
    int64_t eject_us = ob_pg_async_eject_waits(async) ? INT64_MAX : ob_pg_log_due_us(&async->log);
    int64_t settle_us = waiting_until(&async->settling), extend_us = waiting_until(&async->extending);
    int64_t due_us = settle_us < extend_us ? settle_us : extend_us;
    return eject_us < due_us ? eject_us : due_us;
}

void ob_pg_async_settle_go_on(struct ob_pg_async *async, int64_t now_us)
{
    bool was_settled = is_done(&async->settling), was_extended = is_done(&async->extending);
    if (async->eject.state == OB_PG_DONE)
        ob_pg_async_ejected(async, now_us);
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
    ob_pg_async_eject(async, now_us);
}

void ob_pg_async_settle_fini(struct ob_pg_async *async)
{
    ob_pg_request_fini(&async->settling.request);
    ob_pg_request_fini(&async->extending.request);
    ob_pg_request_fini(&async->eject);
    ob_pg_bundle_fini(&async->settling.bundle);
    ob_pg_bundle_fini(&async->extending.bundle);
    ob_pg_bundle_fini(&async->ejected);
}
