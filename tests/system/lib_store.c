/* lib_store.c - the store handle of outbox.h on PostgreSQL, and what it does when the connection goes.
 * Proves: M6 M10 M18 M19 (a worker in C), M1 (a lost connection never splits a transaction), S14. */
#include "pg_fixture.h"

#include "core/batch.h"

static outbox_store *store;
static struct outbox_error err;

static int open_store(void **state)
{
    pg_empty(state);
    return outbox_open(pg_conninfo, NULL, &store, &err) == OUTBOX_OK ? 0 : -1;
}

static int close_store(void **state)
{
    (void)state;
    outbox_close(store);
    store = NULL;
    return 0;
}

static void send(const char *topic, const char *key)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    msg.topic = topic;
    msg.payload = "{\"n\": 1}";
    msg.payload_len = 8;
    msg.key = key;
    if (outbox_send(store, &msg, &receipt, &err))
        fail_msg("%s", err.text);
}

static outbox_batch *claim(size_t wanted)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    outbox_batch *batch;
    want.worker = "w1";
    if (outbox_claim(store, &want, &batch, &err))
        fail_msg("%s", err.text);
    assert_int_equal(outbox_batch_size(batch), wanted);
    return batch;
}

#define fails(code_, call, words) \
    do { \
        assert_int_equal(call, code_); \
        assert_int_equal(err.code, code_); \
        assert_non_null(strstr(err.text, words)); \
    } while (0)

/* M6 M19: claim, look, ack. Everything a receiver needs is in the delivery. */
static void claims_and_acks(void **state)
{
    (void)state;
    send("t", "k");
    outbox_batch *batch = claim(1);
    const struct outbox_delivery *msg = outbox_batch_at(batch, 0);
    assert_string_equal(msg->topic, "t");
    assert_string_equal(msg->name_space, "default");
    assert_string_equal(msg->key, "k");
    assert_int_equal(msg->seq, 1);
    assert_int_equal(msg->attempt, 1);
    assert_int_equal(msg->spent, 1);
    assert_int_equal(msg->max_attempts, 15);
    assert_null(msg->tenant_id);
    assert_null(msg->headers);
    assert_int_equal(msg->payload_len, 8);
    assert_memory_equal(msg->payload, "{\"n\": 1}", 9); /* with a NUL behind it */
    assert_int_equal(msg->locked_until_us - msg->claimed_at_us, 30000000);
    assert_null(outbox_batch_at(batch, 1));
    assert_int_equal(outbox_ack(store, msg, "ref-1", &err), OUTBOX_OK);
    assert_int_equal(
        pg_number("select count(*) from outbox.attempts where outcome = 'delivered' and reference = 'ref-1'"), 1);
    fails(OUTBOX_LEASE_LOST, outbox_ack(store, msg, NULL, &err), "lease");
    outbox_batch_free(batch);
    outbox_batch_free(claim(0));
}

/* M10 M11: nack, release and extend, and what each says once the lease is somebody else's. */
static void nacks_releases_extends(void **state)
{
    (void)state;
    send("t", NULL);
    outbox_batch *first = claim(1);
    const struct outbox_delivery *msg = outbox_batch_at(first, 0);
    assert_int_equal(outbox_release(store, msg, &err), OUTBOX_OK);
    outbox_batch *second = claim(1);
    assert_int_equal(outbox_batch_at(second, 0)->spent, 1);
    fails(OUTBOX_LEASE_LOST, outbox_nack(store, msg, "c", "e", &err), "is lost");
    fails(OUTBOX_LEASE_LOST, outbox_extend(store, msg, 60000000, &err), "is lost");
    msg = outbox_batch_at(second, 0);
    assert_int_equal(outbox_extend(store, msg, 3600000000, &err), OUTBOX_OK);
    assert_int_equal(pg_number("select count(*) from outbox.messages where locked_until > now() + '59 min'"), 1);
    fails(OUTBOX_INVALID, outbox_extend(store, msg, -1, &err), "lease");
    assert_int_equal(outbox_nack(store, msg, "http_503", "busy", &err), OUTBOX_OK);
    assert_int_equal(pg_number("select count(*) from outbox.messages where status = 'pending' and last_error = 'busy' "
                               "and last_code = 'http_503' and next_attempt_at > now()"),
                     1);
    outbox_batch_free(first);
    outbox_batch_free(second);
    struct outbox_delivery unknown = {.size = sizeof unknown, .token = 1};
    enum outbox_code code = outbox_ack(store, &unknown, NULL, &err);
    assert_true(code == OUTBOX_UNKNOWN_MESSAGE || code == OUTBOX_LEASE_LOST);
}

/* A batch outlives the handle it came from. */
static void batch_outlives_the_store(void **state)
{
    (void)state;
    send("t", NULL);
    outbox_batch *batch = claim(1);
    outbox_close(store);
    store = NULL;
    assert_string_equal(outbox_batch_at(batch, 0)->topic, "t");
    outbox_batch_free(batch);
}

/* Ugly words of a receiver's never keep an outcome from being recorded. */
static void settles_whatever_the_receiver_said(void **state)
{
    (void)state;
    send("t", NULL);
    outbox_batch *batch = claim(1);
    struct outbox_settle item = {.size = sizeof item,
                                 .id = outbox_batch_at(batch, 0)->id,
                                 .token = outbox_batch_at(batch, 0)->token,
                                 .outcome = OUTBOX_FAILED,
                                 .error = "bad \xff\xfe text",
                                 .output = "this is no JSON",
                                 .delay_us = -1,
                                 .latency_us = 1500000};
    assert_int_equal(outbox_settle(store, &item, 1, &err), OUTBOX_OK);
    assert_int_equal(item.result, OUTBOX_SETTLED);
    assert_true(item.dead);
    assert_int_equal(pg_number("select count(*) from outbox.attempts where latency_ms = 1500 and "
                               "error = 'bad \xef\xbf\xbd\xef\xbf\xbd text'"),
                     1);
    outbox_batch_free(batch);
}

/* Bad input in C: every missing thing has its name. */
static void missing_arguments(void **state)
{
    (void)state;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_message msg = {.size = 0};
    struct outbox_open options = {.size = 1};
    outbox_batch *batch;
    outbox_store *other;
    fails(OUTBOX_INVALID, outbox_open(NULL, NULL, &other, &err), "url is NULL");
    fails(OUTBOX_INVALID, outbox_open("", NULL, &other, &err), "does not name a store");
    fails(OUTBOX_INVALID, outbox_open("sqlite:", NULL, &other, &err), "has no path");
    fails(OUTBOX_INVALID, outbox_open(pg_conninfo, &options, &other, &err), "OUTBOX_OPEN_INIT");
    fails(OUTBOX_INVALID, outbox_open(pg_conninfo, NULL, NULL, &err), "store is NULL");
    fails(OUTBOX_INVALID, outbox_send(store, NULL, NULL, &err), "msg is NULL");
    fails(OUTBOX_INVALID, outbox_send(store, &msg, NULL, &err), "OUTBOX_MESSAGE_INIT");
    fails(OUTBOX_INVALID, outbox_claim(store, &want, &batch, &err), "worker is NULL");
    fails(OUTBOX_INVALID, outbox_claim(NULL, &want, &batch, &err), "store is NULL");
    fails(OUTBOX_INVALID, outbox_ack(store, NULL, NULL, &err), "msg is NULL");
    fails(OUTBOX_INVALID, outbox_settle(store, NULL, 1, &err), "items is NULL");
    struct outbox_receipt receipt = {.size = 0};
    msg.size = sizeof msg;
    fails(OUTBOX_INVALID, outbox_send(store, &msg, &receipt, &err), "OUTBOX_RECEIPT_INIT");
    struct outbox_settle items[2] = {OUTBOX_SETTLE_INIT, OUTBOX_SETTLE_INIT};
    items[1].size = 0;
    fails(OUTBOX_INVALID, outbox_settle(store, items, 2, &err), "items[1] has size 0");
    items[0].size = 0;
    fails(OUTBOX_INVALID, outbox_settle(store, items, 2, &err), "OUTBOX_SETTLE_INIT");
    want.worker = "w";
    want.rule_size = 0;
    fails(OUTBOX_INVALID, outbox_claim(store, &want, &batch, &err), "OUTBOX_CLAIM_INIT");
    want = (struct outbox_claim)OUTBOX_CLAIM_INIT;
    want.worker = "w";
    want.limit = 0;
    fails(OUTBOX_INVALID, outbox_claim(store, &want, &batch, &err), "limit");
    assert_null(batch);
    outbox_close(NULL);
    outbox_batch_free(NULL);
    assert_int_equal(outbox_batch_size(NULL), 0);
}

static void terminate_all(void)
{
    pg_do(pg_side, "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                   "where datname = current_database() and pid <> pg_backend_pid()");
}

/* S14 N7: a lost connection fails one call; the next one connects again, with its statements prepared anew. */
static void reconnects(void **state)
{
    (void)state;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    outbox_batch *batch;
    want.worker = "w1";
    send("t", NULL);
    for (int i = 0; i < 3; i++) {
        outbox_batch_free(claim(i == 0));
        terminate_all();
        fails(OUTBOX_UNREACHABLE, outbox_claim(store, &want, &batch, &err), "");
    }
    pg_do(pg_side, "update outbox.queue set until = now() - interval '1 s'");
    batch = claim(1);
    assert_int_equal(outbox_batch_at(batch, 0)->attempt, 2);
    outbox_batch_free(batch);
}

/* M1: when the connection is lost inside a transaction, nothing after it may commit by itself. */
static void lost_transaction_stays_lost(void **state)
{
    (void)state;
    struct ob_store *raw;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    msg.topic = "t";
    msg.payload = "1";
    msg.payload_len = 1;
    assert_int_equal(ob_pg_open(pg_conninfo, NULL, &raw, &err), OUTBOX_OK);
    const struct ob_store_ops *ops = raw->ops;
    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(ops->begin(raw, &err), OUTBOX_OK);
        assert_int_equal(ops->enqueue(raw, &msg, &receipt, &err), OUTBOX_OK);
        terminate_all();
        assert_int_equal(ops->enqueue(raw, &msg, &receipt, &err), OUTBOX_UNREACHABLE);
        assert_int_equal(ops->enqueue(raw, &msg, &receipt, &err), OUTBOX_FAILED_TRANSACTION);
        assert_int_equal(ops->exec(raw, "select 1", &err), OUTBOX_FAILED_TRANSACTION);
        if (commit)
            assert_int_equal(ops->commit(raw, &err), OUTBOX_FAILED_TRANSACTION);
        else
            assert_int_equal(ops->rollback(raw, &err), OUTBOX_OK);
        assert_int_equal(pg_messages(), 0);
    }
    assert_int_equal(ops->enqueue(raw, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(pg_messages(), 1);
    assert_int_equal(ops->begin(raw, &err), OUTBOX_OK);
    assert_int_equal(ops->exec(raw, "select 1 / 0", &err), OUTBOX_DATABASE);
    assert_int_equal(ops->enqueue(raw, &msg, &receipt, &err), OUTBOX_FAILED_TRANSACTION);
    assert_int_equal(ops->commit(raw, &err), OUTBOX_FAILED_TRANSACTION);
    assert_int_equal(ops->commit(raw, &err), OUTBOX_INVALID);
    assert_int_equal(pg_messages(), 1);
    ops->close(raw);
}

/* The server forgets prepared statements on DISCARD ALL and behind some poolers: they are prepared again. */
static void forgotten_statements(void **state)
{
    (void)state;
    struct ob_store *raw;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "t";
    msg.payload = "1";
    msg.payload_len = 1;
    assert_int_equal(ob_pg_open(pg_conninfo, NULL, &raw, &err), OUTBOX_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(raw->ops->enqueue(raw, &msg, NULL, &err), OUTBOX_OK);
        assert_int_equal(raw->ops->exec(raw, "discard all", &err), OUTBOX_OK);
    }
    assert_int_equal(pg_messages(), 3);
    raw->ops->close(raw);
}

/* N4: wait wakes when somebody enqueues, says so on a fresh connection too, and otherwise keeps to its time. */
static void wait_hears_the_doorbell(void **state)
{
    (void)state;
    struct ob_store *raw;
    bool woken;
    assert_int_equal(ob_pg_open(pg_conninfo, NULL, &raw, &err), OUTBOX_OK);
    assert_int_equal(raw->ops->wait(raw, 0, &woken, &err), OUTBOX_OK);
    assert_true(woken); /* what came before we listened */
    assert_int_equal(raw->ops->wait(raw, 1000, &woken, &err), OUTBOX_OK);
    assert_false(woken);
    send("t", NULL);
    assert_int_equal(raw->ops->wait(raw, 30000000, &woken, &err), OUTBOX_OK);
    assert_true(woken);
    raw->ops->close(raw);
}

/* A whole worker with each of its allocations failing in turn: every call says OK or NOMEM, and nothing leaks. */
static enum outbox_code work(void)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    const char *topics[] = {"t"};
    outbox_batch *batch = NULL;
    outbox_store *mine = NULL;
    enum outbox_code code;
    msg.topic = "t";
    msg.payload = "{}";
    msg.payload_len = 2;
    msg.key = "k";
    want.worker = "w1";
    want.topics = topics;
    want.topic_count = 1;
    code = outbox_open(pg_conninfo, NULL, &mine, &err);
    if (!code)
        code = outbox_send(mine, &msg, NULL, &err);
    if (!code)
        code = outbox_claim(mine, &want, &batch, &err);
    if (!code && outbox_batch_size(batch))
        code = outbox_nack(mine, outbox_batch_at(batch, 0), "c", "e\xff", &err);
    outbox_batch_free(batch);
    outbox_close(mine);
    return code;
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        assert_true(n < 1000);
        ob_fail_alloc(n);
        enum outbox_code code = work();
        failed = ob_fail_alloc_end();
        assert_int_equal(code, failed ? OUTBOX_NOMEM : OUTBOX_OK);
    }
    assert_true(pg_messages() > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
    const struct CMUnitTest tests[] = {
        TEST(claims_and_acks),
        TEST(nacks_releases_extends),
        TEST(batch_outlives_the_store),
        TEST(settles_whatever_the_receiver_said),
        TEST(missing_arguments),
        TEST(reconnects),
        TEST(lost_transaction_stays_lost),
        TEST(forgotten_statements),
        TEST(wait_hears_the_doorbell),
        TEST(survives_failing_allocations),
    };
    return pg_given() ? cmocka_run_group_tests(tests, pg_setup, pg_teardown) : 0;
}
