/* hook.c - outcome hooks: the application's own triggers on outbox_event.
 *
 *   CREATE TRIGGER order_told AFTER INSERT ON outbox_event WHEN NEW.topic = 'orders.paid' AND NEW.event = 'delivered'
 *   BEGIN UPDATE orders SET state = 'told' WHERE id = NEW.subject; END;
 *
 * An event is inserted in the transaction that records its outcome, after it, in its own savepoint. When a trigger fails, the
 * savepoint is rolled back, the event is kept in outbox_hook_failure, and the outcome stays recorded. Two failures have a wider
 * effect, and are handled too: a trigger that cannot be compiled (a table it needs is missing) fails the INSERT before it
 * starts; RAISE(ROLLBACK) rolls back our whole transaction, which is then run again with the triggers muted and all its events
 * kept. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

#include <string.h>

/* Whether there are such triggers. */
static ob_code look(struct ob_sqlite_store *store, struct outbox_error *err)
{
    int64_t version, count;
    ob_code code = ob_sqlite_number(store, OB_SQLITE_schema_version, OB_NO_ARGS, 0, &version, err);
    if (code || version == store->schema_version)
        return code;
    code = ob_sqlite_number(store, OB_SQLITE_hooks, OB_NO_ARGS, 0, &count, err);
    if (!code) {
        store->hooked = count > 0;
        store->schema_version = version;
    }
    return code;
}

static ob_code once(struct ob_sqlite_store *store, ob_sqlite_body *body, void *ctx, struct outbox_error *err)
{
    ob_code code = ob_sqlite_begin(store, err);
    if (code)
        return code;
    code = look(store, err);
    if (!code)
        code = body(store, ctx, err);
    return ob_sqlite_end(store, code, err);
}

ob_code ob_sqlite_transact(struct ob_sqlite_store *store, ob_sqlite_body *body, void *ctx, struct outbox_error *err)
{
    store->hook_error[0] = '\0';
    ob_code code = once(store, body, ctx, err);
    if (code && store->hook_error[0]) {
        store->hooks_muted = true;
        code = once(store, body, ctx, err);
        store->hooks_muted = false;
    }
    return code;
}

/* Runs the INSERT that fires the triggers, in a savepoint. failure gets their error text, "" if none failed. A returned error
 * is one of our own. */
static ob_code show(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                    size_t count, char failure[256], struct outbox_error *err)
{
    struct outbox_error cause;
    failure[0] = '\0';
    ob_code code = ob_sqlite_run(store, OB_SQLITE_savepoint, OB_NO_ARGS, NULL, err);
    if (code)
        return code;
    if (ob_sqlite_run(store, which, args, count, NULL, &cause)) {
        sqlite3_snprintf(256, failure, "%s", cause.text);
        if (sqlite3_get_autocommit(store->db)) /* the transaction is gone */
            return ob_error_set(err, OUTBOX_DATABASE, "a trigger on outbox_event rolled back: %s", cause.text);
        /* Out of memory, out of room, damaged: not the trigger's fault. */
        if (cause.code == OUTBOX_NOMEM || cause.code == OUTBOX_FULL || cause.code == OUTBOX_CORRUPT) {
            if (err)
                *err = cause;
            return cause.code;
        }
        code = ob_sqlite_run(store, OB_SQLITE_savepoint_undo, OB_NO_ARGS, NULL, err);
    }
    return code ? code : ob_sqlite_run(store, OB_SQLITE_savepoint_release, OB_NO_ARGS, NULL, err);
}

ob_code ob_sqlite_fire(struct ob_sqlite_store *store, const struct ob_sqlite_event *event, struct outbox_error *err)
{
    char failure[256];
    if (!store->hooked)
        return OUTBOX_OK;
    const struct ob_sqlite_arg args[] = {
        OB_NUM(event->n),          OB_TEXT(event->event),  OB_NUM(event->now),   OB_TEXT(event->status),
        OB_NUM(event->attempt),    OB_TEXT(event->actor),  OB_TEXT(event->code), OB_TEXT(event->error),
        OB_TEXT(event->reference), OB_TEXT(event->output), OB_TEXT(failure),
    };
    const size_t count = sizeof args / sizeof args[0];
    if (store->hooks_muted) {
        sqlite3_snprintf(sizeof failure, failure, "not called: a trigger rolled the transaction back: %s",
                         store->hook_error);
    } else {
        ob_code code = show(store, OB_SQLITE_event, args, count - 1, failure, err);
        if (failure[0] && sqlite3_get_autocommit(store->db))
            memcpy(store->hook_error, failure, sizeof store->hook_error);
        if (code)
            return code;
    }
    return failure[0] ? ob_sqlite_run(store, OB_SQLITE_hook_failure, args, count, NULL, err) : OUTBOX_OK;
}

/* One event in its own transaction, so that it neither delays nor fails the next one. */
struct again {
    int64_t n;
    char failure[256];
};

static ob_code show_again(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct again *again = ctx;
    ob_code code = show(store, OB_SQLITE_failed_event, OB_ARGS(OB_NUM(again->n)), again->failure, err);
    return code || again->failure[0]
               ? code
               : ob_sqlite_run(store, OB_SQLITE_failed_done, OB_ARGS(OB_NUM(again->n)), NULL, err);
}

static ob_code put_off(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct again *again = ctx;
    return ob_sqlite_run(store, OB_SQLITE_failed_again,
                         OB_ARGS(OB_NUM(again->n), OB_NUM(ob_clock_wall_us()), OB_TEXT(again->failure)), NULL, err);
}

ob_code ob_sqlite_run_failed_hooks(struct ob_store *base, int max_count, int64_t *taken, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct again again = {0};
    int64_t count = 0;
    ob_code code = OUTBOX_OK;
    for (int i = 0; i < max_count && !code; i++) {
        code = ob_sqlite_number(store, OB_SQLITE_failed_hooks, OB_ARGS(OB_NUM(again.n), OB_NUM(1)), 0, &again.n, err);
        if (code || again.n == 0)
            break;
        again.failure[0] = '\0';
        code = once(store, show_again, &again, err);
        if (again.failure[0])
            code = once(store, put_off, &again, err);
        else
            count += code == OUTBOX_OK;
    }
    if (taken)
        *taken = count;
    return code;
}
