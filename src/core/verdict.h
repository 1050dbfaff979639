/* verdict.h - what a sink or a callback says about a delivery, as this build understands it. */
#ifndef OB_CORE_VERDICT_H
#define OB_CORE_VERDICT_H

#include <outbox/sink.h>

/* Reads a verdict from code that may be compiled with an older or newer header. A verdict that this build does not
 * understand becomes OUTBOX_SINK_UNKNOWN, with a code and a text that say why. NULL: accepted. Texts stay borrowed. */
struct outbox_verdict ob_verdict_take(const struct outbox_verdict *from);

#endif
