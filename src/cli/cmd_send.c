/* cmd_send.c - enqueues one message in its own transaction. */
#include "cli/cli.h"

#include <string.h>

/* NAME=VALUE pairs as a JSON object; false when one has no equals sign. */
static bool make_headers(const struct ob_list_arg *list, struct ob_buf *buf, const char **bad)
{
    struct ob_json json;
    ob_json_init(&json, buf);
    ob_json_object(&json);
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        char name[256];
        *bad = list->items[i];
        if (!equals || equals == list->items[i] || equals - list->items[i] >= (int)sizeof name)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)(equals - list->items[i]), list->items[i]);
        ob_json_text(&json, name, equals + 1);
    }
    ob_json_end(&json);
    return true;
}

static void fill(const struct ob_args *args, struct outbox_message *msg)
{
    msg->topic = args->rest[0];
    msg->content_type = args->content_type;
    msg->name_space = args->name_space;
    msg->key = args->key;
    msg->dedupe_key = args->dedupe_key;
    msg->tenant_id = args->tenant;
    msg->subject = args->subject;
    msg->recipient = args->recipient;
    msg->correlation_id = args->correlation_id;
    msg->deliver_after_us = args->deliver_after;
    msg->expires_at_us = args->expires_at;
    if (args->priority.given)
        msg->priority = args->priority.value;
    if (args->max_attempts.given)
        msg->max_attempts = args->max_attempts.value;
    if (args->compress_over.given)
        msg->compress_over = args->compress_over.value;
}

static void say(const struct ob_cli *cli, const struct outbox_receipt *receipt)
{
    char id[37];
    outbox_uuid_format(&receipt->id, id);
    if (!cli->args.json) {
        printf("%s\n", id);
        if (!receipt->created)
            ob_cli_note(cli, "Duplicate: a message with this dedupe key exists already; nothing was added.");
        else if (receipt->seq)
            ob_cli_note(cli, "Enqueued at position %lld of its key.", (long long)receipt->seq);
        return;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "id", id);
    ob_json_key(&json, "created");
    ob_json_bool(&json, receipt->created);
    ob_json_key(&json, "seq");
    if (receipt->seq)
        ob_json_int(&json, receipt->seq);
    else
        ob_json_null(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
}

/* Values that mean "not given" to the library are errors on the command line. */
static const char *check(const struct ob_args *args)
{
    if (args->priority.given && (args->priority.value < 0 || args->priority.value > 9))
        return "--priority takes 0 to 9";
    if (args->max_attempts.given && (args->max_attempts.value < 1 || args->max_attempts.value > 1000))
        return "--max-attempts takes 1 to 1000";
    if (args->compress_over.given && args->compress_over.value != -1 && args->compress_over.value < 1)
        return "--compress-over takes a number of bytes, from 1; -1: never";
    return NULL;
}

int cmd_send(struct ob_cli *cli)
{
    struct ob_buf payload = OB_BUF_INIT, headers = OB_BUF_INIT;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt;
    const char *bad = check(&cli->args);
    int status;
    if (bad)
        return ob_cli_usage(cli, "%s", bad);
    if (!make_headers(&cli->args.header, &headers, &bad)) {
        status = ob_cli_usage(cli, "--header takes NAME=VALUE, not \"%s\"", bad);
        goto done;
    }
    fill(&cli->args, &msg);
    msg.headers = cli->args.header.count ? ob_buf_text(&headers) : NULL;
    if (ob_cli_payload(cli->args.rest[1], &payload, &cli->err) || !ob_cli_fits(cli, &payload) || !ob_cli_open(cli)) {
        status = ob_cli_fail(cli);
        goto done;
    }
    msg.payload = ob_buf_text(&payload);
    msg.payload_len = payload.len;
    if (cli->store->ops->enqueue(cli->store, &msg, &receipt, &cli->err)) {
        struct outbox_error err = cli->err;
        if (err.code == OUTBOX_INVALID && strstr(err.text, "payload") && !msg.content_type)
            ob_error_set_sqlstate(&cli->err, err.code, err.sqlstate,
                                  "%s; payloads are JSON unless --content-type is given, e.g. text/plain", err.text);
        status = ob_cli_fail(cli);
        goto done;
    }
    say(cli, &receipt);
    status = OB_EXIT_OK;
done:
    ob_buf_fini(&payload);
    ob_buf_fini(&headers);
    return status;
}
