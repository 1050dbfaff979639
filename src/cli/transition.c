/* transition.c - something that happened, as a line. */
#include "cli/cli.h"

#include "base/clock.h"
#include "core/tail.h"

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
