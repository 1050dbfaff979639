/* descriptors.h - file descriptors: as many as the system gives, and enough of them for the stores.
 *
 * A relay that runs out of them delivers to nobody, and delivers twice what it cannot settle. So what a configuration may
 * need is added up before it runs. What the stores and the relay itself need is theirs; sinks share the rest: where it does
 * not suffice, fewer messages are out at once than configured, and the log says so. */
#ifndef OB_DAEMON_DESCRIPTORS_H
#define OB_DAEMON_DESCRIPTORS_H

#include "config/config.h"

/* Raises the soft limit as far as the hard one allows, within reason; programs that are run get the old one. Returns what it
 * is now. Once in a process. */
int64_t ob_descriptors_raise(void);

struct ob_descriptors {
    int64_t limit, needed; /* needed: when everything is out that may be */
    int cap;               /* messages out for a sink, at most; 0: as configured */
};

/* OUTBOX_CONFIG when not even one message could be out for every sink; err says what to do. */
enum outbox_code ob_descriptors_plan(const struct ob_config *config, int64_t limit, struct ob_descriptors *plan,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
