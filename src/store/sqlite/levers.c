/* levers.c - what operators do with messages by id, in whatever state they are: sql/postgres/013_levers.sql says what each act means.
 *
 * One transaction. The messages are met in the order of their commits, so those of a key leave the queue from the front. What a
 * worker has is refused. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/filter.h"
#include "core/fingerprint.h"
#include "core/lever.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ADMIT_MAX = 100000 };

/* A message as meet.sql has it; texts are in the arena. */
struct met {
    int64_t n, sid, due, until;
    int attempts, state; /* state: of the queue; -1: it is not there */
    enum ob_status status;
    const char *id, *tenant_id, *code, *error, *holder, *name_space, *topic, *ahead;
};

struct answer {
    struct outbox_uuid id;
    const char *result, *detail, *made;
};

struct work {
    const struct ob_operation *operation;
    struct ob_buf ids;
    struct ob_arena arena;
    int64_t *numbers;
    struct answer *answers;
    size_t count, answer_count;
    int64_t now;
};

/* ---- which ------------------------------------------------------------------------------------------------------- */

static ob_code find_numbers(struct ob_sqlite_store *store, struct work *work, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    int64_t upto = 0;
    const char *tenant = NULL;
    ob_code code = ob_sqlite_own_tenant(store, &tenant, err);
    if (!code)
        code = ob_sqlite_start(store, OB_SQLITE_meet_numbers,
                               OB_ARGS(OB_TEXT(ob_buf_text(&work->ids)), OB_TEXT(tenant)), &stmt, err);
    work->count = 0;
    while (!code) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        work->numbers[work->count++] = sqlite3_column_int64(stmt, 0);
        if (sqlite3_column_int(stmt, 1))
            upto = sqlite3_column_int64(stmt, 0);
    }
    if (!code && upto && work->operation->lever != OB_LEVER_REDELIVER)
        code = ob_sqlite_run(store, OB_SQLITE_admit_upto, OB_ARGS(OB_NUM(upto), OB_NUM(ADMIT_MAX)), NULL, err);
    return code;
}

static const char *keep(struct work *work, sqlite3_stmt *stmt, int column, bool *short_of)
{
    const char *text = ob_sqlite_column(stmt, column), *kept = text ? ob_arena_strdup(&work->arena, text) : NULL;
    *short_of = *short_of || (text && !kept);
    return kept;
}

static ob_code meet(struct ob_sqlite_store *store, struct work *work, int64_t n, struct met *met,
                    struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false, short_of = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_meet, OB_ARGS(OB_NUM(n)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code)
        return code;
    if (!row)
        return ob_error_set(err, OUTBOX_CORRUPT, "message %lld has no state", (long long)n);
    int status = ob_status_find(ob_sqlite_column(stmt, 2));
    *met = (struct met){
        .n = n,
        .id = keep(work, stmt, 0, &short_of),
        .tenant_id = keep(work, stmt, 1, &short_of),
        .status = status ? (enum ob_status)(status - 1) : OB_PENDING,
        .attempts = sqlite3_column_int(stmt, 3),
        .code = keep(work, stmt, 4, &short_of),
        .error = keep(work, stmt, 5, &short_of),
        .sid = sqlite3_column_int64(stmt, 6),
        .state = sqlite3_column_type(stmt, 7) == SQLITE_NULL ? -1 : sqlite3_column_int(stmt, 7),
        .due = sqlite3_column_int64(stmt, 8),
        .until = sqlite3_column_int64(stmt, 9),
        .holder = keep(work, stmt, 10, &short_of),
        .name_space = keep(work, stmt, 11, &short_of),
        .topic = keep(work, stmt, 12, &short_of),
        .ahead = keep(work, stmt, 13, &short_of),
    };
    ob_sqlite_done(stmt);
    const char *tenant = met->tenant_id ? met->tenant_id : "";
    if (short_of)
        return ob_error_nomem(err);
    return ob_sqlite_own_tenant(store, &tenant, err);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static const char *time_text(struct work *work, int64_t us)
{
    char text[32] = "?";
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    const char *kept = ob_arena_strdup(&work->arena, text);
    return kept ? kept : "?";
}

static const char *say(struct work *work, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *say(struct work *work, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ob_arena_strdup(&work->arena, text);
}

/* Why nothing is done in a state that the lever is for. */
static ob_code refuse_again(struct ob_sqlite_store *store, struct work *work, const struct met *met,
                            struct answer *answer, struct outbox_error *err)
{
    const struct ob_operation *operation = work->operation;
    int64_t before = 0;
    ob_code code = OUTBOX_OK;
    if (operation->lever == OB_LEVER_MOVE && met->topic && strcmp(operation->topic, met->topic) == 0 &&
        (!operation->name_space || strcmp(operation->name_space, met->name_space) == 0)) {
        answer->result = "same";
        answer->detail = "it is in this topic already";
    } else if (operation->status_plus_1 && operation->status_plus_1 != (int)met->status + 1) {
        answer->result = "changed";
        answer->detail = say(work, "it is %s now", ob_status_name(met->status));
    } else if (operation->lever == OB_LEVER_REDELIVER && operation->run) {
        code = ob_sqlite_number(store, OB_SQLITE_redelivered, OB_ARGS(OB_TEXT(met->id), OB_TEXT(operation->run)), 0,
                                &before, err);
        if (!code && before) {
            answer->result = "done";
            answer->detail = "this run has redelivered it";
        }
    }
    return code;
}

/* Sets the answer's result if nothing may be done; the same as the function refusal on PostgreSQL. */
static void refuse(struct work *work, const struct met *met, struct answer *answer)
{
    enum ob_lever lever = work->operation->lever;
    bool ended = met->status == OB_STATUS_DELIVERED || met->status == OB_DISCARDED, dead = met->status == OB_DEAD;
    if (met->status == OB_PROCESSING) {
        answer->result = "leased";
        answer->detail = met->until <= work->now
                             ? say(work, "%s had it, its lease ended at %s: the next claim takes it", met->holder,
                                   time_text(work, met->until))
                             : say(work, "%s has it until %s", met->holder, time_text(work, met->until));
    } else if (lever == OB_LEVER_REDELIVER && !ended) {
        answer->result = ob_status_name(met->status);
        answer->detail = dead ? "it is a dead letter: retry it" : "it is not delivered yet";
    } else if (lever != OB_LEVER_REDELIVER && ended) {
        answer->result = ob_status_name(met->status);
        answer->detail = say(work, "it is %s: only redeliver begins it again", answer->result);
    } else if (lever == OB_LEVER_REDELIVER) {
        return;
    } else if (!dead && met->state < 0) {
        answer->result = "busy";
        answer->detail = "it is far back in the log: try again";
    } else if (met->ahead && !(lever == OB_LEVER_RETRY && (dead || met->due > work->now))) {
        answer->result = "behind";
        answer->detail = say(work, "%s of its key goes first", met->ahead);
    } else if (lever == OB_LEVER_RETRY && !dead && met->due <= work->now) {
        answer->result = "due";
        answer->detail = say(work, "it is due since %s", time_text(work, met->due));
    } else if (dead && (lever == OB_LEVER_EXPIRE || (lever == OB_LEVER_SKIP && met->state != OB_SQLITE_HELD))) {
        answer->result = "dead";
        answer->detail =
            lever == OB_LEVER_SKIP ? "it is a dead letter that holds no key" : "it is a dead letter already";
    }
}

/* ---- what -------------------------------------------------------------------------------------------------------- */

static ob_code fire(struct ob_sqlite_store *store, const struct work *work, const struct met *met, const char *event,
                    const char *status, struct outbox_error *err)
{
    const struct ob_actor *actor = &work->operation->actor;
    return ob_sqlite_fire(store,
                          &(struct ob_sqlite_event){.n = met->n,
                                                    .now = work->now,
                                                    .event = event,
                                                    .status = status,
                                                    .attempt = met->attempts,
                                                    .actor = actor->actor ? actor->actor : "",
                                                    .code = met->code,
                                                    .error = actor->reason},
                          err);
}

/* It leaves the queue, if it is there, and its key goes on. */
static ob_code leave(struct ob_sqlite_store *store, const struct met *met, struct outbox_error *err)
{
    if (met->state < 0)
        return OUTBOX_OK;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_gone, OB_ARGS(OB_NUM(met->n), OB_NUM(met->n)), NULL, err);
    return code || !met->sid ? code : ob_sqlite_wake(store, OB_SQLITE_wake_head, OB_ARGS(OB_NUM(met->sid)), err);
}

/* It becomes a dead letter that holds no key. */
static ob_code put_aside(struct ob_sqlite_store *store, const struct work *work, const struct met *met,
                         struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    if (met->status != OB_DEAD)
        code = ob_sqlite_run(store, OB_SQLITE_bury,
                             OB_ARGS(OB_NUM(met->n), OB_TEXT("skipped"), OB_TEXT(met->code), OB_TEXT(met->error),
                                     OB_NUM(work->now), OB_NUM(ob_fingerprint(met->code, met->error))),
                             NULL, err);
    return code ? code : leave(store, met, err);
}

static ob_code discard(struct ob_sqlite_store *store, const struct work *work, const struct met *met,
                       struct outbox_error *err)
{
    ob_code code = put_aside(store, work, met, err);
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_discard, OB_ARGS(OB_NUM(met->n), OB_NUM(work->now)), NULL, err);
    return code ? code : fire(store, work, met, "discarded", "discarded", err);
}

static ob_code skip(struct ob_sqlite_store *store, const struct work *work, const struct met *met,
                    struct outbox_error *err)
{
    ob_code code = put_aside(store, work, met, err);
    return code || met->status == OB_DEAD ? code : fire(store, work, met, "dead", "dead", err);
}

static ob_code expire(struct ob_sqlite_store *store, struct work *work, const struct met *met, struct outbox_error *err)
{
    const char *actor = work->operation->actor.actor;
    return ob_sqlite_bury(store, met->n, met->sid, met->attempts, "expired", "expired",
                          say(work, "expired by %s", actor ? actor : "an operator"), actor ? actor : "", work->now,
                          err);
}

static ob_code retry(struct ob_sqlite_store *store, const struct work *work, const struct met *met,
                     struct outbox_error *err)
{
    const struct ob_sqlite_arg args[] = {OB_NUM(met->n), OB_NUM(work->now)};
    if (met->status != OB_DEAD)
        return ob_sqlite_run(store, OB_SQLITE_hurry, args, 2, NULL, err);
    ob_code code = ob_sqlite_run(store, met->state == OB_SQLITE_HELD ? OB_SQLITE_redrive_held : OB_SQLITE_redrive, args,
                                 2, NULL, err);
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_undead, args, 1, NULL, err);
    return code ? code : fire(store, work, met, "redriven", "pending", err);
}

/* Enqueues it again, in its own topic or another. A message that the topic does not take is refused, and the rest goes on. */
static ob_code put_again(struct ob_sqlite_store *store, struct work *work, const struct met *met, struct answer *answer,
                         struct outbox_error *err)
{
    const struct ob_operation *operation = work->operation;
    bool delayed = met->status == OB_PENDING && met->attempts == 0 && met->due > work->now, row = false;
    struct outbox_error cause;
    sqlite3_stmt *stmt;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_put_again,
                                 OB_ARGS(OB_NUM(met->n), OB_TEXT(operation->topic ? operation->topic : met->topic),
                                         OB_TEXT(operation->name_space ? operation->name_space : met->name_space),
                                         delayed ? OB_NUM(met->due) : OB_NULL, OB_NUM(work->now)),
                                 NULL, &cause);
    if (code == OUTBOX_INVALID || code == OUTBOX_TOO_LARGE) {
        answer->result = "invalid";
        answer->detail = ob_arena_strdup(&work->arena, cause.text);
        return OUTBOX_OK;
    }
    if (code)
        return ob_error_set_sqlstate(err, code, cause.sqlstate, "%s", cause.text);
    code = ob_sqlite_start(store, OB_SQLITE_receipt, OB_NO_ARGS, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code)
        return code;
    answer->made = row ? ob_arena_strdup(&work->arena, ob_sqlite_column(stmt, 0)) : NULL;
    ob_sqlite_done(stmt);
    return answer->made ? OUTBOX_OK : ob_error_nomem(err);
}

static ob_code record(struct ob_sqlite_store *store, const struct work *work, const struct met *met,
                      const struct answer *answer, struct outbox_error *err)
{
    const struct ob_operation *operation = work->operation;
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_detail_operate,
                                   OB_ARGS(OB_TEXT(ob_status_name(met->status)), OB_TEXT(met->code),
                                           OB_NUM(met->attempts), OB_TEXT(answer->made), OB_TEXT(operation->topic),
                                           OB_TEXT(operation->name_space), OB_TEXT(operation->run)),
                                   &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, &operation->actor, ob_lever_name(operation->lever), met->id, met->tenant_id,
                             row ? ob_sqlite_column(stmt, 0) : NULL, work->now, err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code act(struct ob_sqlite_store *store, struct work *work, const struct met *met, struct answer *answer,
                   struct outbox_error *err)
{
    enum ob_lever lever = work->operation->lever;
    ob_code code = OUTBOX_OK;
    if (lever == OB_LEVER_MOVE || lever == OB_LEVER_REDELIVER)
        code = put_again(store, work, met, answer, err);
    if (code || answer->result)
        return code;
    code = record(store, work, met, answer, err);
    if (code || lever == OB_LEVER_REDELIVER)
        return code;
    switch (lever) {
    case OB_LEVER_RETRY: return retry(store, work, met, err);
    case OB_LEVER_SKIP: return skip(store, work, met, err);
    case OB_LEVER_EXPIRE: return expire(store, work, met, err);
    default: return discard(store, work, met, err); /* a move ends it too */
    }
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static ob_code operate(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct work *work = ctx;
    struct met met = {0};
    ob_arena_fini(&work->arena); /* the body may run twice */
    ob_arena_init(&work->arena, 0);
    work->answer_count = 0;
    ob_code code = find_numbers(store, work, err);
    for (size_t i = 0; i < work->count && !code; i++) {
        struct answer *answer = &work->answers[work->answer_count++];
        *answer = (struct answer){0};
        code = meet(store, work, work->numbers[i], &met, err);
        if (code)
            break;
        if (!outbox_uuid_parse(met.id, &answer->id))
            return ob_error_set(err, OUTBOX_CORRUPT, "\"%.64s\" is not an id", met.id);
        refuse(work, &met, answer);
        if (!answer->result)
            code = refuse_again(store, work, &met, answer, err);
        if (!code && !answer->result)
            code = act(store, work, &met, answer, err);
    }
    return code;
}

static bool is_answered(const struct work *work, const struct outbox_uuid *id)
{
    for (size_t i = 0; i < work->answer_count; i++)
        if (memcmp(&work->answers[i].id, id, sizeof *id) == 0)
            return true;
    return false;
}

static void tell(const struct work *work, ob_operated_fn *fn, void *ctx)
{
    bool more = true;
    for (size_t i = 0; i < work->answer_count && more; i++) {
        const struct answer *answer = &work->answers[i];
        more = fn(ctx, &(struct ob_operated_row){.id = answer->id,
                                                 .done = !answer->result,
                                                 .result = answer->result ? answer->result : "ok",
                                                 .detail = answer->detail,
                                                 .made = answer->made});
    }
    for (size_t i = 0; i < work->operation->id_count && more && work->answer_count < work->operation->id_count; i++)
        if (!is_answered(work, &work->operation->ids[i]))
            more =
                fn(ctx, &(struct ob_operated_row){
                            .id = work->operation->ids[i], .result = "unknown", .detail = "there is no such message"});
}

ob_code ob_sqlite_operate(struct ob_store *base, const struct ob_operation *operation, ob_operated_fn *fn, void *ctx,
                          struct outbox_error *err)
{
    struct work work = {.operation = operation, .ids = OB_BUF_INIT, .now = ob_clock_wall_us()};
    ob_code code = ob_operation_check(operation, err);
    if (code)
        return code;
    ob_arena_init(&work.arena, 0);
    ob_sqlite_json_ids(&work.ids, operation->ids, operation->id_count);
    work.numbers = ob_calloc(operation->id_count, sizeof *work.numbers);
    work.answers = ob_calloc(operation->id_count, sizeof *work.answers);
    if (!ob_buf_ok(&work.ids) || !work.numbers || !work.answers) {
        code = ob_error_nomem(err);
    } else {
        code = ob_sqlite_transact(ob_sqlite_store_of(base), operate, &work, err);
        if (!code)
            tell(&work, fn, ctx);
    }
    ob_arena_fini(&work.arena);
    ob_buf_fini(&work.ids);
    ob_free(work.numbers);
    ob_free(work.answers);
    return code;
}
