/* check.c - checks and converts what callers pass in: text, tenants, intervals, lists. */
#include "store/sqlite/sqlite.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

ob_code ob_sqlite_check_utf8(const char *name, const char *text, struct outbox_error *err)
{
    if (text && !ob_utf8_valid(text, strlen(text)))
        return ob_error_set(err, OUTBOX_INVALID, "%s is not valid UTF-8", name);
    return OUTBOX_OK;
}

ob_code ob_sqlite_check_tenant(const char *given, char text[37], const char **tenant, struct outbox_error *err)
{
    struct outbox_uuid id;
    *tenant = NULL;
    if (!given)
        return OUTBOX_OK;
    if (!outbox_uuid_parse(given, &id))
        return ob_error_set(err, OUTBOX_INVALID, "tenant_id is \"%.64s\", which is not a uuid", given);
    outbox_uuid_format(&id, text);
    *tenant = text;
    return OUTBOX_OK;
}

const char *ob_sqlite_lossy(struct ob_arena *arena, const char *text, size_t max)
{
    static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */
    if (!text)
        return NULL;
    size_t len = strnlen(text, 4 * max + 4), put = 0;
    if (len <= max && ob_utf8_valid(text, len))
        return text;
    char *out = ob_arena_alloc(arena, 3 * len + 1);
    if (!out)
        return NULL;
    for (size_t i = 0; i < len && max > 0; max--) {
        size_t width = ob_utf8_width(text + i, len - i);
        size_t wide = width ? width : sizeof unknown - 1;
        memcpy(out + put, width ? text + i : unknown, wide);
        put += wide;
        i += width ? width : 1;
    }
    out[put] = '\0';
    return out;
}

static const struct {
    const char *name;
    int64_t us;
} units[] = {
    {"us", 1},
    {"ms", 1000},
    {"s", 1000000},
    {"sec", 1000000},
    {"second", 1000000},
    {"seconds", 1000000},
    {"m", 60000000},
    {"min", 60000000},
    {"minute", 60000000},
    {"minutes", 60000000},
    {"h", 3600000000},
    {"hour", 3600000000},
    {"hours", 3600000000},
    {"d", 86400000000},
    {"day", 86400000000},
    {"days", 86400000000},
    {"week", 604800000000},
    {"weeks", 604800000000},
};

static int64_t unit_of(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, text, len) == 0)
            return units[i].us;
    return 0;
}

bool ob_sqlite_interval(const char *text, int64_t *us)
{
    static const double most = 3.2e17; /* ten thousand years */
    double sum = 0;
    if (strcmp(text, "forever") == 0) {
        *us = -1;
        return true;
    }
    text += strspn(text, " ");
    if (!*text)
        return false;
    while (*text) {
        char *end;
        if (*text < '0' || *text > '9') /* strtod would accept "nan", "0x1" and signs */
            return false;
        double number = strtod(text, &end);
        end += strspn(end, " ");
        size_t len = strspn(end, "abcdefghijklmnopqrstuvwxyz");
        int64_t unit = unit_of(end, len);
        sum += number * (double)unit;
        if (!unit || !(sum <= most))
            return false;
        text = end + len;
        text += strspn(text, " ");
    }
    *us = (int64_t)(sum + 0.5);
    return true;
}

void ob_sqlite_json_texts(struct ob_buf *buf, const char *const *texts, size_t count)
{
    struct ob_json json;
    ob_json_init(&json, buf);
    ob_json_array(&json);
    for (size_t i = 0; i < count; i++)
        ob_json_string(&json, texts[i]);
    ob_json_end(&json);
}

void ob_sqlite_json_lanes(struct ob_buf *buf, const struct outbox_lane *lanes, size_t count)
{
    struct ob_json json;
    ob_json_init(&json, buf);
    ob_json_array(&json);
    for (size_t i = 0; i < count; i++) {
        ob_json_array(&json);
        ob_json_string(&json, lanes[i].name_space);
        ob_json_string(&json, lanes[i].topic);
        ob_json_end(&json);
    }
    ob_json_end(&json);
}

/* Puts escaped characters and brackets into brackets, so that GLOB takes them literally. */
static void json_glob(struct ob_json *json, const char *glob)
{
    struct ob_buf text = OB_BUF_INIT;
    for (const char *c = glob ? glob : "*"; *c; c++) {
        bool plain = *c == '\\' && c[1];
        c += plain;
        if (plain || *c == '[')
            ob_buf_printf(&text, "[%c]", *c);
        else
            ob_buf_putc(&text, *c);
    }
    ob_json_string(json, ob_buf_text(&text));
    json->buf->failed |= !ob_buf_ok(&text);
    ob_buf_fini(&text);
}

void ob_sqlite_json_rules(struct ob_buf *buf, const struct outbox_lane_rule *rules, size_t count)
{
    struct ob_json json;
    ob_json_init(&json, buf);
    ob_json_array(&json);
    for (size_t i = 0; i < count; i++) {
        ob_json_array(&json);
        json_glob(&json, rules[i].name_space);
        json_glob(&json, rules[i].topic);
        ob_json_int(&json, rules[i].skip);
        ob_json_end(&json);
    }
    ob_json_end(&json);
}

void ob_sqlite_json_ids(struct ob_buf *buf, const struct outbox_uuid *ids, size_t count)
{
    struct ob_json json;
    char text[37];
    ob_json_init(&json, buf);
    ob_json_array(&json);
    for (size_t i = 0; i < count; i++) {
        outbox_uuid_format(&ids[i], text);
        ob_json_string(&json, text);
    }
    ob_json_end(&json);
}
