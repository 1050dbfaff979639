/* cmd_config.c - the configuration: validate it, show the effective values, print a sample. */
#include "cli/cli.h"

#include "config/config.h"
#include "config/sink_ping.h"

#include <string.h>

/* ---- problems ---------------------------------------------------------------------------------------------------- */

static void say_problems(const struct ob_cli *cli, const struct ob_config_report *report)
{
    for (const struct ob_config_problem *problem = report->first; problem; problem = problem->next) {
        struct ob_buf line = OB_BUF_INIT;
        ob_config_problem_text(problem, &line);
        ob_say_text(cli, ob_buf_text(&line), 0, problem->error ? OB_COLOR_RED : OB_COLOR_YELLOW);
        putchar('\n');
        ob_buf_fini(&line);
    }
}

static void json_place(struct ob_json *json, const struct ob_config_place *place)
{
    static const char *const names[] = {"default", "file", "env", "flag"};
    ob_json_text(json, "source", names[place->source]);
    ob_json_text(json, "file", place->source == OB_CONFIG_FILE ? place->from : NULL);
    ob_json_key(json, "line");
    if (place->source == OB_CONFIG_FILE && place->line)
        ob_json_int(json, place->line);
    else
        ob_json_null(json);
    ob_json_text(json, "variable", place->source == OB_CONFIG_ENV ? place->from : NULL);
}

static void json_report(struct ob_json *json, const char *file, const struct ob_config_report *report)
{
    ob_json_key(json, "ok"), ob_json_bool(json, report->errors == 0);
    ob_json_text(json, "file", file);
    ob_json_count(json, "errors", (int64_t)report->errors);
    ob_json_count(json, "warnings", (int64_t)report->warnings);
    ob_json_key(json, "problems");
    ob_json_array(json);
    for (const struct ob_config_problem *problem = report->first; problem; problem = problem->next) {
        ob_json_object(json);
        ob_json_text(json, "level", problem->error ? "error" : "warning");
        json_place(json, &problem->place);
        ob_json_text(json, "name", problem->key);
        ob_json_text(json, "value", problem->value);
        ob_json_text(json, "nearest", problem->nearest);
        ob_json_text(json, "text", problem->text);
        ob_json_end(json);
    }
    ob_json_end(json);
}

/* ---- validate ---------------------------------------------------------------------------------------------------- */

struct check {
    struct ob_config_report *report;
    bool nomem;
};

static void on_sink(void *ctx, const struct ob_ping *probe)
{
    struct check *check = ctx;
    struct ob_config_place place = {.source = OB_CONFIG_FILE, .from = probe->sink->file, .line = probe->sink->line};
    char key[160];
    snprintf(key, sizeof key, "sinks.%s", probe->sink->name);
    if (!ob_config_report_error(check->report, &place, key, probe->error))
        check->nomem = true;
}

/* A relay opens its sinks first, so settings that they refuse are errors of the configuration. */
static enum outbox_code check_sinks(struct ob_cli *cli, const struct ob_config *config, struct ob_config_report *report)
{
    struct check check = {.report = report};
    enum outbox_code code = ob_ping_settings(config, on_sink, &check, &cli->err);
    if (code || check.nomem)
        return code ? code : OUTBOX_NOMEM;
    return report->errors ? OUTBOX_CONFIG : OUTBOX_OK;
}

int cmd_validate(struct ob_cli *cli)
{
    if (cli->args.json_schema)
        return ob_cli_validate_payload(cli);
    struct ob_config_input input = ob_cli_config_input(cli, cli->args.rest_count ? cli->args.rest[0] : NULL);
    struct ob_config *config = NULL;
    struct ob_config_report report;
    if (!input.path) {
        ob_error_set(&cli->err, OUTBOX_CONFIG, "%s", OB_NO_CONFIG);
        return ob_cli_fail(cli);
    }
    input.partial = input.relay = true;
    enum outbox_code code = ob_config_load(&input, &config, &report);
    if (config) /* even after other errors: one run reports everything */
        code = check_sinks(cli, config, &report);
    if (code && code != OUTBOX_CONFIG) {
        if (code == OUTBOX_NOMEM)
            ob_error_nomem(&cli->err);
        ob_cli_fail(cli);
    } else if (cli->args.json) {
        struct ob_buf buf = OB_BUF_INIT;
        struct ob_json json;
        ob_json_init(&json, &buf);
        ob_json_object(&json);
        json_report(&json, input.path, &report);
        ob_json_end(&json);
        ob_say_json(&buf);
    } else {
        say_problems(cli, &report);
        if (code)
            ob_cli_note(cli, "%s: %zu error%s, %zu warning%s", input.path, report.errors, report.errors == 1 ? "" : "s",
                        report.warnings, report.warnings == 1 ? "" : "s");
        else if (config)
            ob_cli_note(cli, "%s: valid (%zu store%s, %zu sink%s, %zu route%s)", input.path, config->store_count,
                        config->store_count == 1 ? "" : "s", config->sink_count, config->sink_count == 1 ? "" : "s",
                        config->route_count, config->route_count == 1 ? "" : "s");
    }
    ob_config_report_fini(&report);
    ob_config_free(config);
    return ob_code_exit(code);
}

/* ---- config ------------------------------------------------------------------------------------------------------ */

static const char *shown_of(const struct ob_cli *cli, const struct ob_config_value *value)
{
    return cli->args.reveal && value->asked ? value->asked : value->shown;
}

static void json_values(const struct ob_cli *cli, struct ob_json *json, const struct ob_config *config)
{
    ob_json_text(json, "file", config->file);
    ob_json_key(json, "values");
    ob_json_array(json);
    for (size_t i = 0; i < config->value_count; i++) {
        const struct ob_config_value *value = &config->values[i];
        ob_json_object(json);
        ob_json_text(json, "name", value->name);
        ob_json_text(json, "value", shown_of(cli, value));
        json_place(json, &value->place);
        ob_json_key(json, "secret"), ob_json_bool(json, value->secret);
        ob_json_key(json, "reloadable"), ob_json_bool(json, value->reloadable);
        ob_json_end(json);
    }
    ob_json_end(json);
}

static void say_values(const struct ob_cli *cli, const struct ob_config *config)
{
    size_t name = 0, shown = 0;
    for (size_t i = 0; i < config->value_count; i++) {
        const struct ob_config_value *value = &config->values[i];
        size_t len = shown_of(cli, value) ? strlen(shown_of(cli, value)) : 1;
        name = strlen(value->name) > name ? strlen(value->name) : name;
        shown = len > shown && len <= 50 ? len : shown;
    }
    for (size_t i = 0; i < config->value_count; i++) {
        const struct ob_config_value *value = &config->values[i];
        struct ob_buf from = OB_BUF_INIT;
        bool fallback = value->place.source == OB_CONFIG_DEFAULT;
        ob_config_place_text(&value->place, &from);
        if (!value->reloadable)
            ob_buf_puts(&from, " (restart to change)");
        ob_say_text(cli, value->name, (int)name + 2, fallback ? OB_COLOR_DIM : OB_COLOR_NONE);
        ob_say_text(cli, shown_of(cli, value), (int)shown, fallback ? OB_COLOR_DIM : OB_COLOR_BOLD);
        fputs("  ", stdout);
        ob_say_text(cli, ob_buf_text(&from), 0, OB_COLOR_DIM);
        putchar('\n');
        ob_buf_fini(&from);
    }
}

static int show_config(struct ob_cli *cli, const struct ob_config *config)
{
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    if (!cli->args.json) {
        say_values(cli, config);
        return OB_EXIT_OK;
    }
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    json_values(cli, &json, config);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}

int cmd_config(struct ob_cli *cli)
{
    struct ob_config *config = NULL;
    if (cli->args.sample) {
        struct ob_buf buf = OB_BUF_INIT;
        if (cli->args.json)
            return ob_cli_usage(cli, "--sample writes YAML, not JSON");
        ob_config_sample(&buf);
        fputs(ob_buf_text(&buf), stdout);
        ob_buf_fini(&buf);
        return OB_EXIT_OK;
    }
    if (ob_cli_config(cli, &config))
        return ob_cli_fail(cli);
    int status = show_config(cli, config);
    ob_config_free(config);
    return status;
}
