/* api_read.c - the routes that only read. The documents are those of the command line: report/report.h. */
#include "daemon/api.h"

#include "base/error.h"
#include "core/filter.h"
#include "core/names.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 100, PAGE_MOST = 500, COUNT_CAP = 10000, NEIGHBOURS = 5, NEIGHBOURS_LOOK = 500 };

ob_code ob_api_me(struct ob_api_request *request, struct outbox_error *err)
{
    const struct ob_bearer *bearer = &request->bearer;
    struct ob_json json;
    (void)err;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_text(&json, "name", bearer->name);
    ob_json_text(&json, "role", ob_role_name(bearer->role));
    ob_json_text(&json, "tenant", bearer->tenant_id[0] ? bearer->tenant_id : NULL);
    ob_json_text(&json, "version", outbox_version());
    ob_json_key(&json, "store");
    ob_json_object(&json);
    ob_json_text(&json, "name", request->store_name);
    ob_json_text(&json, "kind", request->store->ops->kind);
    ob_json_end(&json);
    ob_json_key(&json, "stores");
    ob_api_put_stores(request, &json);
    ob_json_key(&json, "dev"), ob_json_bool(&json, ob_api_is_open(request->api));
    ob_json_end(&json);
    return OUTBOX_OK;
}

ob_code ob_api_status(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    return ob_report_status(request->store, &json, err);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

struct page {
    struct ob_json json;
    size_t count;
    struct outbox_uuid last;
};

static bool put_row(void *ctx, const struct ob_message_row *row)
{
    struct page *page = ctx;
    ob_json_message(&page->json, row, false);
    page->count++;
    page->last = row->id;
    return ob_buf_ok(page->json.buf);
}

static ob_code read_limit(struct ob_api_request *request, int *limit, struct outbox_error *err)
{
    const char *text = ob_api_parameter(request, "limit");
    char *end = NULL;
    long value = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
    *limit = PAGE;
    if (!text)
        return OUTBOX_OK;
    if (!end || *end || value < 1 || value > PAGE_MOST)
        return ob_error_set(err, OUTBOX_INVALID, "limit takes 1 to %d, not \"%.32s\"", PAGE_MOST, text);
    *limit = (int)value;
    return OUTBOX_OK;
}

ob_code ob_api_messages(struct ob_api_request *request, struct outbox_error *err)
{
    const char *after = ob_api_parameter(request, "after");
    struct ob_listed listed = {0};
    struct outbox_uuid from;
    struct ob_filter filter;
    struct page page = {.count = 0};
    char next[37] = "";
    ob_code code = ob_api_filter(request, ob_api_parameter(request, "filter"), &filter, err);
    if (!code)
        code = read_limit(request, &filter.limit, err);
    if (!code && after && !outbox_uuid_parse(after, &from))
        code = ob_error_set(err, OUTBOX_INVALID, "after takes a message id, not \"%.64s\"; an id is a uuid", after);
    if (code)
        return code;
    filter.after = after ? &from : NULL;
    filter.listed = &listed;
    ob_json_init(&page.json, &request->answer);
    ob_json_object(&page.json);
    ob_json_key(&page.json, "messages");
    ob_json_array(&page.json);
    code = request->store->ops->list(request->store, &filter, put_row, &page, err);
    if (code)
        return code;
    if (listed.capped || page.count == (size_t)filter.limit)
        outbox_uuid_format(listed.capped ? &listed.upto : &page.last, next);
    ob_json_end(&page.json);
    ob_json_text(&page.json, "next", *next ? next : NULL);
    ob_json_text(&page.json, "note",
                 listed.capped ? "no index serves this filter: these match among the messages looked at; there are "
                                 "older ones"
                               : NULL);
    ob_json_end(&page.json);
    return OUTBOX_OK;
}

static bool count_row(void *ctx, const struct ob_message_row *row)
{
    (void)row;
    return ++*(int64_t *)ctx < COUNT_CAP;
}

ob_code ob_api_count(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_listed listed = {0};
    struct ob_filter filter;
    struct ob_json json;
    int64_t count = 0;
    ob_code code = ob_api_filter(request, ob_api_parameter(request, "filter"), &filter, err);
    if (code)
        return code;
    filter.limit = COUNT_CAP;
    filter.listed = &listed;
    code = request->store->ops->list(request->store, &filter, count_row, &count, err);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_count(&json, "count", count);
    ob_json_key(&json, "exact"), ob_json_bool(&json, count < COUNT_CAP && !listed.capped);
    ob_json_end(&json);
    return OUTBOX_OK;
}

static bool put_act(void *ctx, const struct ob_act_row *row)
{
    struct ob_buf *acts = ctx; /* newest first, and the store has them oldest first: each goes before the others */
    struct ob_buf act = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &act);
    ob_json_act(&json, row, true);
    if (acts->len)
        ob_buf_putc(&act, ',');
    size_t len = act.len;
    char *room = ob_buf_reserve(acts, len);
    if (room && ob_buf_ok(&act)) {
        memmove(acts->data + len, acts->data, acts->len);
        memcpy(acts->data, act.data, len);
        ob_buf_added(acts, len);
    }
    ob_buf_fini(&act);
    return ob_buf_ok(acts);
}

ob_code ob_api_acts(struct ob_api_request *request, struct outbox_error *err)
{
    struct ob_buf acts = OB_BUF_INIT;
    ob_code code = request->store->ops->acts(request->store, NULL, put_act, &acts, err);
    if (!code && !ob_buf_ok(&acts))
        code = ob_error_nomem(err);
    if (!code) {
        ob_buf_puts(&request->answer, "{\"acts\":[");
        ob_buf_put(&request->answer, ob_buf_text(&acts), acts.len);
        ob_buf_puts(&request->answer, "]}");
    }
    ob_buf_fini(&acts);
    return code;
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

ob_code ob_api_message(struct ob_api_request *request, struct outbox_error *err)
{
    struct outbox_uuid id;
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    ob_code code = ob_api_id(request, &id, err);
    return code ? code : ob_report_show(request->store, &id, &json, err);
}

ob_code ob_api_explain(struct ob_api_request *request, struct outbox_error *err)
{
    struct outbox_uuid id;
    struct ob_json json;
    ob_json_init(&json, &request->answer);
    ob_code code = ob_api_id(request, &id, err);
    return code ? code : ob_report_explain(request->store, &id, &json, err);
}

/* The messages of a key around one of them; the store lists newest first. */
struct neighbours {
    struct ob_arena *arena;
    const char *name_space, *topic, *key,
        *tenant_id; /* of the message; key NULL: it has none, or there is no message */
    bool found;
    struct ob_buf rows[NEIGHBOURS + 1]; /* a ring: the last ones that were listed */
    size_t count;
};

static bool keep_key(void *ctx, const struct ob_message_row *row)
{
    struct neighbours *around = ctx;
    around->found = true;
    around->name_space = ob_arena_strdup(around->arena, row->name_space);
    around->topic = ob_arena_strdup(around->arena, row->topic);
    around->key = row->key ? ob_arena_strdup(around->arena, row->key) : NULL;
    around->tenant_id = row->tenant_id ? ob_arena_strdup(around->arena, row->tenant_id) : NULL;
    return false;
}

static bool keep_row(void *ctx, const struct ob_message_row *row)
{
    struct neighbours *around = ctx;
    struct ob_buf *to = &around->rows[around->count++ % (NEIGHBOURS + 1)];
    struct ob_json json;
    ob_buf_reset(to);
    ob_json_init(&json, to);
    ob_json_message(&json, row, false);
    return ob_buf_ok(to);
}

/* Oldest first: the last that was listed comes first. */
static void put_rows(struct neighbours *around, struct ob_json *json)
{
    size_t kept = around->count < NEIGHBOURS + 1 ? around->count : NEIGHBOURS + 1;
    for (size_t i = 1; i <= kept; i++) {
        const struct ob_buf *row = &around->rows[(around->count - i) % (NEIGHBOURS + 1)];
        ob_json_raw(json, ob_buf_text(row), row->len);
    }
    around->count = 0;
}

static ob_code list_around(struct ob_api_request *request, const struct outbox_uuid *id, struct neighbours *around,
                           struct ob_json *json, struct outbox_error *err)
{
    const struct ob_store_ops *ops = request->store->ops;
    struct ob_filter older = {.name_space = around->name_space,
                              .topic = around->topic,
                              .key = around->key,
                              .tenant_id = around->tenant_id,
                              .limit = NEIGHBOURS,
                              .after = id};
    struct ob_filter newer = older;
    newer.after = NULL;
    newer.id_range = true;
    newer.id_first = *id;
    memset(&newer.id_last, 0xff, sizeof newer.id_last);
    newer.limit = NEIGHBOURS_LOOK;
    ob_code code = ops->list(request->store, &older, keep_row, around, err);
    if (code)
        return code;
    put_rows(around, json);
    code = ops->list(request->store, &newer, keep_row, around, err);
    if (!code)
        put_rows(around, json);
    return code;
}

ob_code ob_api_neighbours(struct ob_api_request *request, struct outbox_error *err)
{
    struct neighbours around = {.arena = &request->arena};
    struct outbox_uuid id;
    struct ob_json json;
    ob_code code = ob_api_id(request, &id, err);
    if (code)
        return code;
    struct ob_filter one = {.ids = &id, .id_count = 1, .limit = 1};
    code = request->store->ops->list(request->store, &one, keep_key, &around, err);
    if (!code && !around.found)
        code = ob_error_set(err, OUTBOX_UNKNOWN_MESSAGE, "there is no message %.64s", request->id);
    if (code)
        return code;
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_key(&json, "messages");
    ob_json_array(&json);
    if (around.key)
        code = list_around(request, &id, &around, &json, err);
    for (size_t i = 0; i < NEIGHBOURS + 1; i++)
        ob_buf_fini(&around.rows[i]);
    if (code)
        return code;
    ob_json_end(&json);
    ob_json_end(&json);
    return OUTBOX_OK;
}
