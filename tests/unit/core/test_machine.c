/* test_relay.c - the machine's core, step by step: one scene a test. The simulator (tests/sim) covers what scenes do not. */
#include "core/machine.h"
#include "ob_test.h"

#include <string.h>

enum { MS = 1000, SECOND = 1000000, LEASE = 30 * SECOND };

struct rig {
    struct ob_machine *machine;
    int64_t now;
    struct ob_action act;
    struct ob_sink_settings sinks[2];
    struct ob_machine_settings set;
};

static int by_priority(void *ctx, const struct outbox_delivery *msg, const struct ob_patience **patience)
{
    (void)patience;
    (void)ctx;
    return msg->priority; /* stands for the sink here */
}

static struct rig *rig_new(struct rig *rig)
{
    rig->now = 5000 * (int64_t)SECOND;
    rig->set.sinks = rig->sinks;
    rig->set.sink_count = 2;
    rig->set.route = by_priority;
    assert_int_equal(ob_machine_new(&rig->set, rig->now, &rig->machine, NULL), OUTBOX_OK);
    return rig;
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

static void pass(struct rig *rig, int64_t us)
{
    rig->now += us;
    tell(rig, (struct ob_event){.kind = OB_EVENT_TICK});
}

#define expect(rig, kind_) \
    do { \
        ob_machine_next((rig)->machine, (rig)->now, &(rig)->act); \
        assert_string_equal(ob_action_name((rig)->act.kind), ob_action_name(kind_)); \
        assert_null(ob_machine_check((rig)->machine)); \
    } while (0)

static struct outbox_delivery msg(int number, const char *key, int64_t seq, int sink)
{
    struct outbox_delivery made = {.size = sizeof made,
                                   .token = 1,
                                   .name_space = "n",
                                   .topic = "t",
                                   .key = key,
                                   .seq = seq,
                                   .payload = "{}",
                                   .payload_len = 2,
                                   .attempt = 1,
                                   .spent = 1,
                                   .max_attempts = 5};
    made.id.bytes[0] = (uint8_t)number;
    made.priority = sink;
    made.stream = key ? key[0] : 0;
    return made;
}

static void claimed(struct rig *rig, const struct outbox_delivery *msgs, int count)
{
    tell(rig, (struct ob_event){.kind = OB_EVENT_CLAIMED, .msgs = msgs, .count = count});
}

static void verdict(struct rig *rig, uint64_t handle, enum outbox_sink_outcome outcome, bool unreachable)
{
    struct outbox_verdict said = OUTBOX_VERDICT_INIT;
    said.outcome = outcome;
    said.unreachable = unreachable;
    said.code = "code";
    tell(rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = handle, .verdict = &said});
}

/* Of this message alone, and without a word from the sink. */
static void verdict_local(struct rig *rig, uint64_t handle, enum outbox_sink_outcome outcome)
{
    struct outbox_verdict said = OUTBOX_VERDICT_INIT;
    said.outcome = outcome;
    said.local = true;
    said.code = "code";
    tell(rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = handle, .verdict = &said});
}

/* The next settle is of this one message and outcome. */
static void expect_settle(struct rig *rig, int number, enum outbox_outcome outcome)
{
    expect(rig, OB_ACTION_SETTLE);
    assert_int_equal(rig->act.count, 1);
    assert_int_equal(rig->act.settles[0].id.bytes[0], number);
    assert_int_equal(rig->act.settles[0].outcome, outcome);
    tell(rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
}

/* M11, S8: claim, deliver, settle; an outcome that comes while a settle is out joins the next one, without a timer. */
static void settles_grow_only_while_one_is_out_m11(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    assert_int_equal(rig.act.lease_us, LEASE);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 3);
    uint64_t handles[3] = {rig.act.items[0].handle, rig.act.items[1].handle, rig.act.items[2].handle};
    expect(&rig, OB_ACTION_NONE);
    verdict(&rig, handles[1], OUTBOX_SINK_ACCEPTED, false);
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 1);
    verdict(&rig, handles[0], OUTBOX_SINK_RETRY, false);
    verdict(&rig, handles[2], OUTBOX_SINK_TERMINAL, false);
    expect(&rig, OB_ACTION_NONE);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 2);
    assert_int_equal(rig.act.settles[0].outcome, OUTBOX_RETRY);
    assert_true(rig.act.settles[0].delay_us >= SECOND / 2 && rig.act.settles[0].delay_us <= SECOND);
    assert_string_equal(rig.act.settles[0].code, "code");
    assert_int_equal(rig.act.settles[1].outcome, OUTBOX_FAILED);
    rig_end(&rig);
}

/* N2: of a key one at a time; a failure sends back what is behind it, unspent. */
static void a_failure_releases_the_rest_n2(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery msgs[] = {msg(1, "k", 1, 0), msg(2, "k", 2, 0), msg(3, "k", 3, 0),
                                           msg(4, "other", 1, 0)};
    claimed(&rig, msgs, 4);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 2);
    uint64_t first = rig.act.items[0].handle;
    verdict(&rig, first, OUTBOX_SINK_ACCEPTED, false);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 1);
    assert_int_equal(rig.act.items[0].msg->seq, 2);
    uint64_t second = rig.act.items[0].handle;
    expect_settle(&rig, 1, OUTBOX_DELIVERED);
    verdict(&rig, second, OUTBOX_SINK_RETRY, false);
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 2);
    assert_int_equal(rig.act.settles[0].outcome, OUTBOX_RETRY);
    assert_int_equal(rig.act.settles[1].id.bytes[0], 3);
    assert_int_equal(rig.act.settles[1].outcome, OUTBOX_RELEASED);
    rig_end(&rig);
}

/* V9, V11: what the sink says of attempts and waits holds for messages that did not ask, fewer or more; what it does
 * not say is the namespace's. */
static void the_attempts_of_the_sink_v9(void **state)
{
    (void)state;
    static const struct {
        enum outbox_sink_outcome said;
        enum outbox_outcome told;
        int sink, limit; /* what the sink says; what the store is told: 0 for nothing */
        bool own;
    } cases[] = {{OUTBOX_SINK_RETRY, OUTBOX_RETRY, 1, 1, false},   {OUTBOX_SINK_UNKNOWN, OUTBOX_UNKNOWN, 1, 1, false},
                 {OUTBOX_SINK_RETRY, OUTBOX_RETRY, 50, 50, false}, {OUTBOX_SINK_RETRY, OUTBOX_RETRY, 0, 0, false},
                 {OUTBOX_SINK_RETRY, OUTBOX_RETRY, 50, 0, true},   {OUTBOX_SINK_RETRY, OUTBOX_RETRY, 1, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig = {.sinks = {{.max_attempts = cases[i].sink}}};
        rig_new(&rig);
        expect(&rig, OB_ACTION_CLAIM);
        struct outbox_delivery one = msg(1, NULL, 0, 0);
        one.own_attempts = cases[i].own;
        one.retry_base_us = 100 * (int64_t)SECOND, one.retry_cap_us = 200 * (int64_t)SECOND;
        claimed(&rig, &one, 1);
        expect(&rig, OB_ACTION_DELIVER);
        verdict(&rig, rig.act.items[0].handle, cases[i].said, false);
        expect_settle(&rig, 1, cases[i].told);
        assert_int_equal(rig.act.settles[0].max_attempts, cases[i].limit);
        assert_in_range(rig.act.settles[0].delay_us, 50 * (int64_t)SECOND, 100 * (int64_t)SECOND);
        rig_end(&rig);
    }
}

/* S10: however patient a sink wants to be, no delay is longer than the store takes: its refusal would be one of all the
 * outcomes in the settle, again and again. */
static void patience_has_a_limit_s10(void **state)
{
    (void)state;
    for (int outcome = OUTBOX_SINK_RETRY; outcome <= OUTBOX_SINK_NOT_SENT; outcome++) {
        struct rig rig = {0};
        rig_new(&rig);
        expect(&rig, OB_ACTION_CLAIM);
        const struct outbox_delivery one = msg(1, NULL, 0, 0);
        claimed(&rig, &one, 1);
        expect(&rig, OB_ACTION_DELIVER);
        struct outbox_verdict said = OUTBOX_VERDICT_INIT;
        said.outcome = (enum outbox_sink_outcome)outcome;
        said.not_before_us = INT64_MAX;
        tell(&rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = rig.act.items[0].handle, .verdict = &said});
        expect(&rig, OB_ACTION_SETTLE);
        assert_true(rig.act.settles[0].delay_us <= 3600 * (int64_t)SECOND);
        rig_end(&rig);
    }
}

/* M11: a sink that answers at once gets all there is before the first outcome is settled, but no outcome waits long. */
static void settles_wait_for_what_can_be_handed_over_m11(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.concurrency = 1}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    verdict(&rig, rig.act.items[0].handle, OUTBOX_SINK_ACCEPTED, false);
    expect(&rig, OB_ACTION_DELIVER);
    verdict(&rig, rig.act.items[0].handle, OUTBOX_SINK_ACCEPTED, false);
    rig.now += 5 * MS;
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 2);
    expect(&rig, OB_ACTION_DELIVER);
    rig_end(&rig);
}

/* N2: a claim that was on its way when its predecessor failed and was settled is refused. */
static void a_claim_behind_a_failure_is_refused_n2(void **state)
{
    (void)state;
    struct rig rig = {.set = {.prefetch = true}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery one = msg(1, "k", 1, 0), two = msg(2, "k", 2, 0);
    claimed(&rig, &one, 1);
    expect(&rig, OB_ACTION_DELIVER);
    uint64_t handle = rig.act.items[0].handle;
    tell(&rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.prefetch);
    verdict(&rig, handle, OUTBOX_SINK_RETRY, false);
    expect_settle(&rig, 1, OUTBOX_RETRY);
    claimed(&rig, &two, 1);
    expect_settle(&rig, 2, OUTBOX_RELEASED);
    rig_end(&rig);
}

/* N2: a key of another tenant or topic may have the same name. What was accepted of the one says nothing of the other. */
static void a_name_of_two_keys_n2(void **state)
{
    (void)state;
    struct rig rig = {.set = {.prefetch = true}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    struct outbox_delivery msgs[] = {msg(1, "k", 1000, 0), msg(2, "k", 5, 0), msg(3, "k", 6, 0)};
    msgs[1].stream = msgs[2].stream = msgs[0].stream + 1;
    claimed(&rig, msgs, 2);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 2); /* neither waits for the other */
    uint64_t handles[] = {rig.act.items[0].handle, rig.act.items[1].handle};
    verdict(&rig, handles[0], OUTBOX_SINK_ACCEPTED, false);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(&rig, OB_ACTION_SETTLE);
    expect(&rig, OB_ACTION_CLAIM);
    verdict(&rig, handles[1], OUTBOX_SINK_RETRY, false);
    claimed(&rig, &msgs[2], 1); /* it was on its way when its predecessor failed */
    expect(&rig, OB_ACTION_NONE);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
    expect(&rig, OB_ACTION_SETTLE);
    assert_int_equal(rig.act.count, 2);
    assert_int_equal(rig.act.settles[0].outcome, OUTBOX_RETRY);
    assert_int_equal(rig.act.settles[1].outcome, OUTBOX_RELEASED);
    rig_end(&rig);
}

/* N2 M13: what has no order any more waits for nobody, though it has a key. */
static void a_key_without_order_m13(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    struct outbox_delivery msgs[] = {msg(1, "k", 1, 0), msg(2, "k", 9, 0)};
    msgs[0].redriven = true;
    msgs[0].stream = 0;
    claimed(&rig, msgs, 2);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 2);
    rig_end(&rig);
}

/* N2: after a claim without an answer the worker's name changes, or the store would take its messages for known. */
static void an_unanswered_claim_changes_the_name_n2(void **state)
{
    (void)state;
    struct rig rig = {.set = {.prefetch = true}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    uint32_t before = rig.act.incarnation;
    tell(&rig, (struct ob_event){.kind = OB_EVENT_CLAIM_FAILED});
    expect(&rig, OB_ACTION_NONE); /* the store has its rest first */
    rig.now = ob_machine_deadline_us(rig.machine);
    expect(&rig, OB_ACTION_CLAIM);
    assert_int_not_equal(rig.act.incarnation, before);
    rig_end(&rig);
}

/* M10: what is queued goes back at half time; what is out is renewed; a failure after the lease is settled by nobody, a
 * success still is. */
static void leases_m10(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.concurrency = 2, .timeout_us = 300 * (int64_t)SECOND}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 2);
    uint64_t handles[] = {rig.act.items[0].handle, rig.act.items[1].handle};
    pass(&rig, LEASE / 2);
    expect(&rig, OB_ACTION_EXTEND);
    assert_int_equal(rig.act.count, 2);
    rig.act.settles[0].result = OUTBOX_SETTLED;
    expect_settle(&rig, 3, OUTBOX_RELEASED);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_EXTEND_FAILED});
    rig.now += LEASE;
    verdict(&rig, handles[0], OUTBOX_SINK_RETRY, false);
    verdict(&rig, handles[1], OUTBOX_SINK_ACCEPTED, false);
    expect_settle(&rig, 2, OUTBOX_DELIVERED);
    struct ob_machine_stats stats;
    ob_machine_stats(rig.machine, &stats);
    assert_int_equal(stats.held, 0);
    rig_end(&rig);
}

/* M10: a lease that the store says is lost ends the delivery, and nothing is settled. */
static void a_lost_lease_is_dropped_m10(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.timeout_us = 300 * (int64_t)SECOND}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery one = msg(1, NULL, 0, 0);
    claimed(&rig, &one, 1);
    expect(&rig, OB_ACTION_DELIVER);
    uint64_t handle = rig.act.items[0].handle;
    pass(&rig, LEASE / 2);
    expect(&rig, OB_ACTION_EXTEND);
    rig.act.settles[0].result = OUTBOX_SETTLE_LOST;
    tell(&rig, (struct ob_event){.kind = OB_EVENT_EXTENDED});
    expect(&rig, OB_ACTION_CANCEL);
    assert_true(rig.act.handle == handle);
    verdict(&rig, handle, OUTBOX_SINK_RETRY, false);
    expect(&rig, OB_ACTION_CLAIM);
    expect(&rig, OB_ACTION_NONE);
    rig_end(&rig);
}

/* N5: an outage opens the breaker, costs nothing from then on, shuts its claims; a probe of one closes it again. */
static void an_outage_spends_nothing_n5(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.concurrency = 2, .breaker = {.threshold = 2, .base_us = 100 * MS}}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    assert_false(rig.act.shut[0]);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    uint64_t handles[] = {rig.act.items[0].handle, rig.act.items[1].handle};
    verdict(&rig, handles[0], OUTBOX_SINK_RETRY, true);
    expect(&rig, OB_ACTION_DELIVER);
    uint64_t third = rig.act.items[0].handle;
    expect_settle(&rig, 1, OUTBOX_RETRY);
    verdict(&rig, handles[1], OUTBOX_SINK_RETRY, true);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
    expect_settle(&rig, 2, OUTBOX_BLOCKED);
    verdict(&rig, third, OUTBOX_SINK_RETRY, true);
    expect_settle(&rig, 3, OUTBOX_BLOCKED);
    tell(&rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.shut[0]);
    assert_false(rig.act.shut[1]);
    claimed(&rig, msgs, 1); /* a store that could not tell: it goes back until the probe */
    expect_settle(&rig, 1, OUTBOX_RELEASED);
    pass(&rig, 100 * MS);
    expect(&rig, OB_ACTION_CLAIM);
    assert_true(rig.act.only && !rig.act.shut[0] && rig.act.shut[1]);
    assert_int_equal(rig.act.limit, 1);
    claimed(&rig, msgs, 1);
    expect(&rig, OB_ACTION_DELIVER);
    verdict(&rig, rig.act.items[0].handle, OUTBOX_SINK_ACCEPTED, false);
    assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
    expect_settle(&rig, 1, OUTBOX_DELIVERED);
    expect(&rig, OB_ACTION_CLAIM);
    assert_false(rig.act.shut[0]);
    rig_end(&rig);
}

/* N5: what a sink refuses by itself says nothing about the sink: it neither closes a breaker as its probe nor
 * makes failures forgotten. */
static void a_refusal_without_contact_is_no_answer_n5(void **state)
{
    (void)state;
    static const enum outbox_sink_outcome outcomes[] = {OUTBOX_SINK_TERMINAL, OUTBOX_SINK_RETRY, OUTBOX_SINK_BLOCKED,
                                                        OUTBOX_SINK_LIMITED};
    for (size_t i = 0; i < OB_COUNT(outcomes); i++) {
        struct rig rig = {.sinks = {{.concurrency = 2, .breaker = {.threshold = 2, .base_us = 100 * MS}}}};
        const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0)};
        rig_new(&rig);
        expect(&rig, OB_ACTION_CLAIM);
        claimed(&rig, msgs, 2);
        expect(&rig, OB_ACTION_DELIVER);
        uint64_t first = rig.act.items[0].handle, second = rig.act.items[1].handle;
        verdict(&rig, first, OUTBOX_SINK_RETRY, true);
        expect_settle(&rig, 1, OUTBOX_RETRY);
        verdict_local(&rig, second, outcomes[i]);
        expect(&rig, OB_ACTION_SETTLE);
        tell(&rig, (struct ob_event){.kind = OB_EVENT_SETTLED});
        tell(&rig, (struct ob_event){.kind = OB_EVENT_WAKE});
        expect(&rig, OB_ACTION_CLAIM);
        claimed(&rig, msgs, 1);
        expect(&rig, OB_ACTION_DELIVER);
        verdict(&rig, rig.act.items[0].handle, OUTBOX_SINK_RETRY, true);
        assert_int_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_OPEN);
        expect_settle(&rig, 1, OUTBOX_BLOCKED);
        pass(&rig, 100 * MS);
        expect(&rig, OB_ACTION_CLAIM);
        assert_true(rig.act.only && !rig.act.shut[0]);
        claimed(&rig, msgs + 1, 1);
        expect(&rig, OB_ACTION_DELIVER);
        verdict_local(&rig, rig.act.items[0].handle, outcomes[i]);
        assert_int_not_equal(ob_machine_breaker(rig.machine, 0), OB_BREAKER_CLOSED);
        pass(&rig, 100 * MS);
        assert_int_equal(ob_machine_breaker(rig.machine, 0),
                         OB_BREAKER_HALF_OPEN); /* and the next probe has its turn */
        rig_end(&rig);
    }
}

/* Y9: without a route a message waits, on record, or is dead at once. */
static void unrouted_y9(void **state)
{
    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        struct rig rig = {.set = {.unrouted_dead = dead}};
        rig_new(&rig);
        expect(&rig, OB_ACTION_CLAIM);
        const struct outbox_delivery one = msg(1, NULL, 0, -1);
        claimed(&rig, &one, 1);
        expect(&rig, OB_ACTION_SETTLE);
        assert_int_equal(rig.act.settles[0].outcome, dead ? OUTBOX_FAILED : OUTBOX_BLOCKED);
        assert_string_equal(rig.act.settles[0].code, "unrouted");
        rig_end(&rig);
    }
}

/* N4: a sink that answers late, from within deliver, still has the other messages that it was handed: one whose lease is
 * over by then stays until its cancel. */
static void messages_stay_while_they_are_handed_over_n4(void **state)
{
    (void)state;
    struct rig rig = {.sinks[0] = {.run = 2, .timeout_us = 4 * (int64_t)LEASE}};
    struct ob_machine_stats stats;
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery msgs[] = {msg(1, "k", 1, 0), msg(2, "k", 2, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 3);
    assert_true(rig.act.items[1].follows);
    uint64_t second = rig.act.items[1].handle;
    rig.now += LEASE;
    verdict(&rig, rig.act.items[2].handle, OUTBOX_SINK_NOT_SENT, false);
    ob_machine_stats(rig.machine, &stats);
    assert_int_equal(stats.held, 3);
    expect(&rig, OB_ACTION_CANCEL);
    assert_true(rig.act.handle == second);
    ob_machine_stats(rig.machine, &stats);
    assert_int_equal(stats.held, 2);
    rig_end(&rig);
}

/* M15: stop claims nothing more, gives back what was not sent, waits for what was, and gives up at the end of the grace. */
static void stop_m15(void **state)
{
    (void)state;
    struct rig rig = {.sinks = {{.concurrency = 2}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    claimed(&rig, msgs, 3);
    expect(&rig, OB_ACTION_DELIVER);
    uint64_t handle = rig.act.items[0].handle;
    tell(&rig, (struct ob_event){.kind = OB_EVENT_STOP, .grace_us = SECOND});
    expect_settle(&rig, 3, OUTBOX_RELEASED);
    expect(&rig, OB_ACTION_NONE);
    verdict(&rig, handle, OUTBOX_SINK_ACCEPTED, false);
    expect_settle(&rig, 1, OUTBOX_DELIVERED);
    expect(&rig, OB_ACTION_NONE);
    pass(&rig, SECOND);
    expect(&rig, OB_ACTION_CANCEL);
    expect_settle(&rig, 2, OUTBOX_INTERRUPTED); /* impatient were we: it costs nothing */
    assert_int_equal(rig.act.settles[0].delay_us, 0);
    expect(&rig, OB_ACTION_STOPPED);
    expect(&rig, OB_ACTION_NONE);
    rig_end(&rig);
}

/* S10: the window bounds what is held, whatever the store would give. */
/* This process has no descriptor left: nothing is spent, and the breaker open: deliveries suspended; the other one goes on. */
static void a_shortage_limits_the_sink_s10(void **state)
{
    struct rig *rig = rig_new(&(struct rig){0});
    struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 1)};
    struct outbox_verdict said = OUTBOX_VERDICT_INIT;
    (void)state;
    said.outcome = OUTBOX_SINK_NOT_SENT;
    said.scope = OUTBOX_SCOPE_SINK;
    said.not_before_us = SECOND;
    expect(rig, OB_ACTION_CLAIM);
    claimed(rig, msgs, 1);
    expect(rig, OB_ACTION_DELIVER);
    tell(rig, (struct ob_event){.kind = OB_EVENT_DELIVERED, .handle = rig->act.items[0].handle, .verdict = &said});
    expect_settle(rig, 1, OUTBOX_RELEASED);
    tell(rig, (struct ob_event){.kind = OB_EVENT_WAKE});
    expect(rig, OB_ACTION_CLAIM);
    assert_true(rig->act.shut[0] && !rig->act.shut[1]);
    claimed(rig, &msgs[1], 1);
    expect(rig, OB_ACTION_DELIVER);
    verdict(rig, rig->act.items[0].handle, OUTBOX_SINK_ACCEPTED, false);
    expect_settle(rig, 2, OUTBOX_DELIVERED);
    pass(rig, 2 * SECOND);
    expect(rig, OB_ACTION_CLAIM);
    assert_false(rig->act.shut[0]);
    rig_end(rig);
}

/* One relay after another: what the first has out takes places of the second, and its breaker stays as it was. */
static void one_after_another_m21(void **state)
{
    struct rig *old = rig_new(&(struct rig){.sinks = {{.concurrency = 2, .breaker = {.threshold = 1}}}});
    struct rig *next = rig_new(&(struct rig){.sinks = {{.concurrency = 2, .breaker = {.threshold = 1}}}});
    struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0)};
    (void)state;
    expect(old, OB_ACTION_CLAIM);
    claimed(old, msgs, 1);
    expect(old, OB_ACTION_DELIVER);
    uint64_t out = old->act.items[0].handle;
    assert_int_equal(ob_machine_out(old->machine, 0), 1);
    assert_true(ob_machine_set_taken(next->machine, 0, 1));
    assert_false(ob_machine_set_taken(next->machine, 0, 1));
    expect(next, OB_ACTION_CLAIM);
    claimed(next, &msgs[1], 2);
    expect(next, OB_ACTION_DELIVER);
    assert_int_equal(next->act.count, 1);
    expect(next, OB_ACTION_NONE);
    assert_true(ob_machine_set_taken(next->machine, 0, 0));
    expect(next, OB_ACTION_DELIVER);
    assert_int_equal(next->act.count, 1);
    verdict(old, out, OUTBOX_SINK_RETRY, true);
    assert_int_equal(ob_machine_breaker(old->machine, 0), OB_BREAKER_OPEN);
    ob_machine_inherit(next->machine, 1, old->machine, 0);
    assert_int_equal(ob_machine_breaker(next->machine, 1), OB_BREAKER_OPEN);
    rig_end(old);
    rig_end(next);
}

static void the_window_s10(void **state)
{
    (void)state;
    struct rig rig = {.set = {.max_messages = 3, .claim_limit = 2}, .sinks = {{.concurrency = 1, .batch = 1}}};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    assert_int_equal(rig.act.limit, 2);
    const struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0)};
    claimed(&rig, msgs, 2);
    expect(&rig, OB_ACTION_DELIVER);
    assert_int_equal(rig.act.count, 1);
    expect(&rig, OB_ACTION_CLAIM); /* the next batch while this one is out, one sink being idle */
    assert_int_equal(rig.act.limit, 1);
    rig_end(&rig);
}

/* Style: no memory for the tables: no relay. No memory for a message: it goes back unspent, and nothing is leaked. */
static bool with_allocations(size_t n)
{
    struct rig rig = {.now = SECOND};
    ob_fail_alloc(n);
    rig.set.sinks = rig.sinks;
    rig.set.sink_count = 2;
    rig.set.route = by_priority;
    rig.set.max_messages = 4;
    enum outbox_code code = ob_machine_new(&rig.set, rig.now, &rig.machine, NULL);
    if (code == OUTBOX_OK) {
        const struct outbox_delivery one = msg(1, "k", 1, 0);
        expect(&rig, OB_ACTION_CLAIM);
        claimed(&rig, &one, 1);
        ob_machine_next(rig.machine, rig.now, &rig.act);
        if (rig.act.kind == OB_ACTION_DELIVER) {
            verdict(&rig, rig.act.items[0].handle, OUTBOX_SINK_TERMINAL, false);
            expect(&rig, OB_ACTION_SETTLE);
            assert_int_equal(rig.act.settles[0].outcome, OUTBOX_FAILED); /* with or without its texts */
        } else {
            assert_int_equal(rig.act.kind, OB_ACTION_SETTLE);
            assert_int_equal(rig.act.settles[0].outcome, OUTBOX_RELEASED);
        }
    } else {
        assert_int_equal(code, OUTBOX_NOMEM);
    }
    ob_machine_free(rig.machine);
    return ob_fail_alloc_end();
}

/* S10: bounded memory, and the lack of it survived at every allocation. */
static void survives_every_allocation_failing_s10(void **state)
{
    (void)state;
    size_t n = 0;
    while (with_allocations(n))
        n++;
    assert_true(n > 10);
}

/* V11: settings that cannot work are refused. */
static void bad_settings_v11(void **state)
{
    (void)state;
    struct ob_machine *machine;
    struct outbox_error err;
    const struct ob_machine_settings bad[] = {
        {.max_messages = -1}, {.claim_limit = 20000}, {.lease_us = 1}, {.poll_us = -1}, {.max_messages = 1000000},
    };
    struct ob_sink_settings sink = {0};
    for (size_t i = 0; i < OB_COUNT(bad); i++) {
        struct ob_machine_settings set = bad[i];
        set.sinks = &sink, set.sink_count = 1, set.route = by_priority;
        assert_int_equal(ob_machine_new(&set, 0, &machine, &err), OUTBOX_INVALID);
        assert_null(machine);
    }
    assert_int_equal(ob_machine_new(&(struct ob_machine_settings){0}, 0, &machine, &err), OUTBOX_INVALID);
}

/* Y7: a payload that cannot be read is never handed over: dead when it is damaged or no JSON, given back unspent when memory ran out,
 * blocked when this build does not know the encoding. None dies before its turn. */
static void unreadable_payloads_y7(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_new(&rig);
    expect(&rig, OB_ACTION_CLAIM);
    struct outbox_delivery msgs[] = {msg(1, NULL, 0, 0), msg(2, NULL, 0, 0), msg(3, NULL, 0, 0),
                                     msg(4, "k", 1, 0),  msg(5, "k", 2, 0),  msg(6, NULL, 0, 0)};
    static const enum outbox_fault faults[] = {OUTBOX_FAULT_DAMAGED, OUTBOX_FAULT_MEMORY,  OUTBOX_FAULT_UNSUPPORTED,
                                               OUTBOX_FAULT_NONE,    OUTBOX_FAULT_DAMAGED, OUTBOX_FAULT_NOT_JSON};
    static const enum outbox_outcome wanted[] = {OUTBOX_FAILED,   OUTBOX_RELEASED, OUTBOX_BLOCKED, 0,
                                                 OUTBOX_RELEASED, OUTBOX_FAILED};
    for (size_t i = 0; i < OB_COUNT(msgs); i++) {
        msgs[i].fault = faults[i];
        if (faults[i])
            msgs[i].payload = NULL, msgs[i].payload_len = 0;
    }
    claimed(&rig, msgs, OB_COUNT(msgs));
    bool sent = false, settled = false;
    while (!sent || !settled) {
        ob_machine_next(rig.machine, rig.now, &rig.act);
        if (rig.act.kind == OB_ACTION_DELIVER) {
            assert_int_equal(rig.act.count, 1);
            assert_int_equal(rig.act.items[0].msg->id.bytes[0], 4);
            sent = true;
        } else if (rig.act.kind == OB_ACTION_SETTLE) {
            assert_int_equal(rig.act.count, 5);
            for (int i = 0; i < rig.act.count; i++) {
                const struct outbox_settle *item = &rig.act.settles[i];
                assert_int_equal(item->outcome, wanted[item->id.bytes[0] - 1]);
                if (item->outcome == OUTBOX_FAILED)
                    assert_string_equal(item->code, item->id.bytes[0] == 6 ? "not_json" : "encoding");
            }
            settled = true;
        } else {
            assert_int_equal(rig.act.kind, OB_ACTION_NONE);
            pass(&rig, 100 * MS);
        }
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settles_grow_only_while_one_is_out_m11),
        cmocka_unit_test(settles_wait_for_what_can_be_handed_over_m11),
        cmocka_unit_test(a_failure_releases_the_rest_n2),
        cmocka_unit_test(patience_has_a_limit_s10),
        cmocka_unit_test(the_attempts_of_the_sink_v9),
        cmocka_unit_test(a_claim_behind_a_failure_is_refused_n2),
        cmocka_unit_test(a_name_of_two_keys_n2),
        cmocka_unit_test(a_key_without_order_m13),
        cmocka_unit_test(an_unanswered_claim_changes_the_name_n2),
        cmocka_unit_test(leases_m10),
        cmocka_unit_test(a_lost_lease_is_dropped_m10),
        cmocka_unit_test(an_outage_spends_nothing_n5),
        cmocka_unit_test(a_refusal_without_contact_is_no_answer_n5),
        cmocka_unit_test(unrouted_y9),
        cmocka_unit_test(messages_stay_while_they_are_handed_over_n4),
        cmocka_unit_test(unreadable_payloads_y7),
        cmocka_unit_test(stop_m15),
        cmocka_unit_test(a_shortage_limits_the_sink_s10),
        cmocka_unit_test(one_after_another_m21),
        cmocka_unit_test(the_window_s10),
        cmocka_unit_test(survives_every_allocation_failing_s10),
        cmocka_unit_test(bad_settings_v11),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
