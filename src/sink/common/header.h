/* header.h - the headers that are sent with a message: a checked list of names and values, and trace context.
 *
 * A list never contains anything that could end a line or begin another: names are tokens (RFC 9110), values are UTF-8
 * without control characters. Enqueue refuses others; they are refused here again, because a message may have reached the
 * store another way. A list owns its texts. */
#ifndef OB_SINK_COMMON_HEADER_H
#define OB_SINK_COMMON_HEADER_H

#include "base/arena.h"

#include <outbox/sink.h>

struct ob_header {
    const char *name, *value;
};

struct ob_headers {
    struct ob_header *at;
    size_t count, room;
    struct ob_arena arena;
    const char *code;  /* NULL while all is well; else the stable code of the first problem, such as "header_invalid" */
    char problem[256]; /* the same as a readable text */
};

void ob_headers_init(struct ob_headers *headers);
void ob_headers_fini(struct ob_headers *headers);
/* Removes all headers and the problem; keeps the memory of the list. */
void ob_headers_reset(struct ob_headers *headers);
/* Both copy, and do nothing if value is NULL or after a problem. If the name is in the list already (case-insensitive), the
 * earlier value stays. */
void ob_headers_add(struct ob_headers *headers, const char *name, const char *value);
void ob_headers_add_int(struct ob_headers *headers, const char *name, int64_t value);
/* Case-insensitive; NULL if there is none. */
const char *ob_headers_get(const struct ob_headers *headers, const char *name);

/* Records a problem; only the first is kept. */
void ob_headers_spoil(struct ob_headers *headers, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The verdict on a message whose headers cannot be sent; if memory ran out, it is OUTBOX_SINK_NOT_SENT. Borrows from
 * headers. */
void ob_headers_verdict(const struct ob_headers *headers, struct outbox_verdict *verdict);

/* Adds the message's own headers: a JSON object of strings. Omits names that begin with "outbox-" or "ce-", which only we
 * may set, and trace context, which ob_headers_add_trace handles. bare: also omits the names of CloudEvents attributes,
 * because these are sent without a prefix. */
void ob_headers_add_message(struct ob_headers *headers, const struct outbox_delivery *msg, bool bare);
/* Adds the trace context that the receiver gets: the attempt's own span if the relay records traces (msg->trace), otherwise
 * traceparent and tracestate of the message's headers if they are valid; otherwise, with generate, a new one as
 * core/trace.h makes it. The only place that decides this. */
void ob_headers_add_trace(struct ob_headers *headers, const struct outbox_delivery *msg, bool generate);

bool ob_header_name_ok(const char *name);
bool ob_header_value_ok(const char *value, size_t len);

#endif
