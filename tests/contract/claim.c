/* claim.c - what a claim takes, in which order, and what it says of each message. */
#include "proc.h"

static void takes_a_lease(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    int64_t before = now_us();
    const struct outbox_delivery *msg = take(fx, .worker = "w1", .lease_us = 40 * SECOND);
    assert_same_id(msg->id, id);
    assert_int_equal(msg->attempt, 1);
    assert_int_equal(msg->spent, 1);
    assert_in_range(msg->claimed_at_us, before, now_us());
    assert_int_equal(msg->locked_until_us, msg->claimed_at_us + 40 * SECOND);
    expect_state(another(fx), id, "processing attempts 1 spent 1 by w1");
    expect_attempts(another(fx), id, "1 open w1");
    assert_int_equal(look(fx, id)->locked_until_us, msg->locked_until_us);
    assert_int_equal(count(fx), 1);
}

static void says_everything(struct fx *fx)
{
    int64_t expiry = now_us() + HOUR;
    put(fx, .name_space = "ns", .topic = "t", .tenant_id = TENANT_A, .key = "k", .dedupe_key = TENANT_A "/1");
    ack(fx, take(fx));
    struct outbox_receipt sent =
        put(fx, .name_space = "ns", .topic = "t", .tenant_id = TENANT_A, .key = "k", .dedupe_key = TENANT_A "/2",
            .subject = "order 2", .recipient = "ann@example.org", .headers = "{\"traceparent\": \"00-1-2-03\"}",
            .correlation_id = "corr", .payload = "{\"größe\": \"☃\"}", .priority = 6, .max_attempts = 9,
            .expires_at_us = expiry);
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, sent.id);
    assert_int_equal(msg->size, sizeof(*msg));
    assert_string_equal(msg->name_space, "ns");
    assert_string_equal(msg->topic, "t");
    assert_string_equal(msg->tenant_id, TENANT_A);
    assert_string_equal(msg->key, "k");
    assert_int_equal(msg->seq, 2);
    assert_string_equal(msg->dedupe_key, TENANT_A "/2");
    assert_string_equal(msg->subject, "order 2");
    assert_string_equal(msg->recipient, "ann@example.org");
    assert_string_equal(msg->headers, "{\"traceparent\": \"00-1-2-03\"}");
    assert_string_equal(msg->correlation_id, "corr");
    assert_null(msg->content_type);
    assert_int_equal(msg->payload_len, strlen("{\"größe\": \"☃\"}"));
    assert_memory_equal(msg->payload, "{\"größe\": \"☃\"}", msg->payload_len);
    assert_int_equal(msg->priority, 6);
    assert_int_equal(msg->max_attempts, 9);
    assert_int_equal(msg->expires_at_us, expiry);
    assert_int_equal(msg->created_at_us, look(fx, sent.id)->created_at_us);
    assert_false(msg->redriven);
}

static void says_nothing_of_what_is_not(struct fx *fx)
{
    put(fx);
    const struct outbox_delivery *msg = take(fx);
    assert_string_equal(msg->name_space, "default");
    assert_null(msg->tenant_id);
    assert_null(msg->key);
    assert_null(msg->dedupe_key);
    assert_null(msg->subject);
    assert_null(msg->recipient);
    assert_null(msg->headers);
    assert_null(msg->correlation_id);
    assert_int_equal(msg->seq, 0);
    assert_int_equal(msg->expires_at_us, 0);
    assert_int_equal(msg->max_attempts, 15);
}

static void empty_claim_writes_nothing(struct fx *fx)
{
    put(fx, .deliver_after_us = now_us() + HOUR);
    const char *before = digest(fx);
    claim_none(fx);
    expect_unchanged(fx, before, "a claim of nothing");
}

static void two_workers(struct fx *fx)
{
    struct fx *other = another(fx);
    for (int i = 0; i < 10; i++)
        put(fx);
    claim_n(fx, 6, .worker = "w1", .limit = 6);
    claim_n(other, 4, .worker = "w2");
    claim_none(fx, .worker = "w1");
    claim_none(other, .worker = "w2");
    assert_int_equal(count_status(fx, OB_PROCESSING), 10);
}

static int text_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Real processes, all at once: together they take everything, and no message twice. */
static void many_workers(struct fx *fx)
{
    enum { WORKERS = 4, MESSAGES = 400 };
    struct proc *workers[WORKERS];
    const char *ids[MESSAGES + 1];
    size_t n = 0;
    ok(fx, begin);
    for (int i = 0; i < MESSAGES; i++)
        put(fx);
    ok(fx, commit);
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "w%d", i);
        workers[i] = proc_start(fx, "grabber", name, "7");
        proc_expect(fx, workers[i], "ready");
    }
    for (int i = 0; i < WORKERS; i++)
        proc_tell(fx, workers[i], "go");
    for (int i = 0; i < WORKERS; i++) {
        for (const char *id; strcmp(id = proc_hear(fx, workers[i]), "end") != 0;) {
            assert_true(n < MESSAGES);
            ids[n++] = id;
        }
    }
    qsort(ids, n, sizeof(ids[0]), text_compare);
    for (size_t i = 1; i < n; i++)
        assert_string_not_equal(ids[i - 1], ids[i]);
    /* Who comes while others hold the rest locked may leave early; what is left is left to the next claim. */
    n += outbox_batch_size(claim(fx, .limit = MESSAGES));
    assert_int_equal(n, MESSAGES);
    assert_int_equal(count_status(fx, OB_PROCESSING), MESSAGES);
}

static void oldest_first_with(struct fx *fx, const char *even, const char *odd)
{
    struct outbox_uuid ids[6];
    for (int i = 0; i < 6; i++) {
        ids[i] = put(fx, .topic = i % 2 ? odd : even).id;
        tick();
    }
    for (int i = 0; i < 4; i++)
        assert_same_id(take(fx)->id, ids[i]);
    outbox_batch *rest = claim_n(fx, 2);
    assert_same_id(outbox_batch_at(rest, 0)->id, ids[4]);
    assert_same_id(outbox_batch_at(rest, 1)->id, ids[5]);
}

static void oldest_first(struct fx *fx)
{
    oldest_first_with(fx, "a", "a");
}

static void oldest_first_of_topics(struct fx *fx)
{
    oldest_first_with(fx, "b", "a");
}

static void priority_first(struct fx *fx)
{
    static const int priorities[] = {4, 0, 9, 4, 9, 5};
    static const int order[] = {2, 4, 5, 0, 3, 1};
    struct outbox_uuid ids[6];
    for (int i = 0; i < 6; i++) {
        ids[i] = put(fx, .priority = priorities[i]).id;
        tick();
    }
    for (int i = 0; i < 2; i++)
        assert_same_id(take(fx)->id, ids[order[i]]);
    outbox_batch *rest = claim_n(fx, 4);
    for (size_t i = 0; i < 4; i++)
        assert_same_id(outbox_batch_at(rest, i)->id, ids[order[i + 2]]);
}

/* By a worker that has been at work: whatever topic, priority or key it is, and whether or not there was one before. */
static void found_by_the_next_claim(struct fx *fx)
{
    for (int i = 0; i < 12; i++) {
        char topic[16], key[16];
        snprintf(topic, sizeof(topic), "t%d", i % 3);
        snprintf(key, sizeof(key), "k%d", i);
        struct outbox_uuid id = put(another(fx), .topic = topic, .key = i % 2 ? key : NULL, .priority = i % 10).id;
        outbox_batch *batch = claim(fx);
        assert_int_equal(outbox_batch_size(batch), 1);
        assert_same_id(outbox_batch_at(batch, 0)->id, id);
        ack_all(fx, batch);
    }
}

static void not_before_its_time(struct fx *fx)
{
    int64_t when = now_us() + HOUR;
    struct outbox_uuid id = put(fx, .deliver_after_us = when).id;
    expect_state(fx, id, "pending attempts 0 spent 0");
    assert_int_equal(look(fx, id)->next_attempt_at_us, when);
    claim_none(fx);
    make_due(fx, id);
    assert_same_id(take(fx)->id, id);
}

static void effective_limit(struct fx *fx)
{
    put(fx, .max_attempts = 3);
    const struct outbox_delivery *msg = take(fx, .max_attempts = 2);
    assert_int_equal(msg->max_attempts, 2);
    give_back(fx, msg);
    msg = take(fx, .max_attempts = 9);
    assert_int_equal(msg->max_attempts, 3);
    give_back(fx, msg);
    msg = take(fx);
    assert_int_equal(msg->max_attempts, 3);
    assert_int_equal(look(fx, msg->id)->max_attempts, 3);
}

static void gather_then_drain(struct fx *fx)
{
    for (int i = 0; i < 250; i++)
        put(fx, .key = i % 3 ? NULL : "k");
    assert_int_equal(count_status(fx, OB_PENDING), 250);
    assert_int_equal(status_of(fx, NULL, NULL).pending, 250);
    struct fx *worker = another(fx);
    for (int64_t end = now_us() + PATIENCE; status_of(fx, NULL, NULL).pending > 0 && now_us() < end;)
        ack_all(worker, claim(worker, .run = 20));
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), 250);
    assert_int_equal(status_of(fx, NULL, NULL).pending, 0);
}

const struct contract_test claim_tests[] = {
    {"V7 V8 M6 M7 M10 S8: a claim takes a lease and begins an attempt", takes_a_lease},
    {"M19 V15 V16 M3: a delivery says all there is to know", says_everything},
    {"M19: what a message has not is NULL", says_nothing_of_what_is_not},
    {"S8: a claim that finds nothing writes nothing", empty_claim_writes_nothing},
    {"V8 M17: two workers never hold one message", two_workers},
    {"V8 M17: many processes share the work, no message twice", many_workers},
    {"M9: oldest first", oldest_first},
    {"M9: oldest first, whatever its topic", oldest_first_of_topics},
    {"M9: the highest priority first, then the oldest", priority_first},
    {"S9 M8: what is committed is found by the next claim", found_by_the_next_claim},
    {"M8: nothing is claimed before its time", not_before_its_time},
    {"M6 V9: the lower of the message's and the claim's limit holds", effective_limit},
    {"V17: enqueues gather without a worker and drain when one comes", gather_then_drain},
    {NULL, NULL, 0},
};
