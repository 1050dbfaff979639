/* render.h - what a message looks like on the wire: plain, or as a CloudEvent 1.0 (structured or binary), with the
 * metadata that lets a receiver be idempotent. Shared by all adapters.
 *
 * An adapter puts OB_RENDER_SETTINGS into its table, reads them at open, and for each message calls
 *
 *     ob_headers_reset(&headers);
 *     ob_render_headers(&render, &ob_wire_http, msg, &headers);
 *     if (headers.code) { ob_headers_verdict(&headers, &verdict); ... }
 *     ob_render_body(&render, msg, &buf, &body, &len);
 *
 * In the plain and the binary format the body is the payload itself, never copied. */
#ifndef OB_SINK_COMMON_RENDER_H
#define OB_SINK_COMMON_RENDER_H

#include "base/buf.h"
#include "sink/common/header.h"
#include "sink/common/option.h"

enum ob_format { OB_FORMAT_PLAIN, OB_FORMAT_STRUCTURED, OB_FORMAT_BINARY };

struct ob_render {
    enum ob_format format;
    const char *source; /* NULL: "outbox/" and the namespace. Borrowed from the options: copy what must live longer. */
    bool generate_trace;
};

/* How a protocol writes the attributes of a CloudEvent in binary mode. */
struct ob_wire {
    const char *prefix; /* "ce-" */
    const char
        *content_type; /* name of the header with datacontenttype; NULL: the adapter sends it in a field of its own */
    bool percent;      /* values must be ASCII: percent-encode them, as the HTTP binding says */
};
extern const struct ob_wire ob_wire_http, ob_wire_kafka, ob_wire_amqp, ob_wire_nats, ob_wire_mqtt;

#define OB_RENDER_SETTINGS \
    {.name = "format", \
     .type = OUTBOX_OPTION_ENUM, \
     .choices = "plain structured binary", \
     .fallback = "plain", \
     .doc = "the payload as it is (`plain`), or a CloudEvent 1.0: in a JSON envelope (`structured`) or in headers " \
            "(`binary`)"}, \
        {.name = "source", \
         .type = OUTBOX_OPTION_TEXT, \
         .doc = "`source` of CloudEvents (default: `outbox/` and the namespace)"}, \
    { \
        .name = "trace", .type = OUTBOX_OPTION_ENUM, .choices = "pass generate", .fallback = "pass", \
        .doc = "pass a valid `traceparent` header of the message on; `generate` also creates a missing one" \
    }

/* render->source is copied into the arena. Fails with OUTBOX_INVALID if it is not a valid source, or OUTBOX_NOMEM. */
enum outbox_code ob_render_read(struct ob_render *render, const struct ob_options *options, struct ob_arena *arena,
                                struct outbox_error *err);

/* All headers of a message, in this order: metadata, trace context, CloudEvents attributes when binary, the message's
 * own. The adapter adds headers that must take precedence before. A content type is among them only if the wire names it. */
void ob_render_headers(const struct ob_render *render, const struct ob_wire *wire, const struct outbox_delivery *msg,
                       struct ob_headers *headers);
/* outbox-id, -attempt, -topic, -namespace, -key, -seq, -dedupe-key, -tenant, -subject, -correlation-id, -redriven;
 * absent fields are omitted. percent: values must be ASCII (space, '"' and '%' are encoded too). */
void ob_render_metadata(const struct outbox_delivery *msg, bool percent, struct ob_headers *headers);

/* *data borrows from the message or from buf, which is reset first. False: out of memory. */
bool ob_render_body(const struct ob_render *render, const struct outbox_delivery *msg, struct ob_buf *buf,
                    const void **data, size_t *len);
/* The content type of the body. Borrowed. */
const char *ob_render_content_type(const struct ob_render *render, const struct outbox_delivery *msg);

/* A CloudEvent in its JSON envelope, on one line without a newline at the end. */
void ob_render_cloudevent(struct ob_buf *buf, const struct outbox_delivery *msg, const char *source);
/* The whole message as one JSON object on one line, for sinks without headers. */
void ob_render_record(struct ob_buf *buf, const struct outbox_delivery *msg);
/* The same fields as logfmt. */
void ob_render_logfmt(struct ob_buf *buf, const struct outbox_delivery *msg);

/* Whether the payload is JSON: by its content type, and by its content. */
bool ob_render_is_json(const struct outbox_delivery *msg);
void ob_render_base64(struct ob_buf *buf, const void *data, size_t len);
/* Percent-encodes as the HTTP binding of CloudEvents says: '"', '%' and everything but visible ASCII. */
void ob_render_percent(struct ob_buf *buf, const char *text);

#endif
