/* known.c - checks names that operators type against those that exist. A command with a name that matches nothing would
 * report success and do nothing, so the name is refused, with the nearest one as a suggestion.
 *
 * Topics and namespaces are those that the store has seen. Sinks are those of the configuration, if there is one, and
 * those that relays report in their heartbeats. */
#include "cli/cli.h"

#include "base/glob.h"
#include "base/nearest.h"

#include <jansson.h>
#include <string.h>

struct known {
    const char *name_space, *topic; /* NULL: any */
    struct ob_arena arena;
    struct ob_nearest near_space, near_topic, near_sink;
    const char *elsewhere; /* a namespace that has this topic */
    const char *sink;
    size_t count; /* of names that exist */
    bool space_found, found;
};

static void try_name(struct known *known, struct ob_nearest *near, const char *name)
{
    ob_nearest_try(near, name);
    if (near->best == name) /* name is borrowed for this call only */
        near->best = ob_arena_strdup(&known->arena, name);
}

/* ---- topics ------------------------------------------------------------------------------------------------------ */

static void on_lane(void *ctx, const char *name_space, const char *topic)
{
    struct known *known = ctx;
    bool in_space = !known->name_space || ob_glob_names(known->name_space, name_space);
    bool matches = !known->topic || ob_glob_names(known->topic, topic);
    known->count++;
    known->space_found = known->space_found || in_space;
    known->found = known->found || (in_space && matches);
    if (known->found)
        return;
    if (known->name_space)
        try_name(known, &known->near_space, name_space);
    if (known->topic && in_space)
        try_name(known, &known->near_topic, topic);
    if (known->topic && matches && !in_space && !known->elsewhere)
        known->elsewhere = ob_arena_strdup(&known->arena, name_space);
}

static void put_what(struct ob_buf *text, const char *what, const char *name)
{
    if (ob_glob_is(name))
        ob_buf_printf(text, "no %s matches \"%s\"", what, name);
    else
        ob_buf_printf(text, "there is no %s \"%s\"", what, name);
}

static int refuse_topic(struct ob_cli *cli, const struct known *known, bool may_come)
{
    struct ob_buf text = OB_BUF_INIT;
    bool space = !known->space_found && known->name_space; /* the namespace is what is not known */
    const char *name = space ? known->name_space : known->topic;
    const char *near = ob_glob_is(name) ? NULL : space ? known->near_space.best : known->near_topic.best;
    put_what(&text, space ? "namespace" : "topic", name);
    if (!space && known->name_space)
        ob_buf_printf(&text, " in the namespace \"%s\"", known->name_space);
    if (known->count == 0)
        ob_buf_puts(&text, ": no message was ever enqueued here");
    else if (known->elsewhere)
        ob_buf_printf(&text, "; the namespace \"%s\" has it: --namespace %s", known->elsewhere, known->elsewhere);
    else if (near)
        ob_buf_printf(&text, "; did you mean \"%s\"?", near);
    else
        ob_buf_puts(&text, "; outbox status lists the topics");
    if (may_come)
        ob_buf_printf(&text, "%suse --force to name it before its first message",
                      near && !known->elsewhere ? " Or " : "; ");
    ob_error_set(&cli->err, OUTBOX_UNKNOWN_NAME, "%s", ob_buf_text(&text));
    ob_buf_fini(&text);
    return ob_cli_fail(cli);
}

int ob_cli_known_topic(struct ob_cli *cli, const char *name_space, const char *topic, bool may_come)
{
    struct known known = {.name_space = name_space, .topic = topic};
    struct ob_control control = {.ctx = &known, .lane = on_lane};
    int status = OB_EXIT_OK;
    if (!name_space && !topic)
        return status;
    ob_arena_init(&known.arena, 0);
    ob_nearest_init(&known.near_space, name_space ? name_space : "");
    ob_nearest_init(&known.near_topic, topic ? topic : "");
    if (cli->store->ops->control(cli->store, &control, &cli->err))
        status = ob_cli_fail(cli);
    else if (!known.found)
        status = refuse_topic(cli, &known, may_come);
    ob_arena_fini(&known.arena);
    return status;
}

/* ---- sinks ------------------------------------------------------------------------------------------------------- */

static void on_sink(struct known *known, const char *name)
{
    known->count++;
    known->found = known->found || strcmp(name, known->sink) == 0;
    try_name(known, &known->near_sink, name);
}

/* Other errors of the configuration do not matter here. */
static void ask_configuration(struct ob_cli *cli, struct known *known)
{
    struct ob_config_input input = ob_cli_config_input(cli, NULL);
    struct ob_config *config = NULL;
    struct ob_config_report report;
    input.partial = true;
    input.load = NULL;
    enum outbox_code code = input.path ? ob_config_load(&input, &config, &report) : OUTBOX_OK;
    (void)code;
    for (size_t i = 0; config && i < config->sink_count; i++)
        on_sink(known, config->sinks[i].name);
    ob_config_free(config);
    if (input.path)
        ob_config_report_fini(&report);
}

static bool on_relay(void *ctx, const struct ob_relay_row *row)
{
    json_t *info = row->info ? json_loads(row->info, 0, NULL) : NULL, *sinks = json_object_get(info, "sinks"), *sink;
    size_t i;
    json_array_foreach (sinks, i, sink)
        if (json_is_string(json_object_get(sink, "name")))
            on_sink(ctx, json_string_value(json_object_get(sink, "name")));
    json_decref(info);
    return true;
}

int ob_cli_known_sink(struct ob_cli *cli, const char *name)
{
    struct known known = {.sink = name};
    int status = OB_EXIT_OK;
    ob_arena_init(&known.arena, 0);
    ob_nearest_init(&known.near_sink, name);
    ask_configuration(cli, &known);
    if (!known.found && cli->store->ops->relays(cli->store, on_relay, &known, &cli->err)) {
        status = ob_cli_fail(cli);
    } else if (!known.found) {
        struct ob_nearest *near = &known.near_sink;
        ob_error_set(&cli->err, OUTBOX_UNKNOWN_NAME, "unknown sink \"%s\"%s%s%s", name,
                     near->best ? "; did you mean \""
                     : known.count == 0
                         ? ": no relay is running, and no configuration was found; give --config FILE, or --force"
                         : "; outbox config lists the sinks; use --force to name it in advance",
                     near->best ? near->best : "", near->best ? "\"? Or use --force to name it in advance" : "");
        status = ob_cli_fail(cli);
    }
    ob_arena_fini(&known.arena);
    return status;
}
