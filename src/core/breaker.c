/* breaker.c - the states of breaker.h. */
#include "core/breaker.h"

#include "core/mutant.h"

#include <assert.h>
#include <stddef.h>

#define BIT(n) (1u << (n))
static const int64_t rest_us = 60000000; /* results older than this say nothing about the present */

static const struct {
    const char *name;
    unsigned to;
} states[] = {
    [OB_BREAKER_CLOSED] = {"closed", BIT(OB_BREAKER_OPEN)},
    [OB_BREAKER_OPEN] = {"open", BIT(OB_BREAKER_HALF_OPEN) | BIT(OB_BREAKER_CLOSED)},
    [OB_BREAKER_HALF_OPEN] = {"half open", BIT(OB_BREAKER_OPEN) | BIT(OB_BREAKER_CLOSED)},
};
_Static_assert(sizeof states / sizeof states[0] == OB_BREAKER_STATE_COUNT, "a state without a row");

const char *ob_breaker_state_name(enum ob_breaker_state state)
{
    return states[state].name;
}

const char *ob_breaker_cause_name(enum ob_breaker_cause cause)
{
    static const char *const names[OB_BREAKER_CAUSE_COUNT] = {"down", "failing", "blocked"};
    return names[cause];
}

static void set_state(struct ob_breaker *breaker, enum ob_breaker_state state)
{
    assert(states[breaker->state].to & BIT(state));
    breaker->state = state;
}

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

static int64_t at_least(int64_t least, int64_t value)
{
    return value < least ? least : value;
}

void ob_breaker_init(struct ob_breaker *breaker, const struct ob_breaker_settings *given)
{
    *breaker = (struct ob_breaker){.set = given ? *given : (struct ob_breaker_settings){0}};
    struct ob_breaker_settings *set = &breaker->set;
    set->threshold = set->threshold ? set->threshold : 5;
    set->window = (int)or_default(set->window, 50);
    set->window = set->window < OB_BREAKER_WINDOW_MAX ? set->window : OB_BREAKER_WINDOW_MAX;
    set->ratio = (int)or_default(set->ratio, 80);
    set->base_us = or_default(set->base_us, 250000);
    set->cap_us = or_default(set->cap_us, 1500000);
    set->failing_cap_us = at_least(set->base_us, or_default(set->failing_cap_us, 30000000));
    set->blocked_cap_us = at_least(set->base_us, or_default(set->blocked_cap_us, 300000000));
    breaker->step_us = set->base_us;
}

/* ---- results ---- */

static void count(struct ob_breaker *breaker, bool failed, int64_t now_us)
{
    if (now_us - breaker->result_us > rest_us)
        breaker->results = 0;
    breaker->result_us = now_us;
    breaker->failures = breaker->failures << 1 | failed;
    breaker->results += breaker->results < breaker->set.window;
}

static bool is_failing(const struct ob_breaker *breaker)
{
    const struct ob_breaker_settings *set = &breaker->set;
    uint64_t shown = breaker->results < 64 ? (UINT64_C(1) << breaker->results) - 1 : ~UINT64_C(0);
    int failed = __builtin_popcountll(breaker->failures & shown);
    int least = set->threshold < set->window ? set->threshold : set->window;
    if (OB_MUTANT(FAILURES_IGNORED))
        return false;
    return OB_MUTANT(FAILURE_OPENS) || (failed >= least && failed * 100 >= set->ratio * breaker->results);
}

/* ---- closed ---- */

static bool close_it(struct ob_breaker *breaker)
{
    breaker->step_us = breaker->set.base_us;
    if (breaker->state == OB_BREAKER_CLOSED)
        return false;
    breaker->results = 0;
    set_state(breaker, OB_BREAKER_CLOSED);
    return true;
}

bool ob_breaker_accepted(struct ob_breaker *breaker, int64_t now_us)
{
    breaker->unreachable = 0;
    if (close_it(breaker))
        return true;
    count(breaker, false, now_us);
    return false;
}

bool ob_breaker_answered(struct ob_breaker *breaker)
{
    breaker->unreachable = 0;
    if (breaker->state != OB_BREAKER_CLOSED && breaker->cause == OB_BREAKER_FAILING && !OB_MUTANT(REFUSAL_CLOSES))
        return false;
    return close_it(breaker);
}

/* ---- open ---- */

/* Opens for at least wait_us. */
static void open_for(struct ob_breaker *breaker, enum ob_breaker_cause cause, int64_t wait_us, int64_t now_us)
{
    const int64_t caps[] = {breaker->set.cap_us, breaker->set.failing_cap_us, breaker->set.blocked_cap_us};
    _Static_assert(sizeof caps / sizeof caps[0] == OB_BREAKER_CAUSE_COUNT, "a cause without a cap");
    if (breaker->state == OB_BREAKER_HALF_OPEN && !OB_MUTANT(PROBES_FLAT))
        breaker->step_us *= 2;
    if (breaker->state != OB_BREAKER_OPEN) {
        breaker->cause = cause;
        set_state(breaker, OB_BREAKER_OPEN);
    }
    if (breaker->step_us > caps[breaker->cause])
        breaker->step_us = caps[breaker->cause];
    breaker->probe_at_us = now_us + (wait_us > breaker->step_us ? wait_us : breaker->step_us);
}

bool ob_breaker_failed(struct ob_breaker *breaker, bool unreachable, bool probe, int64_t now_us)
{
    const struct ob_breaker_settings *set = &breaker->set;
    breaker->unreachable = unreachable ? breaker->unreachable + 1 : 0;
    if (breaker->state == OB_BREAKER_CLOSED) {
        count(breaker, true, now_us);
        bool down = breaker->unreachable >= set->threshold;
        if (set->threshold < 0 || !(down || is_failing(breaker)))
            return false;
        open_for(breaker, down ? OB_BREAKER_DOWN : OB_BREAKER_FAILING, 0, now_us);
        return true;
    }
    if (!probe)
        return false; /* sent before the breaker opened: no new information */
    if (OB_MUTANT(BREAKER_GULLIBLE)) {
        set_state(breaker, OB_BREAKER_CLOSED);
        return false;
    }
    open_for(breaker, unreachable ? OB_BREAKER_DOWN : OB_BREAKER_FAILING, 0, now_us);
    return true;
}

void ob_breaker_blocked(struct ob_breaker *breaker, bool probe, int64_t wait_us, int64_t now_us)
{
    if (breaker->state == OB_BREAKER_HALF_OPEN && !probe)
        return;
    open_for(breaker, OB_BREAKER_BLOCKED, wait_us, now_us);
}

void ob_breaker_probe_gone(struct ob_breaker *breaker, int64_t now_us)
{
    if (breaker->state != OB_BREAKER_HALF_OPEN)
        return;
    set_state(breaker, OB_BREAKER_OPEN);
    breaker->probe_at_us = now_us + breaker->step_us;
}

bool ob_breaker_tick(struct ob_breaker *breaker, int64_t now_us)
{
    if (breaker->state != OB_BREAKER_OPEN || now_us < breaker->probe_at_us)
        return false;
    set_state(breaker, OB_BREAKER_HALF_OPEN);
    return true;
}
