/* lag.h - how long the event loop works between two waits. During that time it serves nothing else: no sink, no signal,
 * no deadline. Measured in every turn, exported as a metric, and logged when it is long. Runs on the loop's thread. */
#ifndef OB_DAEMON_LAG_H
#define OB_DAEMON_LAG_H

#include "base/log.h"
#include "daemon/metrics.h"

#include <uv.h>

enum {
    OB_LAG_WARN_US = 500000,
    OB_LAG_QUIET_US = 10000000
}; /* the lag that is logged; minimum time between two log lines */

struct ob_lag {
    uv_loop_t *loop;
    uv_prepare_t prepare;
    const struct ob_log *log;
    struct ob_series *series;
    uint64_t before_ns, waited_ns; /* the clock, and the loop's total waiting time, at the end of the last turn */
    int64_t told_us;               /* when it was last logged; 0: never */
    int64_t worst_us;              /* since the last line */
    unsigned long_turns;           /* likewise */
};

/* Call before the loop runs and before its other prepare handles are started: handles started later run first, so their
 * work is included. Returns a libuv error code. The handle is closed with the loop. */
int ob_lag_start(struct ob_lag *lag, uv_loop_t *loop, const struct ob_log *log, struct ob_series *process);

#endif
