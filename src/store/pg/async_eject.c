/* async_eject.c - turns what is left of a window into rows of the queue, leased to us.
 *
 * That is how a lease is extended, and how a shard of keyed messages is freed for others when its messages take long. At most one
 * settle of windows or eject is under way, so that no message of a key overtakes another on its way to the queue.
 *
 * A failed eject is repeated before anything else is said of its messages: they may be rows of the queue by now. */
#include "store/pg/async_int.h"

#include "base/crash.h"
#include "base/limits.h"

enum { REPEAT_US = 1000000 };

bool ob_pg_async_eject_waits(const struct ob_pg_async *async)
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
        struct outbox_settle item = {
            .id = held->id, .token = ob_pg_log_token(window, i), .delay_us = -1, .latency_us = -1};
        ob_pg_bundle_put(bundle, &item, 0);
        ob_pg_bundle_put_held(bundle, window, held);
    }
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
    if (!ob_pg_bundle_room(&async->ejected, count < most ? count : most)) {
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
    ob_pg_bundle_add(&async->ejected, &async->eject, async->common.worker, true, OB_PG_WORDS_AS_SAID);
    ob_pg_async_send(async, OB_PG_SETTLES, &async->eject);
    OB_CRASH_POINT("ejecting");
}

/* An eject that somebody waits for must be answered in their time. */
static void hurry(struct ob_pg_async *async, const struct ob_pg_settling *settling)
{
    if (settling->step == OB_PG_SETTLE_WAITS && settling->deadline_us < async->eject.deadline_us)
        async->eject.deadline_us = settling->deadline_us;
}

void ob_pg_async_eject(struct ob_pg_async *async, int64_t now_us)
{
    if (!ob_pg_async_eject_waits(async) && ob_pg_log_due_us(&async->log) <= now_us)
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

void ob_pg_async_ejected(struct ob_pg_async *async, int64_t now_us)
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
        ob_pg_settling_fail(&async->settling, &err);
        ob_pg_settling_fail(&async->extending, &err);
    }
}
