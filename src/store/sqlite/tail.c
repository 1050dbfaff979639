/* tail.c - what happened since the last call, kind by kind. Rows borrow from the statement, during the callback only.
 *
 * There is one writer at a time, and it takes numbers and times while it has the write lock. So what commits later has a higher number,
 * or a later time, and a place per kind is enough. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/tail.h"

enum { PAGE = 1000 };

/* In the order of the tail_ statements; from EXTRA on they differ. */
enum column {
    NUMBER,
    SECOND,
    AT,
    ID,
    CREATED_AT,
    NAMESPACE,
    TOPIC,
    TENANT_ID,
    KEY,
    SUBJECT,
    RECIPIENT,
    CORRELATION_ID,
    EXTRA
};

static void read_common(sqlite3_stmt *stmt, enum ob_transition kind, struct ob_transition_row *row)
{
    const char *id = ob_sqlite_column(stmt, ID);
    *row = (struct ob_transition_row){
        .kind = kind,
        .at_us = sqlite3_column_int64(stmt, AT),
        .created_at_us = sqlite3_column_int64(stmt, CREATED_AT),
        .name_space = ob_sqlite_column(stmt, NAMESPACE),
        .topic = ob_sqlite_column(stmt, TOPIC),
        .tenant_id = ob_sqlite_column(stmt, TENANT_ID),
        .key = ob_sqlite_column(stmt, KEY),
        .subject = ob_sqlite_column(stmt, SUBJECT),
        .recipient = ob_sqlite_column(stmt, RECIPIENT),
        .correlation_id = ob_sqlite_column(stmt, CORRELATION_ID),
        .latency_us = -1,
    };
    row->has_id = id && outbox_uuid_parse(id, &row->id);
}

static void read_enqueued(sqlite3_stmt *stmt, struct ob_transition_row *row)
{
    read_common(stmt, OB_TRANSITION_ENQUEUED, row);
}

static void read_attempt(sqlite3_stmt *stmt, struct ob_transition_row *row)
{
    read_common(stmt, OB_TRANSITION_ATTEMPT, row);
    row->attempt = sqlite3_column_int(stmt, EXTRA);
    row->outcome = (enum outbox_outcome)sqlite3_column_int(stmt, EXTRA + 1);
    row->worker = ob_sqlite_column(stmt, EXTRA + 2);
    row->code = ob_sqlite_column(stmt, EXTRA + 3);
    row->error = ob_sqlite_column(stmt, EXTRA + 4);
    row->reference = ob_sqlite_column(stmt, EXTRA + 5);
    if (sqlite3_column_type(stmt, EXTRA + 6) != SQLITE_NULL)
        row->latency_us = sqlite3_column_int64(stmt, EXTRA + 6);
}

static void read_dead(sqlite3_stmt *stmt, struct ob_transition_row *row)
{
    read_common(stmt, OB_TRANSITION_DEAD, row);
    row->attempt = sqlite3_column_int(stmt, EXTRA);
    row->code = ob_sqlite_column(stmt, EXTRA + 1);
    row->error = ob_sqlite_column(stmt, EXTRA + 2);
    row->reason = ob_sqlite_column(stmt, EXTRA + 3);
}

static void read_act(sqlite3_stmt *stmt, struct ob_transition_row *row)
{
    read_common(stmt, OB_TRANSITION_ACT, row);
    row->actor = ob_sqlite_column(stmt, EXTRA);
    row->action = ob_sqlite_column(stmt, EXTRA + 1);
    row->reason = ob_sqlite_column(stmt, EXTRA + 2);
    row->detail = ob_sqlite_column(stmt, EXTRA + 3);
}

static const struct source {
    int place;
    bool timed; /* the place is a time */
    enum ob_sqlite_stmt stmt;
    void (*read)(sqlite3_stmt *stmt, struct ob_transition_row *row);
} sources[] = {
    {OB_TAIL_LOG, false, OB_SQLITE_tail_messages, read_enqueued},
    {OB_TAIL_ATTEMPTS, true, OB_SQLITE_tail_attempts, read_attempt},
    {OB_TAIL_DEAD, true, OB_SQLITE_tail_dead, read_dead},
    {OB_TAIL_ACTS, false, OB_SQLITE_tail_acts, read_act},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

ob_code ob_sqlite_tail_begin(struct ob_store *base, int64_t since_us, struct ob_tail **out, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    const struct ob_sqlite_arg arg[] = {OB_NUM_OR_NULL(since_us)};
    sqlite3_stmt *stmt;
    bool row = false;
    *out = NULL;
    struct ob_tail *tail = ob_calloc(1, sizeof *tail);
    if (!tail)
        return ob_error_nomem(err);
    ob_code code = ob_sqlite_start(store, OB_SQLITE_tail_begin, arg, 1, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    for (int i = 0; !code && row && i < SOURCES; i++) {
        tail->places[sources[i].place].number = (uint64_t)sqlite3_column_int64(stmt, i);
        tail->places[sources[i].place].second = INT64_MAX;
    }
    ob_sqlite_done(stmt);
    if (code) {
        ob_tail_free(tail);
        return code;
    }
    tail->since_us = since_us;
    *out = tail;
    return OUTBOX_OK;
}

/* The clock was set back: what happens now would be before our place. Rather tell something twice. */
static void follow_clock(struct ob_tail_place *place)
{
    uint64_t now = (uint64_t)ob_clock_wall_us();
    if (place->number > now)
        *place = (struct ob_tail_place){.number = now};
}

static ob_code tell(struct ob_sqlite_store *store, struct ob_tail *tail, const struct source *source,
                    const struct ob_filter *filter, ob_transition_fn *fn, void *ctx, bool *more,
                    struct outbox_error *err)
{
    struct ob_tail_place *place = &tail->places[source->place];
    if (source->timed)
        follow_clock(place);
    const struct ob_sqlite_arg args[] = {OB_NUM((int64_t)place->number), OB_NUM(place->second), OB_NUM(tail->since_us),
                                         OB_NUM(PAGE)};
    struct ob_transition_row row;
    sqlite3_stmt *stmt;
    int count = 0;
    ob_code code = ob_sqlite_start(store, source->stmt, args, sizeof args / sizeof args[0], &stmt, err);
    for (bool has = true; !code; count++) {
        code = ob_sqlite_step(store, stmt, &has, err);
        if (code || !has)
            break;
        place->number = (uint64_t)sqlite3_column_int64(stmt, NUMBER);
        place->second = sqlite3_column_int64(stmt, SECOND);
        source->read(stmt, &row);
        if (!filter || ob_transition_matches(&row, filter))
            fn(ctx, &row);
    }
    ob_sqlite_done(stmt);
    *more |= count == PAGE;
    return code;
}

ob_code ob_sqlite_tail(struct ob_store *base, struct ob_tail *tail, const struct ob_filter *filter,
                       ob_transition_fn *fn, void *ctx, bool *more, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    *more = false;
    for (int i = 0; !code && i < SOURCES; i++)
        code = tell(ob_sqlite_store_of(base), tail, &sources[i], filter, fn, ctx, more, err);
    return code;
}
