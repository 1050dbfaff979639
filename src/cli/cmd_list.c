/* cmd_list.c - lists messages, one per line. */
#include "cli/cli.h"

#include "base/clock.h"
#include "core/codec.h"

static void put_type(const struct ob_cli *cli, const struct ob_message_row *row)
{
    printf(" (%zu bytes of ", row->payload_len);
    ob_say_text(cli, row->content_type, 0, OB_COLOR_NONE);
    putchar(')');
}

static void list_line(struct ob_cli *cli, const struct ob_message_row *row)
{
    char id[37], age[32], attempts[32], name[400];
    outbox_uuid_format(&row->id, id);
    ob_age_text((double)(ob_clock_wall_us() - row->created_at_us) / 1e6, age);
    snprintf(attempts, sizeof attempts, "%d/%d", row->spent, row->max_attempts);
    snprintf(name, sizeof name, "%s/%s", row->name_space, row->topic);
    ob_say_text(cli, id, 38, OB_COLOR_NONE);
    ob_say_text(cli, ob_status_name(row->status), 11, ob_status_color(row->status));
    printf("%8s %9s  ", attempts, age);
    bool more = row->key || row->deferred || row->last_error || cli->args.payload;
    ob_say_text(cli, name, more ? 28 : 0, OB_COLOR_NONE);
    if (row->key) {
        printf(" key=");
        ob_say_text(cli, row->key, 0, OB_COLOR_NONE);
    }
    if (row->deferred && row->status == OB_PENDING)
        printf(" deferred=%d", row->deferred);
    if (row->last_error) {
        putchar(' ');
        ob_say_text(cli, row->last_error, 0, OB_COLOR_DIM);
    }
    if (row->fault)
        printf(" (%s)", ob_codec_fault_text(row->fault));
    else if (cli->args.payload && row->content_type)
        put_type(cli, row);
    else if (cli->args.payload && row->payload) {
        putchar(' ');
        ob_say_text(cli, row->payload, 0, OB_COLOR_DIM);
    }
    putchar('\n');
}

struct listing {
    struct ob_cli *cli;
    size_t count;
    struct outbox_uuid last;
};

static bool list_row(void *ctx, const struct ob_message_row *row)
{
    struct listing *listing = ctx;
    if (listing->cli->args.json) {
        struct ob_buf buf = OB_BUF_INIT;
        struct ob_json json;
        ob_json_init(&json, &buf);
        ob_json_message(&json, row, listing->cli->args.payload);
        ob_say_json(&buf);
    } else {
        if (listing->count == 0)
            printf("%-38s%-11s%8s %9s  %s\n", "ID", "STATUS", "ATTEMPTS", "AGE", "TOPIC");
        list_line(listing->cli, row);
    }
    listing->count++;
    listing->last = row->id;
    return !ferror(stdout);
}

/* Says where to go on, and whether the list is all there is. */
static void tell_end(struct listing *listing, const struct ob_filter *filter)
{
    struct ob_cli *cli = listing->cli;
    size_t limit = filter->limit ? (size_t)filter->limit : 100;
    char id[37];
    if (filter->listed->capped) {
        outbox_uuid_format(&filter->listed->upto, id);
        ob_cli_note(cli, "%s among the messages looked at; there are older ones: continue with --after %s.",
                    listing->count ? "These match" : "None matches", id);
    } else if (!cli->args.json && listing->count == 0) {
        ob_cli_note(cli, "No messages match.");
    } else if (!cli->args.json && listing->count == limit) {
        outbox_uuid_format(&listing->last, id);
        ob_cli_note(cli, "There may be more: continue with --after %s.", id);
    }
}

int cmd_list(struct ob_cli *cli)
{
    struct ob_filter filter;
    struct listing listing = {.cli = cli};
    struct ob_listed listed = {0};
    struct outbox_uuid after;
    int status = ob_cli_filter(cli, &filter);
    if (status)
        return status;
    if (cli->args.after && !outbox_uuid_parse(cli->args.after, &after))
        return ob_cli_usage(cli, "--after takes a message id, not \"%s\"; an id is a uuid", cli->args.after);
    filter.after = cli->args.after ? &after : NULL;
    filter.with_payload = cli->args.payload;
    filter.listed = &listed;
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    status = ob_cli_known_topic(cli, filter.name_space, filter.topic, false);
    if (status)
        return status;
    if (cli->store->ops->list(cli->store, &filter, list_row, &listing, &cli->err))
        return ob_cli_fail(cli);
    tell_end(&listing, &filter);
    return OB_EXIT_OK;
}
