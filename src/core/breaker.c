/* breaker.c - the states of breaker.h. */
#include "core/breaker.h"

#include "core/mutant.h"

#include <assert.h>
#include <stddef.h>

#define BIT(n) (1u << (n))

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

static void set_state(struct ob_breaker *breaker, enum ob_breaker_state state)
{
    assert(states[breaker->state].to & BIT(state));
    breaker->state = state;
}

void ob_breaker_init(struct ob_breaker *breaker, const struct ob_breaker_settings *given)
{
    *breaker = (struct ob_breaker){.set = given ? *given : (struct ob_breaker_settings){0}};
    if (breaker->set.threshold == 0)
        breaker->set.threshold = 5;
    if (breaker->set.base_us <= 0)
        breaker->set.base_us = 250000;
    if (breaker->set.cap_us <= 0)
        breaker->set.cap_us = 1500000;
    breaker->step_us = breaker->set.base_us;
}

bool ob_breaker_answered(struct ob_breaker *breaker)
{
    breaker->failures = 0;
    breaker->step_us = breaker->set.base_us;
    if (breaker->state == OB_BREAKER_CLOSED)
        return false;
    set_state(breaker, OB_BREAKER_CLOSED);
    return true;
}

/* Opens for at least wait_us. */
static void open_for(struct ob_breaker *breaker, int64_t wait_us, int64_t now_us)
{
    if (breaker->state == OB_BREAKER_HALF_OPEN) {
        breaker->step_us *= 2;
        if (breaker->step_us > breaker->set.cap_us)
            breaker->step_us = breaker->set.cap_us;
    }
    if (breaker->state != OB_BREAKER_OPEN)
        set_state(breaker, OB_BREAKER_OPEN);
    breaker->probe_at_us = now_us + (wait_us > breaker->step_us ? wait_us : breaker->step_us);
}

bool ob_breaker_unreachable(struct ob_breaker *breaker, bool probe, int64_t now_us)
{
    breaker->failures++;
    if (breaker->state == OB_BREAKER_CLOSED) {
        if (breaker->set.threshold < 0 || breaker->failures < breaker->set.threshold)
            return false;
    } else if (!probe) {
        return false; /* sent before it opened: tells nothing new */
    }
    if (OB_MUTANT(BREAKER_GULLIBLE) && probe) {
        set_state(breaker, OB_BREAKER_CLOSED);
        return false;
    }
    open_for(breaker, 0, now_us);
    return true;
}

void ob_breaker_blocked(struct ob_breaker *breaker, bool probe, int64_t wait_us, int64_t now_us)
{
    if (breaker->state == OB_BREAKER_HALF_OPEN && !probe)
        return;
    open_for(breaker, wait_us, now_us);
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
