/* retry.c - attempts, backoff and death. */
#include "suite.h"

/* The delay that the store chose, as two bounds: it lies between them for sure. */
struct delay {
    int64_t least, most;
};

static struct delay fail_by_policy(struct fx *fx, const struct outbox_delivery *msg)
{
    int64_t before = now_us();
    assert_false(settle(fx, msg, .outcome = OUTBOX_RETRY, .error = "e"));
    int64_t after = now_us(), due = look(fx, msg->id)->next_attempt_at_us;
    return (struct delay){due - after, due - before};
}

static void expect_delay(struct fx *fx, struct delay delay, int64_t wanted)
{
    if (delay.most < wanted / 2 || delay.least > wanted)
        blame(fx, "delay is %lld to %lld us, wanted %lld to %lld", (long long)delay.least, (long long)delay.most,
              (long long)wanted / 2, (long long)wanted);
}

static void backoff(struct fx *fx)
{
    static const int64_t wanted[] = {10, 20, 40, 80, 100, 100, 100};
    struct outbox_uuid id = put(fx, .max_attempts = 20).id;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        make_due(fx, id);
        const struct outbox_delivery *msg = take(fx, .retry_base_us = 10 * SECOND, .retry_cap_us = 100 * SECOND);
        assert_int_equal(msg->attempt, i + 1);
        expect_delay(AT(fx), fail_by_policy(fx, msg), wanted[i] * SECOND);
        claim_none(fx);
    }
}

static void default_backoff(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 30).id;
    for (int i = 0; i < 13; i++) {
        make_due(fx, id);
        int64_t wanted = i < 11 ? SECOND << i : 1800 * SECOND;
        expect_delay(AT(fx), fail_by_policy(fx, take(fx)), wanted);
    }
}

/* Drawn anew for every message, over the whole range: one in a million runs sees none below six tenths. */
static void jitter(struct fx *fx)
{
    enum { DRAWS = 64 };
    int64_t base = 1000 * SECOND, lowest = INT64_MAX, highest = 0;
    for (int i = 0; i < DRAWS; i++)
        put(fx);
    outbox_batch *batch = claim_n(fx, DRAWS, .retry_base_us = base, .retry_cap_us = base);
    struct outbox_settle items[DRAWS];
    for (size_t i = 0; i < DRAWS; i++)
        items[i] = SETTLE(outbox_batch_at(batch, i), .outcome = OUTBOX_RETRY);
    int64_t before = now_us();
    ok(fx, settle, items, DRAWS);
    for (size_t i = 0; i < DRAWS; i++) {
        int64_t delay = look(fx, items[i].id)->next_attempt_at_us - before;
        assert_in_range(delay, base / 2, base + now_us() - before);
        lowest = delay < lowest ? delay : lowest;
        highest = delay > highest ? delay : highest;
    }
    assert_true(lowest < base * 6 / 10);
    assert_true(highest > base * 9 / 10);
}

static void given_delay_wins(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx, .retry_base_us = SECOND, .retry_cap_us = SECOND);
    int64_t before = now_us();
    settle(fx, msg, .outcome = OUTBOX_RETRY, .delay_us = 2 * HOUR);
    assert_in_range(look(fx, id)->next_attempt_at_us, before + 2 * HOUR, now_us() + 2 * HOUR);
}

static void namespace_policy(struct fx *fx)
{
    ok(fx, configure, "slow", "retry_base", "100 s", NULL);
    ok(fx, configure, "slow", "retry_cap", "150 s", NULL);
    struct outbox_uuid id = put(fx, .name_space = "slow").id;
    expect_delay(AT(fx), fail_by_policy(fx, take(fx)), 100 * SECOND);
    make_due(fx, id);
    expect_delay(AT(fx), fail_by_policy(fx, take(fx)), 150 * SECOND);
    put(fx);
    expect_delay(AT(fx), fail_by_policy(fx, take(fx)), SECOND);
}

static void policy_of_the_claim(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    ok(fx, configure, "default", "retry_base", "1000 s", NULL);
    ok(fx, configure, "default", "retry_cap", "2000 s", NULL);
    expect_delay(AT(fx), fail_by_policy(fx, msg), SECOND);
    make_due(fx, id);
    expect_delay(AT(fx), fail_by_policy(fx, take(fx)), 2000 * SECOND);

    /* A claim that brought its own keeps it, whoever asks in between. */
    struct outbox_uuid own = put(fx).id;
    msg = take(fx, .retry_base_us = 50 * SECOND, .retry_cap_us = 60 * SECOND);
    expect_delay(AT(fx), fail_by_policy(fx, msg), 50 * SECOND);
    make_due(fx, own);
    expect_delay(AT(fx), fail_by_policy(fx, take(fx)), 2000 * SECOND);
}

static void limit_of_the_claim(struct fx *fx)
{
    put(fx, .max_attempts = 5);
    const struct outbox_delivery *msg = take(fx, .max_attempts = 1);
    assert_true(nack(fx, msg));
    expect_state(fx, msg->id, "dead attempts 1 spent 1");
}

static void dead_at_max(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 3).id;
    for (int i = 1; i <= 3; i++) {
        const struct outbox_delivery *msg = take(fx);
        assert_int_equal(msg->attempt, i);
        assert_int_equal(msg->spent, i);
        assert_int_equal(msg->max_attempts, 3);
        assert_int_equal(
            settle(fx, msg, .outcome = OUTBOX_RETRY, .code = "c", .error = i == 3 ? "last" : "e", .delay_us = 0),
            i == 3);
    }
    expect_state(fx, id, "dead attempts 3 spent 3");
    expect_attempts(fx, id, "1 retry w1 c; 2 retry w1 c; 3 failed w1 c");
    const struct ob_message_row *row = look(fx, id);
    assert_string_equal(row->dead_reason, "attempts");
    assert_string_equal(row->last_error, "last");
    assert_string_equal(row->payload, DEFAULT_PAYLOAD);
    make_due(fx, id);
    claim_none(fx);
    assert_int_equal(count_status(fx, OB_DEAD), 1);
}

static void fifteen_by_default(struct fx *fx)
{
    put(fx);
    int tries = 0;
    for (; outbox_batch_size(claim(fx, .limit = 1, .worker = "probe")) == 1; tries++)
        expire_all(fx);
    assert_int_equal(tries, 15);
}

static void namespace_limit(struct fx *fx)
{
    ok(fx, configure, "once", "max_attempts", "1", NULL);
    struct outbox_uuid id = put(fx, .name_space = "once").id;
    assert_int_equal(look(fx, id)->max_attempts, 1);
    assert_true(nack(fx, take(fx)));
    assert_int_equal(look(fx, put(fx, .name_space = "once", .max_attempts = 7).id)->max_attempts, 7);
}

/* What a route or a sink says, told with the outcome. */
static void limit_of_a_sink(struct fx *fx)
{
    ok(fx, configure, "once", "max_attempts", "1", NULL);
    struct outbox_uuid id = put(fx, .name_space = "once").id;
    const struct outbox_delivery *msg = take(fx);
    assert_false(msg->own_attempts);
    assert_string_equal(look(fx, id)->max_attempts_from, "namespace");
    assert_false(settle(fx, msg, .outcome = OUTBOX_RETRY, .max_attempts = 3, .delay_us = 0));
    assert_int_equal(look(fx, id)->max_attempts, 3);
    assert_string_equal(look(fx, id)->max_attempts_from, "sink");
    msg = take(fx);
    assert_int_equal(msg->max_attempts, 3);
    assert_false(settle(fx, msg, .outcome = OUTBOX_RETRY, .delay_us = 0)); /* it stays so */
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "c", .delay_us = 0));
    expect_state(fx, id, "dead attempts 3 spent 3");
    assert_int_equal(look(fx, id)->max_attempts, 3);
    assert_string_equal(look(fx, id)->max_attempts_from, "sink");

    id = put(fx).id; /* fewer, too */
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_UNKNOWN, .max_attempts = 1));
    expect_state(fx, id, "dead attempts 1 spent 1");
    assert_string_equal(look(fx, id)->max_attempts_from, "sink");

    id = put(fx).id; /* an operator's retry is a new life */
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_FAILED, .max_attempts = 40));
    assert_int_equal(look(fx, id)->max_attempts, 40);
    assert_string_equal(look(fx, id)->max_attempts_from, "sink");
    int64_t count;
    struct ob_filter filter = {.ids = &id, .id_count = 1};
    ok(fx, retry, &filter, NULL, &count);
    assert_int_equal(look(fx, id)->max_attempts, 15);
}

static void limit_of_the_message(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 7).id;
    const struct outbox_delivery *msg = take(fx);
    assert_true(msg->own_attempts);
    assert_string_equal(look(fx, id)->max_attempts_from, "message");
    struct outbox_settle item = SETTLE(msg, .outcome = OUTBOX_RETRY, .max_attempts = 1001);
    assert_int_equal((fx->store->ops->settle)(fx->store, &item, 1, &fx->err), OUTBOX_INVALID);
    nack(fx, msg);
}

static void policy_is_told(struct fx *fx)
{
    ok(fx, configure, "slow", "retry_base", "100 s", NULL);
    put(fx);
    put(fx, .name_space = "slow");
    outbox_batch *batch = claim_n(fx, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        assert_int_equal(msg->retry_base_us, strcmp(msg->name_space, "slow") == 0 ? 100 * SECOND : SECOND);
        assert_int_equal(msg->retry_cap_us, 1800 * SECOND);
    }
}

struct found {
    const char *name_space, *name;
    char value[64];
};

static bool on_setting(void *ctx, const char *name_space, const char *name, const char *value)
{
    struct found *found = ctx;
    if (strcmp(name_space, found->name_space) == 0 && strcmp(name, found->name) == 0)
        snprintf(found->value, sizeof found->value, "%s", value ? value : "NULL");
    return true;
}

static void expect_setting(struct fx *fx, const char *name_space, const char *name, const char *value)
{
    struct found found = {name_space, name, "none"};
    ok(fx, settings, on_setting, &found);
    assert_string_equal(found.value, value);
}

static void settings_read_back(struct fx *fx)
{
    static const struct {
        const char *name, *fallback, *value;
    } rows[] = {{"max_attempts", "15", "3"},
                {"retry_base", "1s", "250ms"},
                {"retry_cap", "30m", "2h"},
                {"on_dead", "continue", "hold"},
                {"tenant_prefix", "on", "off"},
                {"max_payload", "1048576", "10"},
                {"dedupe_scope", "topic", "namespace"},
                {"order_scope", "topic", "namespace"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_setting(fx, "*", rows[i].name, rows[i].fallback);
        expect_setting(fx, "own", rows[i].name, "none");
        ok(fx, configure, "own", rows[i].name, rows[i].value, NULL);
        expect_setting(fx, "own", rows[i].name, rows[i].value);
        ok(fx, configure, "own", rows[i].name, NULL, NULL);
        expect_setting(fx, "own", rows[i].name, "none");
    }
    expect_setting(fx, "*", "retention", "7d");
    expect_setting(fx, "*", "attempt_retention", "NULL");
    ok(fx, configure, "*", "attempt_retention", "forever", NULL);
    expect_setting(fx, "*", "attempt_retention", "forever");
}

const struct contract_test retry_tests[] = {
    {"M11 V9 M17 T3: backoff doubles up to its cap, uniform in [d/2, d]", backoff},
    {"M11 V9: by default 1 s, doubling, 30 minutes at most", default_backoff},
    {"M11 V9: jitter is drawn for every message, over the whole range", jitter},
    {"M11: a delay that the worker gives wins", given_delay_wins},
    {"M11: base and cap are settings of the namespace", namespace_policy},
    {"M21: an attempt is settled under the policy it was claimed with", policy_of_the_claim},
    {"M21 M6: and under the limit it was claimed with", limit_of_the_claim},
    {"M7 M12 V9 T3: max_attempts 3 is three deliveries, then dead", dead_at_max},
    {"V9 M7: fifteen attempts by default", fifteen_by_default},
    {"V9: max_attempts is a setting of the namespace and of the message", namespace_limit},
    {"V9 M21: what a sink or route says holds from then on, more or fewer", limit_of_a_sink},
    {"V9: what its producer asked for is told to the worker", limit_of_the_message},
    {"M11 M21: the policy that holds is told to the worker", policy_is_told},
    {"V9: the settings of namespaces can be read, as they are written", settings_read_back},
    {NULL, NULL, 0},
};
