/* fencing.c - a settle needs the token of the claim it answers; nobody else's outcome ever stands. */
#include "suite.h"

static const enum outbox_outcome outcomes[] = {OUTBOX_DELIVERED, OUTBOX_RETRY,       OUTBOX_FAILED,
                                               OUTBOX_LIMITED,   OUTBOX_BLOCKED,     OUTBOX_UNKNOWN,
                                               OUTBOX_RELEASED,  OUTBOX_INTERRUPTED, OUTBOX_SILENT};
enum { OUTCOMES = sizeof(outcomes) / sizeof(outcomes[0]) };

static void refused_whatever_it_says(struct fx *fx, const struct outbox_delivery *msg)
{
    for (size_t i = 0; i < OUTCOMES; i++)
        settle_refused(fx, OUTBOX_SETTLE_LOST, msg, .outcome = outcomes[i], .error = "late");
    const char *before = digest(fx);
    struct outbox_settle item = SETTLE(msg);
    ok(fx, extend, &item, 1, HOUR);
    assert_int_equal(item.result, OUTBOX_SETTLE_LOST);
    expect_unchanged(fx, before, "a refused extend");
}

static void late_worker(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    struct fx *other = another(fx);
    const struct outbox_delivery *late = take(fx, .worker = "late");
    expire(fx, id);
    const struct outbox_delivery *holder = take(other, .worker = "holder");
    refused_whatever_it_says(fx, late);
    expect_state(fx, id, "processing attempts 2 spent 2 by holder");
    ack(other, holder);
    refused_whatever_it_says(fx, late);
    expect_state(fx, id, "delivered attempts 2 spent 2");
    expect_attempts(fx, id, "1 lost late; 2 delivered holder");
}

static void own_older_claim(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *older = take(fx, .worker = "w1");
    expire(fx, id);
    const struct outbox_delivery *newer = take(fx, .worker = "w1");
    assert_int_not_equal(older->token, newer->token);
    refused_whatever_it_says(fx, older);
    expect_state(fx, id, "processing attempts 2 spent 2 by w1");
    ack(fx, newer);
    expect_attempts(fx, id, "1 lost w1; 2 delivered w1");
}

static void claim_after_release(struct fx *fx)
{
    put(fx);
    const struct outbox_delivery *older = take(fx);
    give_back(fx, older);
    refused_whatever_it_says(fx, older);
    const struct outbox_delivery *newer = take(fx);
    assert_int_not_equal(older->token, newer->token);
    refused_whatever_it_says(fx, older);
    ack(fx, newer);
}

static void after_expiry_before_reclaim(struct fx *fx)
{
    struct outbox_uuid acked = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    expire(fx, acked);
    ack(fx, msg);
    expect_state(fx, acked, "delivered attempts 1 spent 1");
    expect_attempts(fx, acked, "1 delivered w1");

    struct outbox_uuid nacked = put(fx).id;
    msg = take(fx);
    expire(fx, nacked);
    nack(fx, msg);
    expect_state(fx, nacked, "pending attempts 1 spent 1");
    expect_attempts(fx, nacked, "1 retry w1 c");
}

static void token_used_twice(struct fx *fx)
{
    put(fx);
    const struct outbox_delivery *msg = take(fx);
    nack(fx, msg);
    refused_whatever_it_says(fx, msg);
    msg = take(fx);
    ack(fx, msg);
    refused_whatever_it_says(fx, msg);

    put(fx);
    msg = take(fx);
    assert_true(settle(fx, msg, .outcome = OUTBOX_FAILED));
    refused_whatever_it_says(fx, msg);
}

static void twice_in_one_call(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    struct outbox_settle items[2] = {SETTLE(msg, .outcome = OUTBOX_DELIVERED),
                                     SETTLE(msg, .outcome = OUTBOX_DELIVERED)};
    ok(fx, settle, items, 2);
    assert_int_equal(items[0].result, OUTBOX_SETTLED);
    assert_int_equal(items[1].result, OUTBOX_SETTLE_LOST);
    expect_state(fx, id, "delivered attempts 1 spent 1");
    expect_attempts(fx, id, "1 delivered w1");
}

static void never_claimed(struct fx *fx)
{
    struct outbox_delivery guess = {.id = put(fx).id, .token = 1};
    refused_whatever_it_says(fx, &guess);
    guess.token = 0;
    refused_whatever_it_says(fx, &guess);
    expect_state(fx, guess.id, "pending attempts 0 spent 0");
}

static void wrong_token(struct fx *fx)
{
    put(fx);
    put(fx);
    outbox_batch *batch = claim_n(fx, 2);
    struct outbox_delivery forged = *outbox_batch_at(batch, 0);
    forged.token++; /* perhaps that of the message beside it: id and token belong together */
    refused_whatever_it_says(fx, &forged);
    ack(fx, outbox_batch_at(batch, 0));
    expect_state(fx, outbox_batch_at(batch, 1)->id, "processing attempts 1 spent 1 by w1");
}

static void unknown_message(struct fx *fx)
{
    struct outbox_delivery nobody = {.id = {.bytes = {1, 2, 3}}, .token = 1};
    for (size_t i = 0; i < OUTCOMES; i++)
        settle_refused(fx, OUTBOX_SETTLE_UNKNOWN, &nobody, .outcome = outcomes[i]);
    struct outbox_settle item = SETTLE(&nobody);
    ok(fx, extend, &item, 1, HOUR);
    assert_int_equal(item.result, OUTBOX_SETTLE_UNKNOWN);
}

static void each_for_itself(struct fx *fx)
{
    for (int i = 0; i < 3; i++)
        put(fx);
    outbox_batch *batch = claim_n(fx, 3);
    const struct outbox_delivery *a = outbox_batch_at(batch, 0), *b = outbox_batch_at(batch, 1),
                                 *c = outbox_batch_at(batch, 2);
    expire(fx, b->id);
    take(another(fx), .worker = "w2");
    struct outbox_delivery nobody = {.id = {.bytes = {1}}, .token = a->token};
    struct outbox_settle items[] = {
        SETTLE(a, .outcome = OUTBOX_DELIVERED, .reference = "ref-a"),
        SETTLE(b, .outcome = OUTBOX_DELIVERED),
        SETTLE(&nobody, .outcome = OUTBOX_DELIVERED),
        SETTLE(c, .outcome = OUTBOX_FAILED, .code = "bad"),
    };
    ok(fx, settle, items, 4);
    assert_int_equal(items[0].result, OUTBOX_SETTLED);
    assert_false(items[0].dead);
    assert_int_equal(items[1].result, OUTBOX_SETTLE_LOST);
    assert_int_equal(items[2].result, OUTBOX_SETTLE_UNKNOWN);
    assert_int_equal(items[3].result, OUTBOX_SETTLED);
    assert_true(items[3].dead);
    expect_attempts(fx, a->id, "1 delivered w1");
    expect_attempts(fx, b->id, "1 lost w1; 2 open w2");
    expect_attempts(fx, c->id, "1 failed w1 bad");
    expect_state(fx, c->id, "dead attempts 1 spent 1");
}

const struct contract_test fencing_tests[] = {
    {"M10 V8: a late worker cannot settle", late_worker},
    {"M10: a worker cannot settle with its own older claim", own_older_claim},
    {"M10: a claim that was given back is over", claim_after_release},
    {"M10: an ack or nack after expiry, before anybody reclaimed, succeeds", after_expiry_before_reclaim},
    {"M10 M13: a token works once", token_used_twice},
    {"M10: a token works once within one call too", twice_in_one_call},
    {"M10: a message that was never claimed cannot be settled", never_claimed},
    {"M10: a wrong token settles nothing", wrong_token},
    {"M10: an unknown message is reported as such", unknown_message},
    {"M10: in a batch each message has its own result", each_for_itself},
    {NULL, NULL, 0},
};
