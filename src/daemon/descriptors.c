/* descriptors.c - see descriptors.h. */
#include "daemon/descriptors.h"

#include "base/error.h"
#include "core/sink_state.h"
#include "daemon/visitors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* OWN: the loop, the log, resolver threads. STORE: three connections and the maintenance thread's, or a file with its
 * journal twice; the descriptors that watch them; and one for each draining configuration. */
enum { REASONABLE = 65536, OWN = 32, STORE = 24, GUESS = 4, GUESS_EACH = 1 };

static struct rlimit given; /* the limit before it was raised */

/* Runs in the child after a fork. Programs that a sink starts get the original limit: those that use select() or close
 * all descriptors up to the limit depend on it. */
static void give_back(void)
{
    (void)setrlimit(RLIMIT_NOFILE, &given);
}

int64_t ob_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    if (limit.rlim_cur < REASONABLE && limit.rlim_cur < limit.rlim_max) {
        struct rlimit more = limit;
        more.rlim_cur = limit.rlim_max < REASONABLE ? limit.rlim_max : REASONABLE;
        given = limit;
        if (pthread_atfork(NULL, NULL, give_back) == 0 && setrlimit(RLIMIT_NOFILE, &more) == 0)
            limit = more;
    }
    return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
}

static int most_connections(const struct ob_config_sink *sink)
{
    int most = ob_sink_settings(&sink->delivery).concurrency;
    for (size_t i = 0; sink->ops && sink->ops->connections && i < sink->option_count; i++) {
        if (strcmp(sink->options[i].name, sink->ops->connections) != 0 || !sink->options[i].value)
            continue;
        long allowed = strtol(sink->options[i].value, NULL, 10);
        if (allowed > 0 && allowed < most)
            return (int)allowed;
    }
    return most;
}

/* The descriptors that a sink needs with at most `cap` connections; cap 0: as many as it may have. */
static int64_t taken_by(const struct ob_config_sink *sink, int cap)
{
    const struct outbox_sink_ops *ops = sink->ops;
    bool declared = ops && (ops->descriptors > 0 || ops->descriptors_each > 0);
    int64_t own = declared ? ops->descriptors : GUESS, each = declared ? ops->descriptors_each : GUESS_EACH;
    int connections = most_connections(sink);
    return own + each * (cap > 0 && cap < connections ? cap : connections);
}

static int64_t taken_with(const struct ob_config *config, int cap)
{
    int64_t sum = OWN + (int64_t)config->store_count * STORE + (config->admin_listen ? 2 * OB_VISITORS : 0);
    for (size_t i = 0; i < config->sink_count; i++)
        sum += taken_by(&config->sinks[i], cap);
    return sum;
}

enum outbox_code ob_descriptors_plan(const struct ob_config *config, int64_t limit, struct ob_descriptors *plan,
                                     struct outbox_error *err)
{
    *plan = (struct ob_descriptors){.limit = limit, .needed = taken_with(config, 0)};
    if (limit <= 0 || plan->needed <= limit)
        return OUTBOX_OK;
    int64_t least = taken_with(config, 1);
    if (least > limit)
        return ob_error_set(
            err, OUTBOX_CONFIG,
            "%zu sinks and %zu stores need at least %lld file descriptors, but the limit is %lld: raise it (ulimit "
            "-n, or LimitNOFILE= in systemd) to %lld",
            config->sink_count, config->store_count, (long long)least, (long long)limit, (long long)plan->needed);
    int low = 1, high = 100000; /* low fits, high does not */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (taken_with(config, middle) <= limit)
            low = middle;
        else
            high = middle;
    }
    plan->cap = low;
    return OUTBOX_OK;
}
