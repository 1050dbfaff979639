/* enqueue.c - a message exists if and only if the transaction that enqueued it committed. */
#include "proc.h"

static void starts_pending(struct fx *fx)
{
    int64_t before = now_us();
    struct outbox_uuid id = put(fx).id;
    const struct ob_message_row *row = look(fx, id);
    expect_state(fx, id, "pending attempts 0 spent 0");
    expect_attempts(fx, id, "");
    assert_int_equal(row->max_attempts, 15);
    assert_int_equal(row->priority, 4);
    assert_string_equal(row->name_space, "default");
    assert_in_range(row->created_at_us, before, now_us());
    assert_in_range(row->next_attempt_at_us, before, now_us());
    assert_null(row->last_error);
    assert_false(row->parked || row->redriven);
    assert_true(put(fx).created);
    assert_int_equal(count(fx), 2);
}

static void autocommit(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    expect_state(another(fx), id, "pending attempts 0 spent 0");
}

static void domain_table(struct fx *fx)
{
    ok(fx, exec, "CREATE TABLE orders (id integer PRIMARY KEY)");
}

static void commit_brings_both(struct fx *fx)
{
    domain_table(fx);
    struct fx *other = another(fx);
    ok(fx, begin);
    ok(fx, exec, "INSERT INTO orders VALUES (1)");
    struct outbox_uuid id = put(fx).id;
    expect_state(other, id, "none");
    if (store_has(NEEDS_MANY_WRITERS))
        claim_none(other);
    ok(fx, commit);
    assert_string_equal(scalar(fx, "SELECT count(*) FROM orders"), "1");
    expect_state(other, id, "pending attempts 0 spent 0");
    assert_same_id(take(other)->id, id);
}

static void rollback_leaves_nothing(struct fx *fx)
{
    domain_table(fx);
    put(fx, .key = "k", .dedupe_key = "old");
    const char *before = digest(fx);
    ok(fx, begin);
    ok(fx, exec, "INSERT INTO orders VALUES (1)");
    struct outbox_uuid id = put(fx, .topic = "new.topic", .key = "k", .dedupe_key = "new").id;
    ok(fx, rollback);
    expect_state(fx, id, "none");
    assert_string_equal(scalar(fx, "SELECT count(*) FROM orders"), "0");
    expect_unchanged(fx, before, "a rolled back enqueue");
    claim_n(fx, 1);
}

static void domain_failure_takes_the_message(struct fx *fx)
{
    domain_table(fx);
    const char *before = digest(fx);
    ok(fx, begin);
    put(fx);
    ok(fx, exec, "INSERT INTO orders VALUES (1)");
    if (fx->store->ops->exec(fx->store, "INSERT INTO orders VALUES (1)", &fx->err) == OUTBOX_OK)
        blame(AT(fx), "the same order twice");
    ok(fx, rollback);
    expect_unchanged(fx, before, "a failed domain change");
}

static void bad_message_takes_the_domain(struct fx *fx)
{
    domain_table(fx);
    const char *before = digest(fx);
    ok(fx, begin);
    ok(fx, exec, "INSERT INTO orders VALUES (1)");
    struct outbox_message bad = MSG(.topic = "");
    complete(&bad);
    fails(fx, OUTBOX_INVALID, enqueue, &bad, NULL);
    ok(fx, rollback);
    expect_unchanged(fx, before, "a refused message");
}

static void failed_transaction(struct fx *fx)
{
    ok(fx, begin);
    if (fx->store->ops->exec(fx->store, "SELECT * FROM no_such_table", &fx->err) == OUTBOX_OK)
        blame(AT(fx), "a table that is not there");
    struct outbox_message msg = MSG();
    complete(&msg);
    fails(fx, OUTBOX_FAILED_TRANSACTION, enqueue, &msg, NULL);
    ok(fx, rollback);
    assert_int_equal(count(fx), 0);
    put(fx);
}

static void killed_producer(struct fx *fx)
{
    const char *before = digest(fx);
    struct proc *producer = proc_start(fx, "producer", "t", "k", "-");
    proc_expect(fx, producer, "held 1 1");
    proc_kill(producer);
    /* The database may take a moment to see that its client is gone: this waits for the key, and so for that moment. */
    assert_int_equal(put(fx, .key = "k").seq, 1);
    take(fx);
    assert_int_equal(count(fx), 1);
    assert_string_not_equal(before, digest(fx));
}

static void many_modules(struct fx *fx)
{
    put(fx, .name_space = "billing", .topic = "invoice");
    put(fx, .name_space = "billing", .topic = "refund");
    put(fx, .name_space = "chat", .topic = "invoice");
    assert_int_equal(count(fx, .name_space = "billing"), 2);
    assert_int_equal(count(fx, .topic = "invoice"), 2);
    assert_int_equal(count(fx, .name_space = "chat", .topic = "invoice"), 1);
    assert_int_equal(count(fx, .name_space = "chat", .topic = "refund"), 0);
}

static void bytes_as_given(struct fx *fx)
{
    static const char bytes[] = {'\0', '\xff', 'a', '\\', '\0'};
    struct outbox_uuid id =
        put(fx, .payload = bytes, .payload_len = sizeof(bytes), .content_type = "application/x-test").id;
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_string_equal(msg->content_type, "application/x-test");
    assert_int_equal(msg->payload_len, sizeof(bytes));
    assert_memory_equal(msg->payload, bytes, sizeof(bytes));
    const struct ob_message_row *row = look(fx, id);
    assert_int_equal(row->payload_len, sizeof(bytes));
    assert_memory_equal(row->payload, bytes, sizeof(bytes));
}

static void empty_bytes(struct fx *fx)
{
    put(fx, .payload = "", .payload_len = 0, .content_type = "text/plain");
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->payload_len, 0);
    assert_string_equal(msg->content_type, "text/plain");
}

const struct contract_test enqueue_tests[] = {
    {"V7 M7: an enqueued message is pending with nothing spent", starts_pending},
    {"M1 M6: an enqueue outside of a transaction is one of its own", autocommit},
    {"M1 M6 M17: commit brings the domain change and the message at once", commit_brings_both},
    {"M1: rollback leaves nothing of either", rollback_leaves_nothing},
    {"M1: a failed domain change takes the message with it", domain_failure_takes_the_message},
    {"M1: a refused message takes the domain change with it", bad_message_takes_the_domain},
    {"M1: an enqueue in a failed transaction is told so", failed_transaction, NEEDS_FAILED_TRANSACTION},
    {"M1: a producer killed before its commit leaves nothing", killed_producer},
    {"M2: modules share the outbox under namespace and topic", many_modules},
    {"M6: a payload of bytes arrives as it was given", bytes_as_given},
    {"M6: an empty payload of bytes is one", empty_bytes},
    {NULL, NULL, 0},
};
