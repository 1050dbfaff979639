/* cmd_tune.c - settings of the relays, changed while they run. */
#include "cli/cli.h"

#include "core/tuning.h"

#include <string.h>

struct listing {
    struct ob_cli *cli;
    const char *only; /* NULL: all of them */
    int count;
};

static void say_one(struct ob_cli *cli, const char *name, const char *value)
{
    if (!cli->args.json) {
        ob_say_text(cli, name, 0, OB_COLOR_NONE);
        fputs(" = ", stdout);
        ob_say_text(cli, value ? value : "as configured", 0, OB_COLOR_NONE);
        putchar('\n');
        return;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "name", name);
    ob_json_text(&json, "value", value);
    ob_json_end(&json);
    ob_say_json(&buf);
}

static void tuned(void *ctx, const char *name, const char *value)
{
    struct listing *listing = ctx;
    if (listing->only && strcmp(listing->only, name) != 0)
        return;
    listing->count++;
    say_one(listing->cli, name, value);
}

static int show(struct ob_cli *cli, const char *name)
{
    struct listing listing = {.cli = cli, .only = name};
    struct ob_control control = {.ctx = &listing, .tuned = tuned};
    if (!ob_cli_open(cli) || cli->store->ops->control(cli->store, &control, &cli->err))
        return ob_cli_fail(cli);
    if (listing.count == 0)
        ob_cli_note(cli, "%s%s tuned: relays do as they are configured.", name ? name : "Nothing",
                    name ? " is not" : " is");
    return OB_EXIT_OK;
}

int cmd_tune(struct ob_cli *cli)
{
    const struct ob_args *args = &cli->args;
    const char *name = args->rest_count > 0 ? args->rest[0] : NULL,
               *value = args->rest_count > 1 ? args->rest[1] : NULL;
    struct ob_tuning tuning;
    if (args->reset && (!name || value))
        return ob_cli_usage(cli, "--reset takes the name of a setting, and no value");
    if (name && ob_tuning_parse(name, value, &tuning, &cli->err))
        return ob_cli_usage(cli, "%s", cli->err.text);
    if (!value && !args->reset)
        return show(cli, name);
    struct ob_actor actor = ob_cli_actor(cli);
    if (!ob_cli_open(cli) || cli->store->ops->tune(cli->store, name, value, &actor, &cli->err))
        return ob_cli_fail(cli);
    say_one(cli, name, value ? tuning.value : NULL);
    return OB_EXIT_OK;
}
