/* operate.c - what operators do with dead letters and pauses. Every act is recorded in the transaction that does it.
 *
 * Many dead letters are processed in several transactions, so that producers are never blocked for long; after an error, those
 * processed before it stay done, recorded and counted. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "base/limits.h"
#include "core/names.h"

#include <string.h>

enum { CHUNK = 200, MAX_COUNT = 10000 };

struct dead_letter {
    int64_t n, sid; /* sid: of the key it holds; 0 for none */
    int attempts;
    const char *id, *tenant_id, *code;
};

struct sweep {
    const struct ob_filter *filter;
    const struct ob_actor *actor;
    const char *ids, *tenant;
    bool discard;
    int64_t after, left, count; /* count: of this chunk */
    struct ob_arena arena;
    struct dead_letter letters[CHUNK];
};

/* ---- which ------------------------------------------------------------------------------------------------------- */

static ob_code check(const struct ob_filter *filter, struct outbox_error *err)
{
    if (filter->status_plus_1 && filter->status_plus_1 != OB_DEAD + 1)
        return ob_error_set(err, OUTBOX_INVALID, "only dead letters can be retried or discarded");
    if (filter->limit && !ob_limit_allows(OB_LIMIT_operate, filter->limit))
        return ob_limit_check(OB_LIMIT_operate, "limit", filter->limit, err);
    if (!filter->ids && !filter->name_space && !filter->topic && !filter->tenant_id && !filter->key &&
        !filter->subject && !filter->code && !filter->before_us)
        return ob_error_set(err, OUTBOX_INVALID,
                            "no dead letters selected; give ids, a namespace, topic, tenant, key, subject, code or "
                            "time");
    return ob_names_check(filter->name_space, filter->topic, NULL, err);
}

static bool read_letter(sqlite3_stmt *stmt, struct ob_arena *arena, struct dead_letter *letter)
{
    const char *texts[3];
    static const int columns[3] = {1, 2, 4};
    for (size_t i = 0; i < 3; i++) {
        const char *text = ob_sqlite_column(stmt, columns[i]);
        texts[i] = text ? ob_arena_strdup(arena, text) : NULL;
        if (text && !texts[i])
            return false;
    }
    *letter = (struct dead_letter){.n = sqlite3_column_int64(stmt, 0),
                                   .id = texts[0],
                                   .tenant_id = texts[1],
                                   .attempts = sqlite3_column_int(stmt, 3),
                                   .code = texts[2],
                                   .sid = sqlite3_column_int64(stmt, 5)};
    return true;
}

static ob_code scan(struct ob_sqlite_store *store, struct sweep *sweep, struct outbox_error *err)
{
    const struct ob_filter *filter = sweep->filter;
    sqlite3_stmt *stmt;
    bool row;
    sweep->count = 0;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_pick_dead,
                                   OB_ARGS(OB_TEXT(sweep->ids), OB_TEXT(filter->name_space), OB_TEXT(filter->topic),
                                           OB_TEXT(sweep->tenant), OB_TEXT(filter->key), OB_TEXT(filter->subject),
                                           OB_TEXT(filter->code), OB_NUM_OR_NULL(filter->before_us),
                                           OB_NUM(sweep->after), OB_NUM(sweep->left < CHUNK ? sweep->left : CHUNK)),
                                   &stmt, err);
    while (!code) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            return code;
        if (!read_letter(stmt, &sweep->arena, &sweep->letters[sweep->count++]))
            code = ob_error_nomem(err);
    }
    ob_sqlite_done(stmt);
    return code;
}

/* ---- what -------------------------------------------------------------------------------------------------------- */

/* If its key continued without it, it no longer has an order. If it held its key, it is delivered first. */
static ob_code redrive(struct ob_sqlite_store *store, const struct dead_letter *letter, int64_t now,
                       struct outbox_error *err)
{
    int64_t held = 0;
    const struct ob_sqlite_arg args[] = {OB_NUM(letter->n), OB_NUM(now)};
    ob_code code = ob_sqlite_run(store, OB_SQLITE_redrive_held, args, 2, &held, err);
    if (!code && !held)
        code = ob_sqlite_run(store, OB_SQLITE_redrive, args, 2, NULL, err);
    return code ? code : ob_sqlite_run(store, OB_SQLITE_undead, args, 1, NULL, err);
}

static ob_code discard(struct ob_sqlite_store *store, const struct dead_letter *letter, int64_t now,
                       struct outbox_error *err)
{
    ob_code code = ob_sqlite_run(store, OB_SQLITE_discard, OB_ARGS(OB_NUM(letter->n), OB_NUM(now)), NULL, err);
    if (code || !letter->sid)
        return code;
    code = ob_sqlite_run(store, OB_SQLITE_gone, OB_ARGS(OB_NUM(letter->n), OB_NUM(letter->n)), NULL, err);
    return code ? code : ob_sqlite_wake(store, OB_SQLITE_wake_head, OB_ARGS(OB_NUM(letter->sid)), err);
}

static ob_code record(struct ob_sqlite_store *store, const struct sweep *sweep, const struct dead_letter *letter,
                      int64_t now, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_detail_dead,
                                   OB_ARGS(OB_TEXT(letter->code), OB_NUM(letter->attempts)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, sweep->actor, sweep->discard ? "discard" : "retry", letter->id, letter->tenant_id,
                             row ? ob_sqlite_column(stmt, 0) : NULL, now, err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code act_on(struct ob_sqlite_store *store, const struct sweep *sweep, const struct dead_letter *letter,
                      struct outbox_error *err)
{
    int64_t now = ob_clock_wall_us();
    ob_code code = sweep->discard ? discard(store, letter, now, err) : redrive(store, letter, now, err);
    if (!code)
        code = record(store, sweep, letter, now, err);
    if (code)
        return code;
    return ob_sqlite_fire(
        store,
        &(struct ob_sqlite_event){.n = letter->n,
                                  .now = now,
                                  .event = sweep->discard ? "discarded" : "redriven",
                                  .status = sweep->discard ? "discarded" : "pending",
                                  .attempt = letter->attempts,
                                  .actor = sweep->actor && sweep->actor->actor ? sweep->actor->actor : "",
                                  .code = letter->code,
                                  .error = sweep->actor ? sweep->actor->reason : NULL},
        err);
}

static ob_code sweep_chunk(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct sweep *sweep = ctx;
    ob_code code = scan(store, sweep, err);
    for (int64_t i = 0; i < sweep->count && !code; i++)
        code = act_on(store, sweep, &sweep->letters[i], err);
    return code;
}

static ob_code sweep_all(struct ob_store *base, const struct ob_filter *filter, const struct ob_actor *actor,
                         bool discards, int64_t *count, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct sweep sweep = {.filter = filter, .actor = actor, .discard = discards};
    struct ob_buf ids = OB_BUF_INIT;
    char tenant[37];
    int64_t done = 0;
    ob_arena_init(&sweep.arena, 0);
    ob_code code = check(filter, err);
    if (!code)
        code = ob_sqlite_check_tenant(filter->tenant_id, tenant, &sweep.tenant, err);
    if (!code)
        code = ob_sqlite_own_tenant(store, &sweep.tenant, err);
    if (!code && filter->ids) {
        ob_sqlite_json_ids(&ids, filter->ids, filter->id_count);
        sweep.ids = ob_buf_text(&ids);
        code = ob_buf_ok(&ids) ? OUTBOX_OK : ob_error_nomem(err);
    }
    sweep.left = filter->limit ? filter->limit : MAX_COUNT;
    while (!code && sweep.left > 0) {
        int64_t wanted = sweep.left < CHUNK ? sweep.left : CHUNK;
        code = ob_sqlite_transact(store, sweep_chunk, &sweep, err);
        if (code)
            break;
        done += sweep.count;
        if (sweep.count < wanted)
            break;
        sweep.left -= sweep.count;
        sweep.after = sweep.letters[sweep.count - 1].n;
        ob_arena_fini(&sweep.arena);
    }
    if (count)
        *count = done;
    ob_arena_fini(&sweep.arena);
    ob_buf_fini(&ids);
    return code;
}

ob_code ob_sqlite_retry(struct ob_store *base, const struct ob_filter *filter, const struct ob_actor *actor,
                        int64_t *count, struct outbox_error *err)
{
    return sweep_all(base, filter, actor, false, count, err);
}

ob_code ob_sqlite_discard(struct ob_store *base, const struct ob_filter *filter, const struct ob_actor *actor,
                          int64_t *count, struct outbox_error *err)
{
    return sweep_all(base, filter, actor, true, count, err);
}

/* ---- pauses ------------------------------------------------------------------------------------------------------ */

struct scope {
    const char *name_space, *topic, *sink;
    const struct ob_actor *actor;
    bool resume;
};

static ob_code change_scope(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct scope *scope = ctx;
    sqlite3_stmt *stmt;
    bool row = false;
    int64_t now = ob_clock_wall_us(), changed = 0;
    const char *who = scope->actor && scope->actor->actor ? scope->actor->actor : "";
    const struct ob_sqlite_arg args[] = {
        OB_TEXT(scope->name_space ? scope->name_space : ""),
        OB_TEXT(scope->topic ? scope->topic : ""),
        OB_TEXT(scope->sink ? scope->sink : ""),
        OB_NUM(now),
        OB_TEXT(who),
        OB_TEXT(scope->actor ? scope->actor->reason : NULL),
    };
    ob_code code = scope->resume ? ob_sqlite_run(store, OB_SQLITE_resume, args, 3, &changed, err)
                                 : ob_sqlite_run(store, OB_SQLITE_pause, args, 6, &changed, err);
    if (code || !changed)
        return code;
    code =
        ob_sqlite_start(store, OB_SQLITE_detail_scope,
                        OB_ARGS(OB_TEXT(scope->name_space), OB_TEXT(scope->topic), OB_TEXT(scope->sink)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, scope->actor, scope->resume ? "resume" : "pause", NULL, NULL,
                             row ? ob_sqlite_column(stmt, 0) : NULL, now, err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code on_scope(struct ob_store *base, struct scope *scope, struct outbox_error *err)
{
    ob_code code = ob_names_check(scope->name_space, scope->topic, scope->sink, err);
    if (code)
        return code;
    if (scope->topic && !scope->name_space)
        return ob_error_set(err, OUTBOX_INVALID,
                            "pausing a topic requires its namespace; \"*\" stands for all namespaces");
    if (scope->sink && scope->name_space)
        return ob_error_set(err, OUTBOX_INVALID, "a pause takes either a sink, or a namespace and topic");
    return ob_sqlite_transact(ob_sqlite_store_of(base), change_scope, scope, err);
}

ob_code ob_sqlite_pause(struct ob_store *base, const char *name_space, const char *topic, const char *sink,
                        const struct ob_actor *actor, struct outbox_error *err)
{
    return on_scope(base, &(struct scope){name_space, topic, sink, actor, false}, err);
}

ob_code ob_sqlite_resume(struct ob_store *base, const char *name_space, const char *topic, const char *sink,
                         const struct ob_actor *actor, struct outbox_error *err)
{
    return on_scope(base, &(struct scope){name_space, topic, sink, actor, true}, err);
}
