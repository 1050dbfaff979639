/* args.c - the command line parser, driven by def/commands.def.
 *
 * Long options only, as --name VALUE or --name=VALUE, anywhere on the line; "--" ends them. The first word that is not an
 * option is the command. Errors suggest the nearest valid word. */
#include "cli/args.h"

#include "base/clock.h"
#include "base/nearest.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct ob_option ob_options[] = {
#define ROW(field, name, kind, arg, what, global) \
    {#field, name, arg, what, OB_OPTION_##kind, global, offsetof(struct ob_args, field)},
#define OUTBOX_GLOBAL(field, name, kind, arg, what) ROW(field, name, kind, arg, what, true)
#define OUTBOX_OPTION(field, name, kind, arg, what) ROW(field, name, kind, arg, what, false)
#define OUTBOX_COMMAND(...)
#include "commands.def"
#undef ROW
#undef OUTBOX_GLOBAL
#undef OUTBOX_OPTION
#undef OUTBOX_COMMAND
};
const size_t ob_options_count = sizeof ob_options / sizeof ob_options[0];

const struct ob_command ob_commands[] = {
#define OUTBOX_GLOBAL(...)
#define OUTBOX_OPTION(...)
#define OUTBOX_COMMAND(name, usage, least, most, options, summary, text, example) \
    {#name, usage, least, most, options, summary, text, example, cmd_##name},
#include "commands.def"
#undef OUTBOX_GLOBAL
#undef OUTBOX_OPTION
#undef OUTBOX_COMMAND
};
const size_t ob_commands_count = sizeof ob_commands / sizeof ob_commands[0];

const struct ob_command *ob_command_find(const char *name)
{
    for (size_t i = 0; i < ob_commands_count; i++)
        if (strcmp(ob_commands[i].name, name) == 0)
            return &ob_commands[i];
    return NULL;
}

bool ob_command_takes(const struct ob_command *command, const struct ob_option *option)
{
    return option->global || (command && ob_word_listed(command->options, option->field));
}

/* ---- the nearest word -------------------------------------------------------------------------------------------- */

/* Words that other software uses, and ours. */
struct word {
    const char *others, *ours; /* others: separated by spaces */
};

static const char *translate(const struct word *words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (ob_word_listed(words[i].others, word))
            return words[i].ours;
    return NULL;
}

const char *ob_nearest_command(const char *name)
{
    static const struct word words[] = {
        {"enqueue publish put push emit add", "send"},
        {"serve start relay worker dispatch daemon deliver", "run"},
        {"ls messages find search query", "list"},
        {"get inspect describe view explain", "show"},
        {"requeue redrive revive", "retry"},
        {"replay resend republish again", "redeliver"},
        {"reroute transfer", "move"},
        {"unblock", "skip"},
        {"delete drop remove forget", "discard"},
        {"stop hold disable", "pause"},
        {"unpause continue enable", "resume"},
        {"check lint verify", "validate"},
        {"create setup install new", "init"},
        {"upgrade schema ddl", "migrate"},
        {"stats info queue top", "status"},
        {"set", "configure"},
        {"clean cleanup vacuum prune", "purge"},
        {"diagnose health ping test", "doctor"},
    };
    const char *ours = translate(words, sizeof words / sizeof words[0], name);
    struct ob_nearest near;
    if (ours)
        return ours;
    ob_nearest_init(&near, name);
    for (size_t i = 0; i < ob_commands_count; i++)
        ob_nearest_try(&near, ob_commands[i].name);
    return near.best;
}

const char *ob_nearest_option(const struct ob_command *command, const char *name)
{
    static const struct word words[] = {
        {"destination dest outlet target", "sink"},
        {"url uri dsn database db connection file", "store"},
        {"ns", "namespace"},
        {"event type", "topic"},
        {"state", "status"},
        {"count max number top n", "limit"},
        {"since offset page", "after"},
        {"until older-than", "before"},
        {"delay at in", "deliver-after"},
        {"ttl expire expires", "expires-at"},
        {"idempotency-key idempotency_key", "dedupe-key"},
        {"order-key partition-key", "key"},
        {"format output", "json"},
        {"silent", "quiet"},
        {"confirm assume-yes no-confirm", "yes"},
        {"who user", "actor"},
        {"why message comment", "reason"},
        {"once drain exit-when-empty", "until-empty"},
        {"example template", "sample"},
        {"secrets show-secrets", "reveal"},
        {"default unset", "reset"},
    };
    const char *ours = translate(words, sizeof words / sizeof words[0], name);
    struct ob_nearest near;
    for (size_t i = 0; ours && i < ob_options_count; i++)
        if (strcmp(ob_options[i].name, ours) == 0 && ob_command_takes(command, &ob_options[i]))
            return ours;
    ob_nearest_init(&near, name);
    for (size_t i = 0; i < ob_options_count; i++)
        if (ob_command_takes(command, &ob_options[i]))
            ob_nearest_try(&near, ob_options[i].name);
    return near.best;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static bool usage_error(const struct ob_args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool usage_error(const struct ob_args *args, const char *format, ...)
{
    const char *name = args->command ? args->command->name : "", *space = args->command ? " " : "";
    va_list list;
    char text[400];
    struct outbox_error err = {0};
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (args->json) {
        ob_error_set(&err, OUTBOX_INVALID, "%s; see: outbox %s%s--help", text, name, space);
        ob_say_error(args, &err);
    } else {
        fputs("outbox: ", stderr);
        ob_print_safe(stderr, text, strlen(text));
        fprintf(stderr, "\nSee: outbox %s%s--help\n", name, space);
    }
    return false;
}

static bool unknown_option(const struct ob_args *args, const char *name)
{
    const char *nearest = ob_nearest_option(args->command, name);
    if (nearest)
        return usage_error(args, "unknown option --%s; did you mean --%s?", name, nearest);
    return usage_error(args, "unknown option --%s", name);
}

static bool parse_int(const char *text, struct ob_int_arg *arg)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < INT_MIN || value > INT_MAX)
        return false;
    *arg = (struct ob_int_arg){true, (int)value};
    return true;
}

static bool set_option(struct ob_args *args, const struct ob_option *option, const char *value)
{
    void *field = (char *)args + option->offset;
    struct ob_list_arg *list = field;
    switch (option->kind) {
    case OB_OPTION_FLAG: *(bool *)field = true; return true;
    case OB_OPTION_TEXT: *(const char **)field = value; return true;
    case OB_OPTION_INT:
        return parse_int(value, field) ||
               usage_error(args, "--%s takes a whole number, not \"%s\"", option->name, value);
    case OB_OPTION_TIME:
        return ob_when_parse(value, ob_clock_wall_us(), field) ||
               usage_error(args, "--%s takes a time such as 2024-05-01T12:00:00Z, -1h or +30s, not \"%s\"",
                           option->name, value);
    case OB_OPTION_LIST:
        if (list->count == OB_ARGS_LIST_MAX)
            return usage_error(args, "--%s is given more than %d times", option->name, OB_ARGS_LIST_MAX);
        list->items[list->count++] = value;
        return true;
    }
    return false;
}

static const struct ob_option *find_option(const struct ob_command *command, const char *name, size_t len)
{
    for (size_t i = 0; i < ob_options_count; i++)
        if (strlen(ob_options[i].name) == len && memcmp(ob_options[i].name, name, len) == 0 &&
            ob_command_takes(command, &ob_options[i]))
            return &ob_options[i];
    return NULL;
}

/* Parses one word that begins with "--"; *used: the next word was its value. */
static bool parse_option(struct ob_args *args, const char *word, const char *next, bool *used)
{
    char name[64];
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), word);
    const struct ob_option *option = find_option(args->command, word, len);
    *used = false;
    if (!option)
        return unknown_option(args, name);
    if (option->kind == OB_OPTION_FLAG) {
        if (equals)
            return usage_error(args, "--%s takes no value", name);
        return set_option(args, option, NULL);
    }
    if (equals)
        return set_option(args, option, equals + 1);
    if (!next)
        return usage_error(args, "--%s needs a value: --%s %s", name, name, option->arg);
    *used = true;
    return set_option(args, option, next);
}

/* The command must be known first, wherever it is on the line, because the valid options depend on it. */
static bool find_command(struct ob_args *args, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            const struct ob_option *option =
                strncmp(argv[i], "--", 2) == 0 ? find_option(NULL, argv[i] + 2, strlen(argv[i] + 2)) : NULL;
            if (option && option->kind != OB_OPTION_FLAG)
                i++;
            continue;
        }
        args->command = ob_command_find(argv[i]);
        if (args->command) {
            argv[i] = NULL;
            return true;
        }
        const char *nearest = ob_nearest_command(argv[i]);
        if (nearest)
            return usage_error(args, "unknown command \"%s\"; did you mean \"%s\"?", argv[i], nearest);
        return usage_error(args, "unknown command \"%s\"", argv[i]);
    }
    return true;
}

static bool check_count(const struct ob_args *args)
{
    const struct ob_command *command = args->command;
    if (!command || args->help)
        return true;
    const char *space = *command->usage ? " " : "";
    if (args->rest_count < command->least)
        return usage_error(args, "missing argument: outbox %s%s%s", command->name, space, command->usage);
    if (command->most < 0 || args->rest_count <= command->most)
        return true;
    const char *word = args->rest[command->most], *option = ob_nearest_option(command, word);
    if (option && strcmp(option, word) == 0)
        return usage_error(args, "unexpected argument \"%s\"; did you mean --%s?", word, word);
    return usage_error(args, "unexpected argument \"%s\": outbox %s%s%s", word, command->name, space, command->usage);
}

/* Checked before everything else, so that usage errors are printed in the requested format. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

bool ob_args_parse(struct ob_args *args, int argc, char **argv)
{
    memset(args, 0, sizeof *args);
    args->rest = argv;
    args->json = wants_json(argc, argv);
    if (!find_command(args, argc, argv))
        return false;
    bool only_arguments = false;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        bool used = false;
        if (!word)
            continue;
        if (only_arguments || word[0] != '-' || !word[1])
            args->rest[args->rest_count++] = word;
        else if (strcmp(word, "--") == 0)
            only_arguments = true;
        else if (strcmp(word, "-h") == 0)
            args->help = true;
        else if (word[1] != '-')
            return usage_error(args, "unknown option %s; options begin with two dashes", word);
        else if (!parse_option(args, word + 2, i + 1 < argc ? argv[i + 1] : NULL, &used))
            return false;
        i += used;
    }
    return check_count(args);
}
