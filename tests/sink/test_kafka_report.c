/* test_kafka_report.c - what each delivery report becomes, also those that no broker can be made to send: the word of
 * librdkafka is forged on its way to the sink. And reports that never come.
 *
 * Proves: S13 (codes decide; what is in doubt is unknown), N2 (one partition does not stop the others). */
#include "kafka_world.h"

#include <dlfcn.h>
#include <stdlib.h>

/* ---- librdkafka, overheard ---- */

static struct {
    int count; /* of reports to come */
    rd_kafka_resp_err_t err;
    rd_kafka_msg_status_t status;
} forged;
static bool mute; /* no report at all */

/* The sink asks for this first, and then for the error. */
rd_kafka_msg_status_t rd_kafka_message_status(const rd_kafka_message_t *rkmessage)
{
    static rd_kafka_msg_status_t (*real)(const rd_kafka_message_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_message_status");
    if (forged.count == 0)
        return real(rkmessage);
    forged.count--;
    ((rd_kafka_message_t *)(uintptr_t)rkmessage)->err = forged.err;
    return forged.status;
}

int rd_kafka_poll(rd_kafka_t *rk, int timeout_ms)
{
    static int (*real)(rd_kafka_t *, int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_poll");
    return mute ? 0 : real(rk, timeout_ms);
}

static const struct harness_verdict *report(struct world *world, rd_kafka_resp_err_t err, rd_kafka_msg_status_t status,
                                            int count)
{
    forged.err = err;
    forged.status = status;
    forged.count = count;
    const struct harness_verdict *verdict = send_and_wait(world);
    assert_int_equal(forged.count, 0);
    return verdict;
}

/* ---- every error with every status ---- */

enum { RECIPIENT = OUTBOX_SCOPE_RECIPIENT, SINK = OUTBOX_SCOPE_SINK };

static const struct {
    rd_kafka_resp_err_t err;
    enum outbox_sink_outcome outcome; /* when it was certainly not persisted */
    int scope;
    bool unreachable;
    int reports; /* it takes to make the verdict; 0: none, it is sent again */
} rows[] = {
    {RD_KAFKA_RESP_ERR__TRANSPORT, OUTBOX_SINK_RETRY, 0, true, 1},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, OUTBOX_SINK_RETRY, 0, true, 1},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, OUTBOX_SINK_RETRY, 0, true, 1},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, OUTBOX_SINK_RETRY, 0, true, 1},
    {RD_KAFKA_RESP_ERR_UNKNOWN, OUTBOX_SINK_RETRY, 0, false, 1},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, OUTBOX_SINK_BLOCKED, RECIPIENT, false, 1},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, OUTBOX_SINK_BLOCKED, RECIPIENT, false, 1},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OUTBOX_SINK_BLOCKED, RECIPIENT, false, 1},
    {RD_KAFKA_RESP_ERR__SSL, OUTBOX_SINK_BLOCKED, SINK, false, 1},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, OUTBOX_SINK_BLOCKED, SINK, false, 1},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, OUTBOX_SINK_BLOCKED, SINK, false, 1},
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, OUTBOX_SINK_LIMITED, SINK, false, 1},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, OUTBOX_SINK_TERMINAL, 0, false, 1},
    /* judged alone before it is believed */
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, OUTBOX_SINK_TERMINAL, 0, false, 2},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, OUTBOX_SINK_TERMINAL, 0, false, 2},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, OUTBOX_SINK_TERMINAL, 0, false, 2},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, OUTBOX_SINK_TERMINAL, 0, false, 2},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, OUTBOX_SINK_ACCEPTED, 0, false, 0},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, OUTBOX_SINK_ACCEPTED, 0, false, 0},
    {RD_KAFKA_RESP_ERR__FATAL, OUTBOX_SINK_ACCEPTED, 0, false, 0},
};

/* S13: certainly not written: the code decides. */
static void not_persisted_is_what_the_code_says(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        print_message("# %s\n", rd_kafka_err2name(rows[i].err));
        const struct harness_verdict *verdict =
            report(world, rows[i].err, RD_KAFKA_MSG_STATUS_NOT_PERSISTED, rows[i].reports ? rows[i].reports : 1);
        assert_int_equal(verdict->outcome, rows[i].outcome);
        assert_int_equal(verdict->scope, rows[i].scope);
        assert_int_equal(verdict->unreachable, rows[i].unreachable);
        assert_true(!verdict->code == (rows[i].outcome == OUTBOX_SINK_ACCEPTED));
    }
}

/* S13: perhaps written: unknown, whatever the code. */
static void possibly_persisted_is_unknown(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        print_message("# %s\n", rd_kafka_err2name(rows[i].err));
        const struct harness_verdict *verdict = report(world, rows[i].err, RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED, 1);
        assert_int_equal(verdict->outcome, OUTBOX_SINK_UNKNOWN);
        assert_int_equal(verdict->unreachable, rows[i].unreachable);
        says(verdict, "sent to topic \"orders\", but no acknowledgement arrived");
    }
}

/* S13: written: accepted, whatever the code. */
static void persisted_is_accepted(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        char reference[32];
        snprintf(reference, sizeof reference, "orders/0/%zu", i); /* sent once each */
        const struct harness_verdict *verdict = report(world, rows[i].err, RD_KAFKA_MSG_STATUS_PERSISTED, 1);
        assert_int_equal(verdict->outcome, OUTBOX_SINK_ACCEPTED);
        assert_string_equal(verdict->reference, reference);
    }
}

/* ---- reports that do not come ---- */

/* S13: librdkafka says nothing, not even when it is told to give all back: in doubt, and a new producer goes on. */
static void no_report_is_unknown(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msg = message("k", 1);
    open_with(world, "delivery_timeout", "2s");
    send_and_wait(world);
    mute = true;
    uint64_t handle = harness_send(world->h, &msg);
    bool answered = harness_wait(world->h, WAIT_MS);
    mute = false;
    assert_true(answered);
    const struct harness_verdict *verdict = harness_verdict(world->h, handle);
    assert_int_equal(verdict->outcome, OUTBOX_SINK_UNKNOWN);
    assert_true(verdict->unreachable);
    assert_string_equal(verdict->code, "kafka_no_report");
    says(verdict, "sent to topic \"orders\", but no acknowledgement arrived within 2s");
    assert_true(verdict->elapsed_us < 4000000); /* before the host's timeout */
    assert_int_equal(send_and_wait(world)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_int_equal(harness_strays(world->h), 0);
}

/* S13: a producer breaks while a message is under way: in doubt, not sent again behind the host's back. */
static void under_way_in_a_fatal_error_is_unknown(void **state)
{
    struct world *world = *state;
    struct outbox_delivery msg = message("k", 1);
    open_with(world, NULL, NULL);
    send_and_wait(world);
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 5000);
    uint64_t handle = harness_send(world->h, &msg);
    harness_run(world->h, 1000); /* on its way, also on a busy machine */
    rd_kafka_test_fatal_error(harness_sink(world->h)->producers[OB_KAFKA_BATCHED]->rk,
                              RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "a test");
    assert_true(harness_wait(world->h, WAIT_MS));
    assert_int_equal(harness_verdict(world->h, handle)->outcome, OUTBOX_SINK_UNKNOWN);
    assert_false(harness_verdict(world->h, handle)->unreachable); /* the broker may be well */
    rd_kafka_mock_broker_set_rtt(world->cluster, 1, 0);
    assert_int_equal(send_and_wait(world)->outcome, OUTBOX_SINK_ACCEPTED);
}

/* ---- one partition of several ---- */

/* N2, S13: a partition without a leader holds up its own messages; what goes elsewhere waits for a drain at most. */
static void one_dead_partition_costs_the_others_a_pause(void **state)
{
    enum { COUNT = 60 };
    struct world *world = *state;
    struct outbox_delivery msgs[COUNT];
    char keys[COUNT][8];
    const char *good = NULL;
    int late = 0;
    rd_kafka_mock_topic_create(world->cluster, "parts", 3, 1);
    rd_kafka_mock_partition_set_leader(world->cluster, "parts", 0, -1);
    open_with(world, "delivery_timeout", "2s");
    for (int i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        msgs[i] = HARNESS_MESSAGE("parts", "{}", .key = keys[i], .seq = 1);
    }
    uint64_t first = harness_send_many(world->h, msgs, NULL, COUNT);
    for (int i = 0; i < 100 && harness_sink(world->h)->phase == OB_KAFKA_RUNNING; i++)
        harness_run(world->h, 50);
    for (int i = 0; i < COUNT && !good; i++)
        if (harness_verdict(world->h, first + (uint64_t)i))
            good = keys[i];
    assert_non_null(good);
    msgs[0].key = good;
    uint64_t meanwhile = harness_send(world->h, &msgs[0]);
    assert_true(harness_wait(world->h, WAIT_MS));
    for (uint64_t i = 0; i < COUNT; i++) {
        const struct harness_verdict *verdict = harness_verdict(world->h, first + i);
        bool dead = verdict->outcome != OUTBOX_SINK_ACCEPTED;
        late += dead;
        assert_true(dead ? strcmp(verdict->code, "kafka_timeout") == 0 : verdict->elapsed_us < 2000000);
        assert_true(verdict->elapsed_us < 4000000);
    }
    assert_in_range(late, 5, COUNT - 5);
    assert_int_equal(harness_verdict(world->h, meanwhile)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_true(harness_verdict(world->h, meanwhile)->elapsed_us < 2000000);
}

/* ---- how large a message may be ---- */

static const struct harness_verdict *send_large(struct world *world, size_t payload, size_t header)
{
    char *text = malloc(payload + 1), *headers = malloc(header + 32);
    memset(text, 'x', payload);
    text[payload] = '\0';
    int at = snprintf(headers, 16, "{\"h\":\"");
    memset(headers + at, 'y', header);
    snprintf(headers + at + header, 3, "\"}");
    struct outbox_delivery msg = HARNESS_MESSAGE("orders", text, .headers = headers);
    uint64_t handle = harness_send(world->h, &msg);
    free(text);
    free(headers);
    assert_true(harness_wait(world->h, WAIT_MS));
    return harness_verdict(world->h, handle);
}

/* S13: the client's limit is of all that is sent. */
static void headers_count_for_the_size(void **state)
{
    struct world *world = *state;
    open_with(world, NULL, NULL);
    assert_int_equal(send_large(world, 990000, 100)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_int_equal(send_large(world, 1000001, 0)->outcome, OUTBOX_SINK_TERMINAL);
    const struct harness_verdict *verdict = send_large(world, 990000, 20000);
    assert_int_equal(verdict->outcome, OUTBOX_SINK_TERMINAL);
    assert_string_equal(verdict->code, "kafka_msg_size_too_large");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(not_persisted_is_what_the_code_says),
        TEST(possibly_persisted_is_unknown),
        TEST(persisted_is_accepted),
        TEST(no_report_is_unknown),
        TEST(under_way_in_a_fatal_error_is_unknown),
        TEST(one_dead_partition_costs_the_others_a_pause),
        TEST(headers_count_for_the_size),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
