/* render.c - see render.h. */
#include "sink/common/render.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_check.h"
#include "base/utf8.h"
#include "base/uuid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const struct ob_wire ob_wire_http = {.prefix = "ce-", .percent = true};
const struct ob_wire ob_wire_kafka = {.prefix = "ce_", .content_type = "content-type"};
const struct ob_wire ob_wire_amqp = {.prefix = "cloudEvents_"};
const struct ob_wire ob_wire_nats = {.prefix = "ce-", .content_type = "content-type", .percent = true};
const struct ob_wire ob_wire_mqtt = {.prefix = ""};

/* A CloudEvent has a source, which is a reference to something. */
static bool is_source(const char *text)
{
    bool ok = *text != '\0';
    for (; *text; text++)
        ok = ok && (unsigned char)*text > ' ' && *text != 0x7f;
    return ok;
}

enum outbox_code ob_render_read(struct ob_render *render, const struct ob_options *options, struct ob_arena *arena,
                                struct outbox_error *err)
{
    const char *format = ob_option_string(options, "format");
    const char *source = ob_option_text(options, "source");
    render->format = strcmp(format, "structured") == 0 ? OB_FORMAT_STRUCTURED
                     : strcmp(format, "binary") == 0   ? OB_FORMAT_BINARY
                                                       : OB_FORMAT_PLAIN;
    render->generate_trace = ob_option_is(options, "trace", "generate");
    if (source && !is_source(source))
        return ob_error_set(err, OUTBOX_INVALID,
                            "source is \"%.80s\", but must be a URI or a part of one, without spaces", source);
    render->source = source ? ob_arena_strdup(arena, source) : NULL;
    return source && !render->source ? ob_error_nomem(err) : OUTBOX_OK;
}

/* ---- pieces ---- */

void ob_render_percent(struct ob_buf *buf, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '%')
            ob_buf_printf(buf, "%%%02X", c);
        else
            ob_buf_putc(buf, (char)c);
    }
}

void ob_render_base64(struct ob_buf *buf, const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = data;
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)in[i] << 16 | (have > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (have > 2 ? in[i + 2] : 0);
        char out[4] = {digits[bits >> 18], digits[bits >> 12 & 63], (char)(have > 1 ? digits[bits >> 6 & 63] : '='),
                       (char)(have > 2 ? digits[bits & 63] : '=')};
        ob_buf_put(buf, out, sizeof out);
    }
}

static bool is_json_type(const char *type)
{
    size_t len = strcspn(type, "; ");
    return (len == 16 && strncasecmp(type, "application/json", 16) == 0) ||
           (len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0);
}

bool ob_render_is_json(const struct outbox_delivery *msg)
{
    /* Without a content type it should be JSON; but what is pasted into an envelope is checked where that is done. */
    bool named = !msg->content_type || is_json_type(msg->content_type);
    return named && (msg->payload_len ? ob_json_valid(msg->payload, msg->payload_len) : !msg->content_type);
}

static bool is_text(const struct outbox_delivery *msg)
{
    return msg->content_type && strncasecmp(msg->content_type, "text/", 5) == 0 &&
           ob_utf8_valid(msg->payload, msg->payload_len) && !memchr(msg->payload, 0, msg->payload_len);
}

/* One member: the payload as JSON, as text, or as base64 under the other name. */
static void put_payload(struct ob_json *json, const struct outbox_delivery *msg, const char *name, const char *name64)
{
    struct ob_buf piece = OB_BUF_INIT;
    if (ob_render_is_json(msg)) {
        ob_json_key(json, name);
        ob_json_raw_line(json, msg->payload_len ? msg->payload : "null", msg->payload_len ? msg->payload_len : 4);
    } else if (is_text(msg)) {
        ob_json_key(json, name);
        ob_json_string_n(json, msg->payload, msg->payload_len);
    } else {
        ob_render_base64(&piece, msg->payload, msg->payload_len);
        ob_json_key(json, name64);
        ob_json_string(json, ob_buf_text(&piece));
    }
    json->buf->failed |= !ob_buf_ok(&piece);
    ob_buf_fini(&piece);
}

static void put_text(struct ob_json *json, const char *name, const char *text)
{
    if (!text)
        return;
    ob_json_key(json, name);
    ob_json_string(json, text);
}

static void put_int(struct ob_json *json, const char *name, int64_t value)
{
    ob_json_key(json, name);
    ob_json_int(json, value);
}

/* ---- CloudEvents ---- */

enum { ATTRIBUTES = 20 };

struct event {
    struct ob_header at[ATTRIBUTES];
    size_t count;
    char id[OB_UUID_TEXT], time[OB_CLOCK_TEXT], sequence[24], attempt[16], source[256];
};

static void event_add(struct event *event, const char *name, const char *value)
{
    if (value)
        event->at[event->count++] = (struct ob_header){name, value};
}

/* The attributes of a message, required ones first. Names of our own extensions begin with "outbox". */
static void event_init(struct event *event, const struct outbox_delivery *msg, const char *source)
{
    event->count = 0;
    outbox_uuid_format(&msg->id, event->id);
    ob_clock_format(msg->created_at_us, event->time);
    snprintf(event->sequence, sizeof event->sequence, "%019" PRId64, msg->seq); /* must sort as text */
    snprintf(event->attempt, sizeof event->attempt, "%d", msg->attempt);
    snprintf(event->source, sizeof event->source, "outbox/%s", msg->name_space ? msg->name_space : "default");
    event_add(event, "specversion", "1.0");
    event_add(event, "id", event->id);
    event_add(event, "source", source ? source : event->source);
    event_add(event, "type", msg->topic);
    event_add(event, "subject", msg->subject);
    event_add(event, "time", msg->created_at_us ? event->time : NULL);
    event_add(event, "partitionkey", msg->key);
    event_add(event, "sequence", msg->seq ? event->sequence : NULL);
    event_add(event, "correlationid", msg->correlation_id);
    event_add(event, "outboxattempt", event->attempt);
    event_add(event, "outboxdedupekey", msg->dedupe_key);
    event_add(event, "outboxtenant", msg->tenant_id);
    event_add(event, "outboxredriven", msg->redriven ? "true" : NULL);
}

static void put_event(struct ob_buf *buf, const struct outbox_delivery *msg, const char *source, bool generate)
{
    struct event event;
    struct ob_headers trace;
    struct ob_json json;
    event_init(&event, msg, source);
    ob_headers_init(&trace);
    ob_headers_add_trace(&trace, msg, generate);
    event_add(&event, "traceparent", ob_headers_get(&trace, "traceparent"));
    event_add(&event, "tracestate", ob_headers_get(&trace, "tracestate"));
    event_add(&event, "datacontenttype", msg->content_type ? msg->content_type : "application/json");
    ob_json_init(&json, buf);
    ob_json_object(&json);
    for (size_t i = 0; i < event.count; i++)
        put_text(&json, event.at[i].name, event.at[i].value);
    put_payload(&json, msg, "data", "data_base64");
    ob_json_end(&json);
    ob_headers_fini(&trace);
}

void ob_render_cloudevent(struct ob_buf *buf, const struct outbox_delivery *msg, const char *source)
{
    put_event(buf, msg, source, false);
}

static bool needs_percent(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value <= 0x20 || (unsigned char)*value >= 0x7f || *value == '"' || *value == '%')
            return true;
    return false;
}

/* An invalid value must be refused, not hidden by its encoding: so it is passed on unchanged. */
static void add_encoded(struct ob_headers *headers, const char *prefix, const char *name, const char *value,
                        bool percent)
{
    char full[128];
    struct ob_buf encoded = OB_BUF_INIT;
    if (!value)
        return;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (percent && needs_percent(value) && ob_header_value_ok(value, strlen(value))) {
        ob_render_percent(&encoded, value);
        if (!ob_buf_ok(&encoded))
            ob_headers_spoil(headers, "out_of_memory", "out of memory");
        value = ob_buf_text(&encoded);
    }
    ob_headers_add(headers, full, value);
    ob_buf_fini(&encoded);
}

static void add_event(struct ob_headers *headers, const struct outbox_delivery *msg, const char *source,
                      const struct ob_wire *wire)
{
    struct event event;
    event_init(&event, msg, source);
    for (size_t i = 0; i < event.count; i++)
        add_encoded(headers, wire->prefix, event.at[i].name, event.at[i].value, wire->percent);
}

/* ---- headers and body ---- */

void ob_render_metadata(const struct outbox_delivery *msg, bool percent, struct ob_headers *headers)
{
    char id[OB_UUID_TEXT];
    outbox_uuid_format(&msg->id, id);
    const struct ob_header texts[] = {
        {"id", id},
        {"topic", msg->topic},
        {"namespace", msg->name_space},
        {"key", msg->key},
        {"dedupe-key", msg->dedupe_key},
        {"tenant", msg->tenant_id},
        {"subject", msg->subject},
        {"correlation-id", msg->correlation_id},
        {"redriven", msg->redriven ? "true" : NULL},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        add_encoded(headers, "outbox-", texts[i].name, texts[i].value, percent);
    ob_headers_add_int(headers, "outbox-attempt", msg->attempt);
    if (msg->seq)
        ob_headers_add_int(headers, "outbox-seq", msg->seq);
}

const char *ob_render_content_type(const struct ob_render *render, const struct outbox_delivery *msg)
{
    if (render->format == OB_FORMAT_STRUCTURED)
        return "application/cloudevents+json; charset=UTF-8";
    return msg->content_type ? msg->content_type : "application/json";
}

void ob_render_headers(const struct ob_render *render, const struct ob_wire *wire, const struct outbox_delivery *msg,
                       struct ob_headers *headers)
{
    const char *type = ob_render_content_type(render, msg);
    ob_render_metadata(msg, wire->percent, headers);
    ob_headers_add_trace(headers, msg, render->generate_trace);
    if (render->format == OB_FORMAT_BINARY)
        add_event(headers, msg, render->source, wire);
    if (wire->content_type)
        ob_headers_add(headers, wire->content_type, type);
    else if (!ob_header_value_ok(type, strlen(type)))
        ob_headers_spoil(headers, "header_invalid", "the content type has control characters or is not UTF-8");
    ob_headers_add_message(headers, msg, !*wire->prefix);
}

bool ob_render_body(const struct ob_render *render, const struct outbox_delivery *msg, struct ob_buf *buf,
                    const void **data, size_t *len)
{
    *data = msg->payload;
    *len = msg->payload_len;
    if (render->format != OB_FORMAT_STRUCTURED)
        return true;
    ob_buf_reset(buf);
    put_event(buf, msg, render->source, render->generate_trace);
    *data = buf->data;
    *len = buf->len;
    return ob_buf_ok(buf);
}

/* ---- one line ---- */

static void put_headers(struct ob_json *json, const struct outbox_delivery *msg)
{
    size_t len = msg->headers ? strlen(msg->headers) : 0;
    if (!msg->headers)
        return;
    ob_json_key(json, "headers");
    if (ob_json_valid(msg->headers, len))
        ob_json_raw_line(json, msg->headers, len);
    else
        ob_json_string_n(json, msg->headers, len);
}

void ob_render_record(struct ob_buf *buf, const struct outbox_delivery *msg)
{
    char id[OB_UUID_TEXT], time[OB_CLOCK_TEXT];
    struct ob_json json;
    outbox_uuid_format(&msg->id, id);
    ob_clock_format(msg->created_at_us, time);
    ob_json_init(&json, buf);
    ob_json_object(&json);
    put_text(&json, "id", id);
    put_text(&json, "namespace", msg->name_space);
    put_text(&json, "topic", msg->topic);
    put_text(&json, "key", msg->key);
    if (msg->seq)
        put_int(&json, "seq", msg->seq);
    put_int(&json, "attempt", msg->attempt);
    put_text(&json, "dedupe_key", msg->dedupe_key);
    put_text(&json, "tenant", msg->tenant_id);
    put_text(&json, "subject", msg->subject);
    put_text(&json, "recipient", msg->recipient);
    put_text(&json, "correlation_id", msg->correlation_id);
    put_text(&json, "created_at", msg->created_at_us ? time : NULL);
    if (msg->redriven)
        ob_json_key(&json, "redriven"), ob_json_bool(&json, true);
    put_headers(&json, msg);
    put_text(&json, "content_type", msg->content_type);
    put_payload(&json, msg, "payload", "payload_base64");
    ob_json_end(&json);
}

/* A value that has none of the characters of logfmt's own stands as it is. */
static void put_pair(struct ob_buf *buf, const char *name, const char *value, size_t len)
{
    ob_buf_printf(buf, "%s%s=", buf->len && buf->data[buf->len - 1] != '\n' ? " " : "", name);
    bool plain = len > 0;
    for (size_t i = 0; i < len && plain; i++)
        plain = (unsigned char)value[i] > 0x20 && (unsigned char)value[i] < 0x7f && !strchr("=\"\\", value[i]);
    if (plain)
        ob_buf_put(buf, value, len);
    else
        ob_json_quote(buf, value, len);
}

void ob_render_logfmt(struct ob_buf *buf, const struct outbox_delivery *msg)
{
    char id[OB_UUID_TEXT], seq[24], attempt[16];
    outbox_uuid_format(&msg->id, id);
    snprintf(seq, sizeof seq, "%" PRId64, msg->seq);
    snprintf(attempt, sizeof attempt, "%d", msg->attempt);
    const struct ob_header texts[] = {
        {"id", id},
        {"namespace", msg->name_space},
        {"topic", msg->topic},
        {"key", msg->key},
        {"seq", msg->seq ? seq : NULL},
        {"attempt", attempt},
        {"dedupe_key", msg->dedupe_key},
        {"tenant", msg->tenant_id},
        {"subject", msg->subject},
        {"recipient", msg->recipient},
        {"correlation_id", msg->correlation_id},
        {"redriven", msg->redriven ? "true" : NULL},
        {"headers", msg->headers},
        {"content_type", msg->content_type},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].value)
            put_pair(buf, texts[i].name, texts[i].value, strlen(texts[i].value));
    put_pair(buf, "payload", msg->payload, msg->payload_len);
}
