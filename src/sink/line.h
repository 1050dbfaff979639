/* line.h - a message as one line of text, for the sinks that write lines. */
#ifndef OB_SINK_LINE_H
#define OB_SINK_LINE_H

#include "base/buf.h"

#include <outbox/sink.h>

enum ob_line { OB_LINE_JSON, OB_LINE_LOGFMT, OB_LINE_CLOUDEVENT, OB_LINE_PAYLOAD };

#define OB_LINE_SETTING \
    { \
        .name = "format", .type = OUTBOX_OPTION_ENUM, .choices = "json logfmt cloudevent payload", .fallback = "json", \
        .doc = "a line: the whole message as JSON or logfmt, a CloudEvent, or the payload alone" \
    }

enum ob_line ob_line_parse(const char *word);
/* With its newline. Only a payload alone that is no JSON may hold further line breaks. */
void ob_line_put(struct ob_buf *buf, enum ob_line line, const struct outbox_delivery *msg);

#endif
