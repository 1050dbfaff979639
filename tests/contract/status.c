/* status.c - the supervisor's view, computed from what is there. */
#include "suite.h"

static void expect_numbers(struct fx *fx, const char *name_space, const char *topic, const char *wanted)
{
    struct ob_status_row row = status_of_(fx, name_space, topic);
    char text[256];
    snprintf(text, sizeof(text), "pending %lld due %lld delayed %lld processing %lld stuck %lld dead %lld",
             (long long)row.pending, (long long)row.due, (long long)row.delayed, (long long)row.processing,
             (long long)row.stuck, (long long)row.dead);
    if (strcmp(text, wanted) != 0)
        blame(fx, "status is \"%s\", wanted \"%s\"", text, wanted);
}

static void empty(struct fx *fx)
{
    expect_numbers(AT(fx), NULL, NULL, "pending 0 due 0 delayed 0 processing 0 stuck 0 dead 0");
    assert_true(status_of(fx, NULL, NULL).oldest_due_s == 0);
}

static void numbers(struct fx *fx)
{
    for (int i = 0; i < 6; i++)
        put(fx, .topic = "a", .priority = 9 - i);
    put(fx, .topic = "a", .deliver_after_us = now_us() + HOUR);
    put(fx, .topic = "b", .name_space = "n");
    expect_numbers(AT(fx), "default", "a", "pending 7 due 6 delayed 1 processing 0 stuck 0 dead 0");
    const char *topics[] = {"a"};
    outbox_batch *batch = claim_n(fx, 5, .limit = 5, .topics = topics, .topic_count = 1);
    ack(fx, outbox_batch_at(batch, 0));
    settle(fx, outbox_batch_at(batch, 1), .outcome = OUTBOX_FAILED);
    settle(fx, outbox_batch_at(batch, 2), .outcome = OUTBOX_RETRY, .delay_us = HOUR);
    expect_numbers(AT(fx), "default", "a", "pending 3 due 1 delayed 1 processing 2 stuck 0 dead 1");
    expire(fx, outbox_batch_at(batch, 3)->id);
    expect_numbers(AT(fx), "default", "a", "pending 3 due 1 delayed 1 processing 2 stuck 1 dead 1");
    expect_numbers(AT(fx), "n", "b", "pending 1 due 1 delayed 0 processing 0 stuck 0 dead 0");
    expect_numbers(AT(fx), NULL, NULL, "pending 4 due 2 delayed 1 processing 2 stuck 1 dead 1");
}

static void oldest_pending(struct fx *fx)
{
    put(fx, .deliver_after_us = now_us() + HOUR);
    assert_true(status_of(fx, NULL, NULL).oldest_due_s == 0);
    int64_t before = now_us();
    put(fx);
    int64_t after = now_us();
    until_us(after + SECOND / 20);
    int64_t asked = now_us();
    double age = status_of(fx, NULL, NULL).oldest_due_s;
    assert_true(age >= (double)(asked - after) / 1e6 - 0.002);
    assert_true(age <= (double)(now_us() - before) / 1e6 + 0.002);
    ack(fx, take(fx));
    assert_true(status_of(fx, NULL, NULL).oldest_due_s == 0);
}

/* Those that wait behind another message of their key are pending, and known to be waiting for it. */
static void waiting_behind_a_key(struct fx *fx)
{
    for (int i = 0; i < 4; i++)
        put(fx, .key = "k");
    take(fx);
    claim_none(fx, .run = 5);
    expect_numbers(AT(fx), NULL, NULL, "pending 3 due 0 delayed 0 processing 1 stuck 0 dead 0");
    assert_int_equal(status_of(fx, NULL, NULL).parked, 3);
}

static void of_one_snapshot(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    expect_numbers(AT(fx), NULL, NULL, "pending 0 due 0 delayed 0 processing 1 stuck 0 dead 0");
    give_back(fx, msg);
    expect_numbers(AT(fx), NULL, NULL, "pending 1 due 1 delayed 0 processing 0 stuck 0 dead 0");
    make_due(fx, id);
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_FAILED));
    expect_numbers(AT(fx), NULL, NULL, "pending 0 due 0 delayed 0 processing 0 stuck 0 dead 1");
    int64_t n;
    ok(fx, discard, &(struct ob_filter){.ids = &id, .id_count = 1}, &(struct ob_actor){"ann", NULL}, &n);
    expect_numbers(AT(fx), NULL, NULL, "pending 0 due 0 delayed 0 processing 0 stuck 0 dead 0");
}

const struct contract_test status_tests[] = {
    {"S17: an empty outbox", empty},
    {"S17: pending, due, processing, stuck and dead per topic", numbers},
    {"S17: the age of the oldest due message", oldest_pending},
    {"S17 N2: what waits behind its key is not due", waiting_behind_a_key},
    {"S17 M12: the numbers move with every transition", of_one_snapshot},
    {NULL, NULL, 0},
};
