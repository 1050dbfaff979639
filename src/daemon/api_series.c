/* api_series.c - the route of the last hour, for charts. */
#include "daemon/api.h"

#include "base/error.h"
#include "core/history.h"
#include "report/report.h"

#include <stdlib.h>

static void put_number(struct ob_json *json, const char *key, double value)
{
    ob_json_key(json, key);
    if (value < 0)
        ob_json_null(json);
    else
        ob_json_double(json, value);
}

static bool put_point(void *ctx, const struct ob_point *point)
{
    struct ob_json *json = ctx;
    ob_json_object(json);
    ob_json_time(json, "at", point->at_us);
    ob_json_count(json, "enqueued", point->enqueued);
    ob_json_count(json, "delivered", point->delivered);
    ob_json_count(json, "failed", point->failed);
    ob_json_count(json, "dead", point->dead);
    put_number(json, "pending", (double)point->pending);
    put_number(json, "oldest_s", point->oldest_s);
    put_number(json, "p50_ms", point->p50_ms);
    put_number(json, "p95_ms", point->p95_ms);
    ob_json_end(json);
    return ob_buf_ok(json->buf);
}

ob_code ob_api_series(struct ob_api_request *request, struct outbox_error *err)
{
    const char *text = ob_api_parameter(request, "minutes");
    char *end = NULL;
    long minutes = text ? strtol(text, &end, 10) : OB_HISTORY_MINUTES;
    struct ob_json json;
    if (text && (end == text || *end || minutes < 1 || minutes > OB_HISTORY_MINUTES))
        return ob_error_set(err, OUTBOX_INVALID, "\"minutes\" is \"%.32s\"; it takes 1 to %d", text,
                            OB_HISTORY_MINUTES);
    ob_json_init(&json, &request->answer);
    ob_json_object(&json);
    ob_json_count(&json, "step_s", OB_HISTORY_STEP_S);
    ob_json_key(&json, "points");
    ob_json_array(&json);
    ob_code code = ob_history_points(request->store, (int)minutes, put_point, &json, err);
    ob_json_end(&json);
    ob_json_end(&json);
    return code;
}
