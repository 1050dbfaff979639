/* operators.c - dead letters are inspected, sent again or let go, and every such act is on record. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "fixed it"}, bob = {"bob", "hopeless"};

static void redrive(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 2).id;
    nack(fx, take(fx));
    assert_true(nack(fx, take(fx)));
    expect_state(fx, id, "dead attempts 2 spent 2");
    expect_acts(fx, &id, "");
    int64_t n = 0, before = now_us();
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &ann, &n);
    assert_int_equal(n, 1);
    expect_state(fx, id, "pending attempts 2 spent 0");
    assert_true(look(fx, id)->redriven);
    assert_null(look(fx, id)->dead_reason);
    assert_in_range(look(fx, id)->next_attempt_at_us, before, now_us());
    expect_acts(fx, &id, "retry ann fixed it");
    for (int i = 3; i <= 4; i++) {
        const struct outbox_delivery *msg = take(fx);
        assert_same_id(msg->id, id);
        assert_int_equal(msg->attempt, i);
        assert_int_equal(msg->spent, i - 2);
        assert_int_equal(msg->max_attempts, 2);
        assert_true(msg->redriven);
        assert_int_equal(nack(fx, msg), i == 4);
    }
    expect_state(fx, id, "dead attempts 4 spent 2");
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &bob, &n);
    ack(fx, take(fx));
    expect_state(fx, id, "delivered attempts 5 spent 1");
    expect_attempts(fx, id, "1 retry w1 c; 2 failed w1 c; 3 retry w1 c; 4 failed w1 c; 5 delivered w1");
    expect_acts(fx, &id, "retry ann fixed it; retry bob hopeless");
}

static void let_go(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .dedupe_key = "d");
    int64_t n = 0;
    ok(fx, discard, &(struct ob_filter){.ids = &id, .id_count = 1}, &bob, &n);
    assert_int_equal(n, 1);
    assert_int_equal(count_status(fx, OB_DEAD), 0);
    assert_int_equal(status_of(fx, NULL, NULL).dead, 0);
    expect_state(fx, id, "discarded attempts 1 spent 1");
    expect_attempts(fx, id, "1 failed w1 wrong");
    expect_acts(fx, &id, "discard bob hopeless");
    claim_none(fx);
    assert_false(put(fx, .dedupe_key = "d").created);
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &ann, &n);
    assert_int_equal(n, 0);
    expect_acts(fx, &id, "discard bob hopeless");
}

/* Neither touches what is not a dead letter. */
static void dead_letters_only(struct fx *fx)
{
    struct outbox_uuid ids[4] = {put(fx, .priority = 9).id};
    ack(fx, take(fx));
    ids[1] = put(fx, .priority = 8).id;
    take(fx);
    ids[2] = put(fx).id;
    ids[3] = (struct outbox_uuid){.bytes = {9}};
    const char *before = digest(fx);
    int64_t n = -1;
    ok(fx, retry, &(struct ob_filter){.ids = ids, .id_count = 4}, &ann, &n);
    assert_int_equal(n, 0);
    n = -1;
    ok(fx, discard, &(struct ob_filter){.ids = ids, .id_count = 4}, &ann, &n);
    assert_int_equal(n, 0);
    expect_unchanged(fx, before, "an act on no dead letter");
}

struct lot {
    struct outbox_uuid a, b, other, tenant, code;
};

static struct lot dead_lot(struct fx *fx)
{
    struct lot lot = {
        .a = make_dead(fx, .topic = "a"),
        .b = make_dead(fx, .topic = "b"),
        .other = make_dead(fx, .topic = "a", .name_space = "other"),
        .tenant = make_dead(fx, .topic = "c", .tenant_id = TENANT_A),
        .code = put(fx, .topic = "d").id,
    };
    settle(fx, take(fx), .outcome = OUTBOX_FAILED, .code = "smtp_550");
    return lot;
}

static bool count_one(void *ctx, const struct ob_message_row *row)
{
    (void)row;
    ++*(int *)ctx;
    return true;
}

static void expect_redriven(struct fx *fx, struct ob_filter filter, size_t wanted, struct outbox_uuid one)
{
    int64_t n = -1;
    check_(fx, fx->store->ops->retry(fx->store, &filter, &ann, &n, &fx->err), OUTBOX_OK, "retry");
    if ((size_t)n != wanted)
        blame(fx, "redriven %lld, wanted %zu", (long long)n, wanted);
    expect_state_(fx, one, "pending attempts 1 spent 0");
}

static void by_filter(struct fx *fx)
{
    struct lot lot = dead_lot(fx);
    expect_redriven(AT(fx), (struct ob_filter){.name_space = "other", .topic = "a"}, 1, lot.other);
    expect_redriven(AT(fx), (struct ob_filter){.tenant_id = TENANT_A}, 1, lot.tenant);
    expect_redriven(AT(fx), (struct ob_filter){.code = "smtp_550"}, 1, lot.code);
    expect_redriven(AT(fx), (struct ob_filter){.topic = "b"}, 1, lot.b);
    expect_state(fx, lot.a, "dead attempts 1 spent 1");
    expect_redriven(AT(fx), (struct ob_filter){.name_space = "default"}, 1, lot.a);
    assert_int_equal(count_status(fx, OB_DEAD), 0);
    claim_n(fx, 5);
}

static int listed(struct fx *fx, struct ob_filter filter)
{
    int count = 0;
    check_(fx, (fx->store->ops->list)(fx->store, &filter, count_one, &count, &fx->err), OUTBOX_OK, "list");
    return count;
}

/* T4: in every statement that a filter can take. */
static void by_pattern(struct fx *fx)
{
    struct outbox_uuid paid = make_dead(fx, .topic = "bulk.paid", .tenant_id = TENANT_A),
                       sent = make_dead(fx, .topic = "bulk.sent", .subject = "s");
    make_dead(fx, .topic = "bulk_paid");
    make_dead(fx, .topic = "bulk[%", .name_space = "shop");
    put(fx, .topic = "bulk.new");
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*"}), 3);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk?p*"}), 2);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk[%"}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "*[%*", .name_space = "s*"}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*", .status_plus_1 = OB_DEAD + 1}), 2);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*", .status_plus_1 = OB_PENDING + 1}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*", .tenant_id = TENANT_A}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*", .subject = "s"}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "*.sent", .ids = &sent, .id_count = 1}), 1);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.s"}), 0);
    expect_redriven(AT(fx), (struct ob_filter){.topic = "bulk.*", .tenant_id = TENANT_A}, 1, paid);
    int64_t n = 0;
    ok(fx, discard, &(struct ob_filter){.topic = "bulk*", .name_space = "def*"}, &bob, &n);
    assert_int_equal(n, 2);
    assert_int_equal(listed(AT(fx), (struct ob_filter){.topic = "bulk.*", .status_plus_1 = OB_DISCARDED + 1}), 1);
    fails(fx, OUTBOX_INVALID, retry, &(struct ob_filter){.topic = "two words"}, &ann, &n);
    fails(fx, OUTBOX_INVALID, discard, &(struct ob_filter){.topic = "a\\*"}, &ann, &n);
}

static void created_before(struct fx *fx)
{
    struct outbox_uuid old = put(fx, .topic = "old").id;
    tick();
    int64_t middle = now_us();
    tick();
    assert_true(settle(fx, take(fx), .outcome = OUTBOX_FAILED));
    struct outbox_uuid young = make_dead(fx, .topic = "young");
    expect_redriven(AT(fx), (struct ob_filter){.before_us = middle}, 1, old);
    expect_state(fx, young, "dead attempts 1 spent 1");
}

static void at_most_so_many(struct fx *fx)
{
    for (int i = 0; i < 5; i++)
        make_dead(fx);
    int64_t n = 0;
    ok(fx, discard, &(struct ob_filter){.topic = "t", .limit = 2}, &bob, &n);
    assert_int_equal(n, 2);
    assert_int_equal(count_status(fx, OB_DEAD), 3);
    ok(fx, retry, &(struct ob_filter){.topic = "t", .limit = 2}, &ann, &n);
    assert_int_equal(n, 2);
    assert_int_equal(count_status(fx, OB_PENDING), 2);
}

static void dead_letters_are_inspected(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .recipient = "r", .headers = "{\"h\": \"v\"}", .correlation_id = "c");
    const struct ob_message_row *row = look(fx, id);
    assert_int_equal(row->status, OB_DEAD);
    assert_string_equal(row->dead_reason, "terminal");
    assert_string_equal(row->last_code, "wrong");
    assert_string_equal(row->last_error, "never");
    assert_string_equal(row->recipient, "r");
    assert_string_equal(row->headers, "{\"h\": \"v\"}");
    assert_string_equal(row->correlation_id, "c");
    assert_string_equal(row->payload, DEFAULT_PAYLOAD);
    assert_int_equal(row->next_attempt_at_us, 0);
    assert_int_equal(row->delivered_at_us, 0);
}

/* What is redriven has nothing left of the time it was given; it is the operator's word now. */
static void redrive_after_expiry(struct fx *fx)
{
    int64_t expiry = now_us() + SECOND / 10, n = 0;
    struct outbox_uuid id = put(fx, .expires_at_us = expiry).id;
    until_us(expiry + 1000);
    claim_none(fx);
    expect_state(fx, id, "dead attempts 0 spent 0");
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &ann, &n);
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_int_equal(msg->attempt, 1);
    ack(fx, msg);
}

const struct contract_test operators_tests[] = {
    {"M13 T4 V13 S14: a redriven message has a fresh budget, its numbers go on, the act is on record", redrive},
    {"T4: a discarded dead letter is gone, its record stays", let_go},
    {"M13 T4: retry and discard touch dead letters only", dead_letters_only},
    {"T4 V13: dead letters by filter", by_filter},
    {"T4 V13: messages and dead letters by a pattern of topics", by_pattern},
    {"T4: dead letters of messages created before a time", created_before},
    {"T4: at most so many at once", at_most_so_many},
    {"T4 V13 M12: a dead letter can be inspected in full", dead_letters_are_inspected},
    {"T4 N10: an expired message can be redriven", redrive_after_expiry},
    {NULL, NULL, 0},
};
