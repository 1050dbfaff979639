/* store.c - the configuration and the store of a command: named on the command line, by OUTBOX_STORE, or by the file. */
#include "cli/cli.h"

#include "config/config.h"
#include "lib/open.h"
#ifdef HAVE_SINKS
#include "sink/registry.h"
#endif

#include <unistd.h>

struct ob_config_input ob_cli_config_input(const struct ob_cli *cli, const char *path)
{
    bool found_here;
    path = ob_config_path(path ? path : cli->args.config, environ, &found_here);
    return (struct ob_config_input){
        .path = path,
        .found_here = found_here,
        .env = environ,
        .sets = cli->args.set.items,
        .set_count = cli->args.set.count,
        .store = cli->args.store,
        .schema = cli->args.schema,
#ifdef HAVE_SINKS
        .load = ob_sink_load,
        .at = ob_sink_at,
#endif
    };
}

static void note_problems(struct ob_cli *cli, const struct ob_config_report *report)
{
    for (const struct ob_config_problem *problem = report->first; problem; problem = problem->next) {
        struct ob_buf line = OB_BUF_INIT;
        ob_config_problem_text(problem, &line);
        ob_cli_note(cli, "%s", ob_buf_text(&line));
        ob_buf_fini(&line);
    }
}

/* Turns the report into one error: the first problem represents all. */
static enum outbox_code first_problem(struct ob_cli *cli, enum outbox_code code, const struct ob_config_report *report)
{
    const struct ob_config_problem *problem = report->first;
    struct ob_buf line = OB_BUF_INIT;
    while (problem && !problem->error)
        problem = problem->next;
    if (code == OUTBOX_NOMEM || !problem)
        return ob_error_nomem(&cli->err);
    ob_config_problem_text(problem, &line);
    if (report->errors > 1)
        ob_buf_printf(&line, " (and %zu more: see outbox validate)", report->errors - 1);
    ob_error_set(&cli->err, OUTBOX_CONFIG, "%s", ob_buf_text(&line));
    ob_buf_fini(&line);
    return OUTBOX_CONFIG;
}

enum outbox_code ob_cli_config(struct ob_cli *cli, struct ob_config **config)
{
    struct ob_config_input input = ob_cli_config_input(cli, NULL);
    struct ob_config_report report;
    enum outbox_code code = ob_config_load(&input, config, &report);
    if (code)
        code = first_problem(cli, code, &report);
    else
        note_problems(cli, &report);
    ob_config_report_fini(&report);
    return code;
}

bool ob_cli_find_store(struct ob_cli *cli)
{
    struct ob_config_input input = ob_cli_config_input(cli, NULL);
    struct ob_config_report report;
    if (cli->url || cli->config)
        return true;
    input.stores_only = true;
    enum outbox_code code = ob_config_load(&input, &cli->config, &report);
    if (code)
        first_problem(cli, code, &report);
    else
        note_problems(cli, &report);
    if (!code && cli->config->store_count) {
        const struct ob_config_store *store = &cli->config->stores[0];
        cli->url = store->url;
        cli->schema = cli->schema ? cli->schema : store->schema;
    }
    ob_config_report_fini(&report);
    return !code;
}

bool ob_cli_has_store(struct ob_cli *cli)
{
    if (!ob_cli_find_store(cli))
        return false;
    if (!cli->url)
        ob_error_set(&cli->err, OUTBOX_INVALID,
                     "no store given; use --store postgresql://USER@HOST/DATABASE or --store sqlite:PATH, set "
                     "OUTBOX_STORE, or name it in outbox.yaml");
    else if (cli->args.schema && ob_url_kind(cli->url) == OB_URL_SQLITE)
        ob_error_set(&cli->err, OUTBOX_INVALID, "SQLite has no schemas: omit --schema, or use another file");
    else
        return true;
    return false;
}

bool ob_cli_open(struct ob_cli *cli)
{
    if (!ob_cli_has_store(cli))
        return false;
    struct ob_open open = {.schema = cli->schema, .limit_us = cli->limit_us};
    struct outbox_error err;
    ob_code code = ob_store_open(cli->url, &open, &cli->store, &err);
    if (!code)
        return true;
    char shown[160];
    enum ob_url kind = ob_url_kind(cli->url);
    ob_url_redact(cli->url, shown, sizeof shown);
    if (kind == OB_URL_UNKNOWN)
        cli->err = err;
    else
        ob_error_set_sqlstate(&cli->err, code, err.sqlstate, "%s: %s%s%s", shown, err.text,
                              code == OUTBOX_UNREACHABLE && kind == OB_URL_POSTGRES ? "; " : "",
                              code == OUTBOX_UNREACHABLE && kind == OB_URL_POSTGRES ? ob_code_todo(code) : "");
    return false;
}
