/* tuning.c - reads names and values of run-time settings. The function tune in sql/postgres/012_relay.sql accepts the same. */
#include "core/tuning.h"

#include "base/error.h"
#include "base/limits.h"
#include "core/names.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name; /* for a setting of a sink: the part after the sink's name */
    bool of_sink;
    int64_t low, high;
    const char *takes;
} kinds[] = {
    [OB_TUNE_POLL] = {"poll", false, OB_LEAST(poll), OB_MOST(poll), "10ms to 1h, e.g. 500ms"},
    [OB_TUNE_BATCH] = {"batch", false, OB_LEAST(claim), OB_MOST(claim), "1 to 10000"},
    [OB_TUNE_ENABLED] = {"enabled", false, 0, 1, "on or off"},
    [OB_TUNE_RATE] = {".rate", true, 1, 999999999, "a rate such as 100/s, 600/m or 5000/h, or off"},
    [OB_TUNE_CONCURRENCY] = {".concurrency", true, OB_LEAST(concurrency), OB_MOST(concurrency), "1 to 100000"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char prefix[] = "sink.";

/* Finds the name of a sink between the prefix and the setting; false when there is none, or an invalid one. */
static bool read_sink(const char *name, const char *setting, char sink[OB_TUNING_SINK])
{
    size_t len = strlen(name), before = sizeof prefix - 1, after = strlen(setting);
    if (len <= before + after || strncmp(name, prefix, before) != 0 || strcmp(name + len - after, setting) != 0)
        return false;
    len -= before + after;
    if (len >= OB_TUNING_SINK)
        return false;
    memcpy(sink, name + before, len);
    sink[len] = '\0';
    return ob_name_is_sink(sink);
}

static bool read_name(const char *name, struct ob_tuning *tuning)
{
    for (size_t i = 0; i < KINDS; i++) {
        tuning->kind = (enum ob_tuning_kind)i;
        if (kinds[i].of_sink ? read_sink(name, kinds[i].name, tuning->sink) : strcmp(name, kinds[i].name) == 0)
            return true;
    }
    return false;
}

/* One to nine digits; *end is what follows them. */
static bool read_digits(const char *text, int64_t *number, const char **end)
{
    size_t len = strspn(text, "0123456789");
    *number = 0;
    for (size_t i = 0; i < len && len <= 9; i++)
        *number = 10 * *number + (text[i] - '0');
    *end = text + len;
    return len >= 1 && len <= 9;
}

static int64_t unit_us(const char *text)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", 3600000000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text, units[i].name) == 0)
            return units[i].us;
    return 0;
}

/* All values fit: the input is shorter than the buffer, and its replacement is shorter still. */
static void put_text(char text[OB_TUNING_TEXT], size_t at, const char *more)
{
    size_t len = strlen(more);
    assert(at + len < OB_TUNING_TEXT);
    memcpy(text + at, more, len + 1);
}

static bool read_switch(const char *value, struct ob_tuning *tuning)
{
    static const char *const words[2][4] = {{"off", "false", "no", "0"}, {"on", "true", "yes", "1"}};
    for (int on = 0; on < 2; on++)
        for (size_t i = 0; i < 4; i++)
            if (strcmp(words[on][i], value) == 0) {
                tuning->number = on;
                put_text(tuning->value, 0, words[on][0]);
                return true;
            }
    return false;
}

static bool read_rate(const char *value, struct ob_tuning *tuning)
{
    const char *end;
    if (strcmp(value, "off") == 0)
        return true;
    if (!read_digits(value, &tuning->number, &end) || tuning->number < 1)
        return false;
    if (!*end)
        put_text(tuning->value, strlen(value), "/s"); /* at most nine digits before it */
    tuning->period_us = !*end ? 1000000 : *end == '/' && strcmp(end, "/ms") != 0 ? unit_us(end + 1) : 0;
    return tuning->period_us != 0;
}

static bool read_value(const char *value, struct ob_tuning *tuning)
{
    const char *end;
    if (strlen(value) >= sizeof tuning->value)
        return false;
    put_text(tuning->value, 0, value);
    for (char *c = tuning->value; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    char text[OB_TUNING_TEXT];
    put_text(text, 0, tuning->value);
    switch (tuning->kind) {
    case OB_TUNE_ENABLED: return read_switch(text, tuning);
    case OB_TUNE_RATE: return read_rate(text, tuning);
    case OB_TUNE_POLL:
        if (!read_digits(text, &tuning->number, &end))
            return false;
        tuning->number *= unit_us(end);
        break;
    case OB_TUNE_BATCH:
    case OB_TUNE_CONCURRENCY:
        if (!read_digits(text, &tuning->number, &end) || *end)
            return false;
        break;
    }
    return tuning->number >= kinds[tuning->kind].low && tuning->number <= kinds[tuning->kind].high;
}

enum outbox_code ob_tuning_parse(const char *name, const char *value, struct ob_tuning *tuning,
                                 struct outbox_error *err)
{
    memset(tuning, 0, sizeof *tuning);
    if (!name || !read_name(name, tuning))
        return ob_error_set(err, OUTBOX_INVALID,
                            "unknown setting \"%.64s\"; the settings are poll, batch, enabled, sink.NAME.rate, "
                            "sink.NAME.concurrency",
                            name ? name : "");
    if (value && !read_value(value, tuning))
        return ob_error_set(err, OUTBOX_INVALID, "the setting \"%.100s\" does not take \"%.64s\"; it takes %s", name,
                            value, kinds[tuning->kind].takes);
    return OUTBOX_OK;
}
