/* doorbell.c - the state machine of doorbell.h; the diagram is there.
 *
 * What must hold, and how it is ensured:
 *   1 Producers ring for a relay that sleeps. CALM owes no fence: since we began to listen, and since we last requested the
 *     lock, a fence has passed, so every producer that did not ring has ended, and we have looked for work after that.
 *   2 The lock is always released. ASKED and HELD are left only through an unlock or the end of the connection.
 *   3 A cancelled ask may have been granted nevertheless: CALMING always unlocks, after the ask was answered.
 *   4 The fence comes after the unlock: MARK is a later statement than UNLOCK, on the same connection.
 *   5 Look for work after the probe, never before: the look that a passed probe requests sees all that the probe covers. */
#include "core/doorbell.h"

#include <assert.h>
#include <string.h>

#define MS ((int64_t)1000)
static const int64_t pause_least_us = 1 * MS;
static const int64_t fence_first_us = 2 * MS;
static const int64_t cancel_first_us = 20 * MS;
static const int64_t reopen_first_us = 50 * MS;
static const int64_t reopen_most_us = 5000 * MS;
enum { UNLOCK_TRIES = 3, STALE_WINDOWS = 10, CROWD_SHARE = 20, CROWD_WINDOWS = 120 };
/* The pause after a claim, in terms of what an empty one costs: see pause_after. */
enum { PAUSE_VAIN = 6, PAUSE_BUSY = 1, COST_SLOWNESS = 64 };

#define BIT(n) (1u << (n))

/* The transitions of each state, and the jobs that may be under way in it. */
static const struct {
    const char *name;
    unsigned to, out;
} states[] = {
    [OB_DOORBELL_OFF] = {"off", BIT(OB_DOORBELL_OPENING), 0},
    [OB_DOORBELL_OPENING] = {"opening", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_POLLING) | BIT(OB_DOORBELL_FENCING),
                             BIT(OB_DOORBELL_OPEN)},
    [OB_DOORBELL_POLLING] = {"polling", 0, 0},
    [OB_DOORBELL_CALM] = {"calm", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_ASKED), BIT(OB_DOORBELL_CROWD)},
    [OB_DOORBELL_ASKED] = {"asked", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_HELD) | BIT(OB_DOORBELL_CALMING),
                           BIT(OB_DOORBELL_ASK)},
    [OB_DOORBELL_HELD] = {"held", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_CALMING), BIT(OB_DOORBELL_BEAT)},
    [OB_DOORBELL_CALMING] = {"calming", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_FENCING),
                             BIT(OB_DOORBELL_ASK) | BIT(OB_DOORBELL_BEAT) | BIT(OB_DOORBELL_UNLOCK)},
    [OB_DOORBELL_FENCING] = {"fencing", BIT(OB_DOORBELL_OFF) | BIT(OB_DOORBELL_CALM) | BIT(OB_DOORBELL_ASKED),
                             BIT(OB_DOORBELL_MARK) | BIT(OB_DOORBELL_PROBE) | BIT(OB_DOORBELL_CROWD)},
};

static const char *const job_names[] = {"nothing", "open", "close", "ask",  "cancel",
                                        "unlock",  "mark", "probe", "beat", "crowd"};
static const char *const look_names[] = {"not", "rang", "busy", "fence", "unheard", "fallback"};
_Static_assert(sizeof job_names / sizeof job_names[0] == OB_DOORBELL_JOB_COUNT, "a job without a name");
_Static_assert(sizeof look_names / sizeof look_names[0] == OB_WAKE_COUNT, "a look without a name");
_Static_assert(sizeof states / sizeof states[0] == OB_DOORBELL_STATE_COUNT, "a state without a row");

const char *ob_doorbell_state_name(enum ob_doorbell_state state)
{
    return states[state].name;
}

const char *ob_doorbell_job_name(enum ob_doorbell_job job)
{
    return job_names[job];
}

const char *ob_doorbell_reason_name(enum ob_doorbell_reason look)
{
    return look_names[look];
}

struct ob_doorbell_settings ob_doorbell_settings(const struct ob_doorbell_settings *given)
{
    struct ob_doorbell_settings set = given ? *given : (struct ob_doorbell_settings){0};
    if (set.busy_per_s <= 0)
        set.busy_per_s = 400;
    if (set.sample_us <= 0)
        set.sample_us = 500 * MS;
    if (set.debounce_us <= 0)
        set.debounce_us = 25 * MS;
    if (set.fallback_us <= 0)
        set.fallback_us = 500 * MS;
    if (set.beat_us <= 0)
        set.beat_us = 10000 * MS;
    return set;
}

void ob_doorbell_init(struct ob_doorbell *doorbell, const struct ob_doorbell_settings *settings, int64_t now_us)
{
    *doorbell = (struct ob_doorbell){
        .set = ob_doorbell_settings(settings),
        .state = OB_DOORBELL_OFF,
        .looked_us = now_us,
        .step_us = reopen_first_us,
        .next_us = now_us,
        .claim_us = -1,
        .pause_us = pause_least_us,
        .sample_from_us = now_us,
        .full_from_us = -1,
        .full_us = -1,
        .crowd_us = now_us,
        .crowded_until_us = now_us,
    };
    if (doorbell->set.polling) {
        doorbell->state = OB_DOORBELL_POLLING;
        doorbell->step_us = doorbell->set.debounce_us;
    }
}

/* ---- invariants, and the only setter ---- */

static bool silences(enum ob_doorbell_state state)
{
    return state == OB_DOORBELL_ASKED || state == OB_DOORBELL_HELD || state == OB_DOORBELL_CALMING;
}

const char *ob_doorbell_check(const struct ob_doorbell *doorbell)
{
    if (doorbell->out != OB_DOORBELL_NOTHING && !(states[doorbell->state].out & BIT(doorbell->out)))
        return "a job is out that does not belong to the state";
    if (doorbell->state == OB_DOORBELL_ASKED && doorbell->out != OB_DOORBELL_ASK)
        return "asked, but no ask is out";
    if (doorbell->state == OB_DOORBELL_CALM && doorbell->owes_fence)
        return "asleep with a fence owed: a silent producer would go unnoticed";
    if (silences(doorbell->state) && !doorbell->owes_fence)
        return "producers are silenced and no fence is owed";
    if (doorbell->state == OB_DOORBELL_FENCING && !doorbell->owes_fence)
        return "a fence without a need";
    if (doorbell->cancelled && !(doorbell->state == OB_DOORBELL_CALMING && doorbell->out == OB_DOORBELL_ASK))
        return "a cancel without an ask to end";
    if (doorbell->marked && doorbell->state != OB_DOORBELL_FENCING)
        return "a fence that stands before the unlock";
    if (doorbell->close && doorbell->state != OB_DOORBELL_OFF)
        return "to be closed, but not off";
    return NULL;
}

static void set_state(struct ob_doorbell *doorbell, enum ob_doorbell_state to)
{
    assert(states[doorbell->state].to & BIT(to));
    doorbell->state = to;
    doorbell->marked = false;
    doorbell->unlock_failures = 0;
    if (to == OB_DOORBELL_CALM)
        doorbell->owes_fence = false;
    if (to == OB_DOORBELL_ASKED)
        doorbell->owes_fence = true;
    if (to == OB_DOORBELL_OFF)
        doorbell->out = OB_DOORBELL_NOTHING;
    if (doorbell->out != OB_DOORBELL_ASK)
        doorbell->cancelled = false;
}

static void double_step(struct ob_doorbell *doorbell, int64_t most_us)
{
    doorbell->step_us = doorbell->step_us * 2 < most_us ? doorbell->step_us * 2 : most_us;
}

/* ---- how busy we are ---- */

static void roll_sample(struct ob_doorbell *doorbell, int64_t now_us)
{
    int64_t passed_us = now_us - doorbell->sample_from_us, sample_us = doorbell->set.sample_us;
    if (passed_us < sample_us)
        return;
    doorbell->counted_before = passed_us < 2 * sample_us ? doorbell->counted : 0;
    doorbell->counted = 0;
    doorbell->sample_from_us = now_us - passed_us % sample_us;
}

/* Messages within the last sample_us; of the older sample only the share that is within that time. */
static double count_sample(const struct ob_doorbell *doorbell, int64_t now_us)
{
    double share = 1.0 - (double)(now_us - doorbell->sample_from_us) / (double)doorbell->set.sample_us;
    return (double)doorbell->counted + (double)doorbell->counted_before * share;
}

/* Claims have come back full for a whole sample: there is a backlog, and nobody needs to ring. */
static bool backlogged(const struct ob_doorbell *doorbell, int64_t now_us)
{
    return doorbell->full_from_us >= 0 && doorbell->full_us - doorbell->full_from_us >= doorbell->set.sample_us &&
           now_us - doorbell->full_us <= STALE_WINDOWS * doorbell->set.sample_us;
}

static double sample_share(const struct ob_doorbell *doorbell, double per_s)
{
    return per_s * (double)doorbell->set.sample_us / 1e6;
}

/* Every producer that rings holds a server-wide lock while its commit is flushed. On a slow disk this limits the server to a
 * few hundred commits a second, so the rate at which we become busy would never be reached, because of the rings themselves.
 * So even a low rate is reason to check whether producers are queueing to ring, and if so, to count as busy for a while. */
static bool may_be_crowded(struct ob_doorbell *doorbell, int64_t now_us)
{
    double few = sample_share(doorbell, (double)doorbell->set.busy_per_s / CROWD_SHARE);
    if (now_us < doorbell->crowd_us || count_sample(doorbell, now_us) <= few)
        return false;
    doorbell->crowd_us = now_us + doorbell->set.sample_us;
    return true;
}

static bool weigh(struct ob_doorbell *doorbell, int64_t now_us)
{
    roll_sample(doorbell, now_us);
    bool crowded = now_us < doorbell->crowded_until_us;
    double most = sample_share(doorbell, (double)doorbell->set.busy_per_s / (crowded ? CROWD_SHARE : 1));
    doorbell->busy =
        count_sample(doorbell, now_us) > (doorbell->busy ? most / 2 : most) || backlogged(doorbell, now_us);
    return doorbell->busy;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The time between two messages, on average; more than the debounce: none came lately. */
static int64_t gap_us(const struct ob_doorbell *doorbell, int64_t now_us)
{
    double messages = count_sample(doorbell, now_us);
    int64_t most_us = 2 * doorbell->set.debounce_us;
    return messages * (double)most_us > (double)doorbell->set.sample_us
               ? (int64_t)((double)doorbell->set.sample_us / messages)
               : most_us;
}

/* What an empty claim costs is wasted if there are few messages. So after an empty one the pause is PAUSE_VAIN times as long, or the
 * time in which a message is to be expected if that is shorter, and at least half of that time; each message makes it shorter, down to PAUSE_BUSY times. After a claim
 * with messages it is counted from the begin, and what an empty one costs is added: of the rest a part was the wait for a disk. */
static int64_t pause_after(const struct ob_doorbell *doorbell, size_t count, int64_t now_us)
{
    int64_t few_us = PAUSE_VAIN * doorbell->vain_us / (1 + (int64_t)count), next_us = gap_us(doorbell, now_us);
    int64_t pause_us = later(PAUSE_BUSY * doorbell->vain_us, earlier(few_us, next_us));
    pause_us = count > 0 ? pause_us + doorbell->vain_us : later(pause_us, next_us / 2);
    return earlier(later(pause_us, pause_least_us), doorbell->set.debounce_us);
}

/* Close to the least of the last ones: the others waited for a core, and to look more seldom does not help against that. A claim
 * with messages takes no less than an empty one. */
static void note_cost(struct ob_doorbell *doorbell, int64_t cost_us, size_t count)
{
    int64_t above_us = cost_us - doorbell->vain_us;
    if (doorbell->vain_us == 0 || above_us < 0)
        doorbell->vain_us = cost_us;
    else if (count == 0)
        doorbell->vain_us += earlier(above_us, doorbell->vain_us) / COST_SLOWNESS;
}

void ob_doorbell_claiming(struct ob_doorbell *doorbell, int64_t now_us)
{
    doorbell->claiming = true;
    doorbell->looked_us = doorbell->claim_us = now_us;
}

void ob_doorbell_claimed(struct ob_doorbell *doorbell, size_t count, bool full, bool filtered, int64_t now_us)
{
    roll_sample(doorbell, now_us);
    int64_t began_us = doorbell->claim_us >= 0 ? doorbell->claim_us : now_us;
    if (doorbell->claim_us >= 0)
        note_cost(doorbell, now_us - doorbell->claim_us, count);
    doorbell->claim_us = -1;
    doorbell->pause_us = pause_after(doorbell, count, now_us);
    doorbell->claiming = false;
    doorbell->looked_us = count > 0 ? began_us : now_us;
    if (doorbell->state == OB_DOORBELL_POLLING && count > 0)
        doorbell->step_us = doorbell->pause_us;
    if (filtered && !doorbell->set.own)
        return;
    doorbell->counted += count;
    if (!full)
        doorbell->full_from_us = -1;
    else if (doorbell->full_from_us < 0)
        doorbell->full_from_us = now_us;
    doorbell->full_us = full ? now_us : -1;
}

/* ---- answers ---- */

void ob_doorbell_rang(struct ob_doorbell *doorbell, int64_t now_us)
{
    (void)now_us;
    doorbell->look = OB_WAKE_RANG;
}

static void opened(struct ob_doorbell *doorbell, enum ob_doorbell_answer answer, int64_t now_us)
{
    if (answer == OB_DOORBELL_FAILED) {
        doorbell->close = true;
        ob_doorbell_lost(doorbell, now_us);
        return;
    }
    if (answer == OB_DOORBELL_POOLED) {
        set_state(doorbell, OB_DOORBELL_POLLING);
        doorbell->look = OB_WAKE_UNHEARD;
        doorbell->step_us = doorbell->set.debounce_us;
        return;
    }
    doorbell->owes_fence = true; /* nobody rang while nobody listened; the probe causes the look */
    set_state(doorbell, OB_DOORBELL_FENCING);
    doorbell->step_us = fence_first_us;
    doorbell->next_us = now_us;
}

static void asked(struct ob_doorbell *doorbell, enum ob_doorbell_answer answer, int64_t now_us)
{
    doorbell->cancelled = false;
    if (doorbell->state == OB_DOORBELL_ASKED)
        set_state(doorbell, answer == OB_DOORBELL_DONE ? OB_DOORBELL_HELD : OB_DOORBELL_CALMING);
    doorbell->next_us = now_us + doorbell->set.beat_us;
}

static void unlocked(struct ob_doorbell *doorbell, enum ob_doorbell_answer answer, int64_t now_us)
{
    if (answer == OB_DOORBELL_DONE) {
        set_state(doorbell, OB_DOORBELL_FENCING);
        doorbell->step_us = fence_first_us;
        doorbell->next_us = now_us;
    } else if (++doorbell->unlock_failures == UNLOCK_TRIES) { /* a late cancel may hit one unlock, but not three */
        doorbell->close = true;
        ob_doorbell_lost(doorbell, now_us);
    }
}

static void probed(struct ob_doorbell *doorbell, enum ob_doorbell_answer answer, int64_t now_us)
{
    doorbell->look = OB_WAKE_FENCE;
    if (answer == OB_DOORBELL_DONE) {
        set_state(doorbell, OB_DOORBELL_CALM);
    } else {
        doorbell->next_us = now_us + doorbell->step_us;
        double_step(doorbell, doorbell->set.fallback_us);
    }
}

void ob_doorbell_answered(struct ob_doorbell *doorbell, enum ob_doorbell_job job, enum ob_doorbell_answer answer,
                          int64_t now_us)
{
    assert(job == doorbell->out);
    doorbell->out = OB_DOORBELL_NOTHING;
    switch (job) {
    case OB_DOORBELL_OPEN: opened(doorbell, answer, now_us); break;
    case OB_DOORBELL_ASK: asked(doorbell, answer, now_us); break;
    case OB_DOORBELL_UNLOCK: unlocked(doorbell, answer, now_us); break;
    case OB_DOORBELL_MARK:
        doorbell->marked = answer == OB_DOORBELL_DONE;
        if (!doorbell->marked)
            probed(doorbell, OB_DOORBELL_NOT_YET, now_us);
        break;
    case OB_DOORBELL_PROBE: probed(doorbell, answer, now_us); break;
    case OB_DOORBELL_BEAT: doorbell->next_us = now_us + doorbell->set.beat_us; break;
    case OB_DOORBELL_CROWD:
        if (answer == OB_DOORBELL_DONE)
            doorbell->crowded_until_us = now_us + CROWD_WINDOWS * doorbell->set.sample_us;
        break;
    default: assert(!"a job that has no answer"); break;
    }
    assert(!ob_doorbell_check(doorbell));
}

void ob_doorbell_lost(struct ob_doorbell *doorbell, int64_t now_us)
{
    if (doorbell->state == OB_DOORBELL_OFF || doorbell->state == OB_DOORBELL_POLLING)
        return;
    if (doorbell->state == OB_DOORBELL_OPENING) {
        double_step(doorbell, reopen_most_us);
    } else {
        doorbell->look = OB_WAKE_UNHEARD;
        doorbell->step_us = reopen_first_us;
    }
    doorbell->next_us = now_us + doorbell->step_us;
    set_state(doorbell, OB_DOORBELL_OFF);
    assert(!ob_doorbell_check(doorbell));
}

/* ---- jobs ---- */

static enum ob_doorbell_job ask(struct ob_doorbell *doorbell)
{
    doorbell->out = OB_DOORBELL_ASK;
    set_state(doorbell, OB_DOORBELL_ASKED);
    return OB_DOORBELL_ASK;
}

/* The server ignores a cancel that arrives before it has begun to wait, so the cancel is repeated. */
static enum ob_doorbell_job cancel(struct ob_doorbell *doorbell, int64_t now_us)
{
    if (doorbell->cancelled)
        double_step(doorbell, doorbell->set.fallback_us);
    else
        doorbell->step_us = cancel_first_us;
    doorbell->cancelled = true;
    doorbell->next_us = now_us + doorbell->step_us;
    return OB_DOORBELL_CANCEL;
}

/* The job that the state requires, if no other job is under way. */
static enum ob_doorbell_job wanted(struct ob_doorbell *doorbell, int64_t now_us)
{
    switch (doorbell->state) {
    case OB_DOORBELL_OFF:
        if (now_us < doorbell->next_us)
            return OB_DOORBELL_NOTHING;
        set_state(doorbell, OB_DOORBELL_OPENING);
        return OB_DOORBELL_OPEN;
    case OB_DOORBELL_CALM:
        if (weigh(doorbell, now_us))
            return ask(doorbell);
        return may_be_crowded(doorbell, now_us) ? OB_DOORBELL_CROWD : OB_DOORBELL_NOTHING;
    case OB_DOORBELL_HELD:
        if (weigh(doorbell, now_us))
            return now_us >= doorbell->next_us ? OB_DOORBELL_BEAT : OB_DOORBELL_NOTHING;
        set_state(doorbell, OB_DOORBELL_CALMING);
        return OB_DOORBELL_UNLOCK;
    case OB_DOORBELL_CALMING: return OB_DOORBELL_UNLOCK;
    case OB_DOORBELL_FENCING:
        if (weigh(doorbell, now_us))
            return ask(doorbell);
        if (now_us >= doorbell->next_us)
            return doorbell->marked ? OB_DOORBELL_PROBE : OB_DOORBELL_MARK;
        return may_be_crowded(doorbell, now_us) ? OB_DOORBELL_CROWD : OB_DOORBELL_NOTHING;
    default: return OB_DOORBELL_NOTHING;
    }
}

enum ob_doorbell_job ob_doorbell_next(struct ob_doorbell *doorbell, int64_t now_us)
{
    enum ob_doorbell_job job = OB_DOORBELL_NOTHING;
    if (doorbell->close) {
        doorbell->close = false;
        return OB_DOORBELL_CLOSE;
    }
    if (doorbell->out == OB_DOORBELL_NOTHING) {
        job = wanted(doorbell, now_us);
        doorbell->out = job;
    } else if (doorbell->state == OB_DOORBELL_ASKED && !weigh(doorbell, now_us)) {
        set_state(doorbell, OB_DOORBELL_CALMING);
        job = cancel(doorbell, now_us);
    } else if (doorbell->state == OB_DOORBELL_HELD && !weigh(doorbell, now_us)) {
        set_state(doorbell, OB_DOORBELL_CALMING); /* once the beat is answered */
    } else if (doorbell->cancelled && now_us >= doorbell->next_us) {
        job = cancel(doorbell, now_us);
    }
    assert(!ob_doorbell_check(doorbell));
    return job;
}

/* ---- looks ---- */

/* Time between looks without a reason; 0: there are none, or the probes cause them. */
static int64_t interval_us(const struct ob_doorbell *doorbell)
{
    switch (doorbell->state) {
    case OB_DOORBELL_CALM:
    case OB_DOORBELL_FENCING: return 0;
    case OB_DOORBELL_POLLING: return doorbell->step_us;
    case OB_DOORBELL_OFF:
    case OB_DOORBELL_OPENING: return doorbell->set.fallback_us;
    default: return doorbell->claiming ? doorbell->set.debounce_us : doorbell->pause_us;
    }
}

enum ob_doorbell_reason ob_doorbell_wake(struct ob_doorbell *doorbell, int64_t now_us)
{
    enum ob_doorbell_reason look = OB_WAKE_NOT;
    int64_t interval = interval_us(doorbell);
    if (interval > 0 && now_us - doorbell->looked_us >= interval)
        look = silences(doorbell->state) ? OB_WAKE_BUSY : OB_WAKE_FALLBACK;
    if (doorbell->look != OB_WAKE_NOT && !silences(doorbell->state)) /* else debounced */
        look = doorbell->look;
    if (look == OB_WAKE_NOT)
        return look;
    if (doorbell->state == OB_DOORBELL_POLLING)
        double_step(doorbell, doorbell->set.fallback_us);
    doorbell->look = OB_WAKE_NOT;
    doorbell->claiming = true;
    doorbell->looked_us = now_us;
    return look;
}

int64_t ob_doorbell_due_us(const struct ob_doorbell *doorbell)
{
    int64_t due = INT64_MAX, interval = interval_us(doorbell);
    if (interval > 0)
        due = doorbell->looked_us + interval;
    if (doorbell->close || (doorbell->look != OB_WAKE_NOT && !silences(doorbell->state)))
        return INT64_MIN;
    switch (doorbell->state) {
    case OB_DOORBELL_OFF: return earlier(due, doorbell->next_us);
    case OB_DOORBELL_HELD:
    case OB_DOORBELL_FENCING: return doorbell->out == OB_DOORBELL_NOTHING ? earlier(due, doorbell->next_us) : due;
    case OB_DOORBELL_CALMING: return doorbell->cancelled ? earlier(due, doorbell->next_us) : due;
    default: return due;
    }
}
