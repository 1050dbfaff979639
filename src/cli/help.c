/* help.c - the help texts, all from def/commands.def. */
#include "cli/cli.h"

#include <string.h>

/* Prints text indented by `column` spaces and wrapped at 100 columns; the first line continues the current one. */
static void put_wrapped(FILE *file, const char *text, int column)
{
    int at = column;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (at > column && at + 1 + len > 100) {
            fprintf(file, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', file);
            at++;
        }
        fprintf(file, "%.*s", len, text);
        at += len;
        text += len;
        text += *text == ' ';
    }
    fputc('\n', file);
}

static void put_option(FILE *file, const struct ob_option *option)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", option->name, *option->arg ? " " : "", option->arg);
    fprintf(file, "  %-28s", left);
    if (strlen(left) > 27)
        fprintf(file, "\n%30s", "");
    put_wrapped(file, option->what, 30);
}

void ob_help_all(FILE *file)
{
    fputs("outbox - a transactional outbox for PostgreSQL and SQLite\n\n"
          "usage: outbox COMMAND [OPTIONS] [ARGUMENTS]\n\ncommands:\n",
          file);
    for (size_t i = 0; i < ob_commands_count; i++)
        fprintf(file, "  %-10s %s\n", ob_commands[i].name, ob_commands[i].summary);
    fputs("\nglobal options:\n", file);
    for (size_t i = 0; i < ob_options_count; i++)
        if (ob_options[i].global)
            put_option(file, &ob_options[i]);
    fputs("\nFor details: outbox COMMAND --help. Exit codes: 0 success, 1 unhealthy or no match, 2 usage error,\n69 "
          "store unreachable, 75 try again, 77 permission denied, 78 invalid configuration\nor schema. All of them: "
          "docs/errors.md\n",
          file);
}

void ob_help_command(FILE *file, const struct ob_command *command)
{
    fprintf(file, "outbox %s - %s\n\nusage: outbox %s [OPTIONS]%s%s\n\n", command->name, command->summary,
            command->name, *command->usage ? " " : "", command->usage);
    put_wrapped(file, command->text, 0);
    fputs("\noptions:\n", file);
    for (int global = 0; global < 2; global++)
        for (size_t i = 0; i < ob_options_count; i++)
            if (ob_options[i].global == global && ob_command_takes(command, &ob_options[i]))
                put_option(file, &ob_options[i]);
    fprintf(file, "\nexample:\n  %s\n", command->example);
}

int cmd_help(struct ob_cli *cli)
{
    if (cli->args.json)
        return ob_cli_usage(cli, "help is text, not JSON");
    if (cli->args.rest_count == 0) {
        ob_help_all(stdout);
        return OB_EXIT_OK;
    }
    const struct ob_command *command = ob_command_find(cli->args.rest[0]);
    if (!command) {
        const char *nearest = ob_nearest_command(cli->args.rest[0]);
        return ob_cli_usage(cli, "unknown command \"%s\"%s%s%s", cli->args.rest[0],
                            nearest ? "; did you mean \"" : "; outbox help lists them", nearest ? nearest : "",
                            nearest ? "\"?" : "");
    }
    ob_help_command(stdout, command);
    return OB_EXIT_OK;
}
