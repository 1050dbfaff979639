/* option.c - see option.h. */
#include "sink/common/option.h"

#include "base/error.h"
#include "base/value.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct outbox_sink_setting *row_of(const struct ob_options *options, const char *name)
{
    for (const struct outbox_sink_setting *row = options->settings; row && row->name; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

bool ob_option_known(const struct ob_options *options, const char *name)
{
    return row_of(options, name) != NULL;
}

static const char *given(const struct ob_options *options, const char *name)
{
    for (size_t i = options->count; i-- > 0;)
        if (strcmp(options->at[i].name, name) == 0)
            return options->at[i].value;
    return NULL;
}

/* The default as a user would write it; NULL: none. */
static const struct outbox_sink_setting *default_of(const struct ob_options *options, const char *name)
{
    const struct outbox_sink_setting *row = row_of(options, name);
    assert(row);
    return row && row->fallback ? row : NULL;
}

const char *ob_option_text(const struct ob_options *options, const char *name)
{
    const char *text = given(options, name);
    const struct outbox_sink_setting *row = default_of(options, name);
    return text ? text : row ? row->fallback : NULL;
}

const char *ob_option_string(const struct ob_options *options, const char *name)
{
    const char *text = ob_option_text(options, name);
    return text ? text : "";
}

bool ob_option_is(const struct ob_options *options, const char *name, const char *word)
{
    return strcmp(ob_option_string(options, name), word) == 0;
}

int64_t ob_option_int(const struct ob_options *options, const char *name)
{
    const char *text = given(options, name);
    const struct outbox_sink_setting *row = default_of(options, name);
    int64_t number = 0;
    if (text)
        return strtoll(text, NULL, 10);
    bool ok = !row                                  ? true
              : row->type == OUTBOX_OPTION_DURATION ? ob_value_duration(row->fallback, &number)
              : row->type == OUTBOX_OPTION_SIZE     ? ob_value_size(row->fallback, &number)
                                                    : ob_value_int(row->fallback, &number);
    assert(ok);
    return ok ? number : 0;
}

bool ob_option_bool(const struct ob_options *options, const char *name)
{
    return ob_option_is(options, name, "true");
}

enum outbox_code ob_option_keep(const struct ob_options *options, const char *name, struct ob_arena *arena,
                                const char **text, struct outbox_error *err)
{
    const char *value = ob_option_string(options, name);
    *text = NULL;
    if (!*value)
        return OUTBOX_OK;
    *text = ob_arena_strdup(arena, value);
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
