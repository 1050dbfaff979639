/* sink_state.c - see sink_state.h. */
#include "core/sink_state.h"

#include "core/mutant.h"

#include <string.h>

static const int64_t second = 1000000;

struct ob_sink_settings ob_sink_settings(const struct ob_sink_settings *given)
{
    struct ob_sink_settings set = given ? *given : (struct ob_sink_settings){0};
    set.concurrency = set.concurrency ? set.concurrency : 16;
    set.batch = set.batch ? set.batch : 16;
    set.run = set.run ? set.run : 1;
    set.rate_period_us = set.rate_period_us ? set.rate_period_us : second;
    set.rate_burst = set.rate_burst ? set.rate_burst : 1;
    set.timeout_us = set.timeout_us ? set.timeout_us : 10 * second;
    set.limited_base_us = set.limited_base_us ? set.limited_base_us : second;
    set.limited_cap_us = set.limited_cap_us ? set.limited_cap_us : 60 * second;
    set.retry.after_cap_us = ob_retry_settings(&set.retry).after_cap_us; /* base and cap are set per message */
    return set;
}

bool ob_sink_state_valid(const struct ob_sink_settings *set)
{
    const struct ob_retry retry = ob_retry_settings(&set->retry);
    return set->concurrency > 0 && set->batch > 0 && set->run > 0 && set->rate_count >= 0 && set->rate_period_us > 0 &&
           set->rate_burst > 0 && set->timeout_us > 0 && set->limited_base_us > 0 && set->limited_cap_us > 0 &&
           ob_retry_valid(&retry);
}

void ob_sink_state_tune(struct ob_sink_state *sink, const struct ob_sink_settings *settings)
{
    sink->set = ob_sink_settings(settings);
    int64_t full_ns = sink->rate.full_ns;
    ob_rate_init(&sink->rate, sink->set.rate_count, sink->set.rate_period_us, sink->set.rate_burst);
    sink->rate.full_ns = full_ns;
    struct ob_breaker fresh;
    ob_breaker_init(&fresh, &sink->set.breaker);
    sink->breaker.set = fresh.set;
}

void ob_sink_state_init(struct ob_sink_state *sink, const struct ob_sink_settings *settings, int room_most)
{
    *sink = (struct ob_sink_state){.set = ob_sink_settings(settings), .room_most = room_most, .accepted_us = -1};
    ob_list_init(&sink->ready);
    ob_breaker_init(&sink->breaker, &sink->set.breaker);
    ob_rate_init(&sink->rate, sink->set.rate_count, sink->set.rate_period_us, sink->set.rate_burst);
    sink->limited_step_us = sink->set.limited_base_us;
    sink->room = 2 * sink->set.concurrency > sink->set.batch ? 2 * sink->set.concurrency : sink->set.batch;
    if (sink->room > room_most)
        sink->room = room_most;
}

void ob_sink_state_inherit(struct ob_sink_state *sink, const struct ob_sink_state *from)
{
    struct ob_breaker_settings set = sink->breaker.set;
    sink->breaker = from->breaker;
    sink->breaker.set = set;
    sink->told = from->told;
    sink->rate.full_ns = from->rate.full_ns;
    sink->limited_until_us = from->limited_until_us;
    sink->limited_step_us = from->limited_step_us;
    sink->accepted_us = from->accepted_us;
    sink->refusals = from->refusals;
    memcpy(sink->code, from->code, sizeof sink->code);
}

int64_t ob_sink_state_put_off_us(const struct ob_sink_state *sink, int64_t now_us)
{
    if (sink->paused)
        return second;
    if (sink->breaker.state == OB_BREAKER_OPEN)
        return sink->breaker.probe_at_us > now_us ? sink->breaker.probe_at_us - now_us : 1;
    if (sink->breaker.state == OB_BREAKER_HALF_OPEN && sink->probe && !OB_MUTANT(BREAKER_FLOODS)) {
        /* Nothing is claimed while the probe is in flight. A longer wait would be wasted if the sink has recovered by then. */
        const struct ob_breaker *breaker = &sink->breaker;
        return breaker->step_us < breaker->set.cap_us ? breaker->step_us : breaker->set.cap_us;
    }
    return sink->limited_until_us > now_us ? sink->limited_until_us - now_us : 0;
}

bool ob_sink_state_shut(const struct ob_sink_state *sink, int64_t now_us)
{
    if (OB_MUTANT(BREAKER_CLAIMS))
        return sink->paused;
    if (sink->breaker.state == OB_BREAKER_HALF_OPEN && (sink->probe || !sink->idle))
        return true;
    return sink->paused || sink->breaker.state == OB_BREAKER_OPEN || sink->limited_until_us > now_us ||
           sink->held >= sink->room;
}

bool ob_sink_state_wants_probe(const struct ob_sink_state *sink, int64_t now_us)
{
    return sink->breaker.state == OB_BREAKER_HALF_OPEN && !sink->probe && !sink->idle && !sink->paused &&
           now_us >= sink->limited_until_us && sink->in_flight + sink->taken < sink->set.concurrency;
}

int ob_sink_state_free(const struct ob_sink_state *sink)
{
    if (sink->paused || sink->breaker.state == OB_BREAKER_OPEN)
        return 0;
    int free = sink->set.concurrency - sink->in_flight - sink->taken + OB_MUTANT(ONE_TOO_MANY);
    if (free < 0)
        return 0;
    if (sink->breaker.state == OB_BREAKER_HALF_OPEN && free > 1 && !OB_MUTANT(BREAKER_FLOODS))
        return 1; /* only the probe can be in the queue */
    return free;
}

void ob_sink_state_went(struct ob_sink_state *sink, int64_t waited_us, int64_t lease_us)
{
    if (waited_us < lease_us / 8 && sink->held >= sink->room / 2 && sink->room < sink->room_most)
        sink->room++;
}

void ob_sink_state_stale(struct ob_sink_state *sink, int64_t lease_us, int64_t now_us)
{
    int least = sink->set.concurrency < sink->room_most ? sink->set.concurrency : sink->room_most;
    if (now_us - sink->shrunk_us < lease_us / 8)
        return; /* a whole batch becomes stale at once, but counts only once */
    sink->shrunk_us = now_us;
    sink->room /= 2;
    if (sink->room < least)
        sink->room = least;
}

int64_t ob_sink_state_limited(struct ob_sink_state *sink, int64_t wait_us, int64_t now_us)
{
    if (wait_us < 0) {
        wait_us = sink->limited_step_us;
        if (sink->limited_until_us <= now_us) /* only once per burst of messages */
            sink->limited_step_us *= 2;
        if (sink->limited_step_us > sink->set.limited_cap_us)
            sink->limited_step_us = sink->set.limited_cap_us;
    } else if (wait_us > sink->set.retry.after_cap_us) {
        wait_us = sink->set.retry.after_cap_us;
    }
    if (now_us + wait_us > sink->limited_until_us)
        sink->limited_until_us = now_us + wait_us;
    return sink->limited_until_us - now_us;
}

void ob_sink_state_unlimited(struct ob_sink_state *sink)
{
    sink->limited_step_us = sink->set.limited_base_us;
}

static int64_t sooner(int64_t a, int64_t b, int64_t now_us)
{
    return b > now_us && b < a ? b : a;
}

int64_t ob_sink_state_due_us(const struct ob_sink_state *sink, int64_t now_us)
{
    int64_t due = sooner(INT64_MAX, sink->limited_until_us, now_us);
    if (sink->breaker.state == OB_BREAKER_OPEN)
        due = sooner(due, sink->breaker.probe_at_us, now_us);
    if (!ob_list_empty(&sink->ready) && ob_sink_state_free(sink) > 0)
        due = sooner(due, ob_rate_ready_us(&sink->rate, now_us), now_us);
    return due;
}
