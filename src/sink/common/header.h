/* header.h - the headers that go out with a message: a checked list of names and values, and trace context.
 *
 * Nothing gets into a list that could end a line or begin another: names are tokens (RFC 9110), values are UTF-8 without
 * control characters. The store refuses others at the door; here they are refused again, because a message may have come
 * another way. A list owns its texts. */
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
    char problem[256]; /* and for people */
};

void ob_headers_init(struct ob_headers *headers);
void ob_headers_fini(struct ob_headers *headers);
/* Forgets all, also a problem; the memory for the list is kept. */
void ob_headers_reset(struct ob_headers *headers);
/* Both copy, and do nothing when value is NULL or after a problem. A name that is there already, in whatever case, keeps
 * its place and its value: who comes first wins. */
void ob_headers_add(struct ob_headers *headers, const char *name, const char *value);
void ob_headers_add_int(struct ob_headers *headers, const char *name, int64_t value);
/* NULL when it is not there; case does not count. */
const char *ob_headers_get(const struct ob_headers *headers, const char *name);

/* Notes a problem; only the first counts. */
void ob_headers_spoil(struct ob_headers *headers, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The verdict of a message whose headers cannot be sent; out of memory is not sent. Borrows from headers. */
void ob_headers_verdict(const struct ob_headers *headers, struct outbox_verdict *verdict);

/* The message's own headers: a JSON object of strings. Left out are names that begin with "outbox-" or "ce-", which are
 * ours to say, and trace context, which ob_headers_add_trace handles. bare: so are the names of CloudEvents attributes, since
 * they go out without a prefix. */
void ob_headers_add_message(struct ob_headers *headers, const struct outbox_delivery *msg, bool bare);
/* traceparent and tracestate of the message's headers where they are valid; otherwise, if asked, a traceparent made
 * from the correlation id (a uuid) or the message id, the same at every attempt but for its parent id. */
void ob_headers_add_trace(struct ob_headers *headers, const struct outbox_delivery *msg, bool generate);

bool ob_header_name_ok(const char *name);
bool ob_header_value_ok(const char *value, size_t len);
bool ob_traceparent_ok(const char *value);
bool ob_tracestate_ok(const char *value);

#endif
