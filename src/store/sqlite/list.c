/* list.c - messages, a page at a time. Rows borrow from the statement, during the callback only.
 *
 * SQLite plans a statement once, for all parameters, so each filter that has an index has its own statement. A page looks at a
 * limited number of messages: a list_edge statement says where that ends, and the list statement looks. */
#include "store/sqlite/sqlite.h"

#include "core/codec.h"
#include "core/filter.h"
#include "core/fingerprint.h"

#include <string.h>

enum { RANGE_MAX = 10000 };

/* In the order of sql/sqlite/stmt/list.sql. */
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

static void read_message(sqlite3_stmt *stmt, struct ob_message_row *row)
{
    *row = (struct ob_message_row){
        .status = status_of(ob_sqlite_column(stmt, STATUS)),
        .name_space = ob_sqlite_column(stmt, NAMESPACE),
        .topic = ob_sqlite_column(stmt, TOPIC),
        .tenant_id = ob_sqlite_column(stmt, TENANT_ID),
        .key = ob_sqlite_column(stmt, KEY),
        .dedupe_key = ob_sqlite_column(stmt, DEDUPE_KEY),
        .subject = ob_sqlite_column(stmt, SUBJECT),
        .recipient = ob_sqlite_column(stmt, RECIPIENT),
        .correlation_id = ob_sqlite_column(stmt, CORRELATION_ID),
        .headers = ob_sqlite_column(stmt, HEADERS),
        .content_type = ob_sqlite_column(stmt, CONTENT_TYPE),
        .locked_by = ob_sqlite_column(stmt, LOCKED_BY),
        .last_code = ob_sqlite_column(stmt, LAST_CODE),
        .last_error = ob_sqlite_column(stmt, LAST_ERROR),
        .dead_reason = ob_sqlite_column(stmt, DEAD_REASON),
        .seq = sqlite3_column_int64(stmt, SEQ),
        .priority = sqlite3_column_int(stmt, PRIORITY),
        .attempts = sqlite3_column_int(stmt, ATTEMPTS),
        .spent = sqlite3_column_int(stmt, SPENT),
        .max_attempts = sqlite3_column_int(stmt, MAX_ATTEMPTS),
        .max_attempts_from = ob_sqlite_column(stmt, MAX_ATTEMPTS_FROM),
        .deferred = sqlite3_column_int(stmt, DEFERRED),
        .redriven = sqlite3_column_int(stmt, REDRIVEN) != 0,
        .parked = sqlite3_column_int(stmt, PARKED) != 0,
        .created_at_us = sqlite3_column_int64(stmt, CREATED_AT),
        .updated_at_us = sqlite3_column_int64(stmt, UPDATED_AT),
        .next_attempt_at_us = sqlite3_column_int64(stmt, NEXT_ATTEMPT_AT),
        .locked_until_us = sqlite3_column_int64(stmt, LOCKED_UNTIL),
        .delivered_at_us = sqlite3_column_int64(stmt, DELIVERED_AT),
        .expires_at_us = sqlite3_column_int64(stmt, EXPIRES_AT),
    };
    if (!outbox_uuid_parse(ob_sqlite_column(stmt, ID), &row->id))
        memset(&row->id, 0, sizeof row->id);
    if (sqlite3_column_type(stmt, PAYLOAD) == SQLITE_TEXT) /* as text: NUL-terminated */
        row->payload = sqlite3_column_text(stmt, PAYLOAD);
    else if (sqlite3_column_type(stmt, PAYLOAD) == SQLITE_BLOB) {
        row->payload = sqlite3_column_blob(stmt, PAYLOAD);
        row->payload = row->payload ? row->payload : "";
    }
    row->payload_len = (size_t)sqlite3_column_bytes(stmt, PAYLOAD);
}

/* ---- where to look ----------------------------------------------------------------------------------------------- */

struct page {
    const struct ob_filter *filter;
    enum ob_sqlite_stmt list, edge;
    const char *value; /* of the edge statement: a tenant or a subject */
    const char *tenant;
    int look;
    int64_t below, from; /* numbers of messages */
    struct ob_buf ids;
    char tenant_text[37], first[37], last[37];
};

static void choose(struct page *page)
{
    const struct ob_filter *filter = page->filter;
    enum ob_part part = ob_filter_part(filter);
    page->look = ob_filter_look(filter, part);
    page->list = OB_SQLITE_list;
    page->edge = OB_SQLITE_list_edge;
    if (filter->group) {
        page->list = OB_SQLITE_list_group;
        page->edge = OB_SQLITE_list_edge_group;
    } else if (filter->ids || filter->id_range) {
        page->list = filter->ids ? OB_SQLITE_list_ids : OB_SQLITE_list_range;
        page->look = 0;
    } else if (filter->subject) {
        page->list = OB_SQLITE_list_subject;
        page->edge = OB_SQLITE_list_edge_subject;
        page->value = filter->subject;
    } else if (part == OB_PART_MESSAGE && page->tenant) {
        page->list = OB_SQLITE_list_tenant;
        page->edge = OB_SQLITE_list_edge_tenant;
        page->value = page->tenant;
    } else if (part == OB_PART_QUEUE || part == OB_PART_TAKEN) {
        page->list = OB_SQLITE_list_queue;
        page->edge = OB_SQLITE_list_edge_queue;
    } else if (part == OB_PART_DEAD || part == OB_PART_DISCARDED) {
        page->list = OB_SQLITE_list_dead;
        page->edge = OB_SQLITE_list_edge_dead;
    } else if (part == OB_PART_FAILED) {
        page->list = OB_SQLITE_list_failed;
        page->edge = OB_SQLITE_list_edge_failed;
    }
    /* These tables hold what is in another status too. */
    if (part != OB_PART_MESSAGE && page->look < RANGE_MAX)
        page->look = RANGE_MAX;
}

static ob_code check_range(struct ob_sqlite_store *store, struct page *page, struct outbox_error *err)
{
    int64_t count = 0;
    outbox_uuid_format(&page->filter->id_first, page->first);
    outbox_uuid_format(&page->filter->id_last, page->last);
    ob_code code = ob_sqlite_number(store, OB_SQLITE_list_begin, OB_ARGS(OB_TEXT(page->first), OB_TEXT(page->last)), 0,
                                    &count, err);
    if (!code && count > RANGE_MAX)
        code = ob_error_set(err, OUTBOX_INVALID, "the ids of more than %d messages begin like this; give more digits",
                            RANGE_MAX);
    return code;
}

static struct ob_sqlite_arg group_arg(const struct ob_filter *filter)
{
    return OB_NUM(ob_fingerprint_of(filter->group));
}

static ob_code find_edge(struct ob_sqlite_store *store, struct page *page, struct outbox_error *err)
{
    const struct ob_filter *filter = page->filter;
    char after[37];
    ob_code code = OUTBOX_OK;
    page->below = INT64_MAX;
    if (filter->after) {
        outbox_uuid_format(filter->after, after);
        code = ob_sqlite_number(store, OB_SQLITE_list_after, OB_ARGS(OB_TEXT(after)), 0, &page->below, err);
    }
    if (!code && filter->id_range)
        code = check_range(store, page, err);
    if (code || !page->look)
        return code;
    const struct ob_sqlite_arg args[] = {OB_NUM(page->look), OB_NUM(page->below),
                                         filter->group ? group_arg(filter) : OB_TEXT(page->value)};
    return ob_sqlite_number(store, page->edge, args, page->value || filter->group ? 3 : 2, 0, &page->from, err);
}

static ob_code tell_edge(struct ob_sqlite_store *store, const struct page *page, int count, struct outbox_error *err)
{
    struct ob_listed *listed = page->filter->listed;
    sqlite3_stmt *stmt;
    bool row = false;
    if (!listed)
        return OUTBOX_OK;
    listed->capped = page->from > 0 && count < (page->filter->limit ? page->filter->limit : 100);
    if (!listed->capped)
        return OUTBOX_OK;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_id_of, OB_ARGS(OB_NUM(page->from)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        listed->capped = row && outbox_uuid_parse(ob_sqlite_column(stmt, 0), &listed->upto);
    if (row)
        ob_sqlite_done(stmt);
    return code;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static ob_code start(struct ob_sqlite_store *store, struct page *page, sqlite3_stmt **stmt, struct outbox_error *err)
{
    const struct ob_filter *filter = page->filter;
    const char *status = filter->status_plus_1 ? ob_status_name((enum ob_status)(filter->status_plus_1 - 1)) : NULL;
    const struct ob_sqlite_arg args[] = {OB_TEXT(filter->ids ? ob_buf_text(&page->ids) : NULL),
                                         OB_TEXT(filter->name_space),
                                         OB_TEXT(filter->topic),
                                         OB_TEXT(page->tenant),
                                         OB_TEXT(filter->key),
                                         OB_TEXT(filter->subject),
                                         OB_TEXT(filter->recipient),
                                         OB_TEXT(filter->correlation_id),
                                         OB_TEXT(filter->code),
                                         OB_TEXT(filter->error),
                                         OB_TEXT(status),
                                         OB_NUM_OR_NULL(filter->before_us),
                                         OB_NUM_OR_NULL(filter->since_us),
                                         OB_NUM_OR_NULL(filter->attempts_least),
                                         OB_NUM_OR_NULL(filter->attempts_below),
                                         OB_TEXT(filter->id_range ? page->first : NULL),
                                         OB_TEXT(filter->id_range ? page->last : NULL),
                                         OB_NUM(page->below),
                                         OB_NUM(page->from),
                                         OB_NUM(filter->limit ? filter->limit : 100),
                                         OB_NUM(filter->with_payload),
                                         filter->group ? group_arg(filter) : OB_NULL};
    size_t count = sizeof args / sizeof args[0];
    return ob_sqlite_start(store, page->list, args, filter->group ? count : count - 1, stmt, err);
}

ob_code ob_sqlite_list(struct ob_store *base, const struct ob_filter *filter, ob_message_fn *fn, void *ctx,
                       struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct page page = {.filter = filter, .ids = OB_BUF_INIT};
    struct ob_buf room = OB_BUF_INIT;
    sqlite3_stmt *stmt = NULL;
    bool more = true, row;
    int count = 0;
    if (filter->status_plus_1 < 0 || filter->status_plus_1 > OB_STATUS_COUNT)
        return ob_error_set(err, OUTBOX_INVALID, "%d is not a status", filter->status_plus_1);
    ob_code code = ob_sqlite_check_tenant(filter->tenant_id, page.tenant_text, &page.tenant, err);
    if (code)
        return code;
    if (filter->ids)
        ob_sqlite_json_ids(&page.ids, filter->ids, filter->id_count);
    if (!ob_buf_ok(&page.ids))
        return ob_error_nomem(err);
    choose(&page);
    code = find_edge(store, &page, err);
    if (!code)
        code = start(store, &page, &stmt, err);
    while (!code && more) {
        struct ob_message_row message;
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        read_message(stmt, &message);
        ob_codec_show(ob_sqlite_column(stmt, ENCODING), &room, &message);
        count++;
        more = fn(ctx, &message);
    }
    ob_sqlite_done(stmt);
    if (!code && more)
        code = tell_edge(store, &page, count, err);
    ob_buf_fini(&page.ids);
    ob_buf_fini(&room);
    return code;
}
