/* lag.h - how long the event loop works between two waits. Meanwhile nothing else is served: no sink, no signal, no
 * deadline. Measured in every turn, exported, and logged when it is long. On the loop's thread. */
#ifndef OB_DAEMON_LAG_H
#define OB_DAEMON_LAG_H

#include "base/log.h"
#include "daemon/metrics.h"

#include <uv.h>

enum { OB_LAG_WARN_US = 500000, OB_LAG_QUIET_US = 10000000 }; /* what is long; from one line to the next at least */

struct ob_lag {
    uv_loop_t *loop;
    uv_prepare_t prepare;
    const struct ob_log *log;
    struct ob_series *series;
    uint64_t before_ns, waited_ns; /* the clock, and how long the loop had waited in all, at the end of the last turn */
    int64_t told_us;               /* 0: not yet */
    int64_t worst_us;              /* since the last line */
    unsigned long_turns;           /* likewise */
};

/* Before the loop runs, and before its other prepare handles are started: those started last run first, and their work
 * counts. Returns an error of libuv. The handle is closed with the loop. */
int ob_lag_start(struct ob_lag *lag, uv_loop_t *loop, const struct ob_log *log, struct ob_series *process);

#endif
