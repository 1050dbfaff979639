/* cmd_show.c - shows one message with its whole history. */
#include "cli/cli.h"

#include "base/clock.h"
#include "core/codec.h"

#include <string.h>

struct shown {
    struct ob_cli *cli;
    size_t count;
};

static void show_field(struct ob_cli *cli, const char *name, const char *value)
{
    if (!value)
        return;
    ob_say_text(cli, name, 16, OB_COLOR_DIM);
    ob_say_text(cli, value, 0, OB_COLOR_NONE);
    putchar('\n');
}

static void show_time(struct ob_cli *cli, const char *name, int64_t unix_us)
{
    char text[OB_CLOCK_TEXT];
    if (!unix_us)
        return;
    ob_clock_format(unix_us, text);
    show_field(cli, name, text);
}

static void show_payload(struct ob_cli *cli, const struct ob_message_row *row)
{
    ob_say_text(cli, "payload", 16, OB_COLOR_DIM);
    if (row->fault) {
        ob_say_text(cli, ob_codec_fault_text(row->fault), 0, OB_COLOR_RED);
        putchar('\n');
        return;
    }
    if (row->content_type) {
        printf("%zu bytes of ", row->payload_len);
        ob_say_text(cli, row->content_type, 0, OB_COLOR_NONE);
        putchar('\n');
        return;
    }
    struct ob_buf buf = OB_BUF_INIT;
    ob_json_pretty(&buf, row->payload ? row->payload : "null", row->payload ? row->payload_len : 4, 2);
    printf("\n%s\n", ob_buf_text(&buf));
    ob_buf_fini(&buf);
}

static const char *dead_because(const char *reason)
{
    if (strcmp(reason, "attempts") == 0)
        return "all attempts spent";
    return strcmp(reason, "terminal") == 0 ? "rejected permanently" : reason;
}

static void show_table(struct ob_cli *cli, const struct ob_message_row *row)
{
    char id[37], text[120];
    outbox_uuid_format(&row->id, id);
    show_field(cli, "id", id);
    ob_say_text(cli, "status", 16, OB_COLOR_DIM);
    ob_say_text(cli, ob_status_name(row->status), 0, ob_status_color(row->status));
    if (row->dead_reason) {
        fputs(": ", stdout);
        ob_say_text(cli, dead_because(row->dead_reason), 0, OB_COLOR_NONE);
    }
    printf("%s\n", row->parked ? ", waiting for an earlier message of its key" : "");
    snprintf(text, sizeof text, "%d begun, %d of %d spent (limit of the %s)%s", row->attempts, row->spent,
             row->max_attempts, row->max_attempts_from, row->redriven ? ", redriven" : "");
    show_field(cli, "attempts", text);
    if (row->deferred && row->status == OB_PENDING) {
        snprintf(text, sizeof text, "%d times in a row: its sink limits, blocks or is silent; that spends nothing",
                 row->deferred);
        show_field(cli, "deferred", text);
    }
    show_field(cli, "namespace", row->name_space);
    show_field(cli, "topic", row->topic);
    show_field(cli, "tenant", row->tenant_id);
    show_field(cli, "key", row->key);
    if (row->seq) {
        snprintf(text, sizeof text, "%lld", (long long)row->seq);
        show_field(cli, "seq", text);
    }
    show_field(cli, "dedupe key", row->dedupe_key);
    show_field(cli, "subject", row->subject);
    show_field(cli, "recipient", row->recipient);
    show_field(cli, "correlation id", row->correlation_id);
    snprintf(text, sizeof text, "%d", row->priority);
    show_field(cli, "priority", text);
    show_field(cli, "headers", row->headers);
    show_time(cli, "created", row->created_at_us);
    show_time(cli, "updated", row->updated_at_us);
    show_time(cli, "next attempt", row->next_attempt_at_us);
    show_field(cli, "locked by", row->locked_by);
    show_time(cli, "locked until", row->locked_until_us);
    show_time(cli, "delivered", row->delivered_at_us);
    show_time(cli, "expires", row->expires_at_us);
    show_field(cli, "last code", row->last_code);
    show_field(cli, "last error", row->last_error);
    show_payload(cli, row);
}

static bool show_message(void *ctx, const struct ob_message_row *row)
{
    struct shown *shown = ctx;
    shown->count++;
    show_table(shown->cli, row);
    return false;
}

static bool show_attempt(void *ctx, const struct ob_attempt_row *row)
{
    struct shown *shown = ctx;
    struct ob_cli *cli = shown->cli;
    char at[OB_CLOCK_TEXT];
    ob_clock_format(row->completed_at_us ? row->completed_at_us : row->claimed_at_us, at);
    if (shown->count++ == 0)
        puts("\nattempts");
    printf("  %-4d", row->attempt);
    ob_say_text(cli, ob_outcome_name(row->outcome), 11,
                row->outcome == OUTBOX_DELIVERED ? OB_COLOR_GREEN
                : row->outcome == 0              ? OB_COLOR_YELLOW
                                                 : OB_COLOR_RED);
    printf(" %s  ", at);
    ob_say_text(cli, row->worker, 0, OB_COLOR_DIM);
    if (row->latency_us >= 0)
        printf("  %.0f ms", (double)row->latency_us / 1000);
    const char *const more[] = {row->code, row->error, row->reference};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        if (more[i]) {
            printf("  ");
            ob_say_text(cli, more[i], 0, OB_COLOR_NONE);
        }
    putchar('\n');
    return true;
}

static bool show_act(void *ctx, const struct ob_act_row *row)
{
    struct shown *shown = ctx;
    char at[OB_CLOCK_TEXT];
    ob_clock_format(row->at_us, at);
    if (shown->count++ == 0)
        puts("\noperator actions");
    printf("  %s  ", at);
    ob_say_text(shown->cli, row->action, 9, OB_COLOR_NONE);
    ob_say_text(shown->cli, row->actor, 0, OB_COLOR_NONE);
    if (row->reason) {
        printf("  ");
        ob_say_text(shown->cli, row->reason, 0, OB_COLOR_DIM);
    }
    putchar('\n');
    return true;
}

/* Shows message, attempts and acts of one id; false after it set cli->err. */
static bool show_all(struct ob_cli *cli, const struct outbox_uuid *id)
{
    const struct ob_store_ops *ops = cli->store->ops;
    struct ob_filter filter = {.ids = id, .id_count = 1, .with_payload = true, .limit = 1};
    struct shown message = {cli, 0}, attempts = {cli, 0}, acts = {cli, 0};
    if (ops->list(cli->store, &filter, show_message, &message, &cli->err))
        return false;
    if (message.count == 0) {
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_MESSAGE, "there is no message %s; %s", cli->args.rest[0],
                     ob_code_todo(OUTBOX_UNKNOWN_MESSAGE));
        return false;
    }
    return !ops->attempts(cli->store, id, show_attempt, &attempts, &cli->err) &&
           !ops->acts(cli->store, id, show_act, &acts, &cli->err);
}

static bool show_json(struct ob_cli *cli, const struct outbox_uuid *id)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    bool shown = !ob_report_show(cli->store, id, &json, &cli->err);
    if (shown)
        ob_say_json(&buf);
    ob_buf_fini(&buf);
    return shown;
}

int cmd_show(struct ob_cli *cli)
{
    struct outbox_uuid id;
    if (!outbox_uuid_parse(cli->args.rest[0], &id))
        return ob_cli_usage(cli, "\"%s\" is not a message id; an id is a uuid", cli->args.rest[0]);
    if (!ob_cli_open(cli) || !(cli->args.json ? show_json(cli, &id) : show_all(cli, &id)))
        return ob_cli_fail(cli);
    return OB_EXIT_OK;
}
