/* format_time.c - dates and times of RFC 3339, durations of its appendix A. */
#include "jsonschema/format.h"

#include <string.h>

struct cursor {
    const char *at, *end;
};

static bool take(struct cursor *cursor, char c)
{
    if (cursor->at == cursor->end || *cursor->at != c)
        return false;
    cursor->at++;
    return true;
}

static bool is_digit(const struct cursor *cursor)
{
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

/* Reads exactly `digits` digits. */
static bool number(struct cursor *cursor, int digits, int *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++) {
        if (!is_digit(cursor))
            return false;
        *value = *value * 10 + (*cursor->at++ - '0');
    }
    return true;
}

static bool date(struct cursor *cursor)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!number(cursor, 4, &year) || !take(cursor, '-') || !number(cursor, 2, &month) || !take(cursor, '-') ||
        !number(cursor, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1)
        return false;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + leap;
}

/* In minutes east of UTC. */
static bool offset(struct cursor *cursor, int *minutes)
{
    int hour, minute;
    *minutes = 0;
    if (take(cursor, 'Z') || take(cursor, 'z'))
        return true;
    bool east = take(cursor, '+');
    if (!east && !take(cursor, '-'))
        return false;
    if (!number(cursor, 2, &hour) || !take(cursor, ':') || !number(cursor, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *minutes = (east ? 1 : -1) * (hour * 60 + minute);
    return true;
}

static bool time_of_day(struct cursor *cursor)
{
    int hour, minute, second, east;
    if (!number(cursor, 2, &hour) || !take(cursor, ':') || !number(cursor, 2, &minute) || !take(cursor, ':') ||
        !number(cursor, 2, &second) || hour > 23 || minute > 59 || second > 60)
        return false;
    if (take(cursor, '.')) {
        if (!is_digit(cursor))
            return false;
        while (is_digit(cursor))
            cursor->at++;
    }
    if (!offset(cursor, &east))
        return false;
    /* A leap second is valid only at the end of a day in UTC. */
    return second < 60 || (hour * 60 + minute - east + 2 * 1440) % 1440 == 1439;
}

bool ob_format_date(struct ob_text text)
{
    struct cursor cursor = {text.data, text.data + text.len};
    return date(&cursor) && cursor.at == cursor.end;
}

bool ob_format_time(struct ob_text text)
{
    struct cursor cursor = {text.data, text.data + text.len};
    return time_of_day(&cursor) && cursor.at == cursor.end;
}

bool ob_format_date_time(struct ob_text text)
{
    struct cursor cursor = {text.data, text.data + text.len};
    return date(&cursor) && (take(&cursor, 'T') || take(&cursor, 't')) && time_of_day(&cursor) &&
           cursor.at == cursor.end;
}

/* Numbers with consecutive units: 1Y2M is valid, 1Y2D is not. Counts them. */
static bool units(struct cursor *cursor, const char *order, int *count)
{
    const char *next = order;
    *count = 0;
    while (is_digit(cursor)) {
        while (is_digit(cursor))
            cursor->at++;
        const char *unit = cursor->at < cursor->end && *cursor->at ? strchr(next, *cursor->at) : NULL;
        if (!unit || (*count > 0 && unit != next))
            return false;
        next = unit + 1;
        cursor->at++;
        ++*count;
    }
    return true;
}

bool ob_format_duration(struct ob_text text)
{
    struct cursor cursor = {text.data, text.data + text.len};
    int days, times = 0;
    if (!take(&cursor, 'P'))
        return false;
    const char *last = text.data + text.len - 1;
    if (*last == 'W')
        return units(&cursor, "W", &days) && days == 1 && cursor.at == cursor.end;
    if (!units(&cursor, "YMD", &days))
        return false;
    if (take(&cursor, 'T') && (!units(&cursor, "HMS", &times) || times == 0))
        return false;
    return days + times > 0 && cursor.at == cursor.end;
}
