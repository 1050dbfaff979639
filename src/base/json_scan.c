/* json_scan.c - see json_scan.h. */
#include "base/json_scan.h"

#include <stdbool.h>

const char *ob_json_skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

static bool take(const char **at, const char *end, char c)
{
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

static size_t take_digits(const char **at, const char *end)
{
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9')
        ++*at;
    return (size_t)(*at - start);
}

enum ob_json_number ob_json_scan_number(const char **at, const char *end, struct ob_json_digits *digits)
{
    *digits = (struct ob_json_digits){0, 0, 0};
    take(at, end, '-');
    if (take(at, end, '0')) {
        digits->whole = 1;
        if (*at < end && **at >= '0' && **at <= '9')
            return OB_JSON_NUMBER_LEADING_ZERO;
    } else if ((digits->whole = take_digits(at, end)) == 0) {
        return OB_JSON_NUMBER_NO_DIGIT;
    }
    if (take(at, end, '.') && (digits->fraction = take_digits(at, end)) == 0)
        return OB_JSON_NUMBER_NO_DIGIT;
    if (take(at, end, 'e') || take(at, end, 'E')) {
        if (!take(at, end, '-'))
            take(at, end, '+');
        if ((digits->exponent = take_digits(at, end)) == 0)
            return OB_JSON_NUMBER_NO_DIGIT;
    }
    return OB_JSON_NUMBER_OK;
}

long ob_json_scan_hex(const char **at, const char *end)
{
    long value = 0;
    if (end - *at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = (*at)[i], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + c - '0';
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + low - 'a' + 10;
        else
            return -1;
    }
    *at += 4;
    return value;
}
