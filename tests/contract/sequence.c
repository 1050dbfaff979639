/* sequence.c - every key counts from 1 without gaps, in commit order. */
#include "proc.h"

static void counts_from_one(struct fx *fx)
{
    for (int64_t i = 1; i <= 3; i++) {
        struct outbox_receipt receipt = put(fx, .key = "a");
        assert_int_equal(receipt.seq, i);
        assert_int_equal(look(fx, receipt.id)->seq, i);
        assert_string_equal(look(fx, receipt.id)->key, "a");
    }
    assert_int_equal(put(fx, .key = "b").seq, 1);
    assert_int_equal(put(fx).seq, 0);
    assert_int_equal(put(fx, .key = "a").seq, 4);
}

static void scope_topic(struct fx *fx)
{
    assert_int_equal(put(fx, .topic = "x", .key = "k").seq, 1);
    assert_int_equal(put(fx, .topic = "y", .key = "k").seq, 1);
    assert_int_equal(put(fx, .topic = "x", .key = "k", .name_space = "other").seq, 1);
    assert_int_equal(put(fx, .topic = "x", .key = "k").seq, 2);
}

static void scope_namespace(struct fx *fx)
{
    ok(fx, configure, "pay", "order_scope", "namespace", NULL);
    assert_int_equal(put(fx, .name_space = "pay", .topic = "x", .key = "k").seq, 1);
    assert_int_equal(put(fx, .name_space = "pay", .topic = "y", .key = "k").seq, 2);
    assert_int_equal(put(fx, .topic = "y", .key = "k").seq, 1);
    /* One order for both topics: the second waits for the first. */
    const char *topics[] = {"y"};
    claim_none(fx, .name_space = "pay", .topics = topics, .topic_count = 1);
    ack(fx, take(fx, .name_space = "pay"));
    assert_int_equal(take(fx, .name_space = "pay", .topics = topics, .topic_count = 1)->seq, 2);
}

static void rollback_leaves_no_gap(struct fx *fx)
{
    put(fx, .key = "k");
    ok(fx, begin);
    assert_int_equal(put(fx, .key = "k").seq, 2);
    assert_int_equal(put(fx, .key = "k").seq, 3);
    ok(fx, rollback);
    assert_int_equal(put(fx, .key = "k").seq, 2);
}

static void refused_takes_none(struct fx *fx)
{
    put(fx, .key = "k", .dedupe_key = "d");
    put(fx, .key = "k", .dedupe_key = "d");
    refuse(fx, OUTBOX_INVALID, .key = "k", .priority = 10);
    refuse(fx, OUTBOX_DEDUPE, .key = "k", .tenant_id = TENANT_A, .dedupe_key = "x");
    assert_int_equal(put(fx, .key = "k").seq, 2);
}

static void retry_keeps_id_and_seq(struct fx *fx)
{
    put(fx, .key = "k");
    ack(fx, take(fx));
    struct outbox_receipt receipt = put(fx, .key = "k");
    for (int i = 0; i < 3; i++) {
        const struct outbox_delivery *msg = take(fx);
        assert_same_id(msg->id, receipt.id);
        assert_int_equal(msg->seq, 2);
        nack(fx, msg);
    }
    assert_int_equal(look(fx, receipt.id)->seq, 2);
}

/* The first to write a key keeps the others waiting until it commits: only so is seq order commit order. */
static void seq_order_is_commit_order(struct fx *fx)
{
    struct proc *first = proc_start(fx, "producer", "t", "k", "-");
    proc_expect(fx, first, "held 1 1");
    struct proc *second = proc_start(fx, "racer", "t", "k");
    proc_tell(fx, second, "second");
    if (store_has(NEEDS_MANY_WRITERS))
        claim_none(fx);
    proc_tell(fx, first, "commit");
    proc_expect(fx, first, "done");
    char id[64];
    int created = 0, seq = 0;
    assert_int_equal(sscanf(proc_hear(fx, second), "%63s %d %d", id, &created, &seq), 3);
    assert_int_equal(seq, 2);
    assert_int_equal(take(fx)->seq, 1);
}

static void other_keys_do_not_wait(struct fx *fx)
{
    struct proc *first = proc_start(fx, "producer", "t", "k", "d");
    proc_expect(fx, first, "held 1 1");
    assert_int_equal(put(fx, .topic = "t", .key = "other").seq, 1);
    assert_int_equal(put(fx, .topic = "u", .key = "k", .dedupe_key = "d").seq, 1);
    claim_n(fx, 2);
    proc_tell(fx, first, "commit");
    proc_expect(fx, first, "done");
}

const struct contract_test sequence_tests[] = {
    {"S2: a key counts from 1 without gaps", counts_from_one},
    {"S2 N2: keys belong to their namespace and topic by default", scope_topic},
    {"S2 N2: order_scope namespace makes one order for all topics", scope_namespace},
    {"S2 S18: a rolled back enqueue leaves no gap", rollback_leaves_no_gap},
    {"S18: a duplicate or refused enqueue takes no seq", refused_takes_none},
    {"S2: a retry keeps id and seq", retry_keeps_id_and_seq},
    {"S2 N2: seq order is commit order", seq_order_is_commit_order},
    {"N4: an open transaction keeps neither other producers nor workers waiting", other_keys_do_not_wait,
     NEEDS_MANY_WRITERS},
    {NULL, NULL, 0},
};
