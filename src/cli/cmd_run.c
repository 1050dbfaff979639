/* cmd_run.c - the relay. All its output goes to the log, on stderr. */
#include "cli/cli.h"

#include "base/crash.h"
#include "base/log_out.h"
#include "daemon/serve.h"

#include <unistd.h>

enum { LAST_LINES_US = 1000000 };

struct run {
    const struct ob_cli *cli;
    struct ob_log log;
};

static void log_problems(const struct ob_log *log, const struct ob_config_report *report)
{
    for (const struct ob_config_problem *problem = report->first; problem; problem = problem->next) {
        struct ob_buf line = OB_BUF_INIT;
        ob_config_problem_text(problem, &line);
        ob_log(log, problem->error ? OB_LOG_ERROR : OB_LOG_WARN, "configuration",
               OB_STR("problem", ob_buf_text(&line)));
        ob_buf_fini(&line);
    }
}

static struct ob_config *load(void *ctx)
{
    struct run *run = ctx;
    struct ob_config_input input = ob_cli_config_input(run->cli, NULL);
    struct ob_config *config = NULL;
    struct ob_config_report report;
    input.relay = true;
    if (!input.path) {
        ob_log(&run->log, OB_LOG_ERROR, "configuration", OB_STR("problem", OB_NO_CONFIG));
        return NULL;
    }
    enum outbox_code code = ob_config_load(&input, &config, &report);
    log_problems(&run->log, &report);
    if (code == OUTBOX_NOMEM)
        ob_log(&run->log, OB_LOG_ERROR, "out of memory while loading the configuration");
    ob_config_report_fini(&report);
    if (config && config->store_count == 0) { /* valid for other commands */
        ob_log(&run->log, OB_LOG_ERROR, "configuration",
               OB_STR("problem", "no store configured: write `store: URL`, set OUTBOX_STORE or give --store"));
        ob_config_free(config);
        return NULL;
    }
    return config;
}

static enum outbox_code serve(struct run *run, struct ob_log_out *out, struct ob_cli *cli)
{
    struct ob_config *config = load(run);
    if (!config)
        return ob_error_set(&cli->err, OUTBOX_CONFIG, "relay not started: the configuration has errors, see above");
    struct ob_serve_options options = {.config = config,
                                       .reload = load,
                                       .unload = ob_config_free,
                                       .ctx = run,
                                       .log = &run->log,
                                       .out = out,
                                       .until_empty = cli->args.until_empty};
    return ob_serve(&options, &cli->err);
}

int cmd_run(struct ob_cli *cli)
{
    static struct ob_log_out out;
    ob_log_out_init(&out, STDERR_FILENO);
    struct run run = {.cli = cli, .log = {.level = OB_LOG_INFO, .write = ob_log_out_write, .ctx = &out}};
    ob_serve_hold_signals();
    ob_crash_arm();
    enum outbox_code code = serve(&run, &out, cli);
    ob_log_out_fini(&out, LAST_LINES_US);
    return code ? ob_cli_fail(cli) : OB_EXIT_OK;
}
