/* test_doorbell.c - every way through the doorbell's states. Proves: S9, N4 (the part that needs no database). */
#include "core/doorbell.h"
#include "ob_test.h"

enum { MS = 1000, SECOND = 1000 * MS };

struct rig {
    struct ob_doorbell doorbell;
    int64_t now;
};

static struct rig rig_new(void)
{
    struct rig rig = {.now = 1000 * (int64_t)SECOND};
    ob_doorbell_init(&rig.doorbell, NULL, rig.now);
    return rig;
}

static void pass(struct rig *rig, int64_t us)
{
    rig->now += us;
}

/* The next job must be this one. */
#define expect_job(rig, job_) \
    assert_string_equal(ob_doorbell_job_name(ob_doorbell_next(&(rig)->doorbell, (rig)->now)), job_)
#define expect_look(rig, look_) \
    assert_string_equal(ob_doorbell_reason_name(ob_doorbell_wake(&(rig)->doorbell, (rig)->now)), look_)
#define expect_state(rig, state_) \
    do { \
        assert_string_equal(ob_doorbell_state_name((rig)->doorbell.state), state_); \
        assert_null(ob_doorbell_check(&(rig)->doorbell)); \
    } while (0)

static void answer(struct rig *rig, enum ob_doorbell_job job, enum ob_doorbell_answer how)
{
    ob_doorbell_answered(&rig->doorbell, job, how, rig->now);
}

/* Nothing is to be done, except to see whether producers stand in line; they do not. */
static void expect_quiet(struct rig *rig)
{
    enum ob_doorbell_job job = ob_doorbell_next(&rig->doorbell, rig->now);
    if (job == OB_DOORBELL_CROWD)
        answer(rig, job, OB_DOORBELL_NOT_YET);
    else
        assert_int_equal(job, OB_DOORBELL_NOTHING);
    expect_job(rig, "nothing");
}

static void claim(struct rig *rig, size_t count)
{
    ob_doorbell_claimed(&rig->doorbell, count, false, false, rig->now);
}

static void pass_fence(struct rig *rig)
{
    expect_state(rig, "fencing");
    expect_job(rig, "mark");
    answer(rig, OB_DOORBELL_MARK, OB_DOORBELL_DONE);
    expect_job(rig, "probe");
    answer(rig, OB_DOORBELL_PROBE, OB_DOORBELL_DONE);
    expect_state(rig, "calm");
    expect_look(rig, "fence");
}

/* ---- rigs in a given state ---- */

static struct rig calm(void)
{
    struct rig rig = rig_new();
    expect_job(&rig, "open");
    answer(&rig, OB_DOORBELL_OPEN, OB_DOORBELL_DONE);
    pass_fence(&rig);
    claim(&rig, 0);
    return rig;
}

static struct rig asked(void)
{
    struct rig rig = calm();
    claim(&rig, 1000);
    expect_job(&rig, "ask");
    expect_job(&rig, "nothing");
    expect_state(&rig, "asked");
    return rig;
}

static struct rig held(void)
{
    struct rig rig = asked();
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    expect_state(&rig, "held");
    expect_job(&rig, "nothing");
    return rig;
}

static struct rig calming(void)
{
    struct rig rig = held();
    pass(&rig, SECOND);
    expect_job(&rig, "unlock");
    expect_state(&rig, "calming");
    return rig;
}

static struct rig fencing(void)
{
    struct rig rig = calming();
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_state(&rig, "fencing");
    expect_job(&rig, "mark");
    answer(&rig, OB_DOORBELL_MARK, OB_DOORBELL_DONE);
    return rig;
}

/* ---- sleeping and being woken ---- */

static void settings_have_defaults(void **state)
{
    (void)state;
    struct ob_doorbell_settings set = ob_doorbell_settings(NULL);
    assert_int_equal(set.busy_per_s, 400);
    assert_int_equal(set.sample_us, 500 * MS);
    assert_int_equal(set.debounce_us, 25 * MS);
    assert_int_equal(set.fallback_us, 500 * MS);
    assert_int_equal(set.beat_us, 10 * SECOND);
    set = ob_doorbell_settings(&(struct ob_doorbell_settings){.busy_per_s = 7, .fallback_us = 250 * MS});
    assert_int_equal(set.busy_per_s, 7);
    assert_int_equal(set.fallback_us, 250 * MS);
    assert_int_equal(set.debounce_us, 25 * MS);
}

static void opens_and_sleeps(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    expect_look(&rig, "not");
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now);
    expect_job(&rig, "open");
    expect_state(&rig, "opening");
    expect_job(&rig, "nothing");
    answer(&rig, OB_DOORBELL_OPEN, OB_DOORBELL_DONE);
    expect_look(&rig, "not");
    pass_fence(&rig); /* producers that saw nobody listen may not have committed yet */
    expect_look(&rig, "not");
    pass(&rig, 3600 * (int64_t)SECOND);
    expect_look(&rig, "not");
    expect_job(&rig, "nothing");
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), INT64_MAX);
}

static void a_ring_is_a_reason_once(void **state)
{
    (void)state;
    struct rig rig = calm();
    ob_doorbell_rang(&rig.doorbell, rig.now);
    ob_doorbell_rang(&rig.doorbell, rig.now);
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), INT64_MIN);
    expect_look(&rig, "rang");
    expect_look(&rig, "not");
}

/* A claim does not answer a ring: it may have read before the ringer committed. */
static void a_claim_takes_no_ring_away(void **state)
{
    (void)state;
    struct rig rig = calm();
    ob_doorbell_rang(&rig.doorbell, rig.now);
    claim(&rig, 0);
    expect_look(&rig, "rang");
}

/* ---- busy ---- */

static void more_than_the_rate_is_busy(void **state)
{
    (void)state;
    struct rig rig = calm();
    claim(&rig, 200);
    expect_quiet(&rig);
    claim(&rig, 1);
    expect_job(&rig, "ask");
}

static void spread_over_time_it_is_not(void **state)
{
    (void)state;
    struct rig rig = calm();
    for (int i = 0; i < 100; i++) {
        claim(&rig, 17); /* 340 a second */
        expect_quiet(&rig);
        pass(&rig, 50 * MS);
    }
    for (int i = 0; i < 100 && rig.doorbell.state == OB_DOORBELL_CALM; i++) {
        claim(&rig, 22); /* 440 a second */
        if (ob_doorbell_next(&rig.doorbell, rig.now) == OB_DOORBELL_CROWD)
            answer(&rig, OB_DOORBELL_CROWD, OB_DOORBELL_NOT_YET);
        pass(&rig, 50 * MS);
    }
    expect_state(&rig, "asked");
}

/* Between half of the rate and the rate, who is busy stays so, and who is calm stays so. */
static void it_takes_half_the_rate_to_calm(void **state)
{
    (void)state;
    struct rig rig = held();
    for (int i = 0; i < 100; i++) {
        pass(&rig, 50 * MS);
        claim(&rig, 15); /* 300 a second */
        expect_job(&rig, "nothing");
    }
    for (int i = 0; i < 100 && rig.doorbell.state == OB_DOORBELL_HELD; i++) {
        pass(&rig, 50 * MS);
        claim(&rig, 5); /* 100 a second */
        ob_doorbell_next(&rig.doorbell, rig.now);
    }
    expect_state(&rig, "calming");
}

/* A slow receiver: few messages a second, but always more there. */
static void a_backlog_is_busy(void **state)
{
    (void)state;
    struct rig rig = calm();
    for (int i = 0; i < 5; i++) {
        ob_doorbell_claimed(&rig.doorbell, 10, true, false, rig.now);
        expect_quiet(&rig);
        pass(&rig, 100 * MS);
    }
    ob_doorbell_claimed(&rig.doorbell, 10, true, false, rig.now);
    expect_job(&rig, "ask");
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    pass(&rig, 2 * SECOND);
    expect_job(&rig, "nothing");
    ob_doorbell_claimed(&rig.doorbell, 3, false, false, rig.now);
    expect_job(&rig, "unlock");
}

/* It has stopped to claim, though it lives: paused. */
static void a_backlog_left_alone_is_not(void **state)
{
    (void)state;
    struct rig rig = calm();
    ob_doorbell_claimed(&rig.doorbell, 10, true, false, rig.now);
    pass(&rig, SECOND);
    ob_doorbell_claimed(&rig.doorbell, 10, true, false, rig.now);
    expect_job(&rig, "ask");
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    pass(&rig, 6 * SECOND);
    expect_job(&rig, "unlock");
}

static void one_message_at_a_time_is_not(void **state)
{
    (void)state;
    struct rig rig = calm();
    for (int i = 0; i < 1000; i++) {
        ob_doorbell_claimed(&rig.doorbell, 1, true, false, rig.now);
        ob_doorbell_claimed(&rig.doorbell, 0, false, false, rig.now);
        expect_quiet(&rig);
        pass(&rig, 10 * MS);
    }
}

/* A slow disk: rings hold producers back, so the rate that would end the ringing is never reached. */
static void a_crowd_is_busy_with_a_trickle(void **state)
{
    (void)state;
    struct rig rig = calm();
    claim(&rig, 10); /* 20 a second */
    expect_job(&rig, "nothing");
    claim(&rig, 1);
    expect_job(&rig, "crowd");
    expect_job(&rig, "nothing");
    answer(&rig, OB_DOORBELL_CROWD, OB_DOORBELL_NOT_YET);
    claim(&rig, 1);
    expect_job(&rig, "nothing"); /* once a sample */
    pass(&rig, 500 * MS);
    claim(&rig, 5);
    expect_job(&rig, "crowd");
    answer(&rig, OB_DOORBELL_CROWD, OB_DOORBELL_DONE);
    expect_job(&rig, "ask");
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    for (int i = 0; i < 1100; i++) {
        pass(&rig, 50 * MS);
        claim(&rig, 2); /* 40 a second */
        if (rig.now < rig.doorbell.next_us)
            expect_job(&rig, "nothing");
        else
            rig.doorbell.next_us += 10 * (int64_t)SECOND;
    }
    for (int i = 0; i < 200 && rig.doorbell.state == OB_DOORBELL_HELD; i++) {
        pass(&rig, 50 * MS);
        claim(&rig, 2);
        ob_doorbell_next(&rig.doorbell, rig.now);
    }
    expect_state(&rig, "calming"); /* after a minute it tries whether it is over */
}

static void a_crowd_is_looked_for_at_the_fence(void **state)
{
    (void)state;
    struct rig rig = fencing();
    expect_job(&rig, "probe");
    answer(&rig, OB_DOORBELL_PROBE, OB_DOORBELL_NOT_YET);
    expect_job(&rig, "nothing");
    claim(&rig, 20);
    expect_job(&rig, "crowd");
    answer(&rig, OB_DOORBELL_CROWD, OB_DOORBELL_FAILED);
    expect_state(&rig, "fencing");
    pass(&rig, 2 * MS);
    expect_job(&rig, "probe");
}

static void a_filter_never_holds_the_common_doorbell(void **state)
{
    (void)state;
    struct rig rig = calm();
    for (int i = 0; i < 100; i++) {
        ob_doorbell_claimed(&rig.doorbell, 1000, true, true, rig.now);
        expect_job(&rig, "nothing");
        pass(&rig, 20 * MS);
    }
    expect_state(&rig, "calm");
    rig.doorbell.set.own = true;
    ob_doorbell_claimed(&rig.doorbell, 1000, true, true, rig.now);
    expect_job(&rig, "ask");
}

/* One look at a time: the next one only when the claim was answered, or has taken as long as the debounce. */
static void a_look_waits_for_its_claim(void **state)
{
    (void)state;
    struct rig rig = asked();
    ob_doorbell_rang(&rig.doorbell, rig.now);
    expect_look(&rig, "not"); /* a ring is no reason any more */
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + 1 * MS);
    pass(&rig, 1 * MS);
    expect_look(&rig, "busy");
    pass(&rig, 25 * MS - 1);
    expect_look(&rig, "not");
    pass(&rig, 1);
    expect_look(&rig, "busy");
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    ob_doorbell_claiming(&rig.doorbell, rig.now);
    pass(&rig, 300);
    claim(&rig, 10);
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + 700); /* 1 ms after it began */
    ob_doorbell_claiming(&rig.doorbell, rig.now);                       /* there was more to claim, without a look */
    pass(&rig, 24 * MS);
    expect_look(&rig, "not");
    claim(&rig, 10);
    expect_look(&rig, "busy"); /* it has taken longer than any pause */
}

/* A relay that holds the doorbell for ten seconds while messages come at a rate, and claims that take so long. */
struct load {
    double per_s;
    int64_t claim_us, message_us, disk_us; /* an empty claim, each message, what is written for all of them */
    int looks, messages, vain;
    int64_t busy_us, waited_us; /* in claims; by all messages, from their commit to the answer of the claim */
};

static void work_off(struct load *load)
{
    struct rig rig = held();
    ob_doorbell_claiming(&rig.doorbell, rig.now);
    pass(&rig, load->claim_us);
    claim(&rig, 0);
    int64_t start = rig.now, end = start + 10 * SECOND, gap = load->per_s > 0 ? (int64_t)(SECOND / load->per_s) : end;
    int64_t next = start + gap;
    for (rig.now = ob_doorbell_due_us(&rig.doorbell); rig.now < end; rig.now = ob_doorbell_due_us(&rig.doorbell)) {
        rig.doorbell.next_us = end; /* no beats */
        rig.doorbell.busy = true;
        if (ob_doorbell_wake(&rig.doorbell, rig.now) == OB_WAKE_NOT)
            continue;
        ob_doorbell_claiming(&rig.doorbell, rig.now);
        size_t count = 0;
        int64_t commits = 0;
        for (; next <= rig.now; next += gap, count++)
            commits += next;
        int64_t cost = load->claim_us + (count > 0 ? load->disk_us : 0) + (int64_t)count * load->message_us;
        pass(&rig, cost);
        load->waited_us += (int64_t)count * rig.now - commits;
        load->busy_us += cost;
        load->messages += (int)count;
        load->vain += count == 0;
        load->looks++;
        claim(&rig, count);
    }
}

/* S9: no message waits for the debounce while others come: 3 ms on average at any rate, and no hump where it gets busy. */
static void a_busy_relay_is_prompt(void **state)
{
    (void)state;
    const double rates[] = {200, 300, 400, 500, 1000, 2000, 5000, 10000, 20000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct load load = {.per_s = rates[i], .claim_us = 300, .message_us = 15};
        work_off(&load);
        double waited_ms = (double)load.waited_us / load.messages / MS;
        print_message("# %.0f/s: %d looks, %d in vain, %.2f ms, %.0f %% of the time\n", rates[i], load.looks, load.vain,
                      waited_ms, (double)load.busy_us / 1e5);
        assert_true(load.messages > rates[i] * 9.9);
        assert_true(waited_ms < 3);
    }
}

/* Where claims are expensive they are made less often: what they cost beside their messages takes half a core at most. */
static void expensive_claims_are_rare(void **state)
{
    (void)state;
    for (int64_t cost = 100; cost <= 5 * MS; cost *= 2) {
        struct load load = {.per_s = 2000, .claim_us = cost, .message_us = 15};
        work_off(&load);
        assert_true(load.messages > 19000);
        assert_true(load.looks * cost <= 10 * SECOND / 2 + cost);
    }
}

/* S9: a claim that waits for a slow disk is not expensive: the time that it waits is pause enough, and the next look follows at once. */
static void a_slow_disk_is_no_reason_to_wait(void **state)
{
    (void)state;
    struct load load = {.per_s = 2000, .claim_us = 300, .message_us = 15, .disk_us = 5 * MS};
    work_off(&load);
    assert_true(load.looks >= 10 * SECOND / (6 * MS));
}

/* Looks in vain take a seventh of a core at most; when nothing has come for a second there is one in 25 ms. */
static void looks_in_vain_are_cheap(void **state)
{
    (void)state;
    for (int64_t cost = 100; cost <= 2 * MS; cost *= 2) {
        struct load load = {.claim_us = cost};
        work_off(&load);
        assert_int_equal(load.looks, load.vain);
        assert_true(load.busy_us <= 10 * SECOND / 7);
        assert_true(load.looks <= SECOND / (cost * 2) + 9 * SECOND / (25 * MS) + 1); /* it takes a second to notice */
    }
}

static void empty_claim(struct rig *rig, int64_t us)
{
    ob_doorbell_claiming(&rig->doorbell, rig->now);
    pass(rig, us);
    claim(rig, 0);
}

/* Some claims that were held up do not make the next looks late; many do. */
static void slow_claims_are_forgiven(void **state)
{
    (void)state;
    struct rig rig = held();
    empty_claim(&rig, 300);
    for (int i = 0; i < 10; i++)
        empty_claim(&rig, 30 * MS); /* they waited for a core, or a connection was made */
    assert_in_range(rig.doorbell.vain_us, 300, 360);
    for (int i = 0; i < 300; i++)
        empty_claim(&rig, 2 * MS);
    assert_in_range(rig.doorbell.vain_us, 1900, 2000);
    ob_doorbell_claiming(&rig.doorbell, rig.now);
    pass(&rig, 300);
    ob_doorbell_wake(&rig.doorbell, rig.now); /* a look meanwhile does not make it look shorter */
    pass(&rig, 100);
    claim(&rig, 10); /* an empty one would have taken no longer */
    assert_int_equal(rig.doorbell.vain_us, 400);
    assert_int_equal(rig.doorbell.pause_us, MS);
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + MS - 400); /* counted from its begin */
}

/* S9: a claim that finds nothing while many messages come was only early. */
static void an_empty_claim_among_many_is_bad_luck(void **state)
{
    (void)state;
    struct rig rig = held();
    empty_claim(&rig, 800);
    for (int i = 0; i < 500; i++) {
        pass(&rig, 2 * MS);
        claim(&rig, 4);
    }
    empty_claim(&rig, 800);
    assert_in_range(ob_doorbell_due_us(&rig.doorbell) - rig.now, 800, 1 * MS);
}

/* ---- falling asleep ---- */

static void the_fence_comes_before_sleep(void **state)
{
    (void)state;
    struct rig rig = calming();
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_job(&rig, "mark");
    expect_job(&rig, "nothing");
    answer(&rig, OB_DOORBELL_MARK, OB_DOORBELL_DONE);
    expect_job(&rig, "probe");
    answer(&rig, OB_DOORBELL_PROBE, OB_DOORBELL_DONE);
    expect_state(&rig, "calm");
    expect_look(&rig, "fence");
    expect_look(&rig, "not");
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), INT64_MAX);
}

/* A writer that does not end: 2 ms, doubling, and never more seldom than the fallback. */
static void probes_double(void **state)
{
    (void)state;
    struct rig rig = fencing();
    int64_t gap = 2 * MS;
    for (int i = 0; i < 15; i++) {
        expect_job(&rig, "probe");
        answer(&rig, OB_DOORBELL_PROBE, OB_DOORBELL_NOT_YET);
        expect_state(&rig, "fencing");
        expect_look(&rig, "fence");
        assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + gap);
        pass(&rig, gap - 1);
        expect_job(&rig, "nothing");
        pass(&rig, 1);
        gap = gap * 2 < 500 * MS ? gap * 2 : 500 * MS;
    }
    assert_int_equal(gap, 500 * MS);
}

static void rings_are_heard_at_the_fence(void **state)
{
    (void)state;
    struct rig rig = fencing();
    expect_job(&rig, "probe");
    ob_doorbell_rang(&rig.doorbell, rig.now);
    expect_look(&rig, "rang");
}

static void busy_again_at_the_fence(void **state)
{
    (void)state;
    struct rig rig = fencing();
    expect_job(&rig, "probe");
    claim(&rig, 1000);
    expect_job(&rig, "nothing"); /* one statement at a time */
    answer(&rig, OB_DOORBELL_PROBE, OB_DOORBELL_NOT_YET);
    expect_job(&rig, "ask");
    expect_state(&rig, "asked");
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    pass(&rig, SECOND);
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_job(&rig, "mark"); /* the old fence is too low */
}

static void a_mark_that_fails_is_taken_again(void **state)
{
    (void)state;
    struct rig rig = calming();
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_job(&rig, "mark");
    answer(&rig, OB_DOORBELL_MARK, OB_DOORBELL_FAILED);
    expect_state(&rig, "fencing");
    expect_look(&rig, "fence");
    expect_job(&rig, "nothing");
    pass(&rig, 2 * MS);
    expect_job(&rig, "mark");
    answer(&rig, OB_DOORBELL_MARK, OB_DOORBELL_DONE);
    pass(&rig, 4 * MS);
    expect_job(&rig, "probe");
    answer(&rig, OB_DOORBELL_PROBE, OB_DOORBELL_FAILED);
    expect_state(&rig, "fencing");
}

/* ---- the ask that is cancelled ---- */

static struct rig cancelled(void)
{
    struct rig rig = asked();
    pass(&rig, SECOND);
    expect_job(&rig, "cancel");
    expect_state(&rig, "calming");
    expect_job(&rig, "nothing");
    return rig;
}

static void a_cancelled_ask_is_unlocked(void **state)
{
    (void)state;
    struct rig rig = cancelled();
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_FAILED);
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_state(&rig, "fencing");
}

/* The trap: the server granted the lock just before the cancel came. */
static void also_when_it_was_granted(void **state)
{
    (void)state;
    struct rig rig = cancelled();
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_DONE);
    expect_state(&rig, "calming");
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_state(&rig, "fencing");
}

/* The other trap: the cancel came before the server had begun to wait, and was ignored. */
static void a_cancel_is_sent_again(void **state)
{
    (void)state;
    struct rig rig = cancelled();
    for (int64_t gap = 20 * MS; gap < 500 * MS; gap *= 2) {
        pass(&rig, gap - 1);
        expect_job(&rig, "nothing");
        pass(&rig, 1);
        assert_true(ob_doorbell_due_us(&rig.doorbell) <= rig.now);
        expect_job(&rig, "cancel");
    }
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_FAILED);
    expect_job(&rig, "unlock");
    pass(&rig, SECOND);
    expect_job(&rig, "nothing"); /* no cancel may hit the unlock */
}

/* Somebody else cancelled it: an administrator, a timeout. */
static void a_refused_ask_is_made_again_after_the_unlock(void **state)
{
    (void)state;
    struct rig rig = asked();
    answer(&rig, OB_DOORBELL_ASK, OB_DOORBELL_FAILED);
    expect_state(&rig, "calming");
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_DONE);
    expect_job(&rig, "ask");
}

static void an_unlock_that_fails_is_tried_thrice(void **state)
{
    (void)state;
    struct rig rig = calming();
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_FAILED);
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_FAILED);
    expect_job(&rig, "unlock");
    answer(&rig, OB_DOORBELL_UNLOCK, OB_DOORBELL_FAILED);
    expect_state(&rig, "off");
    expect_job(&rig, "close");
    expect_job(&rig, "nothing");
    pass(&rig, 50 * MS);
    expect_job(&rig, "open");
    answer(&rig, OB_DOORBELL_OPEN, OB_DOORBELL_DONE);
    expect_state(&rig, "fencing");
}

/* ---- signs of life ---- */

static void the_holder_beats(void **state)
{
    (void)state;
    struct rig rig = held();
    for (int i = 0; i < 110; i++) {
        pass(&rig, 100 * MS);
        claim(&rig, 100);
        if (i < 99)
            expect_job(&rig, "nothing");
        else if (i == 99)
            expect_job(&rig, "beat");
    }
    expect_job(&rig, "nothing");
    answer(&rig, OB_DOORBELL_BEAT, OB_DOORBELL_DONE);
    expect_job(&rig, "nothing");
    expect_state(&rig, "held");
}

static void it_calms_with_a_beat_out(void **state)
{
    (void)state;
    struct rig rig = held();
    pass(&rig, 10 * SECOND);
    claim(&rig, 1000);
    expect_job(&rig, "beat");
    pass(&rig, SECOND);
    expect_job(&rig, "nothing");
    expect_state(&rig, "calming");
    answer(&rig, OB_DOORBELL_BEAT, OB_DOORBELL_DONE);
    expect_job(&rig, "unlock");
}

/* ---- a connection that is lost, or never was ---- */

/* Reopens at once, or nearly; and owes a fence, whatever it owed before. */
static void expect_reopens(struct rig *rig)
{
    ob_doorbell_lost(&rig->doorbell, rig->now);
    expect_state(rig, "off");
    expect_look(rig, "unheard");
    expect_job(rig, "nothing");
    pass(rig, 50 * MS);
    expect_job(rig, "open");
    answer(rig, OB_DOORBELL_OPEN, OB_DOORBELL_DONE);
    expect_state(rig, "fencing");
    expect_look(rig, "not"); /* the probe causes it */
}

static void lost_from_anywhere(void **state)
{
    (void)state;
    struct rig rig = calm();
    expect_reopens(&rig);
    rig = asked();
    expect_reopens(&rig);
    rig = cancelled();
    expect_reopens(&rig);
    rig = held();
    expect_reopens(&rig);
    rig = calming();
    expect_reopens(&rig);
    rig = fencing();
    expect_reopens(&rig);
    expect_reopens(&rig); /* twice */
}

static void no_server(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    int64_t gap = 100 * MS;
    int looks = 0, opens = 0;
    for (int64_t end = rig.now + 60 * SECOND; rig.now < end;) {
        if (ob_doorbell_next(&rig.doorbell, rig.now) == OB_DOORBELL_OPEN) {
            opens++;
            ob_doorbell_lost(&rig.doorbell, rig.now);
            assert_int_equal(rig.doorbell.next_us, rig.now + gap);
            gap = gap * 2 < 5 * SECOND ? gap * 2 : 5 * SECOND;
        }
        if (ob_doorbell_wake(&rig.doorbell, rig.now) == OB_WAKE_FALLBACK)
            looks++;
        assert_true(ob_doorbell_due_us(&rig.doorbell) > rig.now);
        rig.now = ob_doorbell_due_us(&rig.doorbell);
    }
    assert_int_equal(looks, 119);
    assert_in_range(opens, 15, 20);
}

static void an_open_that_fails_is_closed(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    expect_job(&rig, "open");
    answer(&rig, OB_DOORBELL_OPEN, OB_DOORBELL_FAILED);
    expect_state(&rig, "off");
    expect_job(&rig, "close");
}

static void a_pooler_means_polling(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    expect_job(&rig, "open");
    answer(&rig, OB_DOORBELL_OPEN, OB_DOORBELL_POOLED);
    expect_state(&rig, "polling");
    expect_look(&rig, "unheard");
    ob_doorbell_lost(&rig.doorbell, rig.now); /* what was left of the connection */
    expect_state(&rig, "polling");
    int64_t gap = 50 * MS;
    for (int i = 0; i < 8; i++) {
        expect_job(&rig, "nothing");
        assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + gap);
        pass(&rig, gap - 1);
        expect_look(&rig, "not");
        pass(&rig, 1);
        expect_look(&rig, "fallback");
        claim(&rig, 0);
        gap = gap * 2 < 500 * MS ? gap * 2 : 500 * MS;
    }
    claim(&rig, 5); /* where something came, more may come */
    assert_int_equal(ob_doorbell_due_us(&rig.doorbell), rig.now + 1 * MS);
    claim(&rig, 100000);
    expect_job(&rig, "nothing");
}

static void polling_can_be_asked_for(void **state)
{
    (void)state;
    struct ob_doorbell doorbell;
    ob_doorbell_init(&doorbell, &(struct ob_doorbell_settings){.polling = true}, 0);
    assert_int_equal(ob_doorbell_next(&doorbell, 0), OB_DOORBELL_NOTHING);
    assert_int_equal(ob_doorbell_wake(&doorbell, 25 * MS), OB_WAKE_FALLBACK);
}

/* The check function is worth nothing if it finds nothing. */
static void the_check_sees(void **state)
{
    (void)state;
    struct rig rig = calm();
    rig.doorbell.owes_fence = true;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = held();
    rig.doorbell.owes_fence = false;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = calm();
    rig.doorbell.out = OB_DOORBELL_ASK;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = asked();
    rig.doorbell.out = OB_DOORBELL_NOTHING;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = calming();
    rig.doorbell.marked = true;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = held();
    rig.doorbell.cancelled = true;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = held();
    rig.doorbell.close = true;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
    rig = fencing();
    rig.doorbell.owes_fence = false;
    assert_non_null(ob_doorbell_check(&rig.doorbell));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_defaults),
        cmocka_unit_test(opens_and_sleeps),
        cmocka_unit_test(a_ring_is_a_reason_once),
        cmocka_unit_test(a_claim_takes_no_ring_away),
        cmocka_unit_test(more_than_the_rate_is_busy),
        cmocka_unit_test(spread_over_time_it_is_not),
        cmocka_unit_test(it_takes_half_the_rate_to_calm),
        cmocka_unit_test(a_backlog_is_busy),
        cmocka_unit_test(a_backlog_left_alone_is_not),
        cmocka_unit_test(one_message_at_a_time_is_not),
        cmocka_unit_test(a_crowd_is_busy_with_a_trickle),
        cmocka_unit_test(a_crowd_is_looked_for_at_the_fence),
        cmocka_unit_test(a_filter_never_holds_the_common_doorbell),
        cmocka_unit_test(a_look_waits_for_its_claim),
        cmocka_unit_test(a_busy_relay_is_prompt),
        cmocka_unit_test(expensive_claims_are_rare),
        cmocka_unit_test(a_slow_disk_is_no_reason_to_wait),
        cmocka_unit_test(looks_in_vain_are_cheap),
        cmocka_unit_test(slow_claims_are_forgiven),
        cmocka_unit_test(an_empty_claim_among_many_is_bad_luck),
        cmocka_unit_test(the_fence_comes_before_sleep),
        cmocka_unit_test(probes_double),
        cmocka_unit_test(rings_are_heard_at_the_fence),
        cmocka_unit_test(busy_again_at_the_fence),
        cmocka_unit_test(a_mark_that_fails_is_taken_again),
        cmocka_unit_test(a_cancelled_ask_is_unlocked),
        cmocka_unit_test(also_when_it_was_granted),
        cmocka_unit_test(a_cancel_is_sent_again),
        cmocka_unit_test(a_refused_ask_is_made_again_after_the_unlock),
        cmocka_unit_test(an_unlock_that_fails_is_tried_thrice),
        cmocka_unit_test(the_holder_beats),
        cmocka_unit_test(it_calms_with_a_beat_out),
        cmocka_unit_test(lost_from_anywhere),
        cmocka_unit_test(no_server),
        cmocka_unit_test(an_open_that_fails_is_closed),
        cmocka_unit_test(a_pooler_means_polling),
        cmocka_unit_test(polling_can_be_asked_for),
        cmocka_unit_test(the_check_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
