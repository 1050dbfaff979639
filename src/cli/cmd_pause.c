/* cmd_pause.c - pause and resume everything, namespaces and topics, or a sink. */
#include "cli/cli.h"

#include "core/names.h"

static int say_json(const char *action, const struct ob_pause_row *pause, bool changed)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "action", action);
    ob_json_text(&json, "namespace", pause->name_space);
    ob_json_text(&json, "topic", pause->topic);
    ob_json_text(&json, "sink", pause->sink);
    ob_json_key(&json, "changed"), ob_json_bool(&json, changed);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

/* Reads the scope from the options; returns 0, or the exit status after it printed the error. */
static int read_scope(struct ob_cli *cli, struct ob_pause_row *pause)
{
    const struct ob_args *args = &cli->args;
    *pause =
        (struct ob_pause_row){args->topic && !args->name_space ? "default" : args->name_space, args->topic, args->sink};
    if (pause->sink && pause->name_space)
        return ob_cli_usage(cli, "give a sink, or a namespace and topic, not both");
    if (ob_names_check(pause->name_space, pause->topic, pause->sink, &cli->err))
        return ob_cli_usage(cli, "%s", cli->err.text);
    return OB_EXIT_OK;
}

int cmd_pause(struct ob_cli *cli)
{
    struct ob_pause_row pause;
    struct ob_pauses before;
    struct ob_actor actor = ob_cli_actor(cli);
    int status = read_scope(cli, &pause);
    if (status)
        return status;
    if (!pause.name_space && !pause.sink && !ob_cli_confirm(cli, "Pause the delivery of everything?"))
        return OB_EXIT_USAGE;
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    if (!cli->args.force)
        status = pause.sink ? ob_cli_known_sink(cli, pause.sink)
                            : ob_cli_known_topic(cli, pause.name_space, pause.topic, true);
    if (status)
        return status;
    bool failed = ob_pauses_read(cli->store, &before, &cli->err) ||
                  cli->store->ops->pause(cli->store, pause.name_space, pause.topic, pause.sink, &actor, &cli->err);
    bool had = ob_pauses_have(&before, &pause);
    ob_pauses_fini(&before);
    if (failed)
        return ob_cli_fail(cli);
    if (cli->args.json)
        return say_json("pause", &pause, !had);
    struct ob_buf text = OB_BUF_INIT;
    ob_pause_text(&text, &pause);
    ob_cli_note(cli, "%s: %s.", had ? "Paused already" : "Paused", ob_buf_text(&text));
    ob_buf_fini(&text);
    return OB_EXIT_OK;
}

/* A resume ends the pause of exactly this name or pattern, and those of single names that a pattern matches; other pauses
 * may still hold the same messages. */
static int tell_resumed(struct ob_cli *cli, const struct ob_pause_row *pause, const struct ob_pauses *before,
                        const struct ob_pauses *after)
{
    struct ob_buf undone = OB_BUF_INIT, left = OB_BUF_INIT, name = OB_BUF_INIT;
    int status = OB_EXIT_OK;
    ob_pauses_text(&undone, before, after);
    ob_pauses_text(&left, after, NULL);
    ob_pause_text(&name, pause);
    if (undone.len == 0) {
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_NAME, "%s is not paused; %s%s", ob_buf_text(&name),
                     left.len ? "paused: " : "nothing is paused", left.len ? ob_buf_text(&left) : "");
        status = ob_cli_fail(cli);
    } else if (cli->args.json) {
        say_json("resume", pause, true);
    } else {
        ob_cli_note(cli, "Resumed: %s.", ob_buf_text(&undone));
        if (left.len)
            ob_cli_note(cli, "Still paused: %s.", ob_buf_text(&left));
    }
    ob_buf_fini(&undone);
    ob_buf_fini(&left);
    ob_buf_fini(&name);
    return status;
}

int cmd_resume(struct ob_cli *cli)
{
    struct ob_pause_row pause;
    struct ob_pauses before = {0}, after = {0};
    struct ob_actor actor = ob_cli_actor(cli);
    int status = read_scope(cli, &pause);
    if (status)
        return status;
    if (!ob_cli_open(cli) || ob_pauses_read(cli->store, &before, &cli->err) ||
        cli->store->ops->resume(cli->store, pause.name_space, pause.topic, pause.sink, &actor, &cli->err) ||
        ob_pauses_read(cli->store, &after, &cli->err))
        status = ob_cli_fail(cli);
    else
        status = tell_resumed(cli, &pause, &before, &after);
    ob_pauses_fini(&before);
    ob_pauses_fini(&after);
    return status;
}
