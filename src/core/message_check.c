/* message_check.c - see message_check.h. The order of the checks is that of `complain` in sql/postgres/003_enqueue.sql. */
#include "core/message_check.h"

#include "base/json_check.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "core/names.h"

#include <string.h>

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static bool is_control(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* name: no spaces and no pattern characters. */
static enum outbox_code check_characters(const char *field, const char *text, bool name, struct outbox_error *err)
{
    for (size_t len = strlen(text), width; len > 0; text += width, len -= width) {
        width = ob_utf8_width(text, len);
        if (width == 0)
            return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is not valid UTF-8", field);
        unsigned c = ob_utf8_decode(text, width);
        if (is_control(c))
            return ob_error_set(err, OUTBOX_INVALID,
                                "\"%s\" contains a control character; remove line breaks, tabs and the like", field);
        if (name && (ob_name_is_blank(c) || c == '*' || c == '?'))
            return ob_error_set(err, OUTBOX_INVALID,
                                "\"%s\" contains a space, \"*\" or \"?\"; topics and namespaces have none", field);
    }
    return OUTBOX_OK;
}

static enum outbox_code check_texts(const struct outbox_message *msg, struct outbox_error *err)
{
    const struct {
        const char *name, *text;
        enum ob_limit limit;
        bool is_name;
    } fields[] = {
        {"topic", msg->topic, OB_LIMIT_topic, true},
        {"namespace", msg->name_space, OB_LIMIT_namespace, true},
        {"key", msg->key, OB_LIMIT_key, false},
        {"dedupe_key", msg->dedupe_key, OB_LIMIT_dedupe_key, false},
        {"subject", msg->subject, OB_LIMIT_subject, false},
        {"recipient", msg->recipient, OB_LIMIT_recipient, false},
        {"correlation_id", msg->correlation_id, OB_LIMIT_correlation_id, false},
        {"content_type", msg->content_type, OB_LIMIT_content_type, false},
    };
    enum outbox_code code = OUTBOX_OK;
    if (!msg->topic)
        return ob_error_set(err, OUTBOX_INVALID, "\"topic\" is missing");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && !code; i++) {
        if (!fields[i].text)
            continue;
        code = ob_limit_check(fields[i].limit, fields[i].name, (int64_t)strlen(fields[i].text), err);
        if (!code)
            code = check_characters(fields[i].name, fields[i].text, fields[i].is_name, err);
    }
    return code;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static unsigned read_hex(const char *digits)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)digits[i];
        value = value * 16 + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
}

/* The next character of a JSON string that is known to be well-formed. */
static const char *next_character(const char *at, unsigned *c)
{
    static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (*at != '\\') {
        size_t width = ob_utf8_width(at, strlen(at));
        *c = ob_utf8_decode(at, width);
        return at + width;
    }
    if (at[1] != 'u') {
        *c = (unsigned char)values[strchr(escapes, at[1]) - escapes];
        return at + 2;
    }
    *c = read_hex(at + 2);
    if (*c < 0xd800 || *c > 0xdfff)
        return at + 6;
    *c = 0x10000 + ((*c - 0xd800) << 10) + (read_hex(at + 8) - 0xdc00);
    return at + 12;
}

static size_t width_of(unsigned c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

struct header_text {
    size_t bytes;
    bool controls, token; /* contains a control character; has only characters allowed in a header name */
};

/* Reads a string from its opening quote; returns the position after its closing quote. */
static const char *read_string(const char *at, struct header_text *text)
{
    *text = (struct header_text){.token = true};
    for (at++; *at != '"';) {
        unsigned c;
        at = next_character(at, &c);
        text->bytes += width_of(c);
        text->controls |= is_control(c);
        text->token &= (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       (c > 0x20 && c < 0x7f && strchr("!#$%&'*+.^_`|~-", (int)c));
    }
    return at + 1;
}

static enum outbox_code check_header(const char **at, size_t *bytes, struct outbox_error *err)
{
    struct header_text name, value;
    char range[64];
    const char *start = skip_space(*at), *end = read_string(start, &name);
    int shown = (int)(end - start < 66 ? end - start : 66);
    if (!name.token || !ob_limit_allows(OB_LIMIT_header_name, (int64_t)name.bytes))
        return ob_error_set(err, OUTBOX_INVALID,
                            "the header name %.*s is not valid; a name has %s of letters, digits or !#$%%&'*+.^_`|~-",
                            shown, start, ob_limit_range(OB_LIMIT_header_name, range));
    *at = skip_space(skip_space(end) + 1); /* the colon */
    if (**at != '"')
        return ob_error_set(err, OUTBOX_INVALID,
                            "the header %.*s is not a string; \"headers\" takes a JSON object of strings", shown,
                            start);
    *at = skip_space(read_string(*at, &value));
    if (value.controls)
        return ob_error_set(err, OUTBOX_INVALID, "the header %.*s contains a control character", shown, start);
    *bytes += name.bytes + value.bytes;
    return OUTBOX_OK;
}

static enum outbox_code check_headers(const char *headers, struct outbox_error *err)
{
    size_t bytes = 0, len = strlen(headers);
    char range[64];
    enum outbox_code code = OUTBOX_OK;
    if (!ob_utf8_valid(headers, len))
        return ob_error_set(err, OUTBOX_INVALID, "\"headers\" is not valid UTF-8");
    const char *at = skip_space(headers);
    if (*at != '{' || !ob_json_check(headers, len))
        return ob_error_set(err, OUTBOX_INVALID,
                            "\"headers\" is not a JSON object of strings, e.g. {\"traceparent\": \"00-...\"}");
    at = skip_space(at + 1);
    while (!code && *at != '}') {
        code = check_header(&at, &bytes, err);
        at += !code && *at == ',';
    }
    if (!code && !ob_limit_allows(OB_LIMIT_headers, (int64_t)bytes))
        return ob_error_set(err, OUTBOX_TOO_LARGE,
                            "the headers have %zu bytes; their names and values take %s together", bytes,
                            ob_limit_range(OB_LIMIT_headers, range));
    return code;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static enum outbox_code check_numbers(const struct outbox_message *msg, struct outbox_error *err)
{
    enum outbox_code code = OUTBOX_OK;
    if (msg->priority != -1)
        code = ob_limit_check(OB_LIMIT_priority, "priority", msg->priority, err);
    if (!code && msg->max_attempts)
        code = ob_limit_check(OB_LIMIT_max_attempts, "max_attempts", msg->max_attempts, err);
    for (int i = 0; i < 2 && !code; i++) {
        int64_t at = i == 0 ? msg->deliver_after_us : msg->expires_at_us;
        if (at && !ob_limit_allows(OB_LIMIT_moment, at))
            return ob_error_set(err, OUTBOX_INVALID, "\"%s\" is before 1970 or after the year 9999",
                                i == 0 ? "deliver_after" : "expires_at");
    }
    return code;
}

static enum outbox_code check_payload(const struct outbox_message *msg, struct outbox_error *err)
{
    char range[64];
    if (!msg->payload && (msg->payload_len || !msg->content_type))
        return ob_error_set(err, OUTBOX_INVALID, "\"payload\" is missing; JSON null and empty bytes are allowed");
    if (msg->payload_len > (size_t)OB_MOST(max_payload))
        return ob_error_set(err, OUTBOX_TOO_LARGE, "the payload has %zu bytes; a namespace takes %s", msg->payload_len,
                            ob_limit_range(OB_LIMIT_max_payload, range));
    if (msg->content_type)
        return OUTBOX_OK;
    if (memchr(msg->payload, '\0', msg->payload_len))
        return ob_error_set(err, OUTBOX_INVALID, "\"payload\" is JSON but contains a NUL byte");
    if (!ob_utf8_valid(msg->payload, msg->payload_len))
        return ob_error_set(err, OUTBOX_INVALID,
                            "\"payload\" is JSON but not valid UTF-8; give bytes with a content_type instead");
    return OUTBOX_OK;
}

enum outbox_code ob_message_check(const struct outbox_message *msg, struct outbox_error *err)
{
    struct outbox_uuid tenant;
    enum outbox_code code = check_texts(msg, err);
    if (!code)
        code = check_numbers(msg, err);
    if (!code && msg->tenant_id && !outbox_uuid_parse(msg->tenant_id, &tenant))
        code = ob_error_set(err, OUTBOX_INVALID, "\"tenant_id\" is \"%.64s\", which is not a uuid", msg->tenant_id);
    if (!code && msg->headers)
        code = check_headers(msg->headers, err);
    return code ? code : check_payload(msg, err);
}

enum outbox_code ob_messages_check(const struct outbox_message *msgs, size_t count, struct outbox_error *err)
{
    char range[64];
    if (count > (size_t)OB_MOST(enqueue_many))
        return ob_error_set(err, OUTBOX_INVALID, "there are %zu messages; one call takes %s", count,
                            ob_limit_range(OB_LIMIT_enqueue_many, range));
    for (size_t i = 0; i < count; i++) {
        struct outbox_error cause;
        enum outbox_code code = ob_message_check(&msgs[i], &cause);
        if (code)
            return ob_error_set(err, code, "message %zu: %s", i + 1, cause.text);
    }
    return OUTBOX_OK;
}
