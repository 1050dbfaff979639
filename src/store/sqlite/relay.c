/* relay.c - heartbeats of relays and run-time settings. The counts of the queue are in gauges.c. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "base/limits.h"
#include "core/tuning.h"

#include <string.h>

/* ---- run-time settings ------------------------------------------------------------------------------------------- */

struct change {
    const char *name, *value; /* value NULL: back to the configured one */
    const struct ob_actor *actor;
};

static ob_code apply(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct change *change = ctx;
    sqlite3_stmt *stmt;
    bool row = false;
    int64_t now = ob_clock_wall_us(), changed = 0;
    const struct ob_sqlite_arg args[] = {
        OB_TEXT(change->name),
        OB_TEXT(change->value),
        OB_NUM(now),
        OB_TEXT(change->actor && change->actor->actor ? change->actor->actor : ""),
        OB_TEXT(change->actor ? change->actor->reason : NULL),
    };
    ob_code code = change->value ? ob_sqlite_run(store, OB_SQLITE_tune, args, 5, &changed, err)
                                 : ob_sqlite_run(store, OB_SQLITE_tune_reset, args, 1, &changed, err);
    if (code || !changed)
        return code;
    code = ob_sqlite_start(store, OB_SQLITE_detail_tuning, args, 2, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code =
            ob_sqlite_act(store, change->actor, "tune", NULL, NULL, row ? ob_sqlite_column(stmt, 0) : NULL, now, err);
    ob_sqlite_done(stmt);
    return code;
}

ob_code ob_sqlite_tune(struct ob_store *base, const char *name, const char *value, const struct ob_actor *actor,
                       struct outbox_error *err)
{
    struct ob_tuning tuning;
    ob_code code = ob_tuning_parse(name, value, &tuning, err);
    if (!code)
        code = ob_sqlite_check_utf8("name", name, err);
    if (code)
        return code;
    struct change change = {name, value ? tuning.value : NULL, actor};
    return ob_sqlite_transact(ob_sqlite_store_of(base), apply, &change, err);
}

/* ---- beats ------------------------------------------------------------------------------------------------------- */

struct pulse {
    const struct ob_beat *beat;
    bool leads;
};

static ob_code write_beat(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct pulse *pulse = ctx;
    const struct ob_beat *beat = pulse->beat;
    int64_t now = ob_clock_wall_us(), leads = 0;
    pulse->leads = false;
    if (beat->state && strcmp(beat->state, "stopped") == 0)
        return ob_sqlite_run(store, OB_SQLITE_beat_last, OB_ARGS(OB_TEXT(beat->worker)), NULL, err);
    ob_code code = ob_sqlite_run(store, OB_SQLITE_beat,
                                 OB_ARGS(OB_TEXT(beat->worker), OB_TEXT(beat->host), OB_NUM(beat->pid),
                                         OB_TEXT(beat->version), OB_TEXT(beat->state ? beat->state : "running"),
                                         OB_NUM(now), OB_NUM(beat->every_us), OB_TEXT(beat->info)),
                                 NULL, err);
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_beat_sweep, OB_ARGS(OB_NUM(now)), NULL, err);
    if (!code)
        code =
            ob_sqlite_number(store, OB_SQLITE_beat_leads, OB_ARGS(OB_TEXT(beat->worker), OB_NUM(now)), 0, &leads, err);
    pulse->leads = leads != 0;
    return code;
}

ob_code ob_sqlite_beat(struct ob_store *base, const struct ob_beat *beat, bool *leads, struct outbox_error *err)
{
    struct pulse pulse = {.beat = beat};
    if (!beat->worker || !beat->worker[0])
        return ob_error_set(err, OUTBOX_INVALID, "\"worker\" is missing; give the name under which this relay claims");
    ob_code code = ob_limit_check(OB_LIMIT_heartbeat, "every", beat->every_us, err);
    if (!code)
        code = ob_sqlite_check_utf8("worker", beat->worker, err);
    if (!code)
        code = ob_sqlite_transact(ob_sqlite_store_of(base), write_beat, &pulse, err);
    if (!code && leads)
        *leads = pulse.leads;
    return code;
}

ob_code ob_sqlite_relays(struct ob_store *base, ob_relay_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row, more = true;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_relays, OB_ARGS(OB_NUM(ob_clock_wall_us())), &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_relay_row relay = {
            .worker = ob_sqlite_column(stmt, 0),
            .host = ob_sqlite_column(stmt, 1),
            .pid = sqlite3_column_int(stmt, 2),
            .version = ob_sqlite_column(stmt, 3),
            .state = ob_sqlite_column(stmt, 4),
            .started_at_us = sqlite3_column_int64(stmt, 5),
            .seen_at_us = sqlite3_column_int64(stmt, 6),
            .alive = sqlite3_column_int(stmt, 7) != 0,
            .info = ob_sqlite_column(stmt, 8),
        };
        more = fn(ctx, &relay);
    }
    ob_sqlite_done(stmt);
    return code;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

ob_code ob_sqlite_control(struct ob_store *base, const struct ob_control *control, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_control, OB_NO_ARGS, &stmt, err);
    while (!code) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        int kind = sqlite3_column_int(stmt, 0);
        const char *first = ob_sqlite_column(stmt, 1), *second = ob_sqlite_column(stmt, 2);
        const char *actor = ob_sqlite_column(stmt, 4), *reason = ob_sqlite_column(stmt, 5);
        int64_t at = sqlite3_column_int64(stmt, 6);
        if (kind == 0 && control->paused)
            control->paused(control->ctx,
                            &(struct ob_pause_row){first, second, ob_sqlite_column(stmt, 3), actor, reason, at});
        else if (kind == 1 && control->tuned)
            control->tuned(control->ctx, &(struct ob_tuning_row){first, second, actor, reason, at});
        else if (kind == 2 && control->lane)
            control->lane(control->ctx, first, second);
    }
    ob_sqlite_done(stmt);
    return code;
}
