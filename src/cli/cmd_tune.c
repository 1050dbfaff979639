/* cmd_tune.c - changes settings of running relays. */
#include "cli/cli.h"

#include "base/nearest.h"
#include "core/tuning.h"

#include <string.h>

struct listing {
    struct ob_cli *cli; /* NULL: only count */
    const char *only;   /* NULL: all of them */
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

static void tuned(void *ctx, const struct ob_tuning_row *row)
{
    struct listing *listing = ctx;
    if (listing->only && strcmp(listing->only, row->name) != 0)
        return;
    listing->count++;
    if (listing->cli)
        say_one(listing->cli, row->name, row->value);
}

static int show(struct ob_cli *cli, const char *name)
{
    struct listing listing = {.cli = cli, .only = name};
    struct ob_control control = {.ctx = &listing, .tuned = tuned};
    if (cli->store->ops->control(cli->store, &control, &cli->err))
        return ob_cli_fail(cli);
    if (listing.count == 0)
        ob_cli_note(cli, "%s%s tuned: relays use their configuration.", name ? name : "Nothing",
                    name ? " is not" : " is");
    return OB_EXIT_OK;
}

static int unknown_setting(struct ob_cli *cli, const char *name)
{
    static const char prefix[] = "sink.", old[] = "destination.";
    static const char *const settings[] = {"poll", "batch", "enabled", "rate", "concurrency"};
    enum { OF_SINKS = 3, SETTINGS = 5 };
    if (strncmp(name, old, strlen(old)) == 0)
        return ob_cli_usage(cli, "unknown setting \"%s\"; did you mean \"%s%s\"?", name, prefix, name + strlen(old));
    const char *dot = strrchr(name, '.'), *given = dot ? dot + 1 : name;
    bool of_sink = strncmp(name, prefix, strlen(prefix)) == 0 && dot > name + strlen(prefix);
    struct ob_nearest near;
    ob_nearest_init(&near, given);
    for (size_t i = of_sink ? OF_SINKS : 0; i < (of_sink || !dot ? SETTINGS : 0); i++)
        ob_nearest_try(&near, settings[i]);
    if (!near.best || strcmp(near.best, given) == 0)
        return ob_cli_usage(cli, "%s", cli->err.text);
    bool whole = of_sink || (near.best != settings[OF_SINKS] && near.best != settings[OF_SINKS + 1]);
    return ob_cli_usage(cli, "unknown setting \"%s\"; did you mean \"%s%.*s%s\"?", name, whole ? "" : "sink.NAME.",
                        of_sink ? (int)(given - name) : 0, name, near.best);
}

int cmd_tune(struct ob_cli *cli)
{
    const struct ob_args *args = &cli->args;
    const char *name = args->rest_count > 0 ? args->rest[0] : NULL,
               *value = args->rest_count > 1 ? args->rest[1] : NULL;
    struct ob_tuning tuning;
    if (args->reset && (!name || value))
        return ob_cli_usage(cli, "--reset takes the name of a setting, and no value");
    if (name && ob_tuning_parse(name, NULL, &tuning, &cli->err))
        return unknown_setting(cli, name);
    if (value && ob_tuning_parse(name, value, &tuning, &cli->err))
        return ob_cli_usage(cli, "%s", cli->err.text);
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    /* Existing tunings can be shown and removed even if the sink no longer exists. */
    struct listing set = {.only = name};
    struct ob_control control = {.ctx = &set, .tuned = tuned};
    if (name && cli->store->ops->control(cli->store, &control, &cli->err))
        return ob_cli_fail(cli);
    int status =
        name && *tuning.sink && set.count == 0 && !args->force ? ob_cli_known_sink(cli, tuning.sink) : OB_EXIT_OK;
    if (status)
        return status;
    if (!value && !args->reset)
        return show(cli, name);
    if (args->reset && set.count == 0) {
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_NAME, "%s is not tuned: relays use their configuration", name);
        return ob_cli_fail(cli);
    }
    struct ob_actor actor = ob_cli_actor(cli);
    if (cli->store->ops->tune(cli->store, name, value, &actor, &cli->err))
        return ob_cli_fail(cli);
    say_one(cli, name, value ? tuning.value : NULL);
    return OB_EXIT_OK;
}
