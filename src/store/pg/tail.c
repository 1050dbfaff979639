/* tail.c - what happened since the last call, kind by kind. Rows borrow from the result, during the callback only.
 *
 * A round tells what is between two snapshots: the one at which the last round ended, and the present one. It may take several calls,
 * since each reads a limited number of rows of a kind. See 016_watch.sql for why this misses nothing. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "core/tail.h"

#include <inttypes.h>
#include <stdio.h>

enum { PAGE = 1000 };
#define LATE_US \
    INT64_C(86400000000) /* what is told may be a day older than the beginning: its transaction was open so long */

/* In the order of the tail_ statements; from EXTRA on they differ. */
enum column {
    NUMBER,
    SECOND,
    PLACE,
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

static void read_common(const PGresult *res, int i, enum ob_transition kind, struct ob_transition_row *row)
{
    *row = (struct ob_transition_row){
        .kind = kind,
        .at_us = ob_pg_time(res, i, AT),
        .has_id = !PQgetisnull(res, i, ID),
        .created_at_us = PQgetisnull(res, i, CREATED_AT) ? 0 : ob_pg_time(res, i, CREATED_AT),
        .name_space = ob_pg_text(res, i, NAMESPACE),
        .topic = ob_pg_text(res, i, TOPIC),
        .tenant_id = ob_pg_text(res, i, TENANT_ID),
        .key = ob_pg_text(res, i, KEY),
        .subject = ob_pg_text(res, i, SUBJECT),
        .recipient = ob_pg_text(res, i, RECIPIENT),
        .correlation_id = ob_pg_text(res, i, CORRELATION_ID),
        .latency_us = -1,
    };
    if (row->has_id)
        ob_pg_uuid(res, i, ID, &row->id);
}

static void read_enqueued(const PGresult *res, int i, struct ob_transition_row *row)
{
    read_common(res, i, OB_TRANSITION_ENQUEUED, row);
}

static void read_attempt(const PGresult *res, int i, struct ob_transition_row *row)
{
    read_common(res, i, OB_TRANSITION_ATTEMPT, row);
    row->attempt = ob_pg_int4(res, i, EXTRA);
    row->outcome = (enum outbox_outcome)ob_pg_int4(res, i, EXTRA + 1);
    row->worker = ob_pg_text(res, i, EXTRA + 2);
    row->code = ob_pg_text(res, i, EXTRA + 3);
    row->error = ob_pg_text(res, i, EXTRA + 4);
    row->reference = ob_pg_text(res, i, EXTRA + 5);
    row->latency_us = PQgetisnull(res, i, EXTRA + 6) ? -1 : ob_pg_int8(res, i, EXTRA + 6);
}

static void read_dead(const PGresult *res, int i, struct ob_transition_row *row)
{
    read_common(res, i, OB_TRANSITION_DEAD, row);
    row->attempt = ob_pg_int4(res, i, EXTRA);
    row->code = ob_pg_text(res, i, EXTRA + 1);
    row->error = ob_pg_text(res, i, EXTRA + 2);
    row->reason = ob_pg_text(res, i, EXTRA + 3);
}

static void read_act(const PGresult *res, int i, struct ob_transition_row *row)
{
    read_common(res, i, OB_TRANSITION_ACT, row);
    row->actor = ob_pg_text(res, i, EXTRA);
    row->action = ob_pg_text(res, i, EXTRA + 1);
    row->reason = ob_pg_text(res, i, EXTRA + 2);
    row->detail = ob_pg_text(res, i, EXTRA + 3);
}

static const struct source {
    enum ob_pg_stmt stmt;
    bool by_id, by_second; /* what else than the transaction says the place */
    void (*read)(const PGresult *res, int i, struct ob_transition_row *row);
} sources[OB_TAIL_SOURCES] = {
    [OB_TAIL_LOG] = {OB_PG_tail_log, false, true, read_enqueued},
    [OB_TAIL_QUEUE] = {OB_PG_tail_queue, true, false, read_enqueued},
    [OB_TAIL_ATTEMPTS] = {OB_PG_tail_attempts, true, true, read_attempt},
    [OB_TAIL_DEAD] = {OB_PG_tail_dead, true, false, read_dead},
    [OB_TAIL_ACTS] = {OB_PG_tail_acts, false, true, read_act},
};

/* A snapshot, and the server's time. */
static ob_code look(struct ob_pg_store *store, int64_t since_us, struct ob_buf *snapshot, int64_t *now_us,
                    struct outbox_error *err)
{
    struct ob_pg_params params;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_time(&params, since_us);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    ob_code code = ob_pg_call(store, OB_PG_tail_begin, &params, &res, err);
    if (code)
        return code;
    ob_buf_reset(snapshot);
    ob_buf_puts(snapshot, PQntuples(res) ? PQgetvalue(res, 0, 0) : "");
    *now_us = ob_pg_time(res, 0, 1);
    PQclear(res);
    return ob_buf_ok(snapshot) ? OUTBOX_OK : ob_error_nomem(err);
}

ob_code ob_pg_tail_begin(struct ob_store *base, int64_t since_us, struct ob_tail **out, struct outbox_error *err)
{
    int64_t now_us = 0;
    *out = NULL;
    struct ob_tail *tail = ob_calloc(1, sizeof *tail);
    if (!tail)
        return ob_error_nomem(err);
    ob_code code = look(ob_pg_store_of(base), since_us, &tail->before, &now_us, err);
    if (code) {
        ob_tail_free(tail);
        return code;
    }
    tail->since_us = since_us ? since_us : now_us - LATE_US;
    *out = tail;
    return OUTBOX_OK;
}

static ob_code ask(struct ob_pg_store *store, const struct ob_tail *tail, const struct source *source,
                   const struct ob_tail_place *place, PGresult **res, struct outbox_error *err)
{
    struct ob_pg_params params;
    char number[24], id[37];
    snprintf(number, sizeof number, "%" PRIu64, place->number);
    outbox_uuid_format(&place->id, id);
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_text(&params, ob_buf_text(&tail->before));
    ob_pg_put_text(&params, ob_buf_text(&tail->upto));
    ob_pg_put_time(&params, tail->since_us);
    ob_pg_put_text(&params, number);
    if (source->by_id)
        ob_pg_put_text(&params, id);
    if (source->by_id && source->by_second)
        ob_pg_put_int4(&params, (int32_t)place->second);
    else if (source->by_second)
        ob_pg_put_int8(&params, place->second);
    ob_pg_put_int4(&params, PAGE);
    return ob_pg_params_seal(&params) ? ob_pg_call(store, source->stmt, &params, res, err) : ob_error_nomem(err);
}

static ob_code tell(struct ob_pg_store *store, struct ob_tail *tail, int which, const struct ob_filter *filter,
                    ob_transition_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_tail_place *place = &tail->places[which];
    struct ob_transition_row row;
    PGresult *res = NULL;
    ob_code code = ask(store, tail, &sources[which], place, &res, err);
    if (code)
        return code;
    int count = PQntuples(res);
    for (int i = 0; i < count; i++) {
        sources[which].read(res, i, &row);
        if (!filter || ob_transition_matches(&row, filter))
            fn(ctx, &row);
    }
    place->done = count < PAGE;
    if (count) {
        place->number = (uint64_t)ob_pg_int8(res, count - 1, NUMBER);
        place->second = ob_pg_int8(res, count - 1, SECOND);
        if (sources[which].by_id)
            ob_pg_uuid(res, count - 1, PLACE, &place->id);
    }
    PQclear(res);
    return OUTBOX_OK;
}

/* The next round begins where this one ended. */
static void close_round(struct ob_tail *tail)
{
    struct ob_buf was = tail->before;
    tail->before = tail->upto;
    tail->upto = was;
    ob_buf_reset(&tail->upto);
    for (int i = 0; i < OB_TAIL_SOURCES; i++)
        tail->places[i] = (struct ob_tail_place){0};
}

ob_code ob_pg_tail(struct ob_store *base, struct ob_tail *tail, const struct ob_filter *filter, ob_transition_fn *fn,
                   void *ctx, bool *more, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    int64_t now_us = 0;
    ob_code code = tail->upto.len ? OUTBOX_OK : look(store, 0, &tail->upto, &now_us, err);
    *more = false;
    for (int i = 0; !code && i < OB_TAIL_SOURCES; i++) {
        if (tail->places[i].done)
            continue;
        code = tell(store, tail, i, filter, fn, ctx, err);
        *more |= !tail->places[i].done;
    }
    if (!code && !*more)
        close_round(tail);
    return code;
}
