/* order.c - messages of a key are first accepted in commit order, whatever happens to them on the way. */
#include "suite.h"

static void put_n(struct fx *fx, const char *key, int n)
{
    for (int i = 0; i < n; i++)
        put(fx, .key = key, .priority = 4);
}

/* A claim must give exactly these, in this order: "a1 a2 b1". */
static void expect_claim(struct fx *fx, outbox_batch *batch, const char *wanted)
{
    char text[TEXT_MAX] = "";
    size_t length = 0;
    for (size_t i = 0; i < outbox_batch_size(batch); i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s%lld", i ? " " : "", msg->key,
                                   (long long)msg->seq);
    }
    if (strcmp(text, wanted) != 0)
        blame(fx, "claimed \"%s\", wanted \"%s\"", text, wanted);
}

/* From now on the key gives exactly these, in this order, however many a claim; each is acknowledged. */
static void expect_rest(struct fx *fx, const char *wanted)
{
    char text[TEXT_MAX] = "";
    size_t length = 0;
    for (int64_t end = now_us() + PATIENCE; length < strlen(wanted) && now_us() < end; tick()) {
        outbox_batch *batch = claim_(fx, WANT(.run = 5));
        for (size_t i = 0; i < outbox_batch_size(batch); i++) {
            const struct outbox_delivery *msg = outbox_batch_at(batch, i);
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s%lld", length ? " " : "", msg->key,
                                       (long long)msg->seq);
        }
        ack_all_(fx, batch);
    }
    if (strcmp(text, wanted) != 0)
        blame(fx, "the rest is \"%s\", wanted \"%s\"", text, wanted);
    claim_none_(fx, WANT(.run = 5));
}

static void head_only(struct fx *fx)
{
    put_n(fx, "a", 3);
    const struct outbox_delivery *msg = take(fx, .limit = 10);
    for (int64_t i = 1; i <= 3; i++) {
        assert_int_equal(msg->seq, i);
        claim_none(fx, .worker = "w2");
        ack(fx, msg);
        if (i < 3)
            msg = take(fx, .limit = 10);
    }
    claim_none(fx);
}

static void keys_are_independent(struct fx *fx)
{
    put_n(fx, "a", 2);
    put_n(fx, "b", 2);
    put(fx);
    outbox_batch *batch = claim_n(fx, 3);
    claim_none(fx);
    ack_all(fx, batch);
    ack_all(fx, claim_n(fx, 2));
}

static void tenants_have_their_own_keys(struct fx *fx)
{
    assert_int_equal(put(fx, .key = "k", .tenant_id = TENANT_A).seq, 1);
    assert_int_equal(put(fx, .key = "k", .tenant_id = TENANT_B).seq, 1);
    claim_n(fx, 2);
}

/* A worker that is given several messages of a key must know which seqs count together. */
static void streams_tell_keys_apart(struct fx *fx)
{
    static const struct outbox_message kinds[] = {
        {.key = "k"}, {.key = "k", .topic = "other"}, {.key = "k", .tenant_id = TENANT_A}, {.key = "k2"}};
    for (size_t i = 0; i < 4; i++) {
        put(fx, .key = kinds[i].key, .topic = kinds[i].topic ? kinds[i].topic : "t", .tenant_id = kinds[i].tenant_id);
        put(fx, .key = kinds[i].key, .topic = kinds[i].topic ? kinds[i].topic : "t", .tenant_id = kinds[i].tenant_id);
    }
    put(fx);
    int64_t seen[4];
    size_t count = 0;
    outbox_batch *batch = claim_n(fx, 9, .run = 2);
    for (size_t i = 0; i < 9; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        assert_int_equal(msg->stream != 0, msg->key != NULL);
        if (msg->seq == 2)
            assert_true(outbox_batch_at(batch, i - 1)->stream == msg->stream);
        if (msg->seq != 1)
            continue;
        for (size_t n = 0; n < count; n++)
            assert_true(seen[n] != msg->stream);
        seen[count++] = msg->stream;
    }
    assert_int_equal(count, 4);
    ack_all(fx, batch);

    ok(fx, configure, "wide", "order_scope", "namespace", NULL);
    put(fx, .name_space = "wide", .topic = "a", .key = "k");
    put(fx, .name_space = "wide", .topic = "b", .key = "k");
    batch = claim_n(fx, 2, .run = 2);
    assert_true(outbox_batch_at(batch, 0)->stream == outbox_batch_at(batch, 1)->stream);
}

static void runs(struct fx *fx)
{
    put_n(fx, "a", 5);
    outbox_batch *batch = claim(fx, .run = 3);
    expect_claim(AT(fx), batch, "a1 a2 a3");
    claim_none(fx, .run = 3);
    ack_all(fx, batch);
    expect_rest(AT(fx), "a4 a5");
}

static void runs_within_the_limit(struct fx *fx)
{
    put_n(fx, "a", 5);
    outbox_batch *batch = claim(fx, .run = 10, .limit = 2);
    expect_claim(AT(fx), batch, "a1 a2");
    ack_all(fx, batch);
    expect_rest(AT(fx), "a3 a4 a5");
}

/* What a worker that was handed a run must do at its first failure, in one call. */
static void run_stops_at_a_failure(struct fx *fx)
{
    put_n(fx, "a", 4);
    outbox_batch *batch = claim(fx, .run = 4);
    expect_claim(AT(fx), batch, "a1 a2 a3 a4");
    struct outbox_settle items[4] = {
        SETTLE(outbox_batch_at(batch, 0), .outcome = OUTBOX_DELIVERED),
        SETTLE(outbox_batch_at(batch, 1), .outcome = OUTBOX_RETRY, .delay_us = HOUR),
        SETTLE(outbox_batch_at(batch, 2), .outcome = OUTBOX_RELEASED, .delay_us = 0),
        SETTLE(outbox_batch_at(batch, 3), .outcome = OUTBOX_RELEASED, .delay_us = 0),
    };
    ok(fx, settle, items, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(items[i].result, OUTBOX_SETTLED);
    claim_none(fx, .run = 4);
    expect_state(fx, items[2].id, "pending attempts 1 spent 0");
    make_due(fx, items[1].id);
    expect_rest(AT(fx), "a2 a3 a4");
    expect_attempts(fx, items[1].id, "1 retry w1; 2 delivered w1");
    expect_attempts(fx, items[2].id, "2 delivered w1");
}

/* The same, one call each, in an order that would let the second overtake. */
static void successor_released_first(struct fx *fx)
{
    put_n(fx, "a", 3);
    outbox_batch *batch = claim(fx, .run = 3);
    give_back(fx, outbox_batch_at(batch, 1));
    claim_none(fx, .worker = "w2", .run = 3);
    give_back(fx, outbox_batch_at(batch, 2));
    claim_none(fx, .worker = "w2", .run = 3);
    nack(fx, outbox_batch_at(batch, 0));
    expect_rest(AT(fx), "a1 a2 a3");
}

static void delayed_head_blocks(struct fx *fx)
{
    struct outbox_uuid head = put(fx, .key = "a", .deliver_after_us = now_us() + HOUR).id;
    put_n(fx, "a", 2);
    put_n(fx, "b", 1);
    outbox_batch *batch = claim(fx, .run = 5);
    expect_claim(AT(fx), batch, "b1");
    ack_all(fx, batch);
    claim_none(fx, .run = 5);
    make_due(fx, head);
    expect_rest(AT(fx), "a1 a2 a3");
}

static void delayed_in_the_middle(struct fx *fx)
{
    put_n(fx, "a", 1);
    struct outbox_uuid second = put(fx, .key = "a", .deliver_after_us = now_us() + HOUR).id;
    put_n(fx, "a", 1);
    outbox_batch *batch = claim(fx, .run = 5);
    expect_claim(AT(fx), batch, "a1");
    ack_all(fx, batch);
    claim_none(fx, .run = 5);
    make_due(fx, second);
    expect_rest(AT(fx), "a2 a3");
}

static void failing_head_blocks(struct fx *fx)
{
    put_n(fx, "a", 3);
    put_n(fx, "b", 1);
    outbox_batch *batch = claim(fx);
    expect_claim(AT(fx), batch, "a1 b1");
    settle(fx, outbox_batch_at(batch, 0), .outcome = OUTBOX_RETRY, .delay_us = HOUR);
    ack(fx, outbox_batch_at(batch, 1));
    for (int i = 0; i < 3; i++)
        claim_none(fx, .run = 5);
    make_due(fx, outbox_batch_at(batch, 0)->id);
    for (int64_t i = 1; i <= 3; i++) {
        const struct outbox_delivery *msg = take(fx);
        assert_int_equal(msg->seq, i);
        ack(fx, msg);
    }
}

static void lost_head_blocks(struct fx *fx)
{
    put_n(fx, "a", 2);
    const struct outbox_delivery *lost = take(fx, .worker = "w1");
    expire(fx, lost->id);
    const struct outbox_delivery *again = take(fx, .worker = "w2");
    assert_same_id(again->id, lost->id);
    claim_none(fx);
    ack(fx, again);
    assert_int_equal(take(fx)->seq, 2);
}

/* A run that expired comes back from its head, also when only a later part of it has expired. */
static void lost_run_comes_back_in_order(struct fx *fx)
{
    put_n(fx, "a", 3);
    outbox_batch *batch = claim(fx, .worker = "w1", .run = 3);
    expire(fx, outbox_batch_at(batch, 1)->id);
    expire(fx, outbox_batch_at(batch, 2)->id);
    claim_none(fx, .worker = "w2", .run = 3);
    expire(fx, outbox_batch_at(batch, 0)->id);
    expect_rest(AT(fx), "a1 a2 a3");
    expect_attempts(fx, outbox_batch_at(batch, 0)->id, "1 lost w1; 2 delivered w1");
    expect_attempts(fx, outbox_batch_at(batch, 2)->id, "1 lost w1; 2 delivered w1");
}

/* What was lost and is blocked, by however much, hides nothing else that was lost. */
static void lost_and_blocked_hides_nothing(struct fx *fx)
{
    put_n(fx, "a", 4);
    outbox_batch *run = claim_n(fx, 4, .worker = "w1", .run = 4);
    for (size_t i = 0; i < 4; i++)
        expire(fx, outbox_batch_at(run, i)->id);
    const struct outbox_delivery *head = take(fx, .worker = "w2", .limit = 1);
    assert_int_equal(head->seq, 1);
    settle(fx, head, .outcome = OUTBOX_LIMITED, .delay_us = HOUR);
    struct outbox_uuid other = put(fx).id;
    take(fx, .worker = "w1", .limit = 1);
    expire(fx, other);
    assert_same_id(take(fx, .worker = "w2", .limit = 1)->id, other);
    claim_none(fx, .worker = "w2", .limit = 1);
    make_due(fx, head->id);
    expect_rest(AT(fx), "a1 a2 a3 a4");
    expect_attempts(fx, outbox_batch_at(run, 3)->id, "1 lost w1; 2 delivered w1");
}

static void priority_never_reorders(struct fx *fx)
{
    put(fx, .key = "a", .priority = 0);
    put(fx, .key = "a", .priority = 9);
    put(fx, .key = "b", .priority = 4);
    put(fx, .key = "a", .priority = 4);
    outbox_batch *batch = claim_n(fx, 2, .run = 1);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(outbox_batch_at(batch, i)->seq, 1);
    ack_all(fx, batch);
    expect_rest(AT(fx), "a2 a3");
}

/* A run in one batch comes out in seq order, however its priorities lie. */
static void priority_inside_a_run(struct fx *fx)
{
    static const int priorities[] = {1, 9, 0, 5};
    for (int i = 0; i < 4; i++)
        put(fx, .key = "a", .priority = priorities[i]);
    outbox_batch *batch = claim(fx, .run = 4);
    expect_claim(AT(fx), batch, "a1 a2 a3 a4");
}

static void prefetch_under_one_name(struct fx *fx)
{
    put_n(fx, "a", 2);
    outbox_batch *first = claim(fx, .run = 2, .prefetch = true);
    expect_claim(AT(fx), first, "a1 a2");
    put_n(fx, "a", 2);
    outbox_batch *second = claim(fx, .run = 2, .prefetch = true);
    expect_claim(AT(fx), second, "a3 a4");
    ack_all(fx, first);
    ack_all(fx, second);
}

static void prefetch_behind_others(struct fx *fx)
{
    put_n(fx, "a", 6);
    outbox_batch *batch = claim(fx, .run = 2, .prefetch = true);
    expect_claim(AT(fx), batch, "a1 a2");
    for (int i = 0; i < 3; i++) {
        claim_none(fx, .worker = "w2", .run = 2, .prefetch = true);
        claim_none(fx, .worker = "w1", .run = 2);
    }
    ack_all(fx, batch);
    expect_rest(AT(fx), "a3 a4 a5 a6");
}

static void released_head_goes_first(struct fx *fx)
{
    put_n(fx, "a", 2);
    give_back(fx, take(fx));
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->seq, 1);
    settle(fx, msg, .outcome = OUTBOX_LIMITED, .delay_us = HOUR);
    claim_none(fx, .run = 5);
    make_due(fx, msg->id);
    assert_int_equal(take(fx)->seq, 1);
}

const struct contract_test order_tests[] = {
    {"N2 S2: of a key only the head is out", head_only},
    {"N2: keys do not wait for each other", keys_are_independent},
    {"N2 M18: a key of one tenant is not that of another", tenants_have_their_own_keys},
    {"N2 M18: a delivery tells which seqs count together", streams_tell_keys_apart},
    {"N2: a run takes a key's next messages in order", runs},
    {"N2: a run keeps to the limit", runs_within_the_limit},
    {"N2: a run that stops at a failure loses no order", run_stops_at_a_failure},
    {"N2: a successor that is released first does not overtake", successor_released_first},
    {"N2: a delayed head delays its key", delayed_head_blocks},
    {"N2: a delayed message in the middle delays what follows", delayed_in_the_middle},
    {"N2: a failing head blocks its key and no other", failing_head_blocks},
    {"N2 V10: a lost head is reclaimed before its successors", lost_head_blocks},
    {"N2 V10: a lost run comes back in order", lost_run_comes_back_in_order},
    {"N2 V10 M8: what was lost and is blocked hides nothing that was lost", lost_and_blocked_hides_nothing},
    {"N2 M9: priority never reorders inside a key", priority_never_reorders},
    {"N2 M9: nor inside a run", priority_inside_a_run},
    {"N2: prefetch goes on behind one's own messages", prefetch_under_one_name},
    {"N2: prefetch does not go on behind anybody else's", prefetch_behind_others},
    {"N2: a released or limited head goes first", released_head_goes_first},
    {NULL, NULL, 0},
};
