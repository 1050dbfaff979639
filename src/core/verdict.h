/* verdict.h - what a sink or a callback says about a delivery, as this build understands it. */
#ifndef OB_CORE_VERDICT_H
#define OB_CORE_VERDICT_H

#include <outbox/sink.h>

/* Reads a verdict that may come from an older or newer header. What cannot be understood becomes OUTBOX_SINK_UNKNOWN, with
 * a code and a text that say why. NULL: accepted. The text stays borrowed. */
struct outbox_verdict ob_verdict_take(const struct outbox_verdict *from);

#endif
