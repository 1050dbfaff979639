/* filter.c - see filter.h.
 *
 * A text is read into terms (name, value, whether the value was quoted), and each term is given to the function of its kind. */
#include "core/filter.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/limits.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "base/value.h"
#include "core/fingerprint.h"
#include "core/names.h"

#include <limits.h>
#include <string.h>

/* What is being read, for the functions of the kinds. */
struct term {
    const struct known_term *known;
    struct ob_filter *filter;
    const char *value;
    size_t at;   /* its place in the text, from 1; 0: not from a text */
    bool quoted; /* then the value is no pattern */
    int64_t now_us;
    struct outbox_error *err;
};

struct known_term {
    const char *name, *example;
    size_t offset;
    ob_code (*set)(struct term *term);
};

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static ob_code refuse(const struct term *term, const char *why)
{
    if (!term->at)
        return ob_error_set(term->err, OUTBOX_INVALID, "%s is \"%.80s\"; %s", term->known->name, term->value, why);
    return ob_error_set(term->err, OUTBOX_INVALID, "filter, character %zu: \"%s:%.80s\": %s", term->at,
                        term->known->name, term->value, why);
}

static ob_code refuse_twice(const struct term *term)
{
    return refuse(term, "this term was given before; all terms must match, so it can be given once");
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

const char *ob_status_name(enum ob_status status)
{
    static const char *const names[OB_STATUS_COUNT] = {
        [OB_PENDING] = "pending", [OB_PROCESSING] = "processing", [OB_STATUS_DELIVERED] = "delivered",
        [OB_DEAD] = "dead",       [OB_DISCARDED] = "discarded",
    };
    return names[status];
}

int ob_status_find(const char *name)
{
    for (int i = 0; i < OB_STATUS_COUNT; i++)
        if (strcmp(name, ob_status_name((enum ob_status)i)) == 0)
            return i + 1;
    return 0;
}

static ob_code set_STATUS(struct term *term)
{
    struct ob_nearest near;
    int found = ob_status_find(term->value);
    if (found && term->filter->status_plus_1)
        return refuse_twice(term);
    term->filter->status_plus_1 = found;
    if (found)
        return OUTBOX_OK;
    ob_nearest_init(&near, term->value);
    for (int i = 0; i < OB_STATUS_COUNT; i++)
        ob_nearest_try(&near, ob_status_name((enum ob_status)i));
    struct ob_buf why = OB_BUF_INIT;
    ob_buf_puts(&why, "a status is pending, processing, delivered, dead or discarded");
    if (near.best)
        ob_buf_printf(&why, "; did you mean \"%s\"?", near.best);
    ob_code code = refuse(term, ob_buf_text(&why));
    ob_buf_fini(&why);
    return code;
}

static ob_code put(struct term *term)
{
    const char **field = (const char **)(void *)((char *)term->filter + term->known->offset);
    if (*field)
        return refuse_twice(term);
    *field = term->value;
    return OUTBOX_OK;
}

static ob_code set_PATTERN(struct term *term)
{
    struct outbox_error why;
    if (term->quoted && ob_glob_is(term->value))
        return refuse(term, "a pattern is written without quotes, and no name contains * or ?");
    bool topic = strcmp(term->known->name, "topic") == 0, space = strcmp(term->known->name, "namespace") == 0;
    if (ob_names_check(space ? term->value : NULL, topic ? term->value : NULL, NULL, &why))
        return refuse(term, why.text);
    if (!topic && !space && strchr(term->value, '\\'))
        return refuse(term, "a pattern may contain * and ?, but no backslash");
    return put(term);
}

static ob_code set_TEXT(struct term *term)
{
    if (term->at && !term->quoted && ob_glob_is(term->value))
        return refuse(term, "this term takes no pattern; quote the value if * or ? is part of it");
    return put(term);
}

static ob_code set_UUID(struct term *term)
{
    struct outbox_uuid id;
    if (!outbox_uuid_parse(term->value, &id))
        return refuse(term, "this must be a whole uuid, such as 6b4a3c1e-0000-4000-8000-000000000001");
    return put(term);
}

static ob_code set_CONTAINS(struct term *term)
{
    if (term->quoted || term->value[0] != '~' || !term->value[1])
        return refuse(term,
                      "errors are searched for a part of their text: write error:~timeout, or error:~\"timed out\"");
    term->value++;
    return put(term);
}

/* Takes an operator from the beginning of the value. least: it is a lower bound; whether the bound itself is in. */
static bool take_operator(const char **value, bool *least, bool *most, bool *open)
{
    *least = **value == '>', *most = **value == '<';
    *open = false;
    if (!*least && !*most)
        return false;
    (*value)++;
    *open = **value != '=';
    *value += !*open;
    return true;
}

static ob_code set_COUNT(struct term *term)
{
    struct ob_filter *filter = term->filter;
    const char *number = term->value;
    bool least, most, open;
    int64_t value;
    if (!take_operator(&number, &least, &most, &open))
        least = most = true;
    if (term->quoted || !ob_value_int(number, &value) || value < 0 || value >= INT_MAX)
        return refuse(term, "this takes a number from 0 on, or a comparison: attempts:3, attempts:>3, attempts:<=10");
    if (least && most && (filter->attempts_least || filter->attempts_below))
        return refuse_twice(term);
    if (least && filter->attempts_least)
        return refuse(term, "there is a lower bound already");
    if (most && filter->attempts_below)
        return refuse(term, "there is an upper bound already");
    if (most && open && value == 0)
        return refuse(term, "no message has fewer than 0 attempts");
    if (least)
        filter->attempts_least = (int)value + open;
    if (most)
        filter->attempts_below = (int)value + !open;
    return OUTBOX_OK;
}

static ob_code set_AGE(struct term *term)
{
    struct ob_filter *filter = term->filter;
    const char *duration = term->value;
    bool older, newer, open;
    int64_t us;
    if (term->quoted || !take_operator(&duration, &older, &newer, &open) || !ob_value_duration(duration, &us) ||
        us >= term->now_us)
        return refuse(term, "an age is compared with a duration: age:>1h, age:<30m, age:>1d12h");
    if (older && filter->before_us)
        return refuse(term, "there is a time before which the message was enqueued already");
    if (newer && filter->since_us)
        return refuse(term, "there is an upper bound of the age already");
    if (older)
        filter->before_us = term->now_us - us + !open;
    else
        filter->since_us = term->now_us - us + open;
    return OUTBOX_OK;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The first digits of an id are a range of ids. Hyphens stand where a uuid has them, or not at all. */
static ob_code set_ID(struct term *term)
{
    struct ob_filter *filter = term->filter;
    size_t digits = 0, at = 0;
    unsigned char low[16] = {0}, high[16];
    memset(high, 0xff, sizeof high);
    if (filter->id_range)
        return refuse_twice(term);
    for (; term->value[at] && digits <= 32; at++) {
        int digit = digit_of(term->value[at]);
        if (term->value[at] == '-' && (at == 8 || at == 13 || at == 18 || at == 23))
            continue;
        if (digit < 0 || digits == 32)
            return refuse(term, "an id is a uuid; its first digits are 0 to 9 and a to f, with hyphens as in the uuid");
        unsigned shift = digits % 2 ? 0 : 4;
        low[digits / 2] = (unsigned char)(low[digits / 2] | (unsigned)digit << shift);
        high[digits / 2] = (unsigned char)((high[digits / 2] & ~(0xfU << shift)) | (unsigned)digit << shift);
        digits++;
    }
    if (digits < OB_FILTER_ID_LEAST)
        return refuse(term, "give at least 4 digits of the id");
    filter->id_range = true;
    memcpy(filter->id_first.bytes, low, sizeof low);
    memcpy(filter->id_last.bytes, high, sizeof high);
    return OUTBOX_OK;
}

static ob_code set_GROUP(struct term *term)
{
    size_t digits = 0;
    while (digits < OB_FINGERPRINT_DIGITS && digit_of(term->value[digits]) >= 0)
        digits++;
    if (digits != OB_FINGERPRINT_DIGITS || term->value[digits])
        return refuse(term, "a group has 16 digits, 0 to 9 and a to f; outbox errors lists the groups");
    return put(term);
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */

static const struct known_term known_terms[] = {
#define OUTBOX_TERM(field, name, KIND, example, what) {name, example, offsetof(struct ob_filter, field), set_##KIND},
#include "filter.def"
#undef OUTBOX_TERM
};
enum { KNOWN_COUNT = sizeof known_terms / sizeof known_terms[0] };

static const struct known_term *find_term(const char *name, size_t len)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (strlen(known_terms[i].name) == len && memcmp(known_terms[i].name, name, len) == 0)
            return &known_terms[i];
    return NULL;
}

static ob_code refuse_name(size_t at, const char *name, const char *value, struct outbox_error *err)
{
    struct ob_nearest near;
    ob_nearest_init(&near, name);
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        ob_nearest_try(&near, known_terms[i].name);
    if (near.best)
        return ob_error_set(err, OUTBOX_INVALID,
                            "filter, character %zu: \"%.40s:%.40s\": there is no term \"%.40s\"; did you mean \"%s\"?",
                            at, name, value, name, near.best);
    return ob_error_set(
        err, OUTBOX_INVALID,
        "filter, character %zu: \"%.40s:%.40s\": there is no term \"%.40s\"; the terms are status, topic, "
        "namespace, tenant, key, subject, recipient, correlation, code, error, group, attempts, age and id",
        at, name, value, name);
}

static ob_code refuse_bare(const char *word, size_t at, struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_INVALID,
                        "filter, character %zu: \"%.80s\" is not a term; write NAME:VALUE, such as topic:orders.*, and "
                        "quote a value with spaces: error:~\"timed out\"",
                        at, word);
}

ob_code ob_filter_add(struct ob_filter *filter, const char *name, const char *value, int64_t now_us,
                      struct ob_arena *arena, struct outbox_error *err)
{
    const struct known_term *known = find_term(name, strlen(name));
    if (!known)
        return refuse_name(1, name, value, err);
    struct term term = {.known = known, .filter = filter, .now_us = now_us, .err = err};
    term.value = ob_arena_strdup(arena, value);
    return term.value ? known->set(&term) : ob_error_nomem(err);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Reads a value at *text into room and advances it. Quotes may begin anywhere in it; in them \" and \\ stand for themselves.
 * False: a quote does not end. */
static bool take_value(const char **text, char *room, bool *quoted)
{
    bool inside = false;
    const char *begin = *text;
    *quoted = false;
    for (; **text && (inside || !is_space(**text)); (*text)++) {
        if (**text == '"') {
            *quoted |= *text == begin;
            inside = !inside;
        } else {
            if (inside && **text == '\\' && ((*text)[1] == '"' || (*text)[1] == '\\'))
                (*text)++;
            *room++ = **text;
        }
    }
    *room = '\0';
    return !inside;
}

static bool is_plain_text(const char *text, size_t len)
{
    for (size_t width, at = 0; at < len; at += width) {
        width = ob_utf8_width(text + at, len - at);
        if (!width || (width == 1 && ((unsigned char)text[at] < 0x20 || text[at] == 0x7f) && !is_space(text[at])))
            return false;
    }
    return true;
}

/* One term at *text; room is as long as the text. */
static ob_code take_term(struct term *term, const char *all, const char **text, char *room)
{
    const char *word = *text;
    size_t len = strcspn(word, ": \t\r\n\"");
    term->at = (size_t)(word - all) + 1;
    if (word[len] != ':' || len == 0) {
        size_t end = strcspn(word, " \t\r\n");
        memcpy(room, word, end);
        room[end] = '\0';
        return refuse_bare(room, term->at, term->err);
    }
    term->known = find_term(word, len);
    *text += len + 1;
    if (!take_value(text, room + len + 1, &term->quoted)) {
        return ob_error_set(term->err, OUTBOX_INVALID, "filter, character %zu: \"%.80s\": the quote does not end",
                            term->at, word);
    }
    memcpy(room, word, len);
    room[len] = '\0';
    term->value = room + len + 1;
    if (!term->known) {
        return refuse_name(term->at, room, term->value, term->err);
    }
    if (!*term->value)
        return refuse(term, "the value is missing");
    return term->known->set(term);
}

ob_code ob_filter_parse(struct ob_filter *filter, const char *text, int64_t now_us, struct ob_arena *arena,
                        struct outbox_error *err)
{
    size_t len = strlen(text);
    if (len > OB_FILTER_TEXT_MAX)
        return ob_error_set(err, OUTBOX_INVALID, "the filter has %zu bytes; at most %d are allowed", len,
                            OB_FILTER_TEXT_MAX);
    if (!is_plain_text(text, len))
        return ob_error_set(err, OUTBOX_INVALID, "the filter is not text in UTF-8, or has control characters");
    for (const char *at = text;;) {
        while (is_space(*at))
            at++;
        if (!*at)
            return OUTBOX_OK;
        struct term term = {.filter = filter, .now_us = now_us, .err = err};
        char *room = ob_arena_alloc(arena, len - (size_t)(at - text) + 1);
        if (!room)
            return ob_error_nomem(err);
        ob_code code = take_term(&term, text, &at, room);
        if (code)
            return code;
    }
}

bool ob_filter_selects(const struct ob_filter *filter)
{
    return filter->ids || filter->name_space || filter->topic || filter->tenant_id || filter->key || filter->subject ||
           filter->recipient || filter->correlation_id || filter->code || filter->error || filter->status_plus_1 ||
           filter->before_us || filter->since_us || filter->attempts_least || filter->attempts_below ||
           filter->id_range || filter->group;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

enum { LOOK_FAR = 50000, LOOK_NEAR = 5000, PAGE = 100 }; /* near: where each message looked at costs some lookups */

enum ob_part ob_filter_part(const struct ob_filter *filter)
{
    if (filter->group)
        return OB_PART_GROUP;
    if (filter->ids || filter->id_range || filter->subject)
        return OB_PART_MESSAGE;
    switch (filter->status_plus_1 - 1) {
    case OB_PENDING: return OB_PART_QUEUE;
    case OB_PROCESSING: return OB_PART_TAKEN;
    case OB_DEAD: return OB_PART_DEAD;
    case OB_DISCARDED: return OB_PART_DISCARDED;
    case OB_STATUS_DELIVERED: return OB_PART_MESSAGE;
    default: return filter->code || filter->error ? OB_PART_FAILED : OB_PART_MESSAGE;
    }
}

int ob_filter_look(const struct ob_filter *filter, enum ob_part part)
{
    bool content = filter->name_space || filter->topic || filter->key || filter->subject || filter->recipient ||
                   filter->correlation_id || filter->before_us || filter->since_us;
    bool outcome = filter->code || filter->error || filter->attempts_least || filter->attempts_below;
    int limit = filter->limit ? filter->limit : PAGE, look = limit;
    if (filter->ids)
        return 0;
    if (part == OB_PART_MESSAGE && (outcome || filter->status_plus_1))
        look = LOOK_NEAR;
    else if (part == OB_PART_MESSAGE || part == OB_PART_DEAD)
        look = content || outcome || (part == OB_PART_DEAD && filter->tenant_id) ? LOOK_FAR : limit;
    else if (part == OB_PART_GROUP)
        look = content || outcome || filter->tenant_id || filter->status_plus_1 ? LOOK_FAR : limit;
    else if (part == OB_PART_TAKEN)
        look = LOOK_FAR;
    else if (part == OB_PART_FAILED || content || outcome || filter->tenant_id)
        look = LOOK_NEAR;
    return look < limit ? limit : look;
}
