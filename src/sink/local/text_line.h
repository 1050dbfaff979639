/* text_line.h - a message as one line of text, for the sinks that write lines. No I/O; any thread. */
#ifndef OB_SINK_LOCAL_TEXT_LINE_H
#define OB_SINK_LOCAL_TEXT_LINE_H

#include "base/buf.h"

#include <outbox/sink.h>

enum ob_text_format { OB_TEXT_JSON, OB_TEXT_LOGFMT, OB_TEXT_CLOUDEVENT, OB_TEXT_PAYLOAD };

#define OB_TEXT_LINE_SETTING \
    { \
        .name = "format", .type = OUTBOX_OPTION_ENUM, .choices = "json logfmt cloudevent payload", .fallback = "json", \
        .doc = "format of a line: the whole message as JSON or logfmt, a CloudEvent, or the payload alone" \
    }

enum ob_text_format ob_text_line_parse(const char *word);
/* Appends the line with its newline. Only OB_TEXT_PAYLOAD with a payload that is not JSON may contain more line breaks. */
void ob_text_line_put(struct ob_buf *buf, enum ob_text_format line, const struct outbox_delivery *msg);

#endif
