/* test_kafka.c - the Kafka sink on librdkafka's mock cluster: every outcome, scripted errors, a broker that is down or
 * slow, a producer that breaks. The real broker is in test_kafka_broker.py.
 *
 * Proves: T2 (publish with topic and key), N2 (order through retries), S13 (codes decide), V5 (adapter interface). */
#include "kafka_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- acceptance ---- */

/* T2, M19: accepted by the report, and the reference says where it lies. */
static void a_report_is_acceptance(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    const struct harness_verdict *verdict = send_and_wait(world);
    assert_int_equal(verdict->outcome, OUTBOX_SINK_ACCEPTED);
    assert_string_equal(verdict->reference, "orders/0/0");
    assert_string_equal(send_and_wait(world)->reference, "orders/0/1");
}

static void check_run(struct world *world, uint64_t first, size_t count)
{
    long long before = -1;
    for (size_t i = 0; i < count; i++) {
        const struct harness_verdict *verdict = harness_verdict(world->h, first + i);
        assert_int_equal(verdict->outcome, OUTBOX_SINK_ACCEPTED);
        long long offset = strtoll(strrchr(verdict->reference, '/') + 1, NULL, 10);
        assert_true(offset > before);
        before = offset;
    }
}

static uint64_t send_run(struct world *world, size_t count)
{
    struct outbox_delivery msgs[64];
    bool follows[64];
    assert_true(count <= OB_COUNT(msgs));
    for (size_t i = 0; i < count; i++) {
        msgs[i] = message("k", (int)i + 1);
        follows[i] = i > 0;
    }
    return harness_send_many(world->h, msgs, follows, count);
}

/* N2: a run keeps its order, and where the broker knows the producer it does not cost a round trip for each. */
static void a_run_goes_together_and_in_order(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    send_and_wait(world);
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 100);
    uint64_t first = send_run(world, 32);
    assert_true(harness_wait(world->h, WAIT_MS));
    check_run(world, first, 32);
    assert_true(harness_verdict(world->h, first + 31)->elapsed_us < 1600000); /* one by one it would be 3.2 s */
}

/* N2: a partition that has not heard this producer gets one at first. */
static void the_first_of_a_run_goes_alone(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    uint64_t first = send_run(world, 3);
    harness_run(world->h, 1);
    assert_true(harness_sink(world->h)->out_count <= 1);
    assert_true(harness_wait(world->h, WAIT_MS));
    check_run(world, first, 3);
}

/* S13: what librdkafka gets over by itself is no verdict. */
static void passing_errors_are_not_seen(void **state)
{
    struct world *world = *state;
    static const rd_kafka_resp_err_t errors[] = {
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
        RD_KAFKA_RESP_ERR__TRANSPORT, /* the connection breaks */
    };
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(errors); i++) {
        script_errors(world, PRODUCE, errors[i], 1);
        uint64_t first = send_run(world, 8);
        assert_true(harness_wait(world->h, WAIT_MS));
        check_run(world, first, 8);
    }
}

/* ---- refusals ---- */

/* S13: by codes, and the codes are told. */
static void the_broker_decides(void **state)
{
    static const struct {
        rd_kafka_resp_err_t err;
        enum outbox_sink_outcome outcome;
        enum outbox_sink_scope scope;
        const char *code;
    } rows[] = {
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_MESSAGE, "kafka_invalid_record"},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_MESSAGE, "kafka_msg_size_too_large"},
        {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_MESSAGE, "kafka_invalid_timestamp"},
        {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_MESSAGE, "kafka_topic_exception"},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT,
         "kafka_topic_authorization_failed"},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK,
         "kafka_cluster_authorization_failed"},
        {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, OUTBOX_SINK_LIMITED, OUTBOX_SCOPE_SINK,
         "kafka_throttling_quota_exceeded"},
        {RD_KAFKA_RESP_ERR_UNKNOWN, OUTBOX_SINK_RETRY, OUTBOX_SCOPE_MESSAGE, "kafka_unknown"},
        {RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER, OUTBOX_SINK_ACCEPTED, OUTBOX_SCOPE_MESSAGE, NULL},
    };
    struct world *world = *state;
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        bool alone = ob_kafka_mean(rows[i].err).of_batch;
        print_message("# %s\n", rd_kafka_err2name(rows[i].err));
        script_errors(world, PRODUCE, rows[i].err, alone ? 2 : 1);
        const struct harness_verdict *verdict = send_and_wait(world);
        assert_int_equal(verdict->outcome, rows[i].outcome);
        assert_int_equal(verdict->scope, rows[i].scope);
        if (rows[i].code)
            assert_string_equal(verdict->code, rows[i].code);
        script_errors(world, PRODUCE, 0, 0);
        assert_int_equal(send_and_wait(world)->outcome, OUTBOX_SINK_ACCEPTED); /* it goes on */
    }
}

/* S13: an operator reads where it was, and what can be done. */
static void refusals_name_the_topic_and_the_next_step(void **state)
{
    static const struct {
        rd_kafka_resp_err_t err;
        const char *text;
    } rows[] = {
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
         "Topic authorization failed: topic \"orders\"; grant WRITE on it"},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, "; grant IDEMPOTENT_WRITE on the cluster"},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ": topic \"orders\"; it exceeds kafka.message.max.bytes"},
        {RD_KAFKA_RESP_ERR_UNKNOWN, ": topic \"orders\""},
    };
    struct world *world = *state;
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        script_errors(world, PRODUCE, rows[i].err, ob_kafka_mean(rows[i].err).of_batch ? 2 : 1);
        says(send_and_wait(world), rows[i].text);
        script_errors(world, PRODUCE, 0, 0);
    }
}

/* S13: of a batch that was refused, each is judged by itself. */
static void neighbours_of_a_bad_one_live(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msgs[5];
    open_with(world, "kafka.linger.ms", "50");
    send_and_wait(world);
    for (int i = 0; i < 5; i++)
        msgs[i] = message(NULL, 0);
    /* the batch, and then one of the five */
    script_errors(world, PRODUCE, RD_KAFKA_RESP_ERR_INVALID_RECORD, 2);
    uint64_t first = harness_send_many(world->h, msgs, NULL, 5);
    assert_true(harness_wait(world->h, WAIT_MS));
    int dead = 0;
    for (uint64_t i = 0; i < 5; i++) {
        enum outbox_sink_outcome outcome = harness_verdict(world->h, first + i)->outcome;
        dead += outcome == OUTBOX_SINK_TERMINAL;
        assert_true(outcome == OUTBOX_SINK_TERMINAL || outcome == OUTBOX_SINK_ACCEPTED);
    }
    assert_int_equal(dead, 1);
}

/* N2: nothing of a key goes out behind one that was refused. */
static void a_refusal_stops_its_run(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    send_and_wait(world);
    script_errors(world, PRODUCE, RD_KAFKA_RESP_ERR_INVALID_RECORD, 2);
    uint64_t first = send_run(world, 4);
    assert_true(harness_wait(world->h, WAIT_MS));
    assert_int_equal(harness_verdict(world->h, first)->outcome, OUTBOX_SINK_TERMINAL);
    for (uint64_t i = 1; i < 4; i++)
        assert_int_equal(harness_verdict(world->h, first + i)->outcome, OUTBOX_SINK_NOT_SENT);
}

/* S13: unknown topics hold up their own messages only. */
static void a_missing_topic_is_blocked(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msg = HARNESS_MESSAGE("nowhere", "{}");
    rd_kafka_mock_topic_set_error(world->cluster, "nowhere", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    open_with(world, "delivery_timeout", "4s");
    for (int i = 0; i < 2; i++) { /* by a report at first, then by the call itself */
        uint64_t handle = harness_send(world->h, &msg);
        assert_true(harness_wait(world->h, WAIT_MS));
        assert_int_equal(harness_verdict(world->h, handle)->outcome, OUTBOX_SINK_BLOCKED);
        assert_int_equal(harness_verdict(world->h, handle)->scope, OUTBOX_SCOPE_RECIPIENT);
        assert_int_equal(strncmp(harness_verdict(world->h, handle)->code, "kafka_unknown_topic", 19), 0);
        says(harness_verdict(world->h, handle), ": topic \"nowhere\"; create it");
    }
    assert_int_equal(send_and_wait(world)->outcome, OUTBOX_SINK_ACCEPTED);
}

/* S13: what can never be sent is not tried. */
static void bad_messages_are_dead_at_once(void **state)
{
    struct world *world = *state;
    static char large[2000];
    memset(large, 'x', sizeof large - 1);
    struct outbox_delivery msgs[] = {
        HARNESS_MESSAGE("orders", large),
        HARNESS_MESSAGE("orders", "{}", .key = large),
        HARNESS_MESSAGE("orders/eu", "{}"),
        HARNESS_MESSAGE("..", "{}"),
        HARNESS_MESSAGE("orders", "{}", .headers = "{\"a\": \"b\\nc\"}"),
    };
    static const char *const codes[] = {"kafka_msg_size_too_large", "kafka_msg_size_too_large", "kafka_topic_name",
                                        "kafka_topic_name", "header_invalid"};
    open_with(world, "kafka.message.max.bytes", "1500");
    uint64_t first = harness_send_many(world->h, msgs, NULL, OB_COUNT(msgs));
    assert_true(harness_wait(world->h, WAIT_MS));
    for (size_t i = 0; i < OB_COUNT(msgs); i++) {
        assert_int_equal(harness_verdict(world->h, first + i)->outcome, OUTBOX_SINK_TERMINAL);
        assert_string_equal(harness_verdict(world->h, first + i)->code, codes[i]);
    }
}

/* S13: the whole table, also what no mock can say. */
static void every_code_has_its_meaning(void **state)
{
    static const struct {
        rd_kafka_resp_err_t err;
        enum outbox_sink_outcome outcome;
        bool unreachable, of_replace;
    } rows[] = {
        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, OUTBOX_SINK_BLOCKED, false, false},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, OUTBOX_SINK_BLOCKED, false, false},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, OUTBOX_SINK_RETRY, true, false},
        {RD_KAFKA_RESP_ERR__TRANSPORT, OUTBOX_SINK_RETRY, true, false},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, OUTBOX_SINK_RETRY, false, true},
        {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, OUTBOX_SINK_RETRY, false, true},
        {RD_KAFKA_RESP_ERR__FATAL, OUTBOX_SINK_RETRY, false, true},
        {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, OUTBOX_SINK_BLOCKED, false, false},
        {RD_KAFKA_RESP_ERR__AUTHENTICATION, OUTBOX_SINK_BLOCKED, false, false},
        {RD_KAFKA_RESP_ERR__SSL, OUTBOX_SINK_BLOCKED, false, false},
        {RD_KAFKA_RESP_ERR_INVALID_MSG, OUTBOX_SINK_TERMINAL, false, false},
        {(rd_kafka_resp_err_t)9999, OUTBOX_SINK_RETRY, false, false},
    };
    (void)state;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct ob_kafka_meaning meaning = ob_kafka_mean(rows[i].err);
        assert_int_equal(meaning.outcome, rows[i].outcome);
        assert_int_equal(meaning.unreachable, rows[i].unreachable);
        assert_int_equal(meaning.of_replace, rows[i].of_replace);
    }
}

/* ---- nobody there, or nobody answers ---- */

/* S13: nothing was sent, and it can wait. */
static void a_broker_that_is_down_is_a_retry(void **state)
{
    struct world *world = *state;
    open_with(world, "delivery_timeout", "2s");
    send_and_wait(world);
    rd_kafka_mock_broker_set_down(world->cluster, 1);
    uint64_t first = send_run(world, 3);
    assert_true(harness_wait(world->h, WAIT_MS));
    assert_int_equal(harness_verdict(world->h, first)->outcome, OUTBOX_SINK_RETRY);
    assert_true(harness_verdict(world->h, first)->unreachable);
    assert_string_equal(harness_verdict(world->h, first)->code, "kafka_timeout");
    says(harness_verdict(world->h, first), "not written to topic \"orders\" within 2s; check the brokers");
    says(harness_verdict(world->h, first), "; last error: ");
    assert_int_equal(harness_verdict(world->h, first + 1)->outcome, OUTBOX_SINK_NOT_SENT);
    assert_int_equal(harness_verdict(world->h, first + 2)->outcome, OUTBOX_SINK_NOT_SENT);
    rd_kafka_mock_broker_set_up(world->cluster, 1);
    assert_int_equal(send_and_wait(world)->outcome, OUTBOX_SINK_ACCEPTED);
}

/* S13, N2: a short outage is not noticed, and order survives it. */
static void a_broker_that_comes_back_gets_all(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    send_and_wait(world);
    rd_kafka_mock_broker_set_down(world->cluster, 1);
    uint64_t first = send_run(world, 16);
    harness_run(world->h, 300);
    rd_kafka_mock_broker_set_up(world->cluster, 1);
    assert_true(harness_wait(world->h, WAIT_MS));
    check_run(world, first, 16);
}

/* S13: bytes left, no answer came. */
static void a_broker_that_does_not_answer_is_unknown(void **state)
{
    struct world *world = *state;
    open_with(world, "delivery_timeout", "2s"); /* long enough to be on its way on a busy machine */
    send_and_wait(world);
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 9000);
    uint64_t first = send_run(world, 2);
    assert_true(harness_wait(world->h, WAIT_MS));
    const struct harness_verdict *verdict = harness_verdict(world->h, first);
    assert_int_equal(verdict->outcome, OUTBOX_SINK_UNKNOWN);
    assert_true(verdict->unreachable);
    assert_string_equal(verdict->code, "kafka_purge_inflight");
    says(verdict, "sent to topic \"orders\", but no acknowledgement arrived within 2s");
    verdict = harness_verdict(world->h, first + 1);
    assert_true(verdict->outcome == OUTBOX_SINK_UNKNOWN || verdict->outcome == OUTBOX_SINK_NOT_SENT);
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 0);
    /* Half a second is little for a new producer on a busy machine: it may have to try again, but never doubts. */
    int tries = 0;
    do
        verdict = send_and_wait(world);
    while (verdict->outcome == OUTBOX_SINK_RETRY && ++tries < 20);
    assert_int_equal(verdict->outcome, OUTBOX_SINK_ACCEPTED);
}

/* ---- a broken producer ---- */

static void count_new(void *ctx, enum outbox_log_level level, const char *text)
{
    (void)level;
    *(int *)ctx += strstr(text, "producer replaced") != NULL;
}

/* S13, N2: a new one takes over, and nothing is lost or out of order. */
static void a_fatal_error_is_survived(void **state)
{
    struct world *world = *state;
    struct outbox_delivery other = message("other", 1);
    int made = 0;
    open_with(world, NULL, NULL);
    harness_watch(world->h, &made, NULL, count_new);
    send_and_wait(world);
    for (int round = 0; round < 3; round++) {
        rd_kafka_t *broken = harness_sink(world->h)->producers[OB_KAFKA_BATCHED]->rk;
        rd_kafka_mock_broker_set_rtt(world->cluster, 1, 20);
        uint64_t first = send_run(world, 16);
        rd_kafka_test_fatal_error(broken, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "a test");
        uint64_t second = harness_send(world->h, &other);
        assert_true(harness_wait(world->h, WAIT_MS));
        check_run(world, first, 16);
        assert_int_equal(harness_verdict(world->h, second)->outcome, OUTBOX_SINK_ACCEPTED);
        assert_int_equal(made, round + 1);
    }
}

/* ---- the host's wishes ---- */

/* N2: a full queue costs nothing but time. */
static void a_full_queue_makes_wait(void **state)
{
    struct world *world = *state;
    static char payload[1024];
    struct outbox_delivery *msgs = calloc(1000, sizeof *msgs);
    memset(payload, 'x', sizeof payload - 1);
    open_with(world, "queue", "64KiB");
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 5);
    for (int i = 0; i < 1000; i++)
        msgs[i] = HARNESS_MESSAGE("orders", payload);
    uint64_t first = harness_send_many(world->h, msgs, NULL, 1000);
    assert_true(harness_sink(world->h)->out_count < 1000);
    assert_true(harness_wait(world->h, WAIT_MS));
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(harness_verdict(world->h, first + i)->outcome, OUTBOX_SINK_ACCEPTED);
    free(msgs);
}

/* S13: what never left for want of room costs nothing, also when nobody is there; and it is told in time. */
static void what_never_left_an_outage_is_not_sent(void **state)
{
    enum { COUNT = 40, LARGE = 100000 };
    struct world *world = *state;
    struct outbox_delivery msgs[COUNT];
    char *payload = calloc(1, LARGE);
    memset(payload, 'x', LARGE - 1);
    const struct outbox_sink_option options[] = {
        {"brokers", world->brokers}, {"delivery_timeout", "2s"}, {"queue", "1MiB"}};
    struct outbox_error err = {0};
    world->h = harness_open("kafka", options, OB_COUNT(options), &err);
    assert_non_null(world->h);
    send_and_wait(world);
    rd_kafka_mock_broker_set_down(world->cluster, 1);
    for (int i = 0; i < COUNT; i++)
        msgs[i] = HARNESS_MESSAGE("orders", payload);
    uint64_t first = harness_send_many(world->h, msgs, NULL, COUNT);
    size_t left = harness_sink(world->h)->out_count;
    assert_in_range(left, 5, 15);
    assert_true(harness_wait(world->h, WAIT_MS));
    for (uint64_t i = 0; i < COUNT; i++) {
        const struct harness_verdict *verdict = harness_verdict(world->h, first + i);
        assert_int_equal(verdict->outcome, i < left ? OUTBOX_SINK_RETRY : OUTBOX_SINK_NOT_SENT);
        assert_string_equal(verdict->code, i < left ? "kafka_timeout" : "kafka_queue_full");
        assert_true(verdict->elapsed_us < 4000000); /* the host's timeout is 2 s longer than ours */
    }
    free(payload);
}

static size_t refused_size; /* of memory; 0: none */

static void *scarce_alloc(size_t size)
{
    return refused_size && size == refused_size ? NULL : malloc(size);
}

/* S13: a shortage of our own costs nothing, but is not tried again at once. */
static void a_shortage_of_memory_waits(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    send_and_wait(world);
    refused_size = sizeof(struct ob_kafka_entry);
    uint64_t first = send_run(world, 2);
    refused_size = 0;
    for (uint64_t i = 0; i < 2; i++) {
        const struct harness_verdict *verdict = harness_verdict(world->h, first + i);
        assert_int_equal(verdict->outcome, OUTBOX_SINK_NOT_SENT);
        assert_string_equal(verdict->code, "out_of_memory");
        assert_true(verdict->not_before_us > 0);
    }
}

static void keep_error(void *ctx, enum outbox_log_level level, const char *text)
{
    if (level == OUTBOX_LOG_ERROR)
        snprintf(ctx, 256, "%s", text);
}

/* S13: a producer that cannot be made is made later, also where nothing else moves. The message is one of those that are
 * judged alone; the ping brings the other producer back. */
static void a_producer_that_was_refused_is_made_later(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msg = message("k", 1);
    char said[256] = "";
    open_with(world, NULL, NULL);
    send_and_wait(world);
    harness_watch(world->h, said, NULL, keep_error);
    script_errors(world, PRODUCE, RD_KAFKA_RESP_ERR_INVALID_RECORD, 1);
    uint64_t handle = harness_send(world->h, &msg);
    refused_size = sizeof(struct ob_kafka_producer);
    for (int i = 0; i < 100 && !said[0]; i++)
        harness_run(world->h, 50);
    assert_string_equal(said, "out of memory");
    refused_size = 0;
    harness_ping(world->h);
    assert_non_null(harness_sink(world->h)->producers[OB_KAFKA_BATCHED]);
    refused_size = sizeof(struct ob_kafka_producer);
    harness_run(world->h, 1000);
    assert_int_equal(harness_pending(world->h), 1);
    refused_size = 0;
    assert_true(harness_wait(world->h, 3000)); /* not only when its time is over */
    assert_int_equal(harness_verdict(world->h, handle)->outcome, OUTBOX_SINK_ACCEPTED);
}

/* V5: a cancelled message is called in: it does not go out later. */
static void cancelled_is_forgotten(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msg = message("c", 1), other = message("d", 1);
    open_with(world, "delivery_timeout", "2s");
    assert_string_equal(send_and_wait(world)->reference, "orders/0/0");
    rd_kafka_mock_broker_set_down(world->cluster, 1);
    uint64_t handle = harness_send(world->h, &msg);
    uint64_t kept = harness_send(world->h, &other);
    harness_cancel(world->h, handle);
    harness_run(world->h, 700);
    rd_kafka_mock_broker_set_up(world->cluster, 1);
    assert_true(harness_wait(world->h, WAIT_MS));
    assert_null(harness_verdict(world->h, handle));
    assert_int_equal(harness_verdict(world->h, kept)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_string_equal(harness_verdict(world->h, kept)->reference, "orders/0/1");
    assert_int_equal(harness_strays(world->h), 0);
}

/* V5: closing in the middle leaves nothing behind (see end). */
static void closes_with_messages_out(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 200);
    send_run(world, 8);
    harness_ping(world->h);
    harness_run(world->h, 50);
    assert_true(harness_pending(world->h) > 0);
}

static void ping_says(struct world *world, enum outbox_sink_outcome outcome, const char *code)
{
    uint64_t handle = harness_ping(world->h);
    assert_true(harness_wait(world->h, WAIT_MS));
    assert_int_equal(harness_verdict(world->h, handle)->outcome, outcome);
    if (code)
        assert_string_equal(harness_verdict(world->h, handle)->code, code);
    harness_close(world->h);
    world->h = NULL;
}

/* V5: looks without sending. */
static void a_probe_asks_for_metadata(void **state)
{
    struct world *world = *state;
    open_with(world, "topic", "orders");
    ping_says(world, OUTBOX_SINK_ACCEPTED, NULL);
    open_with(world, "topic", "missing");
    ping_says(world, OUTBOX_SINK_BLOCKED, "kafka_unknown_topic");
    rd_kafka_mock_broker_set_down(world->cluster, 1);
    open_with(world, "delivery_timeout", "2s");
    ping_says(world, OUTBOX_SINK_RETRY, NULL);
}

/* N2: no thread of ours polls. */
static void idles_quietly(void **state)
{
    struct world *world = *state;
    struct rusage before, after;
    open_with(world, NULL, NULL);
    send_and_wait(world);
    getrusage(RUSAGE_SELF, &before);
    harness_run(world->h, 2000);
    getrusage(RUSAGE_SELF, &after);
    int64_t used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000LL + after.ru_utime.tv_usec -
                   before.ru_utime.tv_usec + (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000LL +
                   after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    assert_true(used < 100000); /* with the mock cluster's own threads */
}

/* ---- settings ---- */

/* V5: what the promises rest on is not to be set, and mistakes are told at the start. */
static void wrong_settings_are_refused(void **state)
{
    static const struct {
        const char *name, *value, *says;
    } rows[] = {
        {"kafka.acks", "1", "kafka.acks"},
        {"kafka.request.required.acks", "1", "request.required.acks"},
        {"kafka.enable.idempotence", "false", "enable.idempotence"},
        {"kafka.enable.gapless.guarantee", "false", "enable.gapless.guarantee"},
        {"kafka.message.timeout.ms", "1", "message.timeout.ms"},
        {"kafka.delivery.timeout.ms", "1", "delivery.timeout.ms"},
        {"kafka.retries", "1", "kafka.retries"},
        {"kafka.message.send.max.retries", "1", "message.send.max.retries"},
        {"kafka.queuing.strategy", "lifo", "queuing.strategy"},
        {"kafka.max.in.flight", "6", "max.in.flight"}, /* librdkafka's own word */
        {"kafka.transactional.id", "t", "transactional.id"},
        {"kafka.queue.buffering.max.kbytes", "1", "queue.buffering.max.kbytes"},
        {"kafka.delivery.report.only.error", "true", "delivery.report.only.error"},
        {"kafka.enabled_events", "1", "enabled_events"},
        {"kafka.dr_msg_cb", "1", "dr_msg_cb"},
        {"kafka.test.mock.num.brokers", "1", "test.mock.num.brokers"},
        {"kafka.ut_handle_ProduceResponse", "1", "ut_handle_ProduceResponse"},
        {"kafka.internal.termination.signal", "15", "internal.termination.signal"},
        /* none of it would be sent in time */
        {"kafka.linger.ms", "4001", "delivery_timeout"},
        {"kafka.queue.buffering.max.ms", "4001", "delivery_timeout"},
        {"kafka.topic.metadata.propagation.max.ms", "4001", "delivery_timeout"},
        {"kafka.retry.backoff.ms", "4001", "delivery_timeout"},
        {"kafka.no.such.thing", "1", "no.such.thing"},
        {"kafka.linger.ms", "soon", "linger.ms"},
        {"topic", "a b", "a b"},
        {"topic_prefix", "a/", "a/"},
        {"partitioner", "dice", "murmur2_random"},
        {"delivery_timeout", "1999ms", "delivery_timeout"},
    };
    struct world *world = *state;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        const struct outbox_sink_option options[] = {{"brokers", world->brokers}, {rows[i].name, rows[i].value}};
        struct outbox_error err = {0};
        print_message("# %s\n", rows[i].name);
        assert_null(harness_open("kafka", options, 2, &err));
        assert_non_null(strstr(err.text, rows[i].says));
    }
    const struct outbox_sink_option secret[] = {{"brokers", world->brokers}, {"kafka.sasl.passwort", "hunter2"}};
    struct outbox_error err = {0};
    assert_null(harness_open("kafka", secret, 2, &err));
    assert_null(strstr(err.text, "hunter2"));
}

/* With a name: only the tests that it fits, such as "a_fatal*". */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_report_is_acceptance),
        TEST(a_run_goes_together_and_in_order),
        TEST(the_first_of_a_run_goes_alone),
        TEST(passing_errors_are_not_seen),
        TEST(the_broker_decides),
        TEST(refusals_name_the_topic_and_the_next_step),
        TEST(neighbours_of_a_bad_one_live),
        TEST(a_refusal_stops_its_run),
        TEST(a_missing_topic_is_blocked),
        TEST(bad_messages_are_dead_at_once),
        TEST(every_code_has_its_meaning),
        TEST(a_broker_that_is_down_is_a_retry),
        TEST(a_broker_that_comes_back_gets_all),
        TEST(a_broker_that_does_not_answer_is_unknown),
        TEST(a_fatal_error_is_survived),
        TEST(a_full_queue_makes_wait),
        TEST(what_never_left_an_outage_is_not_sent),
        TEST(a_shortage_of_memory_waits),
        TEST(a_producer_that_was_refused_is_made_later),
        TEST(cancelled_is_forgotten),
        TEST(closes_with_messages_out),
        TEST(a_probe_asks_for_metadata),
        TEST(idles_quietly),
        TEST(wrong_settings_are_refused),
    };
    outbox_set_allocator(scarce_alloc, free);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
