/* check.h - for the check function of a kind of sink: reporting a problem with its settings. Thread: the caller's; no state. */
#ifndef OB_SINK_COMMON_CHECK_H
#define OB_SINK_COMMON_CHECK_H

#include <outbox/sink.h>

/* setting and text: see struct outbox_sink_check. */
void ob_check_problem(const struct outbox_sink_check *check, bool error, const char *setting, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
