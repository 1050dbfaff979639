/* enqueue_many.c - bulk: one call, all or nothing, receipts in the order of the messages. */
#include "suite.h"

enum { MANY = 5 };

static void many(struct fx *fx, struct outbox_message *msgs, size_t n, struct outbox_receipt *receipts)
{
    for (size_t i = 0; i < n; i++)
        complete(&msgs[i]);
    ok(fx, enqueue_many, msgs, n, receipts);
}

static void receipts_in_order(struct fx *fx)
{
    static const char bytes[] = {'\0', '\x80'};
    struct outbox_message msgs[MANY] = {
        MSG(.topic = "b", .key = "z"),
        MSG(.topic = "b", .key = "a"),
        MSG(.topic = "b", .key = "z", .subject = "second", .headers = "{\"h\": \"v\"}", .priority = 7),
        MSG(.topic = "a"),
        MSG(.topic = "a", .payload = bytes, .payload_len = sizeof(bytes), .content_type = "x/y"),
    };
    struct outbox_receipt receipts[MANY];
    many(fx, msgs, MANY, receipts);
    const int64_t seqs[MANY] = {1, 1, 2, 0, 0};
    for (size_t i = 0; i < MANY; i++) {
        const struct ob_message_row *row = look(fx, receipts[i].id);
        assert_true(receipts[i].created);
        assert_int_equal(receipts[i].seq, seqs[i]);
        assert_int_equal(row->seq, seqs[i]);
        assert_string_equal(row->topic, msgs[i].topic);
    }
    assert_string_equal(look(fx, receipts[2].id)->subject, "second");
    assert_string_equal(look(fx, receipts[2].id)->headers, "{\"h\": \"v\"}");
    assert_int_equal(look(fx, receipts[2].id)->priority, 7);
    assert_memory_equal(look(fx, receipts[4].id)->payload, bytes, sizeof(bytes));
    assert_int_equal(count(fx), MANY);
}

static void duplicates_inside(struct fx *fx)
{
    struct outbox_receipt first = put(fx, .key = "k", .dedupe_key = "old");
    struct outbox_message msgs[MANY] = {
        MSG(.key = "k", .dedupe_key = "new"),
        MSG(.key = "k", .dedupe_key = "old"),
        MSG(.key = "k"),
        MSG(.key = "k", .dedupe_key = "new"),
        MSG(.key = "k"),
    };
    struct outbox_receipt receipts[MANY];
    many(fx, msgs, MANY, receipts);
    const bool created[MANY] = {true, false, true, false, true};
    const int64_t seqs[MANY] = {2, 1, 3, 2, 4};
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(receipts[i].created, created[i]);
        assert_int_equal(receipts[i].seq, seqs[i]);
    }
    assert_same_id(receipts[1].id, first.id);
    assert_same_id(receipts[3].id, receipts[0].id);
    assert_int_equal(count(fx), 4);
}

static void all_or_nothing(struct fx *fx)
{
    struct outbox_message msgs[3] = {MSG(.key = "k"), MSG(.topic = ""), MSG(.key = "k")};
    for (size_t i = 0; i < 3; i++)
        complete(&msgs[i]);
    const char *before = digest(fx);
    fails(fx, OUTBOX_INVALID, enqueue_many, msgs, 3, NULL);
    expect_unchanged(fx, before, "a refused bulk enqueue");
    assert_int_equal(put(fx, .key = "k").seq, 1);
}

static void joins_the_transaction(struct fx *fx)
{
    struct outbox_message msgs[2] = {MSG(.key = "k"), MSG(.key = "k")};
    struct outbox_receipt receipts[2];
    ok(fx, begin);
    put(fx, .key = "k");
    many(fx, msgs, 2, receipts);
    assert_int_equal(receipts[1].seq, 3);
    ok(fx, rollback);
    assert_int_equal(count(fx), 0);
    many(fx, msgs, 2, receipts);
    assert_int_equal(receipts[1].seq, 2);
}

static void none_at_all(struct fx *fx)
{
    const char *before = digest(fx);
    ok(fx, enqueue_many, NULL, 0, NULL);
    expect_unchanged(fx, before, "an empty bulk enqueue");
}

const struct contract_test enqueue_many_tests[] = {
    {"M6 S2: a bulk enqueue gives receipts in the order of its messages", receipts_in_order},
    {"M4 S18: duplicates inside a bulk enqueue are found and take no seq", duplicates_inside},
    {"M1 S18: one bad message refuses the whole bulk enqueue", all_or_nothing},
    {"M1: a bulk enqueue joins the open transaction", joins_the_transaction},
    {"M6: an empty bulk enqueue is fine", none_at_all},
    {NULL, NULL, 0},
};
