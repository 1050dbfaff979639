/* dead_key.c - a dead message of a key: its successors go on, or wait for an operator; and what a redrive does then. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "fixed"};

static int64_t redrive(struct fx *fx, struct outbox_uuid id)
{
    int64_t n = -1;
    struct ob_filter filter = {.ids = &id, .id_count = 1};
    ok(fx, retry, &filter, &ann, &n);
    return n;
}

static int64_t let_go(struct fx *fx, struct outbox_uuid id)
{
    int64_t n = -1;
    struct ob_filter filter = {.ids = &id, .id_count = 1};
    ok(fx, discard, &filter, &ann, &n);
    return n;
}

static void expect_next(struct fx *fx, int64_t seq)
{
    const struct outbox_delivery *msg = take_(fx, WANT(.limit = 1));
    if (msg->seq != seq)
        blame(fx, "next is seq %lld, wanted %lld", (long long)msg->seq, (long long)seq);
    settle_(fx, SETTLE(msg, .outcome = OUTBOX_DELIVERED));
}

static void continues(struct fx *fx)
{
    struct outbox_uuid dead = make_dead(fx, .key = "k");
    put(fx, .key = "k");
    put(fx, .key = "k");
    expect_next(AT(fx), 2);
    expect_next(AT(fx), 3);
    expect_state(fx, dead, "dead attempts 1 spent 1");
}

static void parked_successor_wakes(struct fx *fx)
{
    put(fx, .key = "k", .max_attempts = 1);
    put(fx, .key = "k");
    const struct outbox_delivery *head = take(fx);
    claim_none(fx, .run = 5);
    assert_true(nack(fx, head));
    expect_next(AT(fx), 2);
}

static void middle_of_a_run_dies(struct fx *fx)
{
    for (int i = 0; i < 4; i++)
        put(fx, .key = "k");
    outbox_batch *batch = claim_n(fx, 4, .run = 4);
    struct outbox_settle items[4] = {
        SETTLE(outbox_batch_at(batch, 0), .outcome = OUTBOX_DELIVERED),
        SETTLE(outbox_batch_at(batch, 1), .outcome = OUTBOX_FAILED),
        SETTLE(outbox_batch_at(batch, 2), .outcome = OUTBOX_RELEASED, .delay_us = 0),
        SETTLE(outbox_batch_at(batch, 3), .outcome = OUTBOX_RELEASED, .delay_us = 0),
    };
    ok(fx, settle, items, 4);
    expect_state(fx, items[1].id, "dead attempts 1 spent 1");
    expect_next(AT(fx), 3);
    expect_next(AT(fx), 4);
}

static void lost_to_death(struct fx *fx)
{
    struct outbox_uuid head = put(fx, .key = "k", .max_attempts = 1).id;
    put(fx, .key = "k");
    take(fx);
    expire(fx, head);
    expect_next(AT(fx), 2);
    expect_state(fx, head, "dead attempts 1 spent 1");
    expect_attempts(fx, head, "1 lost w1");
}

static void expired_to_death(struct fx *fx)
{
    int64_t expiry = now_us() + SECOND / 10;
    struct outbox_uuid head = put(fx, .key = "k", .expires_at_us = expiry).id;
    put(fx, .key = "k");
    until_us(expiry + 1000);
    expect_next(AT(fx), 2);
    expect_state(fx, head, "dead attempts 0 spent 0");
}

/* Its place in the order is gone: it goes at once, marked, and holds nobody up. */
static void redriven_behind(struct fx *fx)
{
    struct outbox_uuid dead = make_dead(fx, .key = "k");
    put(fx, .key = "k");
    expect_next(AT(fx), 2);
    put(fx, .key = "k");
    const struct outbox_delivery *third = take(fx);
    assert_int_equal(redrive(fx, dead), 1);
    const struct outbox_delivery *again = take(fx);
    assert_same_id(again->id, dead);
    assert_true(again->redriven);
    assert_int_equal(again->attempt, 2);
    assert_int_equal(again->spent, 1);
    assert_string_equal(again->key, "k");
    assert_int_equal(again->seq, 1);
    assert_true(again->stream == 0 && third->stream != 0); /* it has no place in the order any more */
    assert_false(third->redriven);
    ack(fx, third);
    put(fx, .key = "k");
    expect_next(AT(fx), 4);
    ack(fx, again);
    expect_state(fx, dead, "delivered attempts 2 spent 1");
    expect_attempts(fx, dead, "1 failed w1 wrong; 2 delivered w1");
}

static void holds(struct fx *fx)
{
    ok(fx, configure, "strict", "on_dead", "hold", NULL);
    put(fx, .name_space = "strict", .key = "k");
    put(fx, .name_space = "strict", .key = "k");
    put(fx, .name_space = "strict", .key = "other");
    put(fx, .name_space = "strict");
    outbox_batch *batch = claim_n(fx, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        bool head = msg->key && strcmp(msg->key, "k") == 0;
        settle(fx, msg, .outcome = head ? OUTBOX_FAILED : OUTBOX_DELIVERED);
    }
    claim_none(fx, .run = 5);
    assert_int_equal(count_status(fx, OB_DEAD), 1);
    assert_int_equal(count_status(fx, OB_PENDING), 1);
    put(fx, .name_space = "strict", .key = "k");
    claim_none(fx, .run = 5);
    put(fx, .name_space = "strict", .key = "other");
    take(fx);
}

static struct outbox_uuid held_key(struct fx *fx)
{
    ok(fx, configure, "default", "on_dead", "hold", NULL);
    struct outbox_uuid dead = make_dead(fx, .key = "k");
    put(fx, .key = "k");
    put(fx, .key = "k");
    claim_none(fx, .run = 5);
    return dead;
}

static void held_then_redriven(struct fx *fx)
{
    struct outbox_uuid dead = held_key(fx);
    assert_int_equal(redrive(fx, dead), 1);
    const struct outbox_delivery *again = take(fx, .limit = 10);
    assert_same_id(again->id, dead);
    assert_true(again->redriven);
    assert_int_equal(again->attempt, 2);
    assert_int_equal(again->spent, 1);
    claim_none(fx, .run = 5);
    ack(fx, again);
    expect_next(AT(fx), 2);
    expect_next(AT(fx), 3);
}

static void held_then_discarded(struct fx *fx)
{
    struct outbox_uuid dead = held_key(fx);
    assert_int_equal(let_go(fx, dead), 1);
    expect_next(AT(fx), 2);
    expect_next(AT(fx), 3);
    assert_int_equal(count_status(fx, OB_DEAD), 0);
}

static void held_twice(struct fx *fx)
{
    struct outbox_uuid dead = held_key(fx);
    assert_int_equal(redrive(fx, dead), 1);
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_FAILED, .code = "again"));
    claim_none(fx, .run = 5);
    expect_attempts(fx, dead, "1 failed w1 wrong; 2 failed w1 again");
    assert_int_equal(let_go(fx, dead), 1);
    expect_next(AT(fx), 2);
    expect_acts(fx, &dead, "retry ann fixed; discard ann fixed");
}

const struct contract_test dead_key_tests[] = {
    {"N2 M12: after a dead message its key goes on", continues},
    {"N2: a successor that waited is woken by the death", parked_successor_wakes},
    {"N2: the middle of a run dies, the rest goes on in order", middle_of_a_run_dies},
    {"N2 V10: a head that is lost once too often lets its key go on", lost_to_death},
    {"N2 N10: a head that expires lets its key go on", expired_to_death},
    {"N2 M13 T4: a redriven message whose key went on goes at once, marked", redriven_behind},
    {"N2: on_dead hold: the key waits, no other does", holds},
    {"N2 M13 T4: on_dead hold: the redriven message goes first", held_then_redriven},
    {"N2 T4: on_dead hold: a discard lets the key go on", held_then_discarded},
    {"N2 T4: on_dead hold: it can die again", held_twice},
    {NULL, NULL, 0},
};
