/* transition.c - something that happened, as JSON and as a line. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/json_check.h"
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
    if (row->detail && ob_json_valid(row->detail, strlen(row->detail)))
        ob_json_raw_line(json, row->detail, strlen(row->detail));
    else
        ob_json_null(json);
    ob_json_end(json);
}

static enum ob_color color_of(const struct ob_transition_row *row)
{
    switch (ob_transition_status(row) - 1) {
    case OB_STATUS_DELIVERED: return OB_COLOR_GREEN;
    case OB_DEAD: return OB_COLOR_RED;
    case OB_PENDING: return row->kind == OB_TRANSITION_ENQUEUED ? OB_COLOR_NONE : OB_COLOR_YELLOW;
    default: return OB_COLOR_BOLD;
    }
}

static void say_pair(struct ob_cli *cli, const char *name, const char *text)
{
    if (!text)
        return;
    printf(" %s=", name);
    ob_say_text(cli, text, 0, OB_COLOR_NONE);
}

void ob_say_transition(struct ob_cli *cli, const struct ob_transition_row *row)
{
    char at[OB_CLOCK_TEXT], id[37] = "-", name[400] = "-";
    ob_clock_format(row->at_us, at);
    if (row->has_id)
        outbox_uuid_format(&row->id, id);
    if (row->topic)
        snprintf(name, sizeof name, "%s/%s", row->name_space, row->topic);
    printf("%s  ", at);
    ob_say_text(cli, ob_transition_event(row), 11, color_of(row));
    putchar(' ');
    ob_say_text(cli, id, 37, OB_COLOR_NONE);
    ob_say_text(cli, name, 0, OB_COLOR_NONE);
    say_pair(cli, "key", row->key);
    if (row->attempt)
        printf(" attempt=%d", row->attempt);
    if (row->latency_us >= 0)
        printf(" latency=%.0fms", (double)row->latency_us / 1000);
    say_pair(cli, "by", row->actor);
    say_pair(cli, "reason", row->reason);
    say_pair(cli, "code", row->code);
    if (row->error) {
        putchar(' ');
        ob_say_text(cli, row->error, 0, OB_COLOR_DIM);
    }
    putchar('\n');
}
