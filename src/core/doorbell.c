/* doorbell.c - the state machine of doorbell.h; the diagram is there.
 *
 * What must hold, and who sees to it:
 *   1 Whoever sleeps can be rung for. CALM owes no fence: since we last asked for the lock, a fence has passed, so every
 *     producer that kept silent for us has ended, and we have looked after that.
 *   2 What silences is let go of. From ASKED and HELD the only ways lead through an unlock, or the end of the connection.
 *   3 A cancelled ask may have been granted all the same: CALMING always unlocks, after the ask was answered.
 *   4 The fence stands behind the unlock: MARK is a later statement than UNLOCK, on the same connection.
 *   5 Look after the probe, never before: what a passed probe lets see is seen by the look that it wants. */
#include "core/doorbell.h"

#include <assert.h>
#include <string.h>

#define MS ((int64_t)1000)
static const int64_t fence_first_us = 2 * MS;
static const int64_t cancel_first_us = 20 * MS;
static const int64_t reopen_first_us = 50 * MS;
static const int64_t reopen_most_us = 5000 * MS;
enum { UNLOCK_TRIES = 3, STALE_WINDOWS = 10, CROWD_SHARE = 20, CROWD_WINDOWS = 120 };

#define BIT(n) (1u << (n))

/* Where each state may go, and what may be out in it. */
static const struct {
    const char *name;
    unsigned to, out;
} states[] = {
    [OB_BELL_OFF] = {"off", BIT(OB_BELL_OPENING), 0},
    [OB_BELL_OPENING] = {"opening", BIT(OB_BELL_OFF) | BIT(OB_BELL_POLLING) | BIT(OB_BELL_CALM) | BIT(OB_BELL_FENCING),
                         BIT(OB_BELL_OPEN)},
    [OB_BELL_POLLING] = {"polling", 0, 0},
    [OB_BELL_CALM] = {"calm", BIT(OB_BELL_OFF) | BIT(OB_BELL_ASKED), BIT(OB_BELL_CROWD)},
    [OB_BELL_ASKED] = {"asked", BIT(OB_BELL_OFF) | BIT(OB_BELL_HELD) | BIT(OB_BELL_CALMING), BIT(OB_BELL_ASK)},
    [OB_BELL_HELD] = {"held", BIT(OB_BELL_OFF) | BIT(OB_BELL_CALMING), BIT(OB_BELL_BEAT)},
    [OB_BELL_CALMING] = {"calming", BIT(OB_BELL_OFF) | BIT(OB_BELL_FENCING),
                         BIT(OB_BELL_ASK) | BIT(OB_BELL_BEAT) | BIT(OB_BELL_UNLOCK)},
    [OB_BELL_FENCING] = {"fencing", BIT(OB_BELL_OFF) | BIT(OB_BELL_CALM) | BIT(OB_BELL_ASKED),
                         BIT(OB_BELL_MARK) | BIT(OB_BELL_PROBE) | BIT(OB_BELL_CROWD)},
};

static const char *const job_names[] = {"nothing", "open", "close", "ask",  "cancel",
                                        "unlock",  "mark", "probe", "beat", "crowd"};
static const char *const look_names[] = {"not", "rang", "busy", "fence", "unheard", "fallback"};
_Static_assert(sizeof job_names / sizeof job_names[0] == OB_BELL_JOB_COUNT, "a job without a name");
_Static_assert(sizeof look_names / sizeof look_names[0] == OB_LOOK_COUNT, "a look without a name");
_Static_assert(sizeof states / sizeof states[0] == OB_BELL_STATE_COUNT, "a state without a row");

const char *ob_bell_state_name(enum ob_bell_state state)
{
    return states[state].name;
}

const char *ob_bell_job_name(enum ob_bell_job job)
{
    return job_names[job];
}

const char *ob_bell_look_name(enum ob_bell_look look)
{
    return look_names[look];
}

struct ob_doorbell_settings ob_doorbell_settings(const struct ob_doorbell_settings *given)
{
    struct ob_doorbell_settings set = given ? *given : (struct ob_doorbell_settings){0};
    if (set.busy_per_s <= 0)
        set.busy_per_s = 400;
    if (set.window_us <= 0)
        set.window_us = 500 * MS;
    if (set.debounce_us <= 0)
        set.debounce_us = 25 * MS;
    if (set.fallback_us <= 0)
        set.fallback_us = 500 * MS;
    if (set.beat_us <= 0)
        set.beat_us = 10000 * MS;
    return set;
}

void ob_doorbell_init(struct ob_doorbell *bell, const struct ob_doorbell_settings *settings, int64_t now_us)
{
    *bell = (struct ob_doorbell){
        .set = ob_doorbell_settings(settings),
        .state = OB_BELL_OFF,
        .looked_us = now_us,
        .step_us = reopen_first_us,
        .next_us = now_us,
        .window_from_us = now_us,
        .full_from_us = -1,
        .full_us = -1,
        .crowd_us = now_us,
        .crowded_until_us = now_us,
    };
    if (bell->set.polling) {
        bell->state = OB_BELL_POLLING;
        bell->step_us = bell->set.debounce_us;
    }
}

/* ---- invariants, and the one setter ---- */

static bool silences(enum ob_bell_state state)
{
    return state == OB_BELL_ASKED || state == OB_BELL_HELD || state == OB_BELL_CALMING;
}

const char *ob_doorbell_check(const struct ob_doorbell *bell)
{
    if (bell->out != OB_BELL_NOTHING && !(states[bell->state].out & BIT(bell->out)))
        return "a job is out that does not belong to the state";
    if (bell->state == OB_BELL_ASKED && bell->out != OB_BELL_ASK)
        return "asked, but no ask is out";
    if (bell->state == OB_BELL_CALM && bell->owes_fence)
        return "asleep with a fence owed: a silent producer would go unnoticed";
    if (silences(bell->state) && !bell->owes_fence)
        return "producers are silenced and no fence is owed";
    if (bell->state == OB_BELL_FENCING && !bell->owes_fence)
        return "a fence without a need";
    if (bell->cancelled && !(bell->state == OB_BELL_CALMING && bell->out == OB_BELL_ASK))
        return "a cancel without an ask to end";
    if (bell->marked && bell->state != OB_BELL_FENCING)
        return "a fence that stands before the unlock";
    if (bell->close && bell->state != OB_BELL_OFF)
        return "to be closed, but not off";
    return NULL;
}

static void set_state(struct ob_doorbell *bell, enum ob_bell_state to)
{
    assert(states[bell->state].to & BIT(to));
    bell->state = to;
    bell->marked = false;
    bell->unlock_failures = 0;
    if (to == OB_BELL_CALM)
        bell->owes_fence = false;
    if (to == OB_BELL_ASKED)
        bell->owes_fence = true;
    if (to == OB_BELL_OFF)
        bell->out = OB_BELL_NOTHING;
    if (bell->out != OB_BELL_ASK)
        bell->cancelled = false;
}

static void double_step(struct ob_doorbell *bell, int64_t most_us)
{
    bell->step_us = bell->step_us * 2 < most_us ? bell->step_us * 2 : most_us;
}

/* ---- how busy we are ---- */

static void roll_window(struct ob_doorbell *bell, int64_t now_us)
{
    int64_t passed_us = now_us - bell->window_from_us, window_us = bell->set.window_us;
    if (passed_us < window_us)
        return;
    bell->counted_before = passed_us < 2 * window_us ? bell->counted : 0;
    bell->counted = 0;
    bell->window_from_us = now_us - passed_us % window_us;
}

/* Messages within the last window, the older ones by their share. */
static double count_window(const struct ob_doorbell *bell, int64_t now_us)
{
    double share = 1.0 - (double)(now_us - bell->window_from_us) / (double)bell->set.window_us;
    return (double)bell->counted + (double)bell->counted_before * share;
}

/* Claims come back full and have done so for a whole window: there is a backlog, and nobody needs to tell us. */
static bool backlogged(const struct ob_doorbell *bell, int64_t now_us)
{
    return bell->full_from_us >= 0 && bell->full_us - bell->full_from_us >= bell->set.window_us &&
           now_us - bell->full_us <= STALE_WINDOWS * bell->set.window_us;
}

static double window_share(const struct ob_doorbell *bell, double per_s)
{
    return per_s * (double)bell->set.window_us / 1e6;
}

/* Every ringer holds a lock of the whole server over its flush: on a slow disk a few hundred commits a second are all
 * there can be, and we would wait for the rate that our own rings prevent. So a trickle is reason enough to ask whether
 * somebody stands in line, and if so, to be busy with a trickle for a while. */
static bool may_be_crowded(struct ob_doorbell *bell, int64_t now_us)
{
    double few = window_share(bell, (double)bell->set.busy_per_s / CROWD_SHARE);
    if (now_us < bell->crowd_us || count_window(bell, now_us) <= few)
        return false;
    bell->crowd_us = now_us + bell->set.window_us;
    return true;
}

static bool weigh(struct ob_doorbell *bell, int64_t now_us)
{
    roll_window(bell, now_us);
    bool crowded = now_us < bell->crowded_until_us;
    double most = window_share(bell, (double)bell->set.busy_per_s / (crowded ? CROWD_SHARE : 1));
    bell->busy = count_window(bell, now_us) > (bell->busy ? most / 2 : most) || backlogged(bell, now_us);
    return bell->busy;
}

void ob_doorbell_claimed(struct ob_doorbell *bell, size_t count, bool full, bool filtered, int64_t now_us)
{
    bell->looked_us = now_us;
    if (bell->state == OB_BELL_POLLING && count > 0)
        bell->step_us = bell->set.debounce_us;
    if (filtered && !bell->set.own)
        return;
    roll_window(bell, now_us);
    bell->counted += count;
    if (!full)
        bell->full_from_us = -1;
    else if (bell->full_from_us < 0)
        bell->full_from_us = now_us;
    bell->full_us = full ? now_us : -1;
}

/* ---- answers ---- */

void ob_doorbell_rang(struct ob_doorbell *bell, int64_t now_us)
{
    (void)now_us;
    bell->look = OB_LOOK_RANG;
}

static void opened(struct ob_doorbell *bell, enum ob_bell_answer answer, int64_t now_us)
{
    if (answer == OB_BELL_FAILED) {
        bell->close = true;
        ob_doorbell_lost(bell, now_us);
        return;
    }
    bell->look = OB_LOOK_UNHEARD;
    if (answer == OB_BELL_POOLED) {
        set_state(bell, OB_BELL_POLLING);
        bell->step_us = bell->set.debounce_us;
        return;
    }
    set_state(bell, bell->owes_fence ? OB_BELL_FENCING : OB_BELL_CALM);
    bell->step_us = fence_first_us;
    bell->next_us = now_us;
}

static void asked(struct ob_doorbell *bell, enum ob_bell_answer answer, int64_t now_us)
{
    bell->cancelled = false;
    if (bell->state == OB_BELL_ASKED)
        set_state(bell, answer == OB_BELL_DONE ? OB_BELL_HELD : OB_BELL_CALMING);
    bell->next_us = now_us + bell->set.beat_us;
}

static void unlocked(struct ob_doorbell *bell, enum ob_bell_answer answer, int64_t now_us)
{
    if (answer == OB_BELL_DONE) {
        set_state(bell, OB_BELL_FENCING);
        bell->step_us = fence_first_us;
        bell->next_us = now_us;
    } else if (++bell->unlock_failures == UNLOCK_TRIES) { /* a late cancel may hit one; not three */
        bell->close = true;
        ob_doorbell_lost(bell, now_us);
    }
}

static void probed(struct ob_doorbell *bell, enum ob_bell_answer answer, int64_t now_us)
{
    bell->look = OB_LOOK_FENCE;
    if (answer == OB_BELL_DONE) {
        set_state(bell, OB_BELL_CALM);
    } else {
        bell->next_us = now_us + bell->step_us;
        double_step(bell, bell->set.fallback_us);
    }
}

void ob_doorbell_answered(struct ob_doorbell *bell, enum ob_bell_job job, enum ob_bell_answer answer, int64_t now_us)
{
    assert(job == bell->out);
    bell->out = OB_BELL_NOTHING;
    switch (job) {
    case OB_BELL_OPEN: opened(bell, answer, now_us); break;
    case OB_BELL_ASK: asked(bell, answer, now_us); break;
    case OB_BELL_UNLOCK: unlocked(bell, answer, now_us); break;
    case OB_BELL_MARK:
        bell->marked = answer == OB_BELL_DONE;
        if (!bell->marked)
            probed(bell, OB_BELL_NOT_YET, now_us);
        break;
    case OB_BELL_PROBE: probed(bell, answer, now_us); break;
    case OB_BELL_BEAT: bell->next_us = now_us + bell->set.beat_us; break;
    case OB_BELL_CROWD:
        if (answer == OB_BELL_DONE)
            bell->crowded_until_us = now_us + CROWD_WINDOWS * bell->set.window_us;
        break;
    default: assert(!"a job that has no answer"); break;
    }
    assert(!ob_doorbell_check(bell));
}

void ob_doorbell_lost(struct ob_doorbell *bell, int64_t now_us)
{
    if (bell->state == OB_BELL_OFF || bell->state == OB_BELL_POLLING)
        return;
    if (bell->state == OB_BELL_OPENING) {
        double_step(bell, reopen_most_us);
    } else {
        bell->look = OB_LOOK_UNHEARD;
        bell->step_us = reopen_first_us;
    }
    bell->next_us = now_us + bell->step_us;
    set_state(bell, OB_BELL_OFF);
    assert(!ob_doorbell_check(bell));
}

/* ---- jobs ---- */

static enum ob_bell_job ask(struct ob_doorbell *bell)
{
    bell->out = OB_BELL_ASK;
    set_state(bell, OB_BELL_ASKED);
    return OB_BELL_ASK;
}

/* A cancel that comes before the server has begun to wait is ignored there: so it is sent again and again. */
static enum ob_bell_job cancel(struct ob_doorbell *bell, int64_t now_us)
{
    if (bell->cancelled)
        double_step(bell, bell->set.fallback_us);
    else
        bell->step_us = cancel_first_us;
    bell->cancelled = true;
    bell->next_us = now_us + bell->step_us;
    return OB_BELL_CANCEL;
}

/* What the state wants, were nothing out. */
static enum ob_bell_job wanted(struct ob_doorbell *bell, int64_t now_us)
{
    switch (bell->state) {
    case OB_BELL_OFF:
        if (now_us < bell->next_us)
            return OB_BELL_NOTHING;
        set_state(bell, OB_BELL_OPENING);
        return OB_BELL_OPEN;
    case OB_BELL_CALM:
        if (weigh(bell, now_us))
            return ask(bell);
        return may_be_crowded(bell, now_us) ? OB_BELL_CROWD : OB_BELL_NOTHING;
    case OB_BELL_HELD:
        if (weigh(bell, now_us))
            return now_us >= bell->next_us ? OB_BELL_BEAT : OB_BELL_NOTHING;
        set_state(bell, OB_BELL_CALMING);
        return OB_BELL_UNLOCK;
    case OB_BELL_CALMING: return OB_BELL_UNLOCK;
    case OB_BELL_FENCING:
        if (weigh(bell, now_us))
            return ask(bell);
        if (now_us >= bell->next_us)
            return bell->marked ? OB_BELL_PROBE : OB_BELL_MARK;
        return may_be_crowded(bell, now_us) ? OB_BELL_CROWD : OB_BELL_NOTHING;
    default: return OB_BELL_NOTHING;
    }
}

enum ob_bell_job ob_doorbell_next(struct ob_doorbell *bell, int64_t now_us)
{
    enum ob_bell_job job = OB_BELL_NOTHING;
    if (bell->close) {
        bell->close = false;
        return OB_BELL_CLOSE;
    }
    if (bell->out == OB_BELL_NOTHING) {
        job = wanted(bell, now_us);
        bell->out = job;
    } else if (bell->state == OB_BELL_ASKED && !weigh(bell, now_us)) {
        set_state(bell, OB_BELL_CALMING);
        job = cancel(bell, now_us);
    } else if (bell->state == OB_BELL_HELD && !weigh(bell, now_us)) {
        set_state(bell, OB_BELL_CALMING); /* once the beat is answered */
    } else if (bell->cancelled && now_us >= bell->next_us) {
        job = cancel(bell, now_us);
    }
    assert(!ob_doorbell_check(bell));
    return job;
}

/* ---- looks ---- */

/* How long between looks that nothing asks for; 0: such there are none, or the probes bring them. */
static int64_t interval_us(const struct ob_doorbell *bell)
{
    switch (bell->state) {
    case OB_BELL_CALM:
    case OB_BELL_FENCING: return 0;
    case OB_BELL_POLLING: return bell->step_us;
    case OB_BELL_OFF:
    case OB_BELL_OPENING: return bell->set.fallback_us;
    default: return bell->set.debounce_us;
    }
}

enum ob_bell_look ob_doorbell_look(struct ob_doorbell *bell, int64_t now_us)
{
    enum ob_bell_look look = OB_LOOK_NOT;
    int64_t interval = interval_us(bell);
    if (interval > 0 && now_us - bell->looked_us >= interval)
        look = silences(bell->state) ? OB_LOOK_BUSY : OB_LOOK_FALLBACK;
    if (bell->look != OB_LOOK_NOT && !silences(bell->state)) /* else debounced */
        look = bell->look;
    if (look == OB_LOOK_NOT)
        return look;
    if (bell->state == OB_BELL_POLLING)
        double_step(bell, bell->set.fallback_us);
    bell->look = OB_LOOK_NOT;
    bell->looked_us = now_us;
    return look;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ob_doorbell_due_us(const struct ob_doorbell *bell)
{
    int64_t due = INT64_MAX, interval = interval_us(bell);
    if (interval > 0)
        due = bell->looked_us + interval;
    if (bell->close || (bell->look != OB_LOOK_NOT && !silences(bell->state)))
        return INT64_MIN;
    switch (bell->state) {
    case OB_BELL_OFF: return earlier(due, bell->next_us);
    case OB_BELL_HELD:
    case OB_BELL_FENCING: return bell->out == OB_BELL_NOTHING ? earlier(due, bell->next_us) : due;
    case OB_BELL_CALMING: return bell->cancelled ? earlier(due, bell->next_us) : due;
    default: return due;
    }
}
