/* tracer.h - turns the notes of core/machine.h into spans: one for the time of a message in the outbox, one for each attempt.
 * docs/traces.md describes them.
 *
 * The tracer belongs to the process; a view of it belongs to one store of one generation, and knows its sinks. All of it runs on
 * the loop's thread; spans are sent by the exporter's. It holds no messages: a span is written when its end is known. Only the
 * failed attempts of messages that are tried again are remembered, for the events of the outbox's span, in a table of fixed
 * size. A message's span has no events for attempts that another relay made, or that fell out of the table. */
#ifndef OB_DAEMON_TRACER_H
#define OB_DAEMON_TRACER_H

#include "config/config.h"
#include "daemon/metrics.h"

struct ob_tracer;
struct ob_tracer_view;

/* *out is NULL if the configuration has no endpoint. */
enum outbox_code ob_tracer_open(const struct ob_config *config, struct ob_metrics *metrics, const struct ob_log *log,
                                const char *worker, struct ob_tracer **out, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Sends what is left; waits for that as long as the configuration allows. */
void ob_tracer_close(struct ob_tracer *tracer);

/* NULL: no memory. */
struct ob_tracer_view *ob_tracer_view_new(struct ob_tracer *tracer, const struct ob_config *config, const char *store);
void ob_tracer_view_free(struct ob_tracer_view *view);

/* For ob_machine_settings.trace; ctx: a view. */
void ob_tracer_begin(void *ctx, struct outbox_delivery *msg);
void ob_tracer_note(struct ob_tracer_view *view, const struct ob_note *note);

#endif
