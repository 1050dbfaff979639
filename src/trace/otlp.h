/* otlp.h - spans as OTLP wants them: opentelemetry/proto/trace/v1/trace.proto, written by hand.
 *
 * A span is written in pieces: its head, then attributes, events, links and its status, in any order. Fields of a message may
 * stand in any order in Protocol Buffers, so nothing need be known in advance. The caller cuts long texts. */
#ifndef OB_TRACE_OTLP_H
#define OB_TRACE_OTLP_H

#include "base/buf.h"
#include "trace/protobuf.h"

enum ob_span_kind { OB_SPAN_INTERNAL = 1, OB_SPAN_SERVER = 2, OB_SPAN_CLIENT = 3, OB_SPAN_PRODUCER = 4 };
enum ob_span_status { OB_SPAN_UNSET = 0, OB_SPAN_OK = 1, OB_SPAN_ERROR = 2 };

struct ob_span {
    const unsigned char *trace_id, *span_id; /* 16 and 8 bytes */
    const unsigned char *parent_id;          /* 8 bytes; NULL: a root */
    const char *state;                       /* tracestate; NULL: none */
    const char *name;
    enum ob_span_kind kind;
    int64_t begin_us, end_us; /* since 1970; the end is not before the begin */
    unsigned char flags;      /* of the trace context */
    bool remote;              /* the parent is a span of another process */
};

/* An attribute's value: text, or a number if text is NULL. */
struct ob_attribute {
    const char *key, *text;
    int64_t number;
};

void ob_otlp_span(struct ob_pb *pb, const struct ob_span *span);
void ob_otlp_text(struct ob_pb *pb, const char *key, const char *text); /* NULL: none */
void ob_otlp_int(struct ob_pb *pb, const char *key, int64_t number);
void ob_otlp_event(struct ob_pb *pb, const char *name, int64_t at_us, const struct ob_attribute *at, size_t count);
void ob_otlp_link(struct ob_pb *pb, const unsigned char *trace_id, const unsigned char *span_id);
void ob_otlp_status(struct ob_pb *pb, enum ob_span_status status, const char *text);

/* Adds a span that was written as above to those of a request: with a tag and its length. */
void ob_otlp_add(struct ob_buf *spans, const struct ob_pb *span);
/* What stands before so many bytes of spans in a request; resource: attributes of what sends them. */
void ob_otlp_head(struct ob_buf *request, const struct ob_attribute *resource, size_t count, const char *version,
                  size_t spans);
/* How many spans the collector says it has rejected, and why; text is cut. 0: none, or the answer says nothing. */
int64_t ob_otlp_rejected(const void *answer, size_t len, char *text, size_t room);

#endif
