/* list.c - messages, a page at a time. Rows borrow from the result, during the callback only.
 *
 * A page is two statements: list_edge says how far to look, list looks. So a page costs the same whether there are a thousand
 * messages or many millions, and whether any of them matches. */
#include "store/pg/pg.h"

#include "core/codec.h"
#include "core/filter.h"

enum { LONG_LOG = 10000 };

static const struct {
    enum ob_pg_stmt list, edge;
} parts[] = {
    [OB_PART_MESSAGE] = {OB_PG_list, OB_PG_list_edge},
    [OB_PART_QUEUE] = {OB_PG_list_queue, OB_PG_list_edge_queue},
    [OB_PART_TAKEN] = {OB_PG_list_taken, OB_PG_list_edge_taken},
    [OB_PART_DEAD] = {OB_PG_list_dead, OB_PG_list_edge_dead},
    [OB_PART_FAILED] = {OB_PG_list_failed, OB_PG_list_edge_failed},
    [OB_PART_DISCARDED] = {OB_PG_list_discarded, OB_PG_list_edge_discarded},
    [OB_PART_GROUP] = {OB_PG_list_group, OB_PG_list_edge_group},
};

/* What both statements need, with the ids as text. */
struct page {
    const struct ob_filter *filter;
    enum ob_part part;
    int look;
    bool edged;
    char first[37], last[37], after[37], edge[37];
};

/* In the order of sql/postgres/stmt/list.sql. */
enum column {
    ID,
    STATUS,
    NAMESPACE,
    TOPIC,
    TENANT_ID,
    KEY,
    DEDUPE_KEY,
    SUBJECT,
    RECIPIENT,
    CORRELATION_ID,
    HEADERS,
    CONTENT_TYPE,
    LOCKED_BY,
    LAST_CODE,
    LAST_ERROR,
    DEAD_REASON,
    PAYLOAD,
    BODY,
    SEQ,
    PRIORITY,
    ATTEMPTS,
    SPENT,
    MAX_ATTEMPTS,
    MAX_ATTEMPTS_FROM,
    DEFERRED,
    REDRIVEN,
    PARKED,
    CREATED_AT,
    UPDATED_AT,
    NEXT_ATTEMPT_AT,
    LOCKED_UNTIL,
    DELIVERED_AT,
    EXPIRES_AT,
    ENCODING,
};

static enum ob_status status_of(const char *name)
{
    int found = name ? ob_status_find(name) : 0;
    return found ? (enum ob_status)(found - 1) : OB_PENDING;
}

static void read_message(const PGresult *res, int row, struct ob_message_row *out)
{
    *out = (struct ob_message_row){
        .status = status_of(ob_pg_text(res, row, STATUS)),
        .name_space = ob_pg_text(res, row, NAMESPACE),
        .topic = ob_pg_text(res, row, TOPIC),
        .tenant_id = ob_pg_text(res, row, TENANT_ID),
        .key = ob_pg_text(res, row, KEY),
        .dedupe_key = ob_pg_text(res, row, DEDUPE_KEY),
        .subject = ob_pg_text(res, row, SUBJECT),
        .recipient = ob_pg_text(res, row, RECIPIENT),
        .correlation_id = ob_pg_text(res, row, CORRELATION_ID),
        .headers = ob_pg_jsonb(res, row, HEADERS),
        .content_type = ob_pg_text(res, row, CONTENT_TYPE),
        .locked_by = ob_pg_text(res, row, LOCKED_BY),
        .last_code = ob_pg_text(res, row, LAST_CODE),
        .last_error = ob_pg_text(res, row, LAST_ERROR),
        .dead_reason = ob_pg_text(res, row, DEAD_REASON),
        .seq = ob_pg_int8(res, row, SEQ),
        .priority = ob_pg_int4(res, row, PRIORITY),
        .attempts = ob_pg_int4(res, row, ATTEMPTS),
        .spent = ob_pg_int4(res, row, SPENT),
        .max_attempts = ob_pg_int4(res, row, MAX_ATTEMPTS),
        .max_attempts_from = ob_pg_text(res, row, MAX_ATTEMPTS_FROM),
        .deferred = ob_pg_int4(res, row, DEFERRED),
        .redriven = ob_pg_bool(res, row, REDRIVEN),
        .parked = ob_pg_bool(res, row, PARKED),
        .created_at_us = ob_pg_time(res, row, CREATED_AT),
        .updated_at_us = ob_pg_time(res, row, UPDATED_AT),
        .next_attempt_at_us = ob_pg_time(res, row, NEXT_ATTEMPT_AT),
        .locked_until_us = ob_pg_time(res, row, LOCKED_UNTIL),
        .delivered_at_us = ob_pg_time(res, row, DELIVERED_AT),
        .expires_at_us = ob_pg_time(res, row, EXPIRES_AT),
    };
    ob_pg_uuid(res, row, ID, &out->id);
    if (!PQgetisnull(res, row, BODY)) {
        out->payload = PQgetvalue(res, row, BODY);
        out->payload_len = (size_t)PQgetlength(res, row, BODY);
    } else if (!PQgetisnull(res, row, PAYLOAD)) {
        out->payload = ob_pg_jsonb(res, row, PAYLOAD);
        out->payload_len = (size_t)PQgetlength(res, row, PAYLOAD) - 1;
    }
}

static const char *id_text(bool given, const struct outbox_uuid *id, char text[37])
{
    if (given)
        outbox_uuid_format(id, text);
    return given ? text : NULL;
}

static void put_count(struct ob_pg_params *params, int count)
{
    if (count)
        ob_pg_put_int4(params, count);
    else
        ob_pg_put_null(params);
}

/* Runs a statement that returns at most one row. */
static ob_code ask(struct ob_pg_store *store, enum ob_pg_stmt which, struct ob_pg_params *params, PGresult **res,
                   struct outbox_error *err)
{
    return ob_pg_params_seal(params) ? ob_pg_call_once(store, which, params, res, err) : ob_error_nomem(err);
}

/* What waits in the log is not in the order of ids. A few are sorted; if they are many, then the newest messages are those. */
static ob_code choose_part(struct ob_pg_store *store, struct page *page, struct outbox_error *err)
{
    struct ob_pg_params params;
    PGresult *res = NULL;
    page->part = ob_filter_part(page->filter);
    if (page->part != OB_PART_QUEUE)
        return OUTBOX_OK;
    ob_pg_params_init(&params, &store->scratch);
    ob_code code = ask(store, OB_PG_log_depth, &params, &res, err);
    if (!code && ob_pg_int8(res, 0, 0) > LONG_LOG)
        page->part = OB_PART_MESSAGE;
    PQclear(res);
    return code;
}

static ob_code find_edge(struct ob_pg_store *store, struct page *page, struct outbox_error *err)
{
    const struct ob_filter *filter = page->filter;
    struct ob_pg_params params;
    struct outbox_uuid edge;
    PGresult *res = NULL;
    page->look = ob_filter_look(filter, page->part);
    if (!page->look)
        return OUTBOX_OK;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_put_int4(&params, page->look);
    ob_pg_put_text(&params, id_text(filter->id_range, &filter->id_first, page->first));
    ob_pg_put_text(&params, id_text(filter->id_range, &filter->id_last, page->last));
    ob_pg_put_text(&params, id_text(filter->after, filter->after, page->after));
    ob_pg_put_time(&params, filter->before_us);
    ob_pg_put_time(&params, filter->since_us);
    if (page->part == OB_PART_MESSAGE || page->part == OB_PART_DEAD)
        ob_pg_put_text(&params, page->part == OB_PART_DEAD || !filter->subject ? filter->tenant_id : NULL);
    if (page->part == OB_PART_MESSAGE)
        ob_pg_put_text(&params, filter->subject);
    if (page->part == OB_PART_GROUP)
        ob_pg_put_text(&params, filter->group);
    ob_code code = ask(store, parts[page->part].edge, &params, &res, err);
    page->edged = !code && PQntuples(res) > 0;
    if (page->edged) {
        ob_pg_uuid(res, 0, 0, &edge);
        outbox_uuid_format(&edge, page->edge);
        if (filter->listed)
            filter->listed->upto = edge;
    }
    PQclear(res);
    return code;
}

/* In the order of sql/postgres/stmt/list.sql. The parameters borrow from the filter and the page. */
static void put_filter(struct ob_pg_params *params, struct page *page)
{
    const struct ob_filter *filter = page->filter;
    if (filter->ids) {
        ob_pg_array_begin(params, OB_PG_UUID, filter->id_count);
        for (size_t i = 0; i < filter->id_count; i++)
            ob_pg_array_uuid(params, &filter->ids[i]);
        ob_pg_array_end(params);
    } else {
        ob_pg_put_null(params);
    }
    ob_pg_put_text(params, filter->name_space);
    ob_pg_put_text(params, filter->topic);
    ob_pg_put_text(params, filter->tenant_id);
    ob_pg_put_text(params, filter->key);
    ob_pg_put_text(params, filter->subject);
    ob_pg_put_text(params, filter->recipient);
    ob_pg_put_text(params, filter->correlation_id);
    ob_pg_put_text(params, filter->code);
    ob_pg_put_text(params, filter->error);
    ob_pg_put_text(params, filter->status_plus_1 ? ob_status_name((enum ob_status)(filter->status_plus_1 - 1)) : NULL);
    ob_pg_put_time(params, filter->before_us);
    ob_pg_put_time(params, filter->since_us);
    put_count(params, filter->attempts_least);
    put_count(params, filter->attempts_below);
    ob_pg_put_text(params, id_text(filter->id_range, &filter->id_first, page->first));
    ob_pg_put_text(params, id_text(filter->id_range, &filter->id_last, page->last));
    ob_pg_put_text(params, id_text(filter->after, filter->after, page->after));
    ob_pg_put_text(params, page->edged ? page->edge : NULL);
    ob_pg_put_int4(params, filter->limit ? filter->limit : 100);
    ob_pg_put_bool(params, filter->with_payload);
    if (page->part == OB_PART_GROUP)
        ob_pg_put_text(params, filter->group);
}

ob_code ob_pg_list(struct ob_store *base, const struct ob_filter *filter, ob_message_fn *fn, void *ctx,
                   struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    struct page page = {.filter = filter};
    struct ob_pg_params params;
    struct ob_message_row row;
    struct ob_buf room = OB_BUF_INIT;
    PGresult *res = NULL;
    if (filter->status_plus_1 < 0 || filter->status_plus_1 > OB_STATUS_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not a status", filter->status_plus_1);
    ob_code code = choose_part(store, &page, err);
    if (!code)
        code = find_edge(store, &page, err);
    if (code)
        return code;
    ob_pg_params_init(&params, &store->scratch);
    put_filter(&params, &page);
    code = ask(store, parts[page.part].list, &params, &res, err);
    if (code)
        return code;
    if (filter->listed)
        filter->listed->capped = page.edged && PQntuples(res) < (filter->limit ? filter->limit : 100);
    for (int i = 0; i < PQntuples(res); i++) {
        read_message(res, i, &row);
        if (!PQgetisnull(res, i, ENCODING))
            ob_codec_show(ob_pg_text(res, i, ENCODING), &room, &row);
        if (!fn(ctx, &row))
            break;
    }
    ob_buf_fini(&room);
    PQclear(res);
    return OUTBOX_OK;
}
