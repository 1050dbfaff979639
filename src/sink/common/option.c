/* option.c - see option.h. */
#include "sink/common/option.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ob_option_text(const struct ob_options *options, const char *name)
{
    for (size_t i = options->count; i-- > 0;)
        if (strcmp(options->at[i].name, name) == 0)
            return options->at[i].value;
    return NULL;
}

const char *ob_option_text_or(const struct ob_options *options, const char *name, const char *fallback)
{
    const char *text = ob_option_text(options, name);
    return text ? text : fallback;
}

int64_t ob_option_int(const struct ob_options *options, const char *name, int64_t fallback)
{
    const char *text = ob_option_text(options, name);
    return text ? strtoll(text, NULL, 10) : fallback;
}

bool ob_option_bool(const struct ob_options *options, const char *name, bool fallback)
{
    const char *text = ob_option_text(options, name);
    return text ? strcmp(text, "true") == 0 : fallback;
}

enum outbox_code ob_option_keep(const struct ob_options *options, const char *name, struct ob_arena *arena,
                                const char **text, struct outbox_error *err)
{
    const char *given = ob_option_text(options, name);
    *text = NULL;
    if (!given || !*given)
        return OUTBOX_OK;
    *text = ob_arena_strdup(arena, given);
    return *text ? OUTBOX_OK : ob_error_nomem(err);
}

enum outbox_code ob_option_keep_file(const struct ob_options *options, const char *name, struct ob_arena *arena,
                                     const char **text, struct outbox_error *err)
{
    enum outbox_code code = ob_option_keep(options, name, arena, text, err);
    if (!code && *text && access(*text, R_OK) != 0)
        code = ob_error_set(err, OUTBOX_INVALID, "%s: the file %s cannot be read", name, *text);
    return code;
}

const char *ob_option_next(const struct ob_options *options, const char *name, size_t *i)
{
    while (*i < options->count) {
        const struct outbox_sink_option *option = &options->at[(*i)++];
        if (strcmp(option->name, name) == 0)
            return option->value;
    }
    return NULL;
}

size_t ob_option_count(const struct ob_options *options, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; ob_option_next(options, name, &i);)
        count++;
    return count;
}

const char *ob_option_below(const struct ob_options *options, const char *name, size_t *i, const char **key)
{
    size_t len = strlen(name);
    while (*i < options->count) {
        const struct outbox_sink_option *option = &options->at[(*i)++];
        if (strncmp(option->name, name, len) == 0 && option->name[len] == '.') {
            *key = option->name + len + 1;
            return option->value;
        }
    }
    return NULL;
}
