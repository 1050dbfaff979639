/* api_keys.c - the route that says which keys wait, and behind what. */
#include "daemon/api.h"

#include "base/clock.h"
#include "report/report.h"

struct key_list {
    struct ob_json json;
    int64_t now_us;
};

static bool put_key(void *ctx, const struct ob_key_row *row)
{
    struct key_list *list = ctx;
    struct ob_json *json = &list->json;
    ob_json_object(json);
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    ob_json_text(json, "key", row->key);
    ob_json_text(json, "tenant_id", row->tenant_id);
    ob_json_text(json, "head", row->head);
    ob_json_text(json, "head_status", row->head_status);
    ob_json_text(json, "why", row->why);
    ob_json_count(json, "waiting", row->waiting);
    int64_t age_us = list->now_us - row->since_us;
    ob_json_key(json, "oldest_s"), ob_json_double(json, age_us > 0 ? (double)age_us / 1e6 : 0);
    ob_json_end(json);
    return ob_buf_ok(json->buf);
}

ob_code ob_api_keys(struct ob_api_request *request, struct outbox_error *err)
{
    struct key_list list = {.now_us = ob_clock_wall_us()};
    ob_json_init(&list.json, &request->answer);
    ob_json_object(&list.json);
    ob_json_key(&list.json, "keys");
    ob_json_array(&list.json);
    ob_code code = request->store->ops->waiting_keys(request->store, 0, put_key, &list, err);
    ob_json_end(&list.json);
    ob_json_end(&list.json);
    return code;
}
