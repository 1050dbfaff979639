/* trace.h - where a message stands in a trace: W3C trace context, and the ids of the spans that a relay records.
 *
 *     the producer's span ◀── the outbox's span ◀── a span per attempt ◀── the receiver's span
 *
 * The parent of the outbox's span is what the producer gave as header `traceparent`. Without one, or with an invalid one, the
 * message begins a trace of its own; its id is the correlation id, if that is a UUID, or the message's id. The ids of spans
 * follow from the message: each relay that tries it finds the same parent. No I/O. */
#ifndef OB_CORE_TRACE_H
#define OB_CORE_TRACE_H

#include <outbox/outbox.h>

enum { OB_TRACEPARENT_TEXT = 56, OB_TRACESTATE_MOST = 512, OB_TRACE_SAMPLED = 1, OB_TRACE_ALL = 1000000 };

/* "00-<trace id>-<parent id>-<flags>"; a later version may have more behind it. Sets trace_id, parent_id and flags; false, and
 * nothing is changed: it is not valid. */
bool ob_traceparent_parse(const char *text, struct outbox_trace *trace);
/* With span_id as the parent id: what the next one gets. */
void ob_traceparent_format(const struct outbox_trace *trace, char text[OB_TRACEPARENT_TEXT]);
bool ob_tracestate_ok(const char *text);

/* Finds a header of the message by its name, whatever its case, in its JSON object of strings. False: it is not there, has an
 * escape or does not fit, as no valid trace context has or does. */
bool ob_trace_header(const struct outbox_delivery *msg, const char *name, char *value, size_t room);

/* Sets msg->trace for the attempt that begins. sample: how many of a million traces that begin here are recorded; of others the
 * producer's flag decides. If the producer's trace is not recorded, msg->trace stays zero: its context is passed on unchanged. */
void ob_trace_begin(struct outbox_delivery *msg, int64_t sample);
/* Whether the attempt is recorded. */
bool ob_trace_sampled(const struct outbox_trace *trace);
/* Whether the attempt has a context of its own. */
bool ob_trace_is_set(const struct outbox_trace *trace);
/* The id of the span for the time in the outbox. A message that was dead and is sent again has a second one. */
void ob_trace_outbox_span(const struct outbox_delivery *msg, unsigned char span_id[8]);

#endif
