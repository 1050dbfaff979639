/* when.c - times as users type them: RFC 3339 with a zone, or a signed number with a unit, relative to now. */
#include "base/when.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND 1000000LL

static bool parse_relative(const char *text, int64_t now_us, int64_t *unix_us)
{
    static const struct {
        const char *unit;
        int64_t us;
    } units[] = {{"ms", 1000},         {"s", SECOND},        {"m", 60 * SECOND},
                 {"min", 60 * SECOND}, {"h", 3600 * SECOND}, {"d", 86400 * SECOND}};
    char *end;
    if (!isdigit((unsigned char)text[1]))
        return false;
    long number = strtol(text + 1, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        if (number > INT_MAX || number > 100LL * 365 * 86400 * SECOND / units[i].us)
            return false;
        *unix_us = now_us + (text[0] == '-' ? -number : number) * units[i].us;
        return true;
    }
    return false;
}

/* Exactly `width` digits. */
static bool digits(const char **text, int width, int *value)
{
    *value = 0;
    for (; width > 0; width--, (*text)++) {
        if (!isdigit((unsigned char)**text))
            return false;
        *value = *value * 10 + (**text - '0');
    }
    return true;
}

static bool letter(const char **text, const char *any)
{
    if (!**text || !strchr(any, **text))
        return false;
    (*text)++;
    return true;
}

static bool parse_zone(const char **text, int *seconds)
{
    int hours, minutes, sign = **text == '-' ? -1 : 1;
    *seconds = 0;
    if (letter(text, "Zz"))
        return true;
    if (!letter(text, "+-") || !digits(text, 2, &hours))
        return false;
    letter(text, ":");
    if (!digits(text, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool parse_rfc3339(const char *text, int64_t *unix_us)
{
    struct tm tm = {0};
    int zone, year, month, us = 0, scale = 100000;
    if (!digits(&text, 4, &year) || !letter(&text, "-") || !digits(&text, 2, &month) || !letter(&text, "-") ||
        !digits(&text, 2, &tm.tm_mday) || !letter(&text, "Tt ") || !digits(&text, 2, &tm.tm_hour) ||
        !letter(&text, ":") || !digits(&text, 2, &tm.tm_min))
        return false;
    if (letter(&text, ":") && !digits(&text, 2, &tm.tm_sec))
        return false;
    if (letter(&text, "."))
        for (; isdigit((unsigned char)*text); text++, scale /= 10)
            us += (*text - '0') * scale;
    if (!parse_zone(&text, &zone) || *text)
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    struct tm normal = tm;
    time_t seconds = timegm(&normal);
    /* timegm turns 31 February into 3 March; refuse such dates. */
    if (normal.tm_mday != tm.tm_mday || normal.tm_mon != tm.tm_mon || normal.tm_hour != tm.tm_hour ||
        normal.tm_min != tm.tm_min)
        return false;
    *unix_us = ((int64_t)seconds - zone) * SECOND + us;
    return *unix_us > 0;
}

bool ob_when_parse(const char *text, int64_t now_us, int64_t *unix_us)
{
    if (text[0] == '+' || text[0] == '-')
        return parse_relative(text, now_us, unix_us) && *unix_us > 0;
    return parse_rfc3339(text, unix_us);
}

bool ob_when_to_come(const char *text, int64_t now_us, int64_t *unix_us)
{
    char relative[32];
    if (!isdigit((unsigned char)text[0]) || strchr(text, '-'))
        return ob_when_parse(text, now_us, unix_us);
    snprintf(relative, sizeof relative, "+%.30s", text);
    return strlen(text) <= 30 && ob_when_parse(relative, now_us, unix_us);
}
