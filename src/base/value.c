/* value.c - see value.h. All arithmetic is checked for overflow: a value that does not fit is refused. */
#include "base/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    int64_t factor;
};

static const int64_t second = 1000000;

static const struct unit times[] = {{"us", 1},
                                    {"ms", 1000},
                                    {"s", 1000000},
                                    {"m", 60 * INT64_C(1000000)},
                                    {"min", 60 * INT64_C(1000000)},
                                    {"h", 3600 * INT64_C(1000000)},
                                    {"d", 86400 * INT64_C(1000000)},
                                    {NULL, 0}};
static const struct unit sizes[] = {{"", 1},          {"B", 1},           {"kB", 1000},     {"KB", 1000},
                                    {"MB", 1000000},  {"GB", 1000000000}, {"KiB", 1 << 10}, {"MiB", 1 << 20},
                                    {"GiB", 1 << 30}, {NULL, 0}};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads a number and its unit at *text and advances it. Fractions must be exact: "0.5us" is refused. */
static bool take(const char **text, const struct unit *units, int64_t *value)
{
    const char *c = *text;
    int64_t number = 0, scale = 1;
    if (!digit(*c))
        return false;
    for (bool fraction = false; digit(*c) || (*c == '.' && !fraction && digit(c[1])); c++) {
        if (*c == '.') {
            fraction = true;
            continue;
        }
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *c - '0', &number) ||
            (fraction && __builtin_mul_overflow(scale, 10, &scale)))
            return false;
    }
    size_t len = strspn(c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (; units->name; units++)
        if (strlen(units->name) == len && memcmp(units->name, c, len) == 0)
            break;
    if (!units->name || __builtin_mul_overflow(number, units->factor, &number) || number % scale != 0)
        return false;
    *value = number / scale;
    *text = c + len;
    return true;
}

bool ob_value_int(const char *text, int64_t *value)
{
    bool negative = *text == '-';
    int64_t number = 0;
    text += negative;
    if (!digit(*text))
        return false;
    for (; digit(*text); text++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number))
            return false;
    if (*text)
        return false;
    *value = negative ? -number : number;
    return true;
}

bool ob_value_bool(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *value = i % 2;
            return true;
        }
    return false;
}

bool ob_value_duration(const char *text, int64_t *us)
{
    int64_t sum = 0, part;
    if (strcmp(text, "0") == 0) {
        *us = 0;
        return true;
    }
    do {
        if (!take(&text, times, &part) || __builtin_add_overflow(sum, part, &sum))
            return false;
    } while (*text);
    *us = sum;
    return true;
}

bool ob_value_size(const char *text, int64_t *bytes)
{
    int64_t value;
    if (!take(&text, sizes, &value) || *text)
        return false;
    *bytes = value;
    return true;
}

bool ob_value_ratio(const char *text, int64_t *millionths)
{
    static const struct unit parts[] = {{"", 1000000}, {NULL, 0}};
    int64_t value;
    if (!take(&text, parts, &value))
        return false;
    if (*text == '%') {
        value /= 100;
        text++;
    }
    if (*text || value > 1000000)
        return false;
    *millionths = value;
    return true;
}

void ob_value_ratio_text(int64_t millionths, char text[OB_VALUE_TEXT])
{
    size_t len =
        (size_t)snprintf(text, OB_VALUE_TEXT, "%" PRId64 ".%06" PRId64, millionths / 1000000, millionths % 1000000);
    while (text[len - 1] == '0')
        text[--len] = '\0';
    if (text[len - 1] == '.')
        text[len - 1] = '\0';
}

bool ob_value_rate(const char *text, int64_t *count, int64_t *period_us)
{
    char number[24], period[32];
    const char *slash = strchr(text, '/');
    int64_t n, us;
    if (strcmp(text, "0") == 0 || strcmp(text, "none") == 0) {
        *count = 0;
        *period_us = second;
        return true;
    }
    if (!slash || (size_t)(slash - text) >= sizeof number || strlen(slash + 1) + 2 > sizeof period)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(slash - text), text);
    snprintf(period, sizeof period, "%s%s", digit(slash[1]) ? "" : "1", slash + 1);
    if (!ob_value_int(number, &n) || n < 1 || !ob_value_duration(period, &us) || us < 1)
        return false;
    *count = n;
    *period_us = us;
    return true;
}

static void put_exact(int64_t value, const struct unit *units, char text[OB_VALUE_TEXT])
{
    const struct unit *best = units;
    for (const struct unit *unit = units; unit->name; unit++)
        if (unit->factor > best->factor && value % unit->factor == 0)
            best = unit;
    snprintf(text, OB_VALUE_TEXT, "%" PRId64 "%s", value / best->factor, best->name);
}

void ob_value_duration_text(int64_t us, char text[OB_VALUE_TEXT])
{
    if (us == 0)
        snprintf(text, OB_VALUE_TEXT, "0");
    else
        put_exact(us, times, text);
}

void ob_value_size_text(int64_t bytes, char text[OB_VALUE_TEXT])
{
    static const struct unit binary[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};
    if (bytes == 0)
        snprintf(text, OB_VALUE_TEXT, "0");
    else
        put_exact(bytes, binary, text);
}
