/* args.h - the parsed command line, as described by def/commands.def. Everything is borrowed from argv and the
 * environment. */
#ifndef OB_CLI_ARGS_H
#define OB_CLI_ARGS_H

#include "base/when.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OB_ARGS_LIST_MAX = 64 };

struct ob_list_arg {
    const char *items[OB_ARGS_LIST_MAX];
    size_t count;
};

struct ob_int_arg {
    bool given;
    int value;
};

#define OB_ARG_TEXT const char *
#define OB_ARG_FLAG bool
#define OB_ARG_INT struct ob_int_arg
#define OB_ARG_TIME int64_t /* microseconds since 1970; 0: not given */
#define OB_ARG_LIST struct ob_list_arg

/* One field per option, named as in commands.def. */
struct ob_args {
#define OUTBOX_OPTION(field, name, kind, arg, what) OB_ARG_##kind field;
#define OUTBOX_GLOBAL OUTBOX_OPTION
#define OUTBOX_COMMAND(...)
#include "commands.def"
#undef OUTBOX_OPTION
#undef OUTBOX_GLOBAL
#undef OUTBOX_COMMAND
    const struct ob_command *command;
    char **rest; /* the arguments that are not options */
    int rest_count;
};

enum ob_option_kind { OB_OPTION_TEXT, OB_OPTION_FLAG, OB_OPTION_INT, OB_OPTION_TIME, OB_OPTION_LIST };

struct ob_option {
    const char *field, *name, *arg, *what;
    enum ob_option_kind kind;
    bool global;   /* valid for every command */
    size_t offset; /* in struct ob_args */
};

struct ob_cli;

struct ob_command {
    const char *name, *usage;
    int least, most;
    const char *options; /* names of fields, separated by spaces */
    const char *summary, *text, *example;
    int (*run)(struct ob_cli *cli);
};

extern const struct ob_option ob_options[];
extern const size_t ob_options_count;
extern const struct ob_command ob_commands[];
extern const size_t ob_commands_count;

const struct ob_command *ob_command_find(const char *name);
bool ob_command_takes(const struct ob_command *command, const struct ob_option *option);
/* The command, or the option of a command, whose name is nearest to a mistyped one; NULL: none is near. */
const char *ob_nearest_command(const char *name);
const char *ob_nearest_option(const struct ob_command *command, const char *name);

/* Parses argv and reorders it. False after it printed the error to stderr. */
bool ob_args_parse(struct ob_args *args, int argc, char **argv);

#endif
