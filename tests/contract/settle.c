/* settle.c - every outcome: what becomes of the message, and what goes on record. */
#include "suite.h"

static void delivered(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    int64_t before = now_us();
    settle(fx, msg, .outcome = OUTBOX_DELIVERED, .code = "250", .reference = "queued as 4F", .latency_us = 12000);
    expect_state(fx, id, "delivered attempts 1 spent 1");
    expect_attempts(fx, id, "1 delivered w1 250");
    const struct ob_attempt_row *row = attempt_of(fx, id, 1);
    assert_string_equal(row->reference, "queued as 4F");
    assert_int_equal(row->latency_us, 12000);
    assert_int_equal(row->claimed_at_us, msg->claimed_at_us);
    assert_in_range(row->completed_at_us, before, now_us());
    assert_int_equal(look(fx, id)->delivered_at_us, row->completed_at_us);
    assert_int_equal(look(fx, id)->next_attempt_at_us, 0);
    claim_none(fx);
}

static void failed_once(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    int64_t before = now_us();
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "busy", .delay_us = HOUR));
    expect_state(fx, id, "pending attempts 1 spent 1");
    expect_attempts(fx, id, "1 retry w1 http_503");
    const struct ob_message_row *row = look(fx, id);
    assert_string_equal(row->last_error, "busy");
    assert_string_equal(row->last_code, "http_503");
    assert_in_range(row->next_attempt_at_us, before + HOUR, now_us() + HOUR);
    assert_string_equal(attempt_of(fx, id, 1)->error, "busy");
    claim_none(fx);
    make_due(fx, id);
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->attempt, 2);
    assert_int_equal(msg->spent, 2);
    ack(fx, msg);
    expect_state(fx, id, "delivered attempts 2 spent 2");
    expect_attempts(fx, id, "1 retry w1 http_503; 2 delivered w1");
}

static void terminal(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_FAILED, .code = "550", .error = "no such user"));
    expect_state(fx, id, "dead attempts 1 spent 1");
    expect_attempts(fx, id, "1 failed w1 550");
    assert_string_equal(look(fx, id)->dead_reason, "terminal");
    assert_string_equal(look(fx, id)->last_error, "no such user");
    assert_string_equal(look(fx, id)->last_code, "550");
    claim_none(fx);
}

static void given_back(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    give_back(fx, msg);
    expect_attempts(fx, id, "");
    assert_int_equal(look(fx, id)->spent, 0);
    assert_int_equal(look(fx, id)->status, OB_PENDING);
    msg = take(fx);
    assert_int_equal(msg->spent, 1);
    assert_int_equal(msg->attempt, 2); /* numbers never repeat, also those of attempts that never were */
    settle(fx, msg, .outcome = OUTBOX_RELEASED, .delay_us = HOUR);
    claim_none(fx);
    assert_int_equal(look(fx, id)->spent, 0);
    expect_attempts(fx, id, "");
}

/* However often nothing was sent, the budget is whole. */
static void unspent_for_ever(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 1).id;
    for (int i = 0; i < 4; i++)
        give_back(fx, take(fx));
    for (int i = 0; i < 3; i++)
        assert_false(settle(fx, take(fx), .outcome = OUTBOX_LIMITED, .delay_us = 0));
    for (int i = 0; i < 3; i++)
        assert_false(settle(fx, take(fx), .outcome = OUTBOX_BLOCKED, .delay_us = 0));
    assert_int_equal(look(fx, id)->status, OB_PENDING);
    assert_int_equal(look(fx, id)->spent, 0);
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->attempt, 11);
    assert_int_equal(msg->spent, 1);
    ack(fx, msg);
}

static void expect_unspent_on_record(struct fx *fx, enum outbox_outcome outcome, const char *record)
{
    struct outbox_uuid id = put(fx).id;
    int64_t before = now_us();
    assert_false(settle(fx, take(fx), .outcome = outcome, .code = "429", .error = "slow", .delay_us = HOUR));
    expect_state(fx, id, "pending attempts 1 spent 0");
    expect_attempts(fx, id, record);
    assert_string_equal(look(fx, id)->last_error, "slow");
    assert_string_equal(look(fx, id)->last_code, "429");
    assert_in_range(look(fx, id)->next_attempt_at_us, before + HOUR, now_us() + HOUR);
    claim_none(fx);
    make_due(fx, id);
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->attempt, 2);
    assert_int_equal(msg->spent, 1);
    ack(fx, msg);
}

static void limited(struct fx *fx)
{
    expect_unspent_on_record(fx, OUTBOX_LIMITED, "1 limited w1 429");
}

static void blocked(struct fx *fx)
{
    expect_unspent_on_record(fx, OUTBOX_BLOCKED, "1 blocked w1 429");
}

/* Cut off by our own shutdown: due at once, on record, and no attempt less, also with a budget of one. */
static void interrupted(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 1).id;
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_INTERRUPTED, .code = "shutdown", .error = "stopped"));
    expect_state(fx, id, "pending attempts 1 spent 0");
    assert_string_equal(look(fx, id)->last_code, "shutdown");
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_int_equal(msg->attempt, 2);
    assert_int_equal(msg->spent, 1);
    ack(fx, msg);
    expect_attempts(fx, id, "1 interrupted w1 shutdown; 2 delivered w1");
}

/* The nth time in a row; by policy, so that the delay is the store's. */
static int64_t put_off(struct fx *fx, struct outbox_uuid id, int deferred, enum outbox_outcome outcome,
                       const char *code)
{
    const struct outbox_delivery *msg = take(fx, .retry_base_us = SECOND, .retry_cap_us = 60 * (int64_t)SECOND);
    assert_int_equal(msg->deferred, deferred);
    assert_int_equal(msg->spent, 1);
    int64_t before = now_us();
    assert_false(settle(fx, msg, .outcome = outcome, .code = code, .delay_us = -1));
    int64_t delay = look(fx, id)->next_attempt_at_us - before;
    make_due(fx, id);
    return delay;
}

/* A receiver that says the same again and again is asked ever less often, and says nothing new. */
static void put_off_in_a_row(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 1).id;
    for (int i = 0; i < 5; i++) {
        int64_t delay = put_off(fx, id, i, OUTBOX_LIMITED, "429");
        assert_in_range(delay, (SECOND << i) / 2, (SECOND << i) + 10 * SECOND);
    }
    expect_attempts(fx, id, "1 limited w1 429");
    put_off(fx, id, 5, OUTBOX_BLOCKED, "429");
    put_off(fx, id, 6, OUTBOX_BLOCKED, "410");
    give_back(fx, take(fx)); /* says nothing either way */
    assert_in_range(put_off(fx, id, 7, OUTBOX_BLOCKED, "410"), 30 * SECOND, 70 * SECOND);
    expect_attempts(fx, id, "1 limited w1 429; 6 blocked w1 429; 7 blocked w1 410");
    put_off(fx, id, 8, OUTBOX_BLOCKED, NULL);
    put_off(fx, id, 9, OUTBOX_BLOCKED, NULL);
    ack(fx, take(fx));
    expect_attempts(fx, id, "1 limited w1 429; 6 blocked w1 429; 7 blocked w1 410; 10 blocked w1; 12 delivered w1");
}

/* Another outcome ends the row. */
static void put_off_and_tried(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 3).id;
    put_off(fx, id, 0, OUTBOX_BLOCKED, "410");
    put_off(fx, id, 1, OUTBOX_BLOCKED, "410");
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_RETRY, .delay_us = 0));
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->deferred, 0);
    assert_int_equal(msg->spent, 2);
    assert_false(settle(fx, msg, .outcome = OUTBOX_BLOCKED, .code = "410", .delay_us = 0));
    expect_attempts(fx, id, "1 blocked w1 410; 3 retry w1; 4 blocked w1 410");
}

/* Nobody is answered there: what became of the message is unknown, each time anew, and it costs nothing. */
static void silent(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 1).id;
    put_off(fx, id, 0, OUTBOX_SILENT, "timeout");
    assert_in_range(put_off(fx, id, 1, OUTBOX_SILENT, "timeout"), SECOND, 2 * SECOND + 10 * SECOND);
    expect_state(fx, id, "pending attempts 2 spent 0");
    expect_attempts(fx, id, "1 unknown w1 timeout; 2 unknown w1 timeout");
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_UNKNOWN));
}

static void unknown(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 2).id;
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_UNKNOWN, .error = "reply lost", .delay_us = 0));
    expect_state(fx, id, "pending attempts 1 spent 1");
    assert_string_equal(look(fx, id)->last_error, "reply lost");
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_true(settle(fx, msg, .outcome = OUTBOX_UNKNOWN, .delay_us = 0));
    expect_state(fx, id, "dead attempts 2 spent 2");
    expect_attempts(fx, id, "1 unknown w1; 2 unknown w1");
}

static void never_again(struct fx *fx)
{
    struct outbox_uuid retried = put(fx, .max_attempts = 5).id;
    assert_true(
        settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "503", .error = "busy", .delay_us = OUTBOX_NEVER));
    expect_state(fx, retried, "dead attempts 1 spent 1");
    expect_attempts(fx, retried, "1 failed w1 503");
    assert_string_equal(look(fx, retried)->dead_reason, "attempts");
    assert_string_equal(look(fx, retried)->last_error, "busy");
    struct outbox_uuid doubtful = put(fx, .max_attempts = 5).id;
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_UNKNOWN, .delay_us = OUTBOX_NEVER));
    expect_attempts(fx, doubtful, "1 unknown w1");
    assert_string_equal(look(fx, doubtful)->dead_reason, "attempts");
    struct outbox_uuid held_up = put(fx).id;
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_LIMITED, .delay_us = OUTBOX_NEVER)); /* by policy */
    expect_state(fx, held_up, "pending attempts 1 spent 0");
    claim_none(fx);
}

static void terminal_states(struct fx *fx)
{
    struct outbox_uuid sent = put(fx).id;
    ack(fx, take(fx));
    struct outbox_uuid dead = make_dead(fx);
    expire_all(fx);
    const char *before = digest(fx);
    claim_none(fx, .max_attempts = 1000);
    expect_unchanged(fx, before, "a claim beside finished messages");
    expect_state(fx, sent, "delivered attempts 1 spent 1");
    expect_state(fx, dead, "dead attempts 1 spent 1");
}

static void expired_before_claim(struct fx *fx)
{
    int64_t expiry = now_us() + SECOND / 10;
    struct outbox_uuid id = put(fx, .expires_at_us = expiry).id;
    expect_state(fx, id, "pending attempts 0 spent 0");
    until_us(expiry + 1000);
    claim_none(fx);
    expect_state(fx, id, "dead attempts 0 spent 0");
    expect_attempts(fx, id, "");
    assert_string_equal(look(fx, id)->dead_reason, "expired");
}

/* Claims and settles a message before it expires, which is soon. A machine that stalls gets another one, and more time. */
static struct outbox_uuid settled_in_time(struct fx *fx, int64_t *expiry, struct outbox_settle item)
{
    for (int64_t soon = SECOND / 10;; soon *= 4) {
        *expiry = now_us() + soon;
        struct outbox_uuid id = put(fx, .expires_at_us = *expiry).id;
        outbox_batch *batch = claim(another(fx)); /* a handle that remembers no earlier claim */
        if (outbox_batch_size(batch) == 1)
            settle_(fx, settle_item(outbox_batch_at(batch, 0), item));
        if (now_us() >= *expiry)
            continue;
        assert_int_equal(outbox_batch_size(batch), 1);
        assert_same_id(outbox_batch_at(batch, 0)->id, id);
        return id;
    }
}

/* Nothing is spent while a sink is blocked; expiry is what ends it. */
static void blocked_until_expiry(struct fx *fx)
{
    int64_t expiry;
    struct outbox_settle answer = {.outcome = OUTBOX_BLOCKED, .code = "401", .latency_us = -1};
    struct outbox_uuid id = settled_in_time(fx, &expiry, answer);
    expect_state(fx, id, "pending attempts 1 spent 0");
    until_us(expiry + 1000);
    claim_none(fx);
    expect_state(fx, id, "dead attempts 1 spent 0");
    expect_attempts(fx, id, "1 blocked w1 401");
    assert_string_equal(look(fx, id)->dead_reason, "expired");
}

/* Expiry does not wait for the end of a delay that lies behind it. */
static void expires_while_it_waits(struct fx *fx)
{
    int64_t expiries[2];
    struct outbox_settle retry = {.outcome = OUTBOX_RETRY, .delay_us = HOUR, .latency_us = -1};
    struct outbox_settle limited = {.outcome = OUTBOX_LIMITED, .delay_us = HOUR, .latency_us = -1};
    struct outbox_uuid ids[2];
    ids[0] = settled_in_time(fx, &expiries[0], retry);
    ids[1] = settled_in_time(fx, &expiries[1], limited);
    until_us(expiries[0] + 1000);
    until_us(expiries[1] + 1000);
    claim_none(fx);
    expect_state(fx, ids[0], "dead attempts 1 spent 1");
    expect_state(fx, ids[1], "dead attempts 1 spent 0");
    for (int i = 0; i < 2; i++)
        assert_string_equal(look(fx, ids[i])->dead_reason, "expired");
}

static void nothing_to_settle(struct fx *fx)
{
    ok(fx, settle, NULL, 0);
    ok(fx, extend, NULL, 0, SECOND);
}

const struct contract_test settle_tests[] = {
    {"V7 M6 S1 S7: delivered: out of the queue, on record", delivered},
    {"V7 V9 M11 T3: retry: pending again, due later, the error kept", failed_once},
    {"V7 V9: failed: dead at once, with its reason", terminal},
    {"V7 V9: never again: dead, and what was spent are its attempts", never_again},
    {"V7: released: back unspent, not on record", given_back},
    {"V9: nothing sent, nothing spent, however often", unspent_for_ever},
    {"V7 S7: limited: later, unspent, on record", limited},
    {"V7 S7: blocked: later, unspent, on record", blocked},
    {"V7 M7: unknown: spent, and again under the same id", unknown},
    {"M11 S7: limited and blocked back off by their own count, one row per change", put_off_in_a_row},
    {"M11 S7: another outcome ends the row of those that were put off", put_off_and_tried},
    {"N5 S7: silent: unknown on record, unspent", silent},
    {"M15 V7: interrupted by a shutdown: back at once, unspent, on record", interrupted},
    {"M13: delivered and dead are terminal", terminal_states},
    {"N10: a message past its expiry is never claimed, and dead", expired_before_claim},
    {"N10: a blocked message ends at its expiry", blocked_until_expiry},
    {"N10: expiry does not wait for a retry that lies behind it", expires_while_it_waits},
    {"M6: settling nothing is fine", nothing_to_settle},
    {NULL, NULL, 0},
};
