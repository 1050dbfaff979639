/* cmd_configure.c - settings of namespaces: show and change them. The store knows which settings exist. */
#include "cli/cli.h"

#include "base/nearest.h"

#include <string.h>

/* Matches the settings that the store returns against the request. */
struct listing {
    struct ob_cli *cli;
    const char *name_space, *name; /* NULL: all; a namespace is shown after the defaults that hold for the rest */
    bool exists;                   /* a setting of that name exists */
    bool silent;                   /* only check, print nothing */
    struct ob_nearest near;
    struct ob_arena arena;
};

static void say_one(struct ob_cli *cli, const char *name_space, const char *name, const char *value)
{
    if (!cli->args.json) {
        ob_say_text(cli, name_space, 0, OB_COLOR_NONE);
        putchar(' ');
        ob_say_text(cli, name, 0, OB_COLOR_NONE);
        fputs(" = ", stdout);
        ob_say_text(cli, value ? value : strcmp(name_space, "*") == 0 ? "none" : "as for *", 0, OB_COLOR_NONE);
        putchar('\n');
        return;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "namespace", name_space);
    ob_json_text(&json, "name", name);
    ob_json_text(&json, "value", value);
    ob_json_end(&json);
    ob_say_json(&buf);
}

static bool on_setting(void *ctx, const char *name_space, const char *name, const char *value)
{
    struct listing *listing = ctx;
    bool named = !listing->name || strcmp(listing->name, name) == 0;
    listing->exists = listing->exists || named;
    if (listing->name && strcmp(name_space, "*") == 0)
        ob_nearest_try(&listing->near, ob_arena_strdup(&listing->arena, name));
    bool holds = !listing->name_space || strcmp(name_space, "*") == 0 || strcmp(listing->name_space, name_space) == 0;
    if (named && holds && !listing->silent)
        say_one(listing->cli, name_space, name, value);
    return true;
}

/* Reads the settings of the store; returns 0, or the exit status after it printed the error. */
static int look(struct ob_cli *cli, const char *name_space, const char *name, bool silent)
{
    struct listing listing = {.cli = cli, .name_space = name_space, .name = name, .silent = silent};
    int status = OB_EXIT_OK;
    ob_arena_init(&listing.arena, 0);
    ob_nearest_init(&listing.near, name ? name : "");
    if (cli->store->ops->settings(cli->store, on_setting, &listing, &cli->err))
        status = ob_cli_fail(cli);
    else if (!listing.exists && listing.near.best)
        status = ob_cli_usage(cli, "unknown setting \"%s\"; did you mean \"%s\"?", name, listing.near.best);
    else if (!listing.exists)
        status = ob_cli_usage(cli, "unknown setting \"%s\"; `outbox configure` lists them all", name);
    ob_arena_fini(&listing.arena);
    return status;
}

int cmd_configure(struct ob_cli *cli)
{
    const struct ob_args *args = &cli->args;
    const char *name = args->rest_count > 0 ? args->rest[0] : NULL,
               *value = args->rest_count > 1 ? args->rest[1] : NULL;
    const char *name_space = args->name_space ? args->name_space : "*";
    if (args->reset && (!name || value))
        return ob_cli_usage(cli, "--reset takes the name of a setting, and no value");
    if (args->reset && strcmp(name_space, "*") == 0)
        return ob_cli_usage(cli, "--reset restores the default of all namespaces, so it needs one: give --namespace");
    if (!ob_cli_open(cli))
        return ob_cli_fail(cli);
    if (!value && !args->reset)
        return look(cli, args->name_space, name, false);
    int status = look(cli, name_space, name, true);
    if (status)
        return status;
    struct ob_actor actor = ob_cli_actor(cli);
    if (cli->store->ops->configure(cli->store, name_space, name, value, &actor, &cli->err))
        return ob_cli_fail(cli);
    say_one(cli, name_space, name, value);
    return OB_EXIT_OK;
}
