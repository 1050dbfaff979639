/* main.c - parses the command line and runs the command. */
#include "cli/cli.h"

#include "core/codec.h"
#include "sink/registry.h"

#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set but empty counts as not set. */
static const char *from_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool wants_color(void)
{
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(off && *off) && !(term && strcmp(term, "dumb") == 0) && isatty(STDOUT_FILENO);
}

/* Output must have been written completely: a full disk or a closed pipe is a failure. */
static int flushed(const struct ob_args *args, int status)
{
    struct outbox_error err = {0};
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    ob_error_set(&err, OUTBOX_INTERNAL, "stdout: %s", strerror(errno));
    ob_say_error(args, &err);
    return status ? status : OB_EXIT_UNHEALTHY;
}

/* If we were started without stdin, stdout or stderr, the next file opened would get its descriptor, and our output. */
static void fill_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    struct ob_cli cli = {0};
    fill_standard_files();
    if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("outbox %s\n", outbox_version());
        return flushed(&cli.args, OB_EXIT_OK);
    }
    if (!ob_args_parse(&cli.args, argc, argv))
        return OB_EXIT_USAGE;
    if (!cli.args.command && cli.args.json && !cli.args.help) {
        ob_error_set(&cli.err, OUTBOX_INVALID, "missing command; see: outbox --help");
        return ob_cli_fail(&cli);
    }
    if (!cli.args.command) {
        ob_help_all(cli.args.help ? stdout : stderr);
        return cli.args.help ? flushed(&cli.args, OB_EXIT_OK) : OB_EXIT_USAGE;
    }
    if (cli.args.help) {
        ob_help_command(stdout, cli.args.command);
        return flushed(&cli.args, OB_EXIT_OK);
    }
    ob_cli_warn_password(&cli, "--store", cli.args.store);
    cli.url = cli.args.store ? cli.args.store : from_env("OUTBOX_STORE"); /* else ob_cli_find_store */
    cli.schema = cli.args.schema ? cli.args.schema : from_env("OUTBOX_SCHEMA");
    cli.color = wants_color();
    ob_arena_init(&cli.arena, 0);
    int status = cli.args.command->run(&cli);
    ob_arena_fini(&cli.arena);
    if (cli.store)
        cli.store->ops->close(cli.store);
    ob_config_free(cli.config);
    return flushed(&cli.args, status);
}

int cmd_version(struct ob_cli *cli)
{
#ifdef HAVE_POSTGRES
    const bool postgres = true;
#else
    const bool postgres = false;
#endif
#ifdef HAVE_SQLITE
    const bool sqlite = true;
#else
    const bool sqlite = false;
#endif
    if (!cli->args.json) {
        printf("outbox %s (stores:%s%s; sinks:", outbox_version(), postgres ? " postgresql" : "",
               sqlite ? " sqlite" : "");
        for (size_t i = 0; ob_sink_at(i); i++)
            printf(" %s", ob_sink_at(i)->kind);
        printf("; compression: %s)\n", ob_codec_name() ? ob_codec_name() : "none");
        return OB_EXIT_OK;
    }
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_text(&json, "version", outbox_version());
    ob_json_key(&json, "stores");
    ob_json_array(&json);
    if (postgres)
        ob_json_string(&json, "postgresql");
    if (sqlite)
        ob_json_string(&json, "sqlite");
    ob_json_end(&json);
    ob_json_key(&json, "sinks");
    ob_json_array(&json);
    for (size_t i = 0; ob_sink_at(i); i++)
        ob_json_string(&json, ob_sink_at(i)->kind);
    ob_json_end(&json);
    ob_json_key(&json, "compression");
    ob_json_array(&json);
    if (ob_codec_name())
        ob_json_string(&json, ob_codec_name());
    ob_json_end(&json);
    ob_json_end(&json);
    ob_say_json(&buf);
    return OB_EXIT_OK;
}
