/* pause.c - operators stop and start the flow; producers never notice. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "because"};

static void a_topic(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .topic = "a").id;
    ok(fx, pause, "default", "a", NULL, &ann);
    put(fx, .topic = "b");
    put(fx, .topic = "a", .name_space = "other");
    put(fx, .topic = "a");
    outbox_batch *batch = claim_n(fx, 2);
    for (size_t i = 0; i < 2; i++)
        assert_false(uuid_equal(outbox_batch_at(batch, i)->id, id));
    claim_none(fx);
    assert_true(status_of(fx, "default", "a").paused);
    assert_false(status_of(fx, "default", "b").paused);
    assert_int_equal(status_of(fx, "default", "a").pending, 2);
    expect_state(fx, id, "pending attempts 0 spent 0");
    ok(fx, resume, "default", "a", NULL, &ann);
    assert_false(status_of(fx, "default", "a").paused);
    claim_n(fx, 2);
    expect_acts(fx, NULL, "pause ann because; resume ann because");
}

static void a_namespace(struct fx *fx)
{
    put(fx, .name_space = "n", .topic = "a");
    put(fx, .name_space = "n", .topic = "b");
    put(fx);
    ok(fx, pause, "n", NULL, NULL, &ann);
    claim_n(fx, 1);
    claim_none(fx, .name_space = "n");
    put(fx, .name_space = "n", .topic = "new");
    claim_none(fx);
    assert_true(status_of(fx, "n", NULL).paused);
    ok(fx, resume, "n", NULL, NULL, &ann);
    claim_n(fx, 3);
}

static void everything(struct fx *fx)
{
    put(fx);
    ok(fx, pause, NULL, NULL, NULL, &ann);
    put(fx, .name_space = "n");
    claim_none(fx);
    claim_none(fx, .name_space = "n");
    assert_true(status_of(fx, NULL, NULL).paused);
    ok(fx, resume, NULL, NULL, NULL, &ann);
    claim_n(fx, 2);
}

static void what_is_out_is_finished(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    ok(fx, pause, NULL, NULL, NULL, &ann);
    ack(fx, msg);
    expect_state(fx, id, "delivered attempts 1 spent 1");
}

static void a_lost_lease_waits(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    take(fx);
    ok(fx, pause, "default", "t", NULL, &ann);
    expire(fx, id);
    claim_none(fx);
    expect_attempts(fx, id, "1 open w1");
    ok(fx, resume, "default", "t", NULL, &ann);
    assert_int_equal(take(fx)->attempt, 2);
}

static void twice_is_once(struct fx *fx)
{
    put(fx);
    ok(fx, pause, "default", "t", NULL, &ann);
    ok(fx, pause, "default", "t", NULL, &ann);
    ok(fx, resume, "default", "t", NULL, &ann);
    claim_n(fx, 1);
    ok(fx, resume, "default", "t", NULL, &ann);
    expect_acts(fx, NULL, "pause ann because; resume ann because");
}

static void each_pause_for_itself(struct fx *fx)
{
    put(fx);
    ok(fx, pause, "default", "t", NULL, &ann);
    ok(fx, pause, "default", NULL, NULL, &ann);
    ok(fx, resume, "default", NULL, NULL, &ann);
    claim_none(fx);
    ok(fx, resume, "default", "t", NULL, &ann);
    claim_n(fx, 1);
}

/* A sink is the relay's business; the store keeps it on record and claims go on. */
static void a_sink(struct fx *fx)
{
    put(fx);
    ok(fx, pause, NULL, NULL, "smtp", &ann);
    claim_n(fx, 1);
    ok(fx, resume, NULL, NULL, "smtp", &ann);
    expect_acts(fx, NULL, "pause ann because; resume ann because");
}

/* A pattern holds what comes later, too. Topics have no '*' and no '?', so nothing else can be meant. */
static void a_pattern(struct fx *fx)
{
    put(fx, .topic = "orders.paid");
    put(fx, .topic = "bills");
    put(fx, .topic = "orders_paid");
    put(fx, .topic = "orders.paid", .name_space = "other");
    ok(fx, pause, "default", "orders.*", NULL, &ann);
    put(fx, .topic = "orders.new");
    claim_n(fx, 3);
    claim_none(fx);
    assert_true(status_of(fx, "default", "orders.new").paused);
    assert_false(status_of(fx, "default", "orders_paid").paused);
    ok(fx, resume, "default", "orders.*", NULL, &ann);
    claim_n(fx, 2);
}

static void a_pattern_of_namespaces(struct fx *fx)
{
    put(fx, .name_space = "shop-eu", .topic = "a");
    put(fx, .name_space = "shop-eu", .topic = "b");
    put(fx, .name_space = "[x]%", .topic = "a");
    put(fx, .topic = "a");
    ok(fx, pause, "shop-?u", NULL, NULL, &ann);
    ok(fx, pause, "[x]%*", "a", NULL, &ann);
    claim_n(fx, 1);
    claim_none(fx, .name_space = "shop-eu");
    put(fx, .name_space = "shop-au", .topic = "a");
    claim_none(fx);
    ok(fx, resume, "shop-?u", NULL, NULL, &ann);
    claim_n(fx, 3);
    ok(fx, resume, "[x]%*", "a", NULL, &ann);
    claim_n(fx, 1);
}

/* The pauses of single topics that a pattern matches, and its own; a wider pattern is another pause. */
static void resume_by_pattern(struct fx *fx)
{
    put(fx, .topic = "orders.paid");
    put(fx, .topic = "orders.new");
    ok(fx, pause, "default", "orders.paid", NULL, &ann);
    ok(fx, pause, "default", "orders.new", NULL, &ann);
    ok(fx, pause, "default", "o*", NULL, &ann);
    ok(fx, resume, "default", "orders.*", NULL, &ann);
    claim_none(fx);
    ok(fx, resume, "default", "orders.paid", NULL, &ann);
    claim_none(fx);
    ok(fx, resume, "default", "o*", NULL, &ann);
    claim_n(fx, 2);
}

static void nothing_that_cannot_be(struct fx *fx)
{
    const char *before = digest(fx);
    fails(fx, OUTBOX_INVALID, pause, NULL, "t", NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, "default", "two words", NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, "default", "", NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, "no\xe2\x80\x83where", NULL, NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, "default", "a\\*", NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, "default", repeat_text(fx, 't', 256), NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, repeat_text(fx, 'n', 64), NULL, NULL, &ann);
    fails(fx, OUTBOX_INVALID, pause, NULL, NULL, "no sink", &ann);
    fails(fx, OUTBOX_INVALID, pause, NULL, NULL, "smtp*", &ann);
    fails(fx, OUTBOX_INVALID, pause, NULL, NULL, "", &ann);
    fails(fx, OUTBOX_INVALID, pause, NULL, NULL, repeat_text(fx, 's', 65), &ann);
    fails(fx, OUTBOX_INVALID, pause, "default", "t", "smtp", &ann);
    expect_unchanged(fx, before, "a pause that can never match");
    ok(fx, pause, repeat_text(fx, 'n', 63), repeat_text(fx, 't', 255), NULL, &ann);
    ok(fx, pause, NULL, NULL, repeat_text(fx, 's', 64), &ann);
}

const struct contract_test pause_tests[] = {
    {"T4 V17: a paused topic is not claimed, its messages gather", a_topic},
    {"T4: a paused namespace, topics that come later included", a_namespace},
    {"T4 V17: everything can be paused", everything},
    {"T4: what is out when the pause comes is finished", what_is_out_is_finished},
    {"T4 V10: what was lost is reclaimed after the pause", a_lost_lease_waits},
    {"T4: pausing twice is pausing once", twice_is_once},
    {"T4: pauses of topic and namespace are ended each by its own resume", each_pause_for_itself},
    {"T4: a pattern of topics, those that come later included", a_pattern},
    {"T4: a pattern of namespaces", a_pattern_of_namespaces},
    {"T4: a pattern ends the pauses of the topics it matches", resume_by_pattern},
    {"T4: a pause that can never match is refused", nothing_that_cannot_be},
    {"T4: a paused sink is on record and stops no claim", a_sink},
    {NULL, NULL, 0},
};
