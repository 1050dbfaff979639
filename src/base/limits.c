/* limits.c - see limits.h. */
#include "base/limits.h"

#include <stdio.h>

enum unit { BYTES, CHARACTERS, COUNT, TIME };

static const struct {
    int64_t least, most;
    enum unit unit;
} limits[] = {
#define LIMIT(name, least, most, unit, what) [OB_LIMIT_##name] = {least, most, unit},
#include "limits.def"
#undef LIMIT
};

bool ob_limit_allows(enum ob_limit limit, int64_t value)
{
    return value >= limits[limit].least && value <= limits[limit].most;
}

int64_t ob_limit_least(enum ob_limit limit)
{
    return limits[limit].least;
}

int64_t ob_limit_most(enum ob_limit limit)
{
    return limits[limit].most;
}

/* The largest unit that leaves a whole number. tools/embed-sql writes times in the same way. */
static void write_time(int64_t us, char *text, size_t size)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"days", 86400000000}, {"h", 3600000000}, {"min", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}};
    size_t i = 0;
    while (us % units[i].us || us < units[i].us * (i == 0 ? 2 : 1))
        i++;
    snprintf(text, size, "%lld %s", (long long)(us / units[i].us), units[i].name);
}

const char *ob_limit_range(enum ob_limit limit, char text[64])
{
    static const char *const names[] = {[BYTES] = " bytes", [CHARACTERS] = " characters", [COUNT] = ""};
    char low[24], high[24];
    if (limits[limit].unit == TIME && limits[limit].least > 0) {
        write_time(limits[limit].least, low, sizeof low);
        write_time(limits[limit].most, high, sizeof high);
        snprintf(text, 64, "%s to %s", low, high);
    } else if (limits[limit].unit == TIME) {
        write_time(limits[limit].most, high, sizeof high);
        snprintf(text, 64, "up to %s", high);
    } else {
        snprintf(text, 64, "%lld to %lld%s", (long long)limits[limit].least, (long long)limits[limit].most,
                 names[limits[limit].unit]);
    }
    return text;
}

enum outbox_code ob_limit_check(enum ob_limit limit, const char *name, int64_t value, struct outbox_error *err)
{
    char range[64];
    if (ob_limit_allows(limit, value))
        return OUTBOX_OK;
    ob_limit_range(limit, range);
    if (limits[limit].unit == TIME)
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is %lld us; it takes %s", name, (long long)value, range);
    if (limits[limit].unit == BYTES)
        return ob_error_set(err, OUTBOX_INVALID, "\"%s\" has %lld bytes; it takes %s", name, (long long)value, range);
    return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is %lld; it takes %s", name, (long long)value, range);
}
