/* setting.c - see setting.h. */
#include "setting.h"

#include "base/error.h"
#include "base/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct outbox_sink_setting *ob_setting_find(const struct outbox_sink_setting *table, const char *name)
{
    for (; table && table->name; table++) {
        size_t len = strlen(table->name);
        if (strcmp(table->name, name) == 0 && table->type != OUTBOX_OPTION_MAP)
            return table;
        if (table->type == OUTBOX_OPTION_MAP && strncmp(table->name, name, len) == 0 && name[len] == '.' &&
            name[len + 1])
            return table;
    }
    return NULL;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = choices; len && at && (at = strstr(at, text)); at += len)
        if ((at == choices || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' '))
            return true;
    return false;
}

static enum outbox_code wrong(const struct outbox_sink_setting *setting, const char *text, const char *must,
                              struct outbox_error *err)
{
    if (setting->secret)
        return ob_error_set(err, OUTBOX_INVALID, "%s must be %s", setting->name, must);
    return ob_error_set(err, OUTBOX_INVALID, "%s is \"%.80s\", but must be %s", setting->name, text, must);
}

static enum outbox_code number_value(const struct outbox_sink_setting *setting, const char *text,
                                     struct ob_arena *arena, const char **value, struct outbox_error *err)
{
    int64_t number = 0;
    char digits[32], range[96];
    bool ok = false;
    const char *must = "a whole number";
    if (setting->type == OUTBOX_OPTION_INT)
        ok = ob_value_int(text, &number);
    else if (setting->type == OUTBOX_OPTION_DURATION)
        ok = ob_value_duration(text, &number), must = "a duration such as 250ms, 10s or 5m";
    else
        ok = ob_value_size(text, &number), must = "a size such as 512, 64KiB or 1MiB";
    if (!ok)
        return wrong(setting, text, must, err);
    if ((setting->least || setting->most) && (number < setting->least || number > setting->most)) {
        const char *unit = setting->type == OUTBOX_OPTION_DURATION ? " microseconds"
                           : setting->type == OUTBOX_OPTION_SIZE   ? " bytes"
                                                                   : "";
        snprintf(range, sizeof range, "from %" PRId64 " to %" PRId64 "%s", setting->least, setting->most, unit);
        return wrong(setting, text, range, err);
    }
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);
    *value = ob_arena_memdup(arena, digits, (size_t)len);
    return *value ? OUTBOX_OK : ob_error_nomem(err);
}

enum outbox_code ob_setting_value(const struct outbox_sink_setting *setting, const char *text, struct ob_arena *arena,
                                  const char **value, struct outbox_error *err)
{
    char must[256];
    bool flag;
    *value = text;
    switch (setting->type) {
    case OUTBOX_OPTION_INT:
    case OUTBOX_OPTION_DURATION:
    case OUTBOX_OPTION_SIZE: return number_value(setting, text, arena, value, err);
    case OUTBOX_OPTION_BOOL:
        if (!ob_value_bool(text, &flag))
            return wrong(setting, text, "true or false", err);
        *value = flag ? "true" : "false";
        return OUTBOX_OK;
    case OUTBOX_OPTION_ENUM:
        if (is_choice(setting->choices, text))
            return OUTBOX_OK;
        snprintf(must, sizeof must, "one of: %s", setting->choices);
        return wrong(setting, text, must, err);
    case OUTBOX_OPTION_FILE:
    case OUTBOX_OPTION_TEXT:
    case OUTBOX_OPTION_LIST:
    case OUTBOX_OPTION_MAP: return OUTBOX_OK;
    }
    return OUTBOX_OK;
}

static bool was_given(const struct outbox_sink_option *given, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(given[i].name, name) == 0)
            return true;
    return false;
}

enum outbox_code ob_settings_complete(const struct outbox_sink_setting *table, const struct outbox_sink_option *given,
                                      size_t given_count, struct ob_arena *arena,
                                      const struct outbox_sink_option **options, size_t *count,
                                      struct outbox_error *err)
{
    *options = given;
    *count = given_count;
    if (!table)
        return OUTBOX_OK;
    size_t rows = 0;
    while (table[rows].name)
        rows++;
    struct outbox_sink_option *out = ob_arena_calloc(arena, given_count + rows + 1, sizeof *out);
    if (!out)
        return ob_error_nomem(err);
    size_t used = 0;
    enum outbox_code code = OUTBOX_OK;
    for (size_t i = 0; i < given_count && !code; i++) {
        const struct outbox_sink_setting *setting = ob_setting_find(table, given[i].name);
        if (!setting)
            return ob_error_set(err, OUTBOX_INVALID, "there is no setting \"%s\"", given[i].name);
        out[used].name = given[i].name;
        code = ob_setting_value(setting, given[i].value, arena, &out[used++].value, err);
    }
    for (size_t i = 0; i < rows && !code; i++) {
        if (table[i].type == OUTBOX_OPTION_MAP || was_given(given, given_count, table[i].name))
            continue;
        if (table[i].required)
            return ob_error_set(err, OUTBOX_INVALID, "%s is missing: %s", table[i].name, table[i].doc);
        if (!table[i].fallback)
            continue;
        out[used].name = table[i].name;
        code = ob_setting_value(&table[i], table[i].fallback, arena, &out[used++].value, err);
    }
    *options = out;
    *count = used;
    return code;
}
