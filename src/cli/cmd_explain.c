/* cmd_explain.c - says why a message is not delivered yet. */
#include "cli/cli.h"

#include <string.h>

enum { PREFIX_LEAST = 4 };

struct answer {
    struct ob_cli *cli;
    int count;
};

static bool say_row(void *ctx, const struct ob_explain_row *row)
{
    struct answer *answer = ctx;
    struct ob_cli *cli = answer->cli;
    bool well =
        strcmp(row->state, "delivered") == 0 || strcmp(row->state, "due") == 0 || strcmp(row->state, "leased") == 0;
    if (row->step > 1 && answer->count == 1)
        fputs("and that one:\n", stdout);
    ob_say_text(cli, row->state, 14, well ? OB_COLOR_GREEN : OB_COLOR_YELLOW);
    putchar(' ');
    ob_say_text(cli, row->reason, 0, OB_COLOR_NONE);
    putchar('\n');
    if (row->command) {
        printf("%15s-> ", "");
        ob_say_text(cli, row->command, 0, OB_COLOR_BOLD);
        putchar('\n');
    }
    answer->count++;
    return true;
}

/* ---- which message ---- */

struct found {
    char ids[3][37];
    int count;
};

static bool keep_id(void *ctx, const char *id)
{
    struct found *found = ctx;
    snprintf(found->ids[found->count++], sizeof found->ids[0], "%s", id);
    return found->count < 3;
}

/* The beginning of an id, filled up with this digit; false: it is none. */
static bool fill_up(const char *prefix, char digit, struct outbox_uuid *id)
{
    char text[37] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    size_t len = strlen(prefix);
    if (len < PREFIX_LEAST || len > 36)
        return false;
    for (size_t i = 0; i < 36; i++)
        if (text[i] == 'x')
            text[i] = digit;
    for (size_t i = 0; i < len; i++) {
        if ((text[i] == '-') != (prefix[i] == '-'))
            return false;
        text[i] = prefix[i];
    }
    return outbox_uuid_parse(text, id);
}

/* Returns 0, or the exit status after it printed the error. */
static int find_message(struct ob_cli *cli, struct outbox_uuid *id)
{
    const char *word = cli->args.rest[0];
    struct outbox_uuid low, high;
    struct found found = {.count = 0};
    if (outbox_uuid_parse(word, id))
        return ob_cli_open(cli) ? OB_EXIT_OK : ob_cli_fail(cli);
    if (!fill_up(word, '0', &low) || !fill_up(word, 'f', &high))
        return ob_cli_usage(cli, "\"%s\" is not a message id; an id is a uuid, or its first four or more characters",
                            word);
    if (!ob_cli_open(cli) || cli->store->ops->ids_between(cli->store, &low, &high, keep_id, &found, &cli->err))
        return ob_cli_fail(cli);
    if (found.count == 1 && outbox_uuid_parse(found.ids[0], id))
        return OB_EXIT_OK;
    if (found.count == 0)
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_MESSAGE, "no message id begins with %s; %s", word,
                     ob_code_todo(OUTBOX_UNKNOWN_MESSAGE));
    else
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_MESSAGE, "several message ids begin with %s: %s, %s%s; give more of it",
                     word, found.ids[0], found.ids[1], found.count > 2 ? " ..." : "");
    return ob_cli_fail(cli);
}

static int explain_json(struct ob_cli *cli, const struct outbox_uuid *id)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    if (ob_report_explain(cli->store, id, &json, &cli->err)) {
        ob_buf_fini(&buf);
        return ob_cli_fail(cli);
    }
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

int cmd_explain(struct ob_cli *cli)
{
    struct outbox_uuid id;
    struct answer answer = {.cli = cli};
    int status = find_message(cli, &id);
    if (status)
        return status;
    if (cli->args.json)
        return explain_json(cli, &id);
    return cli->store->ops->explain(cli->store, &id, say_row, &answer, &cli->err) ? ob_cli_fail(cli) : OB_EXIT_OK;
}
