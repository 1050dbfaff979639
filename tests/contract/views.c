/* views.c - what people see: messages, attempts, and that they move with every step. */
#include "suite.h"

static void message_columns(struct fx *fx)
{
    int64_t expiry = now_us() + HOUR;
    struct outbox_uuid id = put(fx, .name_space = "ns", .topic = "t", .tenant_id = TENANT_A, .key = "k",
                                .dedupe_key = TENANT_A "/1", .subject = "s", .recipient = "r", .correlation_id = "c",
                                .headers = "{\"h\": \"v\"}", .priority = 2, .max_attempts = 4, .expires_at_us = expiry)
                                .id;
    const struct ob_message_row *row = look(fx, id);
    assert_string_equal(row->name_space, "ns");
    assert_string_equal(row->topic, "t");
    assert_string_equal(row->tenant_id, TENANT_A);
    assert_string_equal(row->key, "k");
    assert_string_equal(row->dedupe_key, TENANT_A "/1");
    assert_string_equal(row->subject, "s");
    assert_string_equal(row->recipient, "r");
    assert_string_equal(row->correlation_id, "c");
    assert_string_equal(row->headers, "{\"h\": \"v\"}");
    assert_null(row->content_type);
    assert_string_equal(row->payload, DEFAULT_PAYLOAD);
    assert_int_equal(row->payload_len, strlen(DEFAULT_PAYLOAD));
    assert_int_equal(row->seq, 1);
    assert_int_equal(row->priority, 2);
    assert_int_equal(row->max_attempts, 4);
    assert_int_equal(row->expires_at_us, expiry);
    assert_int_equal(row->updated_at_us, row->created_at_us);
    assert_int_equal(row->delivered_at_us, 0);
    assert_int_equal(row->locked_until_us, 0);
    assert_null(row->locked_by);
    assert_null(row->last_code);
    assert_null(row->last_error);
    assert_null(row->dead_reason);
}

/* The same columns say the same of a message in every state. */
static void columns_in_every_state(struct fx *fx)
{
    struct outbox_uuid ids[4];
    const char *dedupe[] = {TENANT_A "/0", TENANT_A "/1", TENANT_A "/2", TENANT_A "/3"};
    for (int i = 0; i < 4; i++)
        ids[i] = put(fx, .tenant_id = TENANT_A, .dedupe_key = dedupe[i], .subject = "s", .recipient = "r",
                     .correlation_id = "c", .headers = "{\"h\": \"v\"}", .priority = 9 - i)
                     .id;
    outbox_batch *batch = claim_n(fx, 3, .limit = 3);
    ack(fx, outbox_batch_at(batch, 0));
    settle(fx, outbox_batch_at(batch, 1), .outcome = OUTBOX_FAILED);
    expect_state(fx, ids[0], "delivered attempts 1 spent 1");
    expect_state(fx, ids[1], "dead attempts 1 spent 1");
    expect_state(fx, ids[2], "processing attempts 1 spent 1 by w1");
    expect_state(fx, ids[3], "pending attempts 0 spent 0");
    for (int i = 0; i < 4; i++) {
        const struct ob_message_row *row = look(fx, ids[i]);
        assert_string_equal(row->dedupe_key, dedupe[i]);
        assert_string_equal(row->tenant_id, TENANT_A);
        assert_string_equal(row->subject, "s");
        assert_string_equal(row->recipient, "r");
        assert_string_equal(row->correlation_id, "c");
        assert_string_equal(row->headers, "{\"h\": \"v\"}");
        assert_string_equal(row->payload, DEFAULT_PAYLOAD);
        assert_int_equal(row->priority, 9 - i);
        assert_int_equal(row->max_attempts, 15);
    }
}

static void attempt_columns(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .subject = "s").id;
    const struct outbox_delivery *msg = take(fx, .worker = "w7");
    const struct ob_attempt_row *open = attempt_of(fx, id, 1);
    assert_same_id(open->message_id, id);
    assert_int_equal(open->outcome, 0);
    assert_string_equal(open->worker, "w7");
    assert_int_equal(open->claimed_at_us, msg->claimed_at_us);
    assert_int_equal(open->completed_at_us, 0);
    assert_int_equal(open->latency_us, -1);
    int64_t before = now_us();
    settle(fx, msg, .outcome = OUTBOX_RETRY, .code = "http_503", .error = "unavailable", .reference = "ref",
           .latency_us = 7000, .delay_us = 0);
    const struct ob_attempt_row *row = attempt_of(fx, id, 1);
    assert_int_equal(row->outcome, OUTBOX_RETRY);
    assert_string_equal(row->worker, "w7");
    assert_string_equal(row->code, "http_503");
    assert_string_equal(row->error, "unavailable");
    assert_string_equal(row->reference, "ref");
    assert_int_equal(row->latency_us, 7000);
    assert_int_equal(row->claimed_at_us, msg->claimed_at_us);
    assert_in_range(row->completed_at_us, before, now_us());
    settle(fx, take(fx), .outcome = OUTBOX_DELIVERED);
    assert_int_equal(attempt_of(fx, id, 2)->latency_us, -1);
    expect_attempts(fx, id, "1 retry w7 http_503; 2 delivered w1");
}

static int64_t moved(struct fx *fx, struct outbox_uuid id, int64_t before)
{
    int64_t at = look_(fx, id)->updated_at_us;
    if (at <= before)
        blame(fx, "updated_at did not move");
    if (at > now_us())
        blame(fx, "updated_at lies in the future");
    tick();
    return at;
}

static void updated_at_moves(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 2).id;
    int64_t at = moved(AT(fx), id, 0);
    const struct outbox_delivery *msg = take(fx);
    at = moved(AT(fx), id, at);
    nack(fx, msg);
    at = moved(AT(fx), id, at);
    msg = take(fx);
    at = moved(AT(fx), id, at);
    give_back(fx, msg);
    at = moved(AT(fx), id, at);
    msg = take(fx);
    at = moved(AT(fx), id, at);
    assert_true(nack(fx, msg));
    at = moved(AT(fx), id, at);
    int64_t n;
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &(struct ob_actor){"ann", NULL}, &n);
    at = moved(AT(fx), id, at);
    msg = take(fx);
    at = moved(AT(fx), id, at);
    ack(fx, msg);
    at = moved(AT(fx), id, at);
    assert_int_equal(look(fx, id)->updated_at_us, look(fx, id)->delivered_at_us);
}

static void filters(struct fx *fx)
{
    struct outbox_uuid first = put(fx, .topic = "a", .subject = "order 1", .key = "k").id;
    tick();
    int64_t middle = now_us();
    tick();
    struct outbox_uuid second = put(fx, .topic = "b", .subject = "order 1", .tenant_id = TENANT_A).id;
    put(fx, .topic = "b", .subject = "order 2", .name_space = "other");
    struct outbox_uuid both[2] = {first, second};
    assert_int_equal(count(fx), 3);
    assert_int_equal(count(fx, .subject = "order 1"), 2);
    assert_int_equal(count(fx, .subject = "order 3"), 0);
    assert_int_equal(count(fx, .topic = "b"), 2);
    assert_int_equal(count(fx, .topic = "b", .name_space = "other"), 1);
    assert_int_equal(count(fx, .tenant_id = TENANT_A), 1);
    assert_int_equal(count(fx, .tenant_id = TENANT_B), 0);
    assert_int_equal(count(fx, .key = "k"), 1);
    assert_int_equal(count(fx, .before_us = middle), 1);
    assert_int_equal(count(fx, .limit = 2), 2);
    assert_int_equal(count(fx, .ids = both, .id_count = 2), 2);
    assert_int_equal(count(fx, .ids = both, .id_count = 2, .topic = "a"), 1);
    const char *topics[] = {"a"};
    settle(fx, take(fx, .topics = topics, .topic_count = 1), .outcome = OUTBOX_FAILED, .code = "bad");
    assert_int_equal(count(fx, .code = "bad"), 1);
    assert_int_equal(count(fx, .code = "good"), 0);
    assert_int_equal(count_status(fx, OB_DEAD), 1);
    assert_int_equal(count_status(fx, OB_PENDING), 2);
}

/* The look-up by domain object spans the whole life: also what is delivered, dead and out. */
static void by_subject(struct fx *fx)
{
    for (int i = 0; i < 4; i++)
        put(fx, .subject = "order 1", .priority = 9 - i);
    put(fx, .subject = "order 10");
    outbox_batch *batch = claim_n(fx, 3, .limit = 3);
    ack(fx, outbox_batch_at(batch, 0));
    settle(fx, outbox_batch_at(batch, 1), .outcome = OUTBOX_FAILED);
    assert_int_equal(count(fx, .subject = "order 1"), 4);
    static const enum ob_status all[] = {OB_PENDING, OB_PROCESSING, OB_STATUS_DELIVERED, OB_DEAD};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(count(fx, .subject = "order 1", .status_plus_1 = all[i] + 1), 1);
}

static bool stop_at_once(void *ctx, const struct ob_message_row *row)
{
    (void)row;
    ++*(int *)ctx;
    return false;
}

static void listing_stops(struct fx *fx)
{
    put(fx);
    put(fx);
    int seen = 0;
    ok(fx, list, &(struct ob_filter){0}, stop_at_once, &seen);
    assert_int_equal(seen, 1);
    assert_int_equal(count(fx), 2);
}

const struct contract_test views_tests[] = {
    {"M3 V15 V16: every column of a message", message_columns},
    {"M3 V7: the columns say the same in every state", columns_in_every_state},
    {"S7 S8: every column of an attempt, also while it is out", attempt_columns},
    {"M16: updated_at moves with every transition", updated_at_moves},
    {"V13 M3: messages by what they are about", filters},
    {"V15: all messages of a domain object, whatever became of them", by_subject},
    {"V13: a listing stops when told", listing_stops},
    {NULL, NULL, 0},
};
