/* descriptors.h - file descriptors: raises the limit, and reserves enough of them for the stores.
 *
 * A relay without free descriptors cannot deliver, and delivers twice what it cannot settle. So the number that a
 * configuration may need is added up before it runs. The stores and the relay itself get theirs first; the sinks share
 * the rest. Where the rest is too small, fewer messages are in flight at once than configured, and the log says so. */
#ifndef OB_DAEMON_DESCRIPTORS_H
#define OB_DAEMON_DESCRIPTORS_H

#include "config/config.h"

/* Raises the soft limit towards the hard limit, within reason; child processes get the original limit. Returns the new
 * limit. Call it once per process. */
int64_t ob_descriptors_raise(void);

struct ob_descriptors {
    int64_t limit, needed; /* needed: with the maximum number of messages in flight */
    int cap;               /* maximum of messages in flight per sink; 0: as configured */
};

/* OUTBOX_CONFIG when there are too few for even one message in flight per sink; err says what to do. */
enum outbox_code ob_descriptors_plan(const struct ob_config *config, int64_t limit, struct ob_descriptors *plan,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
