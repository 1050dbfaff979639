/* lease.c - crashed workers: what they held comes back by itself, on record, and counts. */
#include "proc.h"

static void reclaimed_inline(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    struct fx *other = another(fx);
    take(fx, .worker = "w1");
    claim_none(other, .worker = "w2");
    expire(fx, id);
    const struct outbox_delivery *again = take(other, .worker = "w2");
    assert_same_id(again->id, id);
    assert_int_equal(again->attempt, 2);
    assert_int_equal(again->spent, 2);
    expect_state(fx, id, "processing attempts 2 spent 2 by w2");
    expect_attempts(fx, id, "1 lost w1; 2 open w2");
    ack(other, again);
    expect_state(fx, id, "delivered attempts 2 spent 2");
    expect_attempts(fx, id, "1 lost w1; 2 delivered w2");
}

static void expired_lease_is_still_processing(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    take(fx);
    expire(fx, id);
    expect_state(fx, id, "processing attempts 1 spent 1 by w1");
    expect_attempts(fx, id, "1 open w1");
    assert_int_equal(status_of(fx, NULL, NULL).stuck, 1);
}

static void killed_worker(struct fx *fx)
{
    struct outbox_uuid ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = put(fx, .key = i ? "k" : NULL).id;
    struct proc *worker = proc_start(fx, "worker", "victim", "10");
    proc_expect(fx, worker, "took 2");
    proc_kill(worker);
    for (int i = 0; i < 2; i++) {
        expect_state(fx, ids[i], "processing attempts 1 spent 1 by victim");
        expect_attempts(fx, ids[i], "1 open victim");
    }
    claim_none(fx);
    expire_all(fx);
    ack_all(fx, claim_n(fx, 2, .worker = "w2"));
    ack(fx, take(fx));
    for (int i = 0; i < 2; i++)
        expect_attempts(fx, ids[i], "1 lost victim; 2 delivered w2");
    expect_attempts(fx, ids[2], "1 delivered w1");
}

/* The number of the attempt that vanished is not used again, and the record of it is complete. */
static void the_repair_is_on_record(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *first = take(fx, .worker = "w1");
    int64_t claimed = attempt_of(fx, id, 1)->claimed_at_us;
    assert_int_equal(claimed, first->claimed_at_us);
    assert_int_equal(attempt_of(fx, id, 1)->completed_at_us, 0);
    expire(fx, id);
    int64_t before = now_us();
    take(fx, .worker = "w2");
    const struct ob_attempt_row *lost = attempt_of(fx, id, 1);
    assert_int_equal(lost->outcome, OUTBOX_LOST);
    assert_string_equal(lost->worker, "w1");
    assert_in_range(lost->completed_at_us, before, now_us());
    assert_int_equal(lost->latency_us, -1);
    assert_null(lost->reference);
}

static void lost_attempts_count(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 2).id;
    take(fx, .worker = "w1");
    expire(fx, id);
    assert_int_equal(take(fx, .worker = "w2")->attempt, 2);
    expire(fx, id);
    expect_state(fx, id, "processing attempts 2 spent 2 by w2");
    claim_none(fx, .worker = "w3");
    expect_state(fx, id, "dead attempts 2 spent 2");
    expect_attempts(fx, id, "1 lost w1; 2 lost w2");
    assert_string_equal(look(fx, id)->dead_reason, "attempts");
    claim_none(fx);
}

/* The limit of the claim that meets it counts, not only the message's own. */
static void at_the_claims_limit(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 5).id;
    take(fx);
    expire(fx, id);
    claim_none(fx, .max_attempts = 1);
    expect_state(fx, id, "dead attempts 1 spent 1");
    expect_attempts(fx, id, "1 lost w1");
}

static void pending_at_the_claims_limit(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 5).id;
    for (int i = 0; i < 3; i++)
        nack(fx, take(fx));
    claim_none(fx, .max_attempts = 3);
    expect_state(fx, id, "dead attempts 3 spent 3");
    expect_attempts(fx, id, "1 retry w1 c; 2 retry w1 c; 3 retry w1 c");
    assert_string_equal(look(fx, id)->dead_reason, "attempts");
}

/* By the handle that claimed it, which may remember that it has been there: soon, not at once. */
static void found_by_the_same_handle(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    take(fx);
    fixture.expire(fx->place, uuid_text(fx, id));
    for (int64_t end = now_us() + PATIENCE; outbox_batch_size(claim(fx)) == 0; tick())
        if (now_us() > end)
            blame(AT(fx), "an expired lease was not found");
    expect_attempts(fx, id, "1 lost w1; 2 open w1");
}

static void extend_moves_the_end(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx, .lease_us = 10 * SECOND);
    struct outbox_settle item = SETTLE(msg);
    int64_t before = now_us();
    ok(fx, extend, &item, 1, HOUR);
    assert_int_equal(item.result, OUTBOX_SETTLED);
    assert_in_range(look(fx, id)->locked_until_us, before + HOUR, now_us() + HOUR);
    expect_state(fx, id, "processing attempts 1 spent 1 by w1");
    expect_attempts(fx, id, "1 open w1");
    ack(fx, msg);
    expect_attempts(fx, id, "1 delivered w1");
}

static void extend_in_time_keeps_it(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    expire(fx, id);
    struct outbox_settle item = SETTLE(msg);
    ok(fx, extend, &item, 1, HOUR);
    assert_int_equal(item.result, OUTBOX_SETTLED);
    claim_none(fx);
    ack(fx, msg);
}

const struct contract_test lease_tests[] = {
    {"V10 M8 M7 S14: an expired lease is reclaimed inline, the lost attempt on record", reclaimed_inline},
    {"V10 M8: until somebody reclaims it, it is processing, and shown as stuck", expired_lease_is_still_processing},
    {"V10 M8: a busy worker finds an expired lease too", found_by_the_same_handle},
    {"V10 S14 S8 M17: what a killed worker held is visible and comes back", killed_worker},
    {"S14 S7: the record of a lost attempt is complete", the_repair_is_on_record},
    {"M7 M8 M12: lost attempts count; at the limit the message is dead", lost_attempts_count},
    {"M8 M6: a reclaim under a lower limit makes it dead", at_the_claims_limit},
    {"M8 M6: a pending message at the claim's limit becomes dead", pending_at_the_claims_limit},
    {"M10 S11: extend moves the end of the lease and nothing else", extend_moves_the_end},
    {"M10: a lease can be extended until somebody reclaims it", extend_in_time_keeps_it},
    {NULL, NULL, 0},
};
