/* lag.c - see lag.h. */
#include "daemon/lag.h"

#include <string.h>

static void tell(struct ob_lag *lag, int64_t now)
{
    if (!lag->long_turns || (lag->told_us && now < lag->told_us + OB_LAG_QUIET_US))
        return;
    ob_log(lag->log, OB_LOG_WARN, "event loop blocked", OB_INT("longest_ms", lag->worst_us / 1000),
           OB_INT("times", lag->long_turns));
    lag->told_us = now;
    lag->worst_us = 0;
    lag->long_turns = 0;
}

/* The turn has ended; the loop waits next. Its work after the wait belongs to the next turn. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct ob_lag *lag = prepare->data;
    uint64_t now_ns = uv_hrtime(), waited_ns = uv_metrics_idle_time(lag->loop);
    uint64_t passed_ns = now_ns - lag->before_ns, idle_ns = waited_ns - lag->waited_ns;
    int64_t turn_us = lag->before_ns && passed_ns > idle_ns ? (int64_t)(passed_ns - idle_ns) / 1000 : 0;
    lag->before_ns = now_ns;
    lag->waited_ns = waited_ns;
    ob_series_observe(lag->series, OB_METRIC_loop_turn, turn_us);
    lag->long_turns += turn_us >= OB_LAG_WARN_US;
    if (turn_us > lag->worst_us)
        lag->worst_us = turn_us;
    tell(lag, (int64_t)(now_ns / 1000));
}

int ob_lag_start(struct ob_lag *lag, uv_loop_t *loop, const struct ob_log *log, struct ob_series *process)
{
    memset(lag, 0, sizeof *lag);
    lag->loop = loop;
    lag->log = log;
    lag->series = process;
    uv_prepare_init(loop, &lag->prepare);
    lag->prepare.data = lag;
    int failed = uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    return failed ? failed : uv_prepare_start(&lag->prepare, on_prepare);
}
