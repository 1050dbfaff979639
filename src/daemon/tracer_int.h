/* tracer_int.h - shared by tracer.c (what is recorded) and tracer_sink.c (what is known of a sink). */
#ifndef OB_DAEMON_TRACER_INT_H
#define OB_DAEMON_TRACER_INT_H

#include "daemon/tracer.h"
#include "trace/exporter.h"

enum { OB_TRACER_FIXED = 1024, OB_TRACER_TEXT = 256 };

/* What the spans of attempts at one sink have in common. */
struct ob_tracer_sink {
    enum ob_span_kind kind;
    bool http;                         /* the conventions of HTTP: the span is named by its method */
    bool broker;                       /* those of messaging: by its destination */
    char name[OB_TRACER_TEXT];         /* the span's; of a broker the destination, or its part before the topic */
    bool by_topic;                     /* of a broker: the message's topic belongs to the destination */
    unsigned char at[OB_TRACER_FIXED]; /* attributes, as they are sent */
    size_t at_len;
};

void ob_tracer_sink_init(struct ob_tracer_sink *sink, const struct ob_config_sink *config, const char *store);

/* Copies a text from outside so that it is valid UTF-8, without a part of a character at its end. NULL stays NULL. */
const char *ob_tracer_clean(const char *text, char *to, size_t room);

#endif
