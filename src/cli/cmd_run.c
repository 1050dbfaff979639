/* cmd_run.c - the relay. Everything it has to say goes to the log, on stderr. */
#include "cli/cli.h"

#include "base/crash.h"
#include "base/log.h"
#include "relay/serve.h"

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
    enum outbox_code code = ob_config_load(&input, &config, &report);
    log_problems(&run->log, &report);
    if (code == OUTBOX_NOMEM)
        ob_log(&run->log, OB_LOG_ERROR, "no memory for the configuration");
    ob_config_report_fini(&report);
    return config;
}

int cmd_run(struct ob_cli *cli)
{
    struct run run = {.cli = cli, .log = {.level = OB_LOG_INFO, .file = stderr}};
    ob_serve_hold_signals();
    ob_crash_arm();
    struct ob_config *config = load(&run);
    if (!config) {
        ob_error_set(&cli->err, OUTBOX_CONFIG, "the relay was not started; outbox validate lists the problems again");
        return ob_cli_fail(cli);
    }
    struct ob_serve_options options = {.config = config,
                                       .reload = load,
                                       .unload = ob_config_free,
                                       .ctx = &run,
                                       .log = &run.log,
                                       .until_empty = cli->args.until_empty};
    if (ob_serve(&options, &cli->err))
        return ob_cli_fail(cli);
    return OB_EXIT_OK;
}
