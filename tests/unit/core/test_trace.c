/* test_trace.c - trace context. Proves: N8 (W3C trace context), N13 (which trace an attempt belongs to). */
#include "core/trace.h"
#include "ob_test.h"

#include <string.h>

#define GIVEN "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define UNSAMPLED "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

static struct outbox_delivery message(const char *headers)
{
    struct outbox_delivery msg = {.size = sizeof msg, .headers = headers, .attempt = 1, .token = 7};
    for (int i = 0; i < 16; i++)
        msg.id.bytes[i] = (unsigned char)(i + 1);
    return msg;
}

static void what_is_written_is_read(void **state)
{
    struct outbox_trace trace = {{0}}, before = {{0}};
    char text[OB_TRACEPARENT_TEXT];
    (void)state;
    assert_true(ob_traceparent_parse(GIVEN, &trace));
    assert_int_equal(trace.flags, 1);
    memcpy(trace.span_id, trace.parent_id, sizeof trace.span_id);
    ob_traceparent_format(&trace, text);
    assert_string_equal(text, GIVEN);
    assert_false(ob_traceparent_parse("00-4bf9", &before));
    assert_memory_equal(&before, &(struct outbox_trace){{0}}, sizeof before);
}

static void a_header_is_found(void **state)
{
    static const struct {
        const char *headers, *value;
    } rows[] = {
        {"{\"traceparent\":\"x\"}", "x"},
        {" { \"a\" : \"\\\"\\\\\" , \"TraceParent\" : \"x\" } ", "x"},
        {"{\"xtraceparent\":\"y\",\"traceparent\":\"x\"}", "x"},
        {"{\"a\":\"traceparent\",\"b\":\"x\"}", NULL},
        {"{\"traceparent\":\"a\\u0062\"}", NULL},
        {"{\"traceparent\":1}", NULL},
        {"{\"traceparent\":\"x", NULL},
        {"{\"traceparent\"", NULL},
        {"[\"traceparent\",\"x\"]", NULL},
        {"{}", NULL},
        {"", NULL},
        {NULL, NULL},
    };
    char value[8];
    (void)state;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct outbox_delivery msg = message(rows[i].headers);
        assert_int_equal(ob_trace_header(&msg, "traceparent", value, sizeof value), rows[i].value != NULL);
        if (rows[i].value)
            assert_string_equal(value, rows[i].value);
    }
    struct outbox_delivery long_one = message("{\"traceparent\":\"12345678\"}");
    assert_false(ob_trace_header(&long_one, "traceparent", value, sizeof value));
}

/* The producer's trace goes on; attempts differ, and share the outbox's span, whichever relay makes them. */
static void the_producers_trace_goes_on(void **state)
{
    struct outbox_delivery one = message("{\"traceparent\":\"" GIVEN "\"}"), two = one;
    unsigned char span[2][8];
    (void)state;
    two.attempt = 2;
    two.token = 8;
    ob_trace_begin(&one, 0);
    ob_trace_begin(&two, 0);
    assert_true(ob_trace_sampled(&one.trace));
    assert_memory_equal(one.trace.trace_id, two.trace.trace_id, 16);
    assert_int_equal(one.trace.trace_id[0], 0x4b);
    assert_int_equal(one.trace.parent_id[7], 0xb7);
    assert_memory_not_equal(one.trace.span_id, two.trace.span_id, 8);
    ob_trace_outbox_span(&one, span[0]);
    ob_trace_outbox_span(&two, span[1]);
    assert_memory_equal(span[0], span[1], 8);
    two.redriven = true;
    ob_trace_outbox_span(&two, span[1]);
    assert_memory_not_equal(span[0], span[1], 8);
}

static void the_sampled_flag_is_honoured(void **state)
{
    struct outbox_delivery msg = message("{\"traceparent\":\"" UNSAMPLED "\"}");
    (void)state;
    ob_trace_begin(&msg, OB_TRACE_ALL);
    assert_false(ob_trace_is_set(&msg.trace));
}

/* Without a valid context the trace is that of the correlation id, or of the message. */
static void a_trace_begins_with_the_message(void **state)
{
    static const char *const none[] = {NULL, "{}", "{\"traceparent\":\"garbage\"}"};
    (void)state;
    for (size_t i = 0; i < OB_COUNT(none); i++) {
        struct outbox_delivery msg = message(none[i]);
        ob_trace_begin(&msg, OB_TRACE_ALL);
        assert_true(ob_trace_sampled(&msg.trace));
        assert_memory_equal(msg.trace.trace_id, msg.id.bytes, 16);
        assert_memory_equal(msg.trace.parent_id, ((unsigned char[8]){0}), 8);
        msg.correlation_id = "01900000-0000-7000-8000-0000000000aa";
        ob_trace_begin(&msg, OB_TRACE_ALL);
        assert_int_equal(msg.trace.trace_id[15], 0xaa);
        ob_trace_begin(&msg, 0);
        assert_true(ob_trace_is_set(&msg.trace));
        assert_false(ob_trace_sampled(&msg.trace));
    }
}

static void a_share_is_chosen(void **state)
{
    int chosen = 0;
    uint64_t random = 1;
    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct outbox_delivery msg = message(NULL);
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        memcpy(msg.id.bytes + 8, &random, 8);
        ob_trace_begin(&msg, OB_TRACE_ALL / 4);
        chosen += ob_trace_sampled(&msg.trace);
    }
    assert_in_range(chosen, 2200, 2800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),         cmocka_unit_test(a_header_is_found),
        cmocka_unit_test(the_producers_trace_goes_on),     cmocka_unit_test(the_sampled_flag_is_honoured),
        cmocka_unit_test(a_trace_begins_with_the_message), cmocka_unit_test(a_share_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
