/* option.c - the table def/options.def: which options exist, and how a text becomes the value of a field. */
#include "config/config_int.h"

#include "base/value.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The struct that holds the fields of a section. */
typedef struct ob_config target_relay, target_log, target_admin, target_traces, target_notify;
typedef struct ob_config_store target_stores;
typedef struct ob_config_sink target_sinks, target_delivery;
typedef struct ob_config_route target_routes;

enum { WORD_START = false, WORD_RELOAD = true, WORD_PLAIN = false, WORD_SECRET = true };

const struct ob_config_row ob_config_rows[] = {
#define OUTBOX_SETTING(section, key, field, type, fallback, least, most, choices, reload, secret, doc) \
    {OB_SECTION_##section, \
     key, \
     OB_TYPE_##type, \
     fallback, \
     least, \
     most, \
     choices, \
     WORD_##reload, \
     WORD_##secret, \
     doc, \
     offsetof(target_##section, field), \
     sizeof(((target_##section *)0)->field)},
#include "options.def"
#undef OUTBOX_SETTING
};
const size_t ob_config_row_count = sizeof ob_config_rows / sizeof ob_config_rows[0];

const char *const ob_section_names[OB_SECTION_COUNT] = {"relay",  "log",   "admin",    "traces", "notify",
                                                        "stores", "sinks", "defaults", "routes"};

const char *ob_section_key(enum ob_section section, size_t i)
{
    for (size_t at = 0; at < ob_config_row_count; at++)
        if (ob_config_rows[at].section == section && i-- == 0)
            return ob_config_rows[at].key;
    return NULL;
}

const struct ob_config_row *ob_section_row(enum ob_section section, const char *key)
{
    for (size_t i = 0; i < ob_config_row_count; i++)
        if (ob_config_rows[i].section == section && strcmp(ob_config_rows[i].key, key) == 0)
            return &ob_config_rows[i];
    return NULL;
}

/* ---- from a text to a number ------------------------------------------------------------------------------------- */

static bool index_of(const char *choices, const char *word, int64_t *index)
{
    size_t len = strlen(word);
    int64_t i = 0;
    for (const char *at = choices; len && at && *at; i++) {
        size_t end = strcspn(at, " ");
        if (end == len && memcmp(at, word, len) == 0) {
            *index = i;
            return true;
        }
        at += end + (at[end] == ' ');
    }
    return false;
}

static bool number_of(const struct ob_spec *spec, const char *text, int64_t *number, int64_t *period)
{
    bool yes;
    switch (spec->type) {
    case OB_TYPE_INT: return ob_value_int(text, number);
    case OB_TYPE_DURATION:
    case OB_TYPE_DURATIONS: return ob_value_duration(text, number);
    case OB_TYPE_SIZE: return ob_value_size(text, number);
    case OB_TYPE_RATE: return ob_value_rate(text, number, period);
    case OB_TYPE_RATIO: return ob_value_ratio(text, number);
    case OB_TYPE_ENUM: return index_of(spec->choices, text, number);
    case OB_TYPE_BOOL:
        if (!ob_value_bool(text, &yes))
            return false;
        *number = yes;
        return true;
    default: return true;
    }
}

static const char *must_be(struct ob_loader *ld, const struct ob_spec *spec)
{
    switch (spec->type) {
    case OB_TYPE_INT: return "a whole number";
    case OB_TYPE_DURATION:
    case OB_TYPE_DURATIONS: return "a time with its unit, such as 250ms, 10s, 5m or 1h";
    case OB_TYPE_SIZE: return "a size, such as 64KiB, 32MiB or 1GiB";
    case OB_TYPE_RATE: return "a rate, such as 100/s, 5/10s or 1000/h, or none";
    case OB_TYPE_RATIO: return "a share from 0 to 1, such as 0.1, or 10%";
    case OB_TYPE_BOOL: return "true or false";
    default: return ob_loader_printf(ld, "one of: %s", spec->choices);
    }
}

static void number_text(const struct ob_spec *spec, int64_t number, char text[OB_VALUE_TEXT])
{
    if (spec->type == OB_TYPE_DURATION || spec->type == OB_TYPE_DURATIONS)
        ob_value_duration_text(number, text);
    else if (spec->type == OB_TYPE_SIZE)
        ob_value_size_text(number, text);
    else if (spec->type == OB_TYPE_RATIO)
        ob_value_ratio_text(number, text);
    else
        snprintf(text, OB_VALUE_TEXT, "%" PRId64, number);
}

bool ob_spec_number(struct ob_loader *ld, const struct ob_spec *spec, const char *text,
                    const struct ob_config_place *place, const char *key, const char *shown, int64_t *number,
                    int64_t *period)
{
    char least[OB_VALUE_TEXT], most[OB_VALUE_TEXT];
    if (!number_of(spec, text, number, period)) {
        ob_loader_problem(ld, true, place, key, shown, NULL, "is \"%s\", but must be %s", shown, must_be(ld, spec));
        return false;
    }
    if (!spec->ranged || (*number >= spec->least && *number <= spec->most))
        return true;
    number_text(spec, spec->least, least);
    number_text(spec, spec->most, most);
    if (*number < spec->least)
        ob_loader_problem(ld, true, place, key, shown, NULL, "is %s, but must be at least %s", shown, least);
    else
        ob_loader_problem(ld, true, place, key, shown, NULL, "is %s, but must be at most %s", shown, most);
    return false;
}

const char *ob_spec_shown(struct ob_loader *ld, const struct ob_spec *spec, struct ob_given *given)
{
    int64_t number, period;
    if (number_of(spec, given->text, &number, &period))
        given->expanded = false;
    return ob_config_shown(ld, given, spec->secret, false);
}

struct ob_spec ob_row_spec(const struct ob_config_row *row)
{
    struct ob_spec spec = {.type = row->type, .choices = row->choices, .secret = row->secret};
    int64_t period;
    if (*row->least && *row->most) {
        bool ok =
            number_of(&spec, row->least, &spec.least, &period) && number_of(&spec, row->most, &spec.most, &period);
        assert(ok);
        spec.ranged = ok;
    }
    return spec;
}

/* ---- from a number to a field ------------------------------------------------------------------------------------ */

static void put_number(const struct ob_config_row *row, void *target, int64_t number)
{
    void *field = (char *)target + row->offset;
    switch (row->size) {
    case sizeof(bool): *(bool *)field = number != 0; return;
    case sizeof(int): *(int *)field = (int)number; return;
    case sizeof(int64_t): *(int64_t *)field = number; return;
    default: assert(!"a field of an unknown size");
    }
}

static void put(const struct ob_config_row *row, void *target, int64_t number, int64_t period)
{
    put_number(row, target, number);
    if (row->type == OB_TYPE_RATE)
        ((struct ob_config_sink *)target)->delivery.rate_period_us = period;
}

/* ---- lists of durations ------------------------------------------------------------------------------------------ */

static void read_durations(struct ob_loader *ld, const struct ob_config_row *row, const struct ob_scope *scope,
                           const struct ob_given *given, const char *key, struct ob_retry *retry)
{
    struct ob_spec spec = ob_row_spec(row);
    struct ob_buf shown = OB_BUF_INIT;
    size_t count = given->list->count;
    int64_t period;
    if (count < 1 || count > OB_RETRY_LIST_MAX)
        ob_loader_problem(ld, true, &given->place, key, NULL, NULL, "has %zu elements, but must have 1 to %d", count,
                          OB_RETRY_LIST_MAX);
    for (size_t i = 0; i < count && i < OB_RETRY_LIST_MAX; i++) {
        const struct ob_node *item = given->list->items[i];
        if (item->kind != OB_NODE_TEXT) {
            ob_loader_problem(ld, true, &given->place, key, NULL, NULL, "must be a list of times");
            continue;
        }
        ob_spec_number(ld, &spec, item->text, &given->place, key, item->text, &retry->list_us[i], &period);
        retry->list_count = (int)i + 1;
        ob_buf_printf(&shown, "%s%s", i ? ", " : "", item->text);
    }
    const char *text = ob_loader_dup(ld, ob_buf_text(&shown));
    ob_loader_value(ld, scope, row->key, text, text, &given->place, false, row->reloadable);
    ob_buf_fini(&shown);
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* Defaults go through the same parser, so that an invalid one in the table is noticed. */
static void put_fallback(const struct ob_config_row *row, void *target)
{
    struct ob_spec spec = ob_row_spec(row);
    int64_t number = 0, period = 1000000;
    if (row->type == OB_TYPE_TEXT || row->type == OB_TYPE_URL || row->type == OB_TYPE_DURATIONS || !*row->fallback)
        return; /* NULL, none, or left unchanged */
    bool ok = number_of(&spec, row->fallback, &number, &period);
    assert(ok);
    (void)ok;
    put(row, target, number, period);
}

void ob_row_read(struct ob_loader *ld, const struct ob_config_row *row, const struct ob_scope *scope, void *target)
{
    static const struct ob_config_place fallback = {.source = OB_CONFIG_DEFAULT};
    bool text_type = row->type == OB_TYPE_TEXT || row->type == OB_TYPE_URL, list = row->type == OB_TYPE_DURATIONS;
    const char *key = ob_loader_printf(ld, "%s.%s", scope->path, row->key);
    struct ob_given given;
    int64_t number = 0, period = 1000000;
    ob_scope_get(ld, scope, row->key, list ? OB_WANT_LIST : OB_WANT_TEXT, row->secret, &given);
    put_fallback(row, target);
    if (!given.found) {
        const char *text = *row->fallback ? row->fallback : NULL;
        ob_loader_value(ld, scope, row->key, text, text, &fallback, row->secret, row->reloadable);
        return;
    }
    if (list) {
        void *delays = (char *)target + row->offset;
        read_durations(ld, row, scope, &given, key, OB_CONTAINER(delays, struct ob_retry, list_us));
        return;
    }
    struct ob_spec spec = ob_row_spec(row);
    const char *shown = text_type ? ob_config_shown(ld, &given, row->secret, row->type == OB_TYPE_URL)
                                  : ob_spec_shown(ld, &spec, &given);
    ob_loader_value(ld, scope, row->key, given.text, shown, &given.place, row->secret, row->reloadable);
    if (text_type) {
        *(const char **)((char *)target + row->offset) = given.text;
        if (!*given.text)
            ob_loader_problem(ld, true, &given.place, key, NULL, NULL, "is empty");
        return;
    }
    if (ob_spec_number(ld, &spec, given.text, &given.place, key, shown, &number, &period))
        put(row, target, number, period);
    else if (given.entry)
        given.entry->bad = true;
}

void ob_section_read(struct ob_loader *ld, enum ob_section section, const struct ob_scope *scope, void *target)
{
    for (size_t i = 0; i < ob_config_row_count; i++)
        if (ob_config_rows[i].section == section && ob_config_rows[i].type != OB_TYPE_MAP)
            ob_row_read(ld, &ob_config_rows[i], scope, target);
}
