/* retention.c - what is done and old goes; what is not done stays, however old; dedupe keys stay for ever. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "fixed"};

static int64_t purge_all(struct fx *fx)
{
    int64_t removed = -1;
    check_(fx, fx->store->ops->purge(fx->store, &removed, &fx->err), OUTBOX_OK, "purge");
    return removed;
}

static struct outbox_uuid delivered(struct fx *fx, const char *dedupe_key)
{
    struct outbox_uuid id = put_(fx, MSG(.dedupe_key = dedupe_key)).id;
    settle_(fx, SETTLE(take_(fx, WANT(.limit = 1)), .outcome = OUTBOX_DELIVERED));
    return id;
}

static void old_and_done_goes(struct fx *fx)
{
    struct outbox_uuid old = delivered(fx, "old"), young = delivered(fx, "young"), almost = delivered(fx, "almost");
    make_old(fx, &old, 30);
    make_old(fx, &almost, 5);
    expect_state(fx, old, "delivered attempts 1 spent 1");
    assert_int_equal(purge_all(AT(fx)), 1);
    expect_state(fx, old, "none");
    expect_attempts(fx, old, "");
    expect_state(fx, young, "delivered attempts 1 spent 1");
    expect_state(fx, almost, "delivered attempts 1 spent 1");
    expect_attempts(fx, almost, "1 delivered w1");
    assert_int_equal(purge_all(AT(fx)), 0);
    assert_int_equal(count(fx), 2);
}

static void undelivered_stays(struct fx *fx)
{
    struct outbox_uuid pending = put(fx, .topic = "p", .payload = "{\"n\": 7}", .key = "k").id;
    nack(fx, take(fx));
    struct outbox_uuid successor = put(fx, .topic = "p", .key = "k").id;
    struct outbox_uuid out = put(fx, .topic = "q").id;
    const char *topics[] = {"q"};
    take(fx, .topics = topics, .topic_count = 1);
    make_old(fx, &pending, 40);
    make_old(fx, &successor, 40);
    make_old(fx, &out, 40);
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_state(fx, pending, "pending attempts 1 spent 1");
    expect_attempts(fx, pending, "1 retry w1 c");
    expect_state(fx, out, "processing attempts 1 spent 1 by w1");
    const char *p[] = {"p"};
    const struct outbox_delivery *msg = take(fx, .topics = p, .topic_count = 1);
    assert_same_id(msg->id, pending);
    assert_memory_equal(msg->payload, "{\"n\": 7}", msg->payload_len);
    ack(fx, msg);
    ack(fx, take(fx, .topics = p, .topic_count = 1));
    /* The retention time of what was delivered late begins with its delivery. */
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_state(fx, pending, "delivered attempts 2 spent 2");
    assert_int_equal(attempt_of(fx, pending, 2)->outcome, OUTBOX_DELIVERED);
    make_old(fx, &pending, 30);
    assert_int_equal(purge_all(AT(fx)), 1);
    expect_state(fx, pending, "none");
    expect_attempts(fx, pending, "");
}

static void dead_letters_stay(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .payload = "{\"n\": 9}", .dedupe_key = "d");
    make_old(fx, &id, 400);
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_state(fx, id, "dead attempts 1 spent 1");
    expect_attempts(fx, id, "1 failed w1 wrong");
    assert_string_equal(look(fx, id)->payload, "{\"n\": 9}");
    int64_t n = 0;
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &ann, &n);
    assert_int_equal(n, 1);
    assert_int_equal(purge_all(AT(fx)), 0);
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_int_equal(msg->attempt, 2);
    assert_memory_equal(msg->payload, "{\"n\": 9}", msg->payload_len);
    ack(fx, msg);
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_state(fx, id, "delivered attempts 2 spent 1");
    assert_int_equal(attempt_of(fx, id, 2)->outcome, OUTBOX_DELIVERED);
    make_old(fx, &id, 30);
    assert_int_equal(purge_all(AT(fx)), 1);
    expect_state(fx, id, "none");
}

static void dedupe_survives(struct fx *fx)
{
    struct outbox_receipt first = put(fx, .key = "k", .dedupe_key = "d");
    ack(fx, take(fx));
    make_old(fx, &first.id, 30);
    assert_int_equal(purge_all(AT(fx)), 1);
    struct outbox_receipt again = put(fx, .key = "k", .dedupe_key = "d");
    assert_false(again.created);
    assert_same_id(again.id, first.id);
    assert_int_equal(again.seq, 1);
    assert_int_equal(count(fx), 0);
    assert_int_equal(put(fx, .key = "k").seq, 2);
}

static void retention_is_a_setting(struct fx *fx)
{
    struct outbox_uuid id = delivered(fx, "d");
    make_old(fx, &id, 30);
    ok(fx, configure, "*", "retention", "60 days", NULL);
    assert_int_equal(purge_all(AT(fx)), 0);
    ok(fx, configure, "*", "retention", "forever", NULL);
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_state(fx, id, "delivered attempts 1 spent 1");
    ok(fx, configure, "*", "retention", "3 days", NULL);
    assert_int_equal(purge_all(AT(fx)), 1);
}

/* S7: attempts may be kept for ever, and then say of themselves what they were about. */
static void attempts_outlive_messages(struct fx *fx)
{
    ok(fx, configure, "*", "attempt_retention", "forever", NULL);
    struct outbox_uuid id = delivered(fx, "d");
    make_old(fx, &id, 30);
    assert_int_equal(purge_all(AT(fx)), 1);
    expect_state(fx, id, "none");
    expect_attempts(fx, id, "1 delivered w1");
}

static void the_queue_stays_small(struct fx *fx)
{
    ok(fx, begin);
    for (int i = 0; i < 50; i++)
        put(fx);
    ok(fx, commit);
    ack_all(fx, claim_n(fx, 50));
    struct ob_status_row status = status_of(fx, NULL, NULL);
    assert_int_equal(status.pending + status.processing + status.dead, 0);
    const char *queue = strcmp(fx->store->ops->kind, "sqlite") == 0 ? "SELECT count(*) FROM outbox_queue"
                                                                    : "SELECT count(*) FROM outbox.queue";
    assert_string_equal(scalar(fx, queue), "0");
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), 50);
}

static void purging_nothing(struct fx *fx)
{
    put(fx);
    make_dead(fx, .topic = "x");
    purge_all(AT(fx)); /* it may prepare for the days to come */
    const char *before = digest(fx);
    assert_int_equal(purge_all(AT(fx)), 0);
    expect_unchanged(fx, before, "a purge of nothing");
    assert_true(put(fx).created);
}

const struct contract_test retention_tests[] = {
    {"S1 Y7: delivered messages go with their attempts after the retention time", old_and_done_goes},
    {"S1 V17: undelivered messages stay, however old, and are delivered", undelivered_stays},
    {"S1 T4 V9: dead letters stay until an operator acts, and can be redriven", dead_letters_stay},
    {"S4 M4: dedupe keys survive the purge", dedupe_survives},
    {"S1: retention is a setting", retention_is_a_setting},
    {"S7: attempts can be kept for ever", attempts_outlive_messages},
    {"S1: the hot queue holds undelivered work only", the_queue_stays_small},
    {"S1: a purge with nothing to do changes nothing", purging_nothing},
    {NULL, NULL, 0},
};
