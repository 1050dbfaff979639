/* test_machine_fault.c - whose fault a failure is, scene by scene: the message's, which spends, or its sink's, which does
 * not; and how sinks that are down are probed. tests/system/test_relay_faults.py has the same with real receivers. */
#include "core/machine.h"
#include "ob_test.h"

#include <string.h>

enum { MS = 1000, SECOND = 1000000, DESTS = 200 };

struct rig {
    struct ob_machine *machine;
    int64_t now;
    struct ob_action act;
    struct ob_sink_settings sinks[DESTS];
    struct ob_machine_settings set;
};

static int by_priority(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    (void)patience;
    (void)ctx;
    return msg->priority; /* stands for the sink here */
}

static void rig_new(struct rig *rig, int sinks)
{
    rig->now = 5000 * (int64_t)SECOND;
    rig->set.sinks = rig->sinks;
    rig->set.sink_count = sinks;
    rig->set.route = by_priority;
    assert_int_equal(ob_machine_new(&rig->set, rig->now, &rig->machine, NULL), OUTBOX_OK);
}

static void rig_end(struct rig *rig)
{
    assert_null(ob_machine_check(rig->machine));
    ob_machine_free(rig->machine);
}

static void tell(struct rig *rig, struct ob_event event)
{
    ob_machine_event(rig->machine, rig->now, &event);
    assert_null(ob_machine_check(rig->machine));
}

static void expect(struct rig *rig, enum ob_action_kind kind)
{
    ob_machine_next(rig->machine, rig->now, &rig->act);
    assert_string_equal(ob_action_name(rig->act.kind), ob_action_name(kind));
    assert_null(ob_machine_check(rig->machine));
}

static struct outbox_delivery msg(int sink, int spent, int deferred)
{
    struct outbox_delivery made = {.size = sizeof made,
                                   .token = 1,
                                   .name_space = "n",
                                   .topic = "t",
                                   .payload = "{}",
                                   .payload_len = 2,
                                   .attempt = spent + deferred,
                                   .spent = spent,
                                   .max_attempts = 5,
                                   .priority = sink,
                                   .deferred = deferred};
    return made;
}

static void claimed(struct rig *rig, const struct outbox_delivery *msgs, int count)
{
    tell(rig, (struct ob_event){.kind = OB_EVENT_CLAIMED, .msgs = msgs, .count = count});
}

struct said {
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool unreachable;
    const char *code;
};
static const struct said accepted = {.outcome = OUTBOX_SINK_ACCEPTED},
                         forbidden = {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .code = "http_403"},
                         gone = {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .code = "http_410"},
                         no_answer = {OUTBOX_SINK_UNKNOWN, .unreachable = true, .code = "http_empty"},
                         refused = {OUTBOX_SINK_RETRY, .unreachable = true, .code = "http_connect"},
                         broken = {OUTBOX_SINK_RETRY, OUTBOX_SCOPE_SINK, .code = "http_500"},
                         greylisted = {OUTBOX_SINK_RETRY, OUTBOX_SCOPE_RECIPIENT, .code = "smtp_450"},
                         invalid = {OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_SINK, .code = "http_400"};

/* Claims one message and tells what was said of it: what is settled, and after how long it is due again. */
static enum outbox_outcome attempt_of(struct rig *rig, struct outbox_delivery one, struct said said, int64_t *delay)
{
    tell(rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(rig, OB_ACTION_CLAIM);
    claimed(rig, &one, 1);
    expect(rig, OB_ACTION_DELIVER);
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = said.outcome, verdict.scope = said.scope;
    verdict.unreachable = said.unreachable, verdict.code = said.code;
    tell(rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = rig->act.items[0].handle, .verdict = &verdict});
    expect(rig, OB_ACTION_SETTLE);
    enum outbox_outcome outcome = rig->act.settles[0].outcome;
    if (delay)
        *delay = rig->act.settles[0].delay_us;
    tell(rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
    rig->now += MS;
    return outcome;
}

#define is(rig, one, said, wanted) assert_int_equal(attempt_of(rig, one, said, NULL), wanted)

/* N5 V9: refused while others are accepted: the first time put off, then it spends, and nobody else waits for it. */
static void refused_among_accepted_v9(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig, 1);
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 1, 0), forbidden, OUTBOX_BLOCKED);
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 1, 1), forbidden, OUTBOX_RETRY);
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 2, 0), gone, OUTBOX_RETRY);
    is(&rig, msg(0, 3, 0), forbidden, OUTBOX_RETRY); /* accepted was something since it had failed, long before */
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    rig_end(&rig);
}

/* N5: nothing was accepted since it was refused the first time: that says nothing of the message. */
static void refused_with_nothing_accepted_since_n5(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig, 1);
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 1, 0), forbidden, OUTBOX_BLOCKED);
    rig.now += 2 * SECOND;
    is(&rig, msg(0, 1, 1), forbidden, OUTBOX_BLOCKED);
    rig.now += 2 * SECOND;
    is(&rig, msg(0, 1, 2), forbidden, OUTBOX_BLOCKED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    for (int i = 4; i <= 100; i++) {
        assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
        is(&rig, msg(0, 1, 0), forbidden, OUTBOX_BLOCKED);
    }
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN); /* so many in a row */
    rig_end(&rig);
}

/* N5 S7: where nothing was ever accepted, or not for a minute, one refusal is the sink's. Probes never spend; what they
 * find is written down when it is new. */
static void refuses_everybody_n5(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.breaker = {.base_us = 100 * MS}}}};
    rig_new(&rig, 1);
    is(&rig, msg(0, 1, 0), forbidden, OUTBOX_BLOCKED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    rig.now += 100 * MS;
    is(&rig, msg(0, 5, 0), forbidden, OUTBOX_RELEASED);
    rig.now += 200 * MS;
    is(&rig, msg(0, 1, 1), gone, OUTBOX_BLOCKED);
    rig.now += 400 * MS;
    is(&rig, msg(0, 1, 1), gone, OUTBOX_RELEASED);
    rig.now += 800 * MS;
    is(&rig, msg(0, 1, 1), accepted, OUTBOX_DELIVERED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    rig.now += 61 * (int64_t)SECOND;
    is(&rig, msg(0, 1, 0), forbidden, OUTBOX_BLOCKED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    rig_end(&rig);
}

/* M11: what one recipient refuses or limits waits by the count of that; more patience that is asked for is given. */
static void one_recipient_m11(void **state)
{
    (void)state;
    static const enum outbox_sink_outcome outcomes[] = {OUTBOX_SINK_BLOCKED, OUTBOX_SINK_LIMITED};
    for (size_t i = 0; i < OB_COUNT(outcomes); i++) {
        struct rig rig = {0};
        int64_t delay;
        rig_new(&rig, 1);
        for (int deferred = 0; deferred < 12; deferred++) {
            struct said said = {outcomes[i], OUTBOX_SCOPE_RECIPIENT, .code = "x"};
            attempt_of(&rig, msg(0, 1, deferred), said, &delay);
            int64_t most = (int64_t)SECOND << deferred, cap = 1800 * (int64_t)SECOND;
            most = most < cap ? most : cap;
            assert_in_range(delay, most / 2, most);
            rig.now += delay;
        }
        assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
        rig_end(&rig);
    }
}

/* N5: nobody gets an answer: two attempts at most, never the last, and none once it is clear. */
static void silence_n5(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.breaker = {.threshold = -1}}}};
    int64_t delay;
    rig_new(&rig, 1);
    struct outbox_delivery last = msg(0, 1, 0);
    last.max_attempts = 1;
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 4, 0), no_answer, OUTBOX_UNKNOWN); /* the first after an answer: it may be the message */
    is(&rig, msg(0, 1, 0), no_answer, OUTBOX_UNKNOWN);
    is(&rig, msg(0, 2, 0), no_answer, OUTBOX_UNKNOWN);
    is(&rig, msg(0, 3, 0), no_answer, OUTBOX_SILENT);
    is(&rig, last, no_answer, OUTBOX_SILENT);
    assert_int_equal(attempt_of(&rig, msg(0, 3, 20), no_answer, &delay), OUTBOX_SILENT);
    assert_int_equal(delay, 30 * SECOND);
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    is(&rig, msg(0, 3, 5), no_answer, OUTBOX_UNKNOWN);
    rig_end(&rig);
}

/* N5: probes of a silent sink cost nothing, and they are unknown each time anew. */
static void probes_of_silence_n5(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.max_attempts = 1, .breaker = {.threshold = 1, .base_us = 100 * MS}}}};
    rig_new(&rig, 1);
    is(&rig, msg(0, 1, 0), no_answer, OUTBOX_UNKNOWN);
    for (int i = 0; i < 5; i++) {
        rig.now += 2 * SECOND;
        is(&rig, msg(0, 1, i), no_answer, OUTBOX_SILENT);
        assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    }
    rig_end(&rig);
}

/* N5: a receiver that answers 500 to everything: four spend, the fifth opens the breaker. Then only probes spend, each by its
 * own delays; a message that is refused for what it is tells nothing, and the next is tried at once. */
static void fails_everybody_n5(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.breaker = {.base_us = 100 * MS}}}};
    int64_t delay;
    rig_new(&rig, 1);
    for (int i = 0; i < 4; i++)
        is(&rig, msg(0, 1, 0), broken, OUTBOX_RETRY);
    is(&rig, msg(0, 1, 0), broken, OUTBOX_BLOCKED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    rig.now += 100 * MS;
    assert_int_equal(attempt_of(&rig, msg(0, 3, 0), broken, &delay), OUTBOX_RETRY);
    assert_in_range(delay, 2 * SECOND, 4 * SECOND);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    rig.now += 200 * MS;
    is(&rig, msg(0, 1, 0), invalid, OUTBOX_FAILED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_HALF_OPEN);
    rig.now += 50 * MS;
    is(&rig, msg(0, 1, 0), refused, OUTBOX_BLOCKED); /* down now: that costs nothing */
    rig.now += 400 * MS;
    is(&rig, msg(0, 1, 0), accepted, OUTBOX_DELIVERED);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    rig_end(&rig);
}

/* N5: one recipient who is always told to come back later is not the sink. */
static void one_recipient_fails_n5(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig, 1);
    for (int i = 0; i < 100; i++)
        is(&rig, msg(0, 1, 0), greylisted, OUTBOX_RETRY);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    rig_end(&rig);
}

/* All sinks but the last are down. */
static void all_down(struct rig *rig, int sinks)
{
    for (int i = 0; i < sinks; i++)
        rig->sinks[i].breaker =
            (struct ob_breaker_settings){.threshold = 1, .base_us = 10 * SECOND, .cap_us = 10 * SECOND};
    rig_new(rig, sinks);
    for (int i = 0; i < sinks - 1; i++)
        is(rig, msg(i, 1, 0), refused, OUTBOX_BLOCKED);
    rig->now += 10 * SECOND;
}

static int named(const struct rig *rig)
{
    int count = 0;
    for (int i = 0; i < rig->set.sink_count; i++)
        count += !rig->act.shut[i];
    return count;
}

/* S10 N5: one claim brings the probes of many sinks; between two of them goes an ordinary one that is wanted. */
static void probes_of_many_s10(void **state)
{
    (void)state;
    static struct rig rig;
    rig = (struct rig){0};
    all_down(&rig, DESTS);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.only);
    assert_int_equal(rig.act.limit, 64);
    assert_int_equal(named(&rig), 64);
    struct outbox_delivery probes[64];
    for (int i = 0, count = 0; i < DESTS; i++)
        if (!rig.act.shut[i])
            probes[count++] = msg(i, 1, 0);
    claimed(&rig, probes, 64);
    for (int i = 0; i < 64; i++)
        expect(&rig, OB_ACTION_DELIVER);
    expect(&rig, OB_ACTION_CLAIM); /* the ordinary one, for the one that is up */
    assert_false(rig.act.only);
    assert_int_equal(named(&rig), 1);
    claimed(&rig, NULL, 0);
    expect(&rig, OB_ACTION_NONE); /* the next ones in a moment */
    assert_int_equal(ob_machine_deadline_us(rig.machine), rig.now + 50 * MS);
    rig.now += 50 * MS;
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.only && rig.act.shut[probes[0].priority]);
    assert_int_equal(named(&rig), 64);
    rig_end(&rig);
}

/* S10: a sink without messages is not asked for again and again: whatever comes for it is its probe. */
static void nothing_to_probe_with_s10(void **state)
{
    (void)state;
    static struct rig rig;
    rig = (struct rig){0};
    all_down(&rig, 3);
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.only);
    const struct outbox_delivery one = msg(0, 1, 0), more[] = {msg(1, 1, 0), msg(1, 1, 0), msg(1, 1, 0)};
    claimed(&rig, &one, 1);
    expect(&rig, OB_ACTION_DELIVER);
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(!rig.act.only && rig.act.shut[0] && !rig.act.shut[1] && !rig.act.shut[2]);
    claimed(&rig, more, 3);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 1);
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 2);
    assert_int_equal(rig.act.settles[0].outcome, OUTBOX_RELEASED);
    rig_end(&rig);
}

/* Nothing is there to probe the sink with; later these come at once. The first is delivered, the rest is put off. */
static uint64_t burst_after_idle(struct rig *rig, const struct outbox_delivery *burst, int count, int64_t *put_off)
{
    expect(rig, OB_ACTION_CLAIM);
    assert_true(rig->act.only);
    claimed(rig, NULL, 0);
    rig->now += 3600 * (int64_t)SECOND;
    tell(rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(rig, OB_ACTION_CLAIM);
    assert_false(rig->act.only);
    claimed(rig, burst, count);
    expect(rig, OB_ACTION_DELIVER);
    assert_int_equal(rig->act.count, 1);
    uint64_t probe = rig->act.items[0].handle;
    expect(rig, OB_ACTION_SETTLE);
    assert_int_equal(rig->act.count, count - 1);
    *put_off = rig->act.settles[0].delay_us;
    tell(rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
    return probe;
}

/* N5: probes of a sink that was blocked for long are far apart. A burst that comes later does not wait so long for the first
 * of it: the sink may be well. */
static void a_burst_after_a_long_block_n5(void **state)
{
    (void)state;
    struct rig rig = {0};
    int64_t put_off;
    rig_new(&rig, 1);
    for (int i = 0; i < 8; i++, rig.now += 300 * (int64_t)SECOND)
        is(&rig, msg(0, 1, i), forbidden, i ? OUTBOX_RELEASED : OUTBOX_BLOCKED);
    const struct outbox_delivery burst[] = {msg(0, 1, 0), msg(0, 1, 0), msg(0, 1, 0)};
    burst_after_idle(&rig, burst, 3, &put_off);
    assert_in_range(put_off, 1, 1500 * MS);
    rig_end(&rig);
}

/* N5: what comes after an idle time is refused for what it is: the next probe is asked for alone, at once. */
static void refused_after_an_idle_time_n5(void **state)
{
    (void)state;
    struct rig rig = {0};
    int64_t put_off;
    rig_new(&rig, 1);
    for (int i = 0; i < 5; i++)
        is(&rig, msg(0, 1, 0), broken, i < 4 ? OUTBOX_RETRY : OUTBOX_BLOCKED);
    rig.now += SECOND;
    const struct outbox_delivery burst[] = {msg(0, 1, 0), msg(0, 1, 0), msg(0, 1, 0)};
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = invalid.outcome, verdict.scope = invalid.scope, verdict.code = invalid.code;
    uint64_t probe = burst_after_idle(&rig, burst, 3, &put_off);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = probe, .verdict = &verdict});
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_HALF_OPEN);
    expect(&rig, OB_ACTION_SETTLE);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
    rig.now += 50 * MS;
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.only);
    assert_int_equal(rig.act.limit, 1);
    rig_end(&rig);
}

/* N5: one that has very many messages does not keep the others from their probes. */
static void a_crowd_before_a_probe_n5(void **state)
{
    (void)state;
    static struct rig rig;
    rig = (struct rig){0};
    all_down(&rig, 9);
    int asked = 0;
    for (bool alone = false; !alone; asked++) {
        assert_true(asked < 20);
        expect(&rig, OB_ACTION_CLAIM);
        if (!rig.act.only) {
            claimed(&rig, NULL, 0);
            expect(&rig, OB_ACTION_CLAIM);
        }
        assert_true(rig.act.only);
        alone = !rig.act.shut[7] && named(&rig) <= 2;
        struct outbox_delivery crowd[9];
        int first = 0;
        while (rig.act.shut[first])
            first++;
        for (int i = 0; i < rig.act.limit; i++)
            crowd[i] = msg(first, 1, 0);
        claimed(&rig, crowd, rig.act.limit);
        expect(&rig, OB_ACTION_DELIVER);
        uint64_t probe = rig.act.items[0].handle;
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        verdict.outcome = OUTBOX_SINK_RETRY, verdict.unreachable = true;
        tell(&rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = probe, .verdict = &verdict});
        expect(&rig, OB_ACTION_SETTLE);
        tell(&rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
        rig.now += 100 * MS;
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_among_accepted_v9),
        cmocka_unit_test(refused_with_nothing_accepted_since_n5),
        cmocka_unit_test(refuses_everybody_n5),
        cmocka_unit_test(one_recipient_m11),
        cmocka_unit_test(silence_n5),
        cmocka_unit_test(probes_of_silence_n5),
        cmocka_unit_test(fails_everybody_n5),
        cmocka_unit_test(one_recipient_fails_n5),
        cmocka_unit_test(probes_of_many_s10),
        cmocka_unit_test(nothing_to_probe_with_s10),
        cmocka_unit_test(a_burst_after_a_long_block_n5),
        cmocka_unit_test(refused_after_an_idle_time_n5),
        cmocka_unit_test(a_crowd_before_a_probe_n5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
