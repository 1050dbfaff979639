/* header.c - see header.h. */
#include "sink/common/header.h"
#include "sink/shortage.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "core/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_MOST = 128 };

/* ---- what may go out ---- */

bool ob_header_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len >= 1 && len <= NAME_MOST &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-") == len;
}

bool ob_header_value_ok(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
            return false;
    return ob_utf8_valid(value, len);
}

/* ---- the list ---- */

void ob_headers_init(struct ob_headers *headers)
{
    memset(headers, 0, sizeof *headers);
    ob_arena_init(&headers->arena, 2048);
}

void ob_headers_fini(struct ob_headers *headers)
{
    ob_arena_fini(&headers->arena);
    ob_free(headers->at);
    memset(headers, 0, sizeof *headers);
}

void ob_headers_reset(struct ob_headers *headers)
{
    ob_arena_fini(&headers->arena);
    headers->count = 0;
    headers->code = NULL;
}

void ob_headers_spoil(struct ob_headers *headers, const char *code, const char *format, ...)
{
    va_list args;
    if (headers->code)
        return;
    headers->code = code;
    va_start(args, format);
    vsnprintf(headers->problem, sizeof headers->problem, format, args);
    va_end(args);
}

static void out_of_memory(struct ob_headers *headers)
{
    ob_headers_spoil(headers, "out_of_memory", "out of memory");
}

static bool make_room(struct ob_headers *headers)
{
    if (headers->count < headers->room)
        return true;
    size_t room = headers->room ? headers->room * 2 : 16;
    void *grown = ob_realloc(headers->at, headers->room * sizeof *headers->at, room * sizeof *headers->at);
    if (!grown)
        return false;
    headers->at = grown;
    headers->room = room;
    return true;
}

const char *ob_headers_get(const struct ob_headers *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->at[i].name, name) == 0)
            return headers->at[i].value;
    return NULL;
}

void ob_headers_add(struct ob_headers *headers, const char *name, const char *value)
{
    if (!value || headers->code)
        return;
    if (!ob_header_name_ok(name)) {
        ob_headers_spoil(headers, "header_invalid", "a header name has invalid characters");
        return;
    }
    if (!ob_header_value_ok(value, strlen(value))) {
        ob_headers_spoil(headers, "header_invalid", "the value for %s has control characters or is not UTF-8", name);
        return;
    }
    if (ob_headers_get(headers, name))
        return;
    struct ob_header copy = {ob_arena_strdup(&headers->arena, name), ob_arena_strdup(&headers->arena, value)};
    if (!copy.name || !copy.value || !make_room(headers)) {
        out_of_memory(headers);
        return;
    }
    headers->at[headers->count++] = copy;
}

void ob_headers_add_int(struct ob_headers *headers, const char *name, int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    ob_headers_add(headers, name, digits);
}

void ob_headers_verdict(const struct ob_headers *headers, struct outbox_verdict *verdict)
{
    bool memory = headers->code && strcmp(headers->code, "out_of_memory") == 0;
    *verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    verdict->outcome = memory ? OUTBOX_SINK_NOT_SENT : OUTBOX_SINK_TERMINAL;
    verdict->not_before_us = memory ? OB_SHORTAGE_US : -1;
    verdict->local = true;
    verdict->code = headers->code;
    verdict->text = headers->problem;
}

/* ---- from a message ---- */

/* Where attributes of a CloudEvent go without a prefix, their names are ours. */
static bool is_attribute(const char *name)
{
    static const char *const names[] = {
        "specversion",     "id",
        "source",          "type",
        "subject",         "time",
        "dataschema",      "datacontenttype",
        "partitionkey",    "sequence",
        "sequencetype",    "correlationid",
        "dataref",         "outboxattempt",
        "outboxdedupekey", "outboxtenant",
        "outboxredriven",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_ours(const char *name)
{
    static const char *const prefixes[] = {"outbox-", "ce-", "ce_", "cloudevents:", "cloudevents_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return strcasecmp(name, "traceparent") == 0 || strcasecmp(name, "tracestate") == 0;
}

static json_t *parse(const struct outbox_delivery *msg)
{
    return msg->headers ? json_loads(msg->headers, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

void ob_headers_add_message(struct ob_headers *headers, const struct outbox_delivery *msg, bool bare)
{
    const char *name;
    json_t *value, *object = parse(msg);
    if (msg->headers && !json_is_object(object))
        ob_headers_spoil(headers, "header_invalid", "the headers are not a JSON object of strings");
    json_object_foreach (object, name, value) {
        if (!json_is_string(value))
            ob_headers_spoil(headers, "header_invalid", "the header %s is not a string",
                             ob_header_name_ok(name) ? name : "?");
        else if (!is_ours(name) && !(bare && is_attribute(name)))
            ob_headers_add(headers, name, json_string_value(value));
    }
    json_decref(object);
}

/* The producer's, if it is valid. */
static bool add_given(struct ob_headers *headers, const struct outbox_delivery *msg)
{
    char parent[256] = "";
    struct outbox_trace given;
    bool valid = ob_trace_header(msg, "traceparent", parent, sizeof parent) && ob_traceparent_parse(parent, &given);
    if (valid)
        ob_headers_add(headers, "traceparent", parent);
    return valid;
}

static void add_state(struct ob_headers *headers, const struct outbox_delivery *msg)
{
    char state[OB_TRACESTATE_MOST + 1];
    if (ob_trace_header(msg, "tracestate", state, sizeof state) && ob_tracestate_ok(state))
        ob_headers_add(headers, "tracestate", state);
}

static void add_span(struct ob_headers *headers, const struct outbox_trace *trace)
{
    char text[OB_TRACEPARENT_TEXT];
    ob_traceparent_format(trace, text);
    ob_headers_add(headers, "traceparent", text);
}

static void generate_trace(struct ob_headers *headers, const struct outbox_delivery *msg)
{
    struct outbox_delivery copy = *msg;
    ob_trace_begin(&copy, OB_TRACE_ALL);
    if (ob_trace_is_set(&copy.trace))
        add_span(headers, &copy.trace);
}

void ob_headers_add_trace(struct ob_headers *headers, const struct outbox_delivery *msg, bool generate)
{
    bool given = true;
    if (ob_trace_is_set(&msg->trace)) {
        add_span(headers, &msg->trace);
        given = memcmp(msg->trace.parent_id, (const unsigned char[8]){0}, 8) != 0;
    } else {
        given = add_given(headers, msg);
        if (!given && generate)
            generate_trace(headers, msg);
    }
    if (given)
        add_state(headers, msg);
}
