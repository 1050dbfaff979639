/* otlp.c - see otlp.h. The names of fields stand beside their numbers. */
#include "trace/otlp.h"

#include <stdio.h>
#include <string.h>

enum { HAS_REMOTE = 0x100, IS_REMOTE = 0x200 };

static uint64_t nanos(int64_t us)
{
    return us > 0 ? (uint64_t)us * 1000 : 0;
}

static size_t field_size(size_t len)
{
    return 1 + ob_pb_varint_size(len) + len; /* all field numbers of ours are below 16 */
}

/* AnyValue: string_value = 1, int_value = 3 */
static size_t value_size(const struct ob_attribute *at)
{
    return at->text ? field_size(strlen(at->text)) : 1 + ob_pb_varint_size((uint64_t)at->number);
}

/* KeyValue: key = 1, value = 2 */
static size_t attribute_size(const struct ob_attribute *at)
{
    return field_size(strlen(at->key)) + field_size(value_size(at));
}

/* A key and a text that are short, as nearly all are: every length is one byte, and the room is checked once. */
static bool put_short(struct ob_pb *pb, int field, const char *key, size_t key_len, const char *text, size_t len)
{
    if (key_len > 60 || len > 50 || pb->full || pb->room - pb->len < key_len + len + 10)
        return false;
    unsigned char *at = pb->data + pb->len;
    *at++ = (unsigned char)(field << 3 | OB_PB_BYTES);
    *at++ = (unsigned char)(key_len + len + 6);
    *at++ = 1 << 3 | OB_PB_BYTES;
    *at++ = (unsigned char)key_len;
    memcpy(at, key, key_len);
    at += key_len;
    *at++ = 2 << 3 | OB_PB_BYTES;
    *at++ = (unsigned char)(len + 2);
    *at++ = 1 << 3 | OB_PB_BYTES;
    *at++ = (unsigned char)len;
    memcpy(at, text, len);
    pb->len = (size_t)(at + len - pb->data);
    return true;
}

static void put_attribute(struct ob_pb *pb, int field, const struct ob_attribute *at)
{
    if (at->text && put_short(pb, field, at->key, strlen(at->key), at->text, strlen(at->text)))
        return;
    ob_pb_begin(pb, field, attribute_size(at));
    ob_pb_bytes(pb, 1, at->key, strlen(at->key));
    ob_pb_begin(pb, 2, value_size(at));
    if (at->text)
        ob_pb_bytes(pb, 1, at->text, strlen(at->text));
    else
        ob_pb_uint(pb, 3, (uint64_t)at->number);
}

/* Span: trace_id = 1, span_id = 2, trace_state = 3, parent_span_id = 4, name = 5, kind = 6, start_time_unix_nano = 7,
 * end_time_unix_nano = 8, attributes = 9, events = 11, links = 13, status = 15, flags = 16 */
void ob_otlp_span(struct ob_pb *pb, const struct ob_span *span)
{
    ob_pb_bytes(pb, 1, span->trace_id, 16);
    ob_pb_bytes(pb, 2, span->span_id, 8);
    if (span->state)
        ob_pb_bytes(pb, 3, span->state, strlen(span->state));
    if (span->parent_id)
        ob_pb_bytes(pb, 4, span->parent_id, 8);
    ob_pb_bytes(pb, 5, span->name, strlen(span->name));
    ob_pb_uint(pb, 6, span->kind);
    ob_pb_fixed64(pb, 7, nanos(span->begin_us));
    ob_pb_fixed64(pb, 8, nanos(span->end_us > span->begin_us ? span->end_us : span->begin_us));
    ob_pb_fixed32(pb, 16, span->flags | HAS_REMOTE | (span->remote ? IS_REMOTE : 0U));
}

void ob_otlp_text(struct ob_pb *pb, const char *key, const char *text)
{
    if (text)
        put_attribute(pb, 9, &(struct ob_attribute){.key = key, .text = text});
}

void ob_otlp_int(struct ob_pb *pb, const char *key, int64_t number)
{
    put_attribute(pb, 9, &(struct ob_attribute){.key = key, .number = number});
}

/* Event: time_unix_nano = 1, name = 2, attributes = 3 */
void ob_otlp_event(struct ob_pb *pb, const char *name, int64_t at_us, const struct ob_attribute *at, size_t count)
{
    size_t size = 9 + field_size(strlen(name));
    for (size_t i = 0; i < count; i++)
        size += field_size(attribute_size(&at[i]));
    ob_pb_begin(pb, 11, size);
    ob_pb_fixed64(pb, 1, nanos(at_us));
    ob_pb_bytes(pb, 2, name, strlen(name));
    for (size_t i = 0; i < count; i++)
        put_attribute(pb, 3, &at[i]);
}

/* Link: trace_id = 1, span_id = 2 */
void ob_otlp_link(struct ob_pb *pb, const unsigned char *trace_id, const unsigned char *span_id)
{
    ob_pb_begin(pb, 13, field_size(16) + field_size(8));
    ob_pb_bytes(pb, 1, trace_id, 16);
    ob_pb_bytes(pb, 2, span_id, 8);
}

/* Status: message = 2, code = 3 */
void ob_otlp_status(struct ob_pb *pb, enum ob_span_status status, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    ob_pb_begin(pb, 15, (len ? field_size(len) : 0) + 2);
    if (len)
        ob_pb_bytes(pb, 2, text, len);
    ob_pb_uint(pb, 3, status);
}

/* ---- the request: ExportTraceServiceRequest: resource_spans = 1 ---- */

/* ScopeSpans: spans = 2 */
void ob_otlp_add(struct ob_buf *spans, const struct ob_pb *span)
{
    unsigned char head[16];
    struct ob_pb pb;
    ob_pb_init(&pb, head, sizeof head);
    ob_pb_begin(&pb, 2, span->len);
    ob_buf_put(spans, head, pb.len);
    ob_buf_put(spans, span->data, span->len);
}

/* ResourceSpans: resource = 1, scope_spans = 2. Resource: attributes = 1. ScopeSpans: scope = 1.
 * InstrumentationScope: name = 1, version = 2 */
void ob_otlp_head(struct ob_buf *request, const struct ob_attribute *resource, size_t count, const char *version,
                  size_t spans)
{
    static const char name[] = "outbox";
    unsigned char head[4096];
    struct ob_pb pb;
    size_t resource_size = 0, scope_size = field_size(strlen(name)) + field_size(strlen(version));
    for (size_t i = 0; i < count; i++)
        resource_size += field_size(attribute_size(&resource[i]));
    size_t scope_spans = field_size(scope_size) + spans;
    ob_pb_init(&pb, head, sizeof head);
    ob_pb_begin(&pb, 1, field_size(resource_size) + field_size(scope_spans));
    ob_pb_begin(&pb, 1, resource_size);
    for (size_t i = 0; i < count; i++)
        put_attribute(&pb, 1, &resource[i]);
    ob_pb_begin(&pb, 2, scope_spans);
    ob_pb_begin(&pb, 1, scope_size);
    ob_pb_bytes(&pb, 1, name, strlen(name));
    ob_pb_bytes(&pb, 2, version, strlen(version));
    request->failed |= pb.full;
    ob_buf_put(request, head, pb.len);
}

/* ---- the answer: ExportTraceServiceResponse: partial_success = 1 ---- */

/* ExportTracePartialSuccess: rejected_spans = 1, error_message = 2 */
int64_t ob_otlp_rejected(const void *answer, size_t len, char *text, size_t room)
{
    struct ob_pb_reader outer = {answer, (const unsigned char *)answer + len}, inner;
    struct ob_pb_field part, field;
    int64_t rejected = 0;
    *text = '\0';
    while (ob_pb_next(&outer, &part))
        if (part.number == 1 && part.wire == OB_PB_BYTES)
            for (inner = (struct ob_pb_reader){part.data, part.data + part.len}; ob_pb_next(&inner, &field);) {
                if (field.number == 1 && field.wire == OB_PB_VARINT)
                    rejected = (int64_t)field.value;
                else if (field.number == 2 && field.wire == OB_PB_BYTES)
                    snprintf(text, room, "%.*s", (int)(field.len < 1000 ? field.len : 1000), (const char *)field.data);
            }
    return rejected > 0 ? rejected : 0;
}
