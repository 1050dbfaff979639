/* transition.c - something that happened, as JSON. */
#include "report/report.h"

#include "core/filter.h"
#include "core/tail.h"

#include <string.h>

void ob_json_transition(struct ob_json *json, const struct ob_transition_row *row)
{
    char id[37];
    int status = ob_transition_status(row);
    if (row->has_id)
        outbox_uuid_format(&row->id, id);
    ob_json_object(json);
    ob_json_time(json, "at", row->at_us);
    ob_json_text(json, "event", ob_transition_event(row));
    ob_json_text(json, "id", row->has_id ? id : NULL);
    ob_json_text(json, "status", status ? ob_status_name((enum ob_status)(status - 1)) : NULL);
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    ob_json_text(json, "tenant_id", row->tenant_id);
    ob_json_text(json, "key", row->key);
    ob_json_key(json, "attempt");
    if (row->attempt)
        ob_json_int(json, row->attempt);
    else
        ob_json_null(json);
    ob_json_text(json, "worker", row->worker);
    ob_json_text(json, "code", row->code);
    ob_json_text(json, "error", row->error);
    ob_json_text(json, "reference", row->reference);
    ob_json_key(json, "latency_ms");
    if (row->latency_us >= 0)
        ob_json_double(json, (double)row->latency_us / 1000);
    else
        ob_json_null(json);
    ob_json_text(json, "actor", row->actor);
    ob_json_text(json, "reason", row->reason);
    ob_json_key(json, "detail");
    ob_json_document(json, row->detail, row->detail ? strlen(row->detail) : 0);
    ob_json_end(json);
}
