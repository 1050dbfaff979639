/* trace.c - see trace.h. */
#include "core/trace.h"

#include <string.h>
#include <strings.h>

static const char hex_digits[] = "0123456789abcdef";

/* ---- traceparent and tracestate ---- */

static bool read_hex(const char *text, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count * 2; i++) {
        char c = text[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) /* W3C: no upper case */
            return false;
        unsigned value = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        bytes[i / 2] = (unsigned char)(i % 2 ? bytes[i / 2] | value : value << 4);
    }
    return true;
}

static char *write_hex(char *at, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *at++ = hex_digits[bytes[i] >> 4];
        *at++ = hex_digits[bytes[i] & 15];
    }
    return at;
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    unsigned char any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any == 0;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

bool ob_traceparent_parse(const char *text, struct outbox_trace *trace)
{
    struct outbox_trace read = {{0}};
    unsigned char version = 0;
    size_t len = strlen(text), exact = OB_TRACEPARENT_TEXT - 1;
    if (len < exact || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    if (!read_hex(text, &version, 1) || !read_hex(text + 3, read.trace_id, 16) ||
        !read_hex(text + 36, read.parent_id, 8) || !read_hex(text + 53, &read.flags, 1))
        return false;
    if (version == 0xff || is_zero(read.trace_id, 16) || is_zero(read.parent_id, 8))
        return false;
    if (len > exact && (version == 0 || text[exact] != '-' || !is_printable(text)))
        return false;
    memcpy(trace->trace_id, read.trace_id, sizeof trace->trace_id);
    memcpy(trace->parent_id, read.parent_id, sizeof trace->parent_id);
    trace->flags = read.flags;
    return true;
}

void ob_traceparent_format(const struct outbox_trace *trace, char text[OB_TRACEPARENT_TEXT])
{
    char *at = text;
    memcpy(at, "00-", 3);
    at = write_hex(at + 3, trace->trace_id, 16);
    *at++ = '-';
    at = write_hex(at, trace->span_id, 8);
    *at++ = '-';
    *write_hex(at, &trace->flags, 1) = '\0';
}

bool ob_tracestate_ok(const char *text)
{
    size_t len = strlen(text);
    return len >= 1 && len <= OB_TRACESTATE_MOST && is_printable(text) && strchr(text, '=');
}

/* ---- the message's headers ---- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* The end of the text that begins behind a quote: its own quote, or the NUL. */
static const char *end_of_text(const char *at)
{
    for (; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return at;
}

static bool is_name(const char *at, const char *end, const char *name)
{
    size_t len = strlen(name);
    return (size_t)(end - at) == len && strncasecmp(at, name, len) == 0;
}

static bool copy_value(const char *at, const char *end, char *value, size_t room)
{
    size_t len = (size_t)(end - at);
    if (len >= room || memchr(at, '\\', len))
        return false;
    memcpy(value, at, len);
    value[len] = '\0';
    return true;
}

/* Anything but an object of strings ends the search: enqueue accepts nothing else. */
bool ob_trace_header(const struct outbox_delivery *msg, const char *name, char *value, size_t room)
{
    const char *at = msg->headers ? skip_space(msg->headers) : "";
    if (*at != '{')
        return false;
    do {
        at = skip_space(at + 1);
        if (*at != '"')
            return false;
        const char *key = at + 1, *key_end = end_of_text(key);
        at = *key_end ? skip_space(key_end + 1) : key_end;
        if (*at != ':')
            return false;
        at = skip_space(at + 1);
        if (*at != '"')
            return false;
        const char *text = at + 1, *text_end = end_of_text(text);
        if (!*text_end)
            return false;
        if (is_name(key, key_end, name))
            return copy_value(text, text_end, value, room);
        at = skip_space(text_end + 1);
    } while (*at == ',');
    return false;
}

/* ---- ids ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static void make_span_id(const struct outbox_delivery *msg, uint64_t which, unsigned char span_id[8])
{
    uint64_t high, low;
    memcpy(&high, msg->id.bytes, 8);
    memcpy(&low, msg->id.bytes + 8, 8);
    uint64_t id = mix(high + mix(low + mix(which)));
    id = id ? id : 1; /* zero means none */
    memcpy(span_id, &id, 8);
}

void ob_trace_outbox_span(const struct outbox_delivery *msg, unsigned char span_id[8])
{
    make_span_id(msg, msg->redriven ? 1 : 0, span_id);
}

/* The last seven bytes of a trace id are random (W3C): below the threshold of the share they are recorded, and every relay
 * decides in the same way. */
static bool is_chosen(const unsigned char trace_id[16], int64_t sample)
{
    uint64_t random = 0;
    for (int i = 9; i < 16; i++)
        random = random << 8 | trace_id[i];
    return (random >> 24) * (uint64_t)OB_TRACE_ALL >> 32 < (uint64_t)sample;
}

void ob_trace_begin(struct outbox_delivery *msg, int64_t sample)
{
    char text[256] = "";
    struct outbox_uuid own;
    struct outbox_trace trace = {{0}};
    memset(&msg->trace, 0, sizeof msg->trace);
    if (ob_trace_header(msg, "traceparent", text, sizeof text) && ob_traceparent_parse(text, &trace)) {
        if (!(trace.flags & OB_TRACE_SAMPLED))
            return;
    } else {
        bool correlated = msg->correlation_id && outbox_uuid_parse(msg->correlation_id, &own);
        own = correlated ? own : msg->id;
        memcpy(trace.trace_id, own.bytes, 16);
        if (is_zero(trace.trace_id, 16))
            return;
        trace.flags = is_chosen(trace.trace_id, sample) ? OB_TRACE_SAMPLED : 0;
    }
    make_span_id(msg, mix((uint64_t)msg->token) ^ ((uint64_t)msg->attempt + 2), trace.span_id);
    msg->trace = trace;
}

bool ob_trace_is_set(const struct outbox_trace *trace)
{
    return !is_zero(trace->span_id, 8);
}

bool ob_trace_sampled(const struct outbox_trace *trace)
{
    return (trace->flags & OB_TRACE_SAMPLED) && ob_trace_is_set(trace);
}
