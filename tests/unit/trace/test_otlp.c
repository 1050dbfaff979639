/* test_otlp.c - spans as bytes. Proves: N13. The bytes that are expected were written out by hand from trace.proto; that a real
 * collector reads the same is shown by tests/system/test_traces_collector.py. */
#include "ob_test.h"
#include "trace/otlp.h"

#include <string.h>

static const unsigned char trace_id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const unsigned char span_id[8] = {21, 22, 23, 24, 25, 26, 27, 28};
static const unsigned char parent_id[8] = {31, 32, 33, 34, 35, 36, 37, 38};

static void a_span(void **state)
{
    static const unsigned char expected[] =
        "\x0a\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10" /* trace_id */
        "\x12\x08\x15\x16\x17\x18\x19\x1a\x1b\x1c"                                 /* span_id */
        "\x1a\x03\x61\x3d\x31"                                                     /* trace_state a=1 */
        "\x22\x08\x1f\x20\x21\x22\x23\x24\x25\x26"                                 /* parent_span_id */
        "\x2a\x04send"                                                             /* name */
        "\x30\x04"                                                                 /* kind */
        "\x39\xe8\x03\x00\x00\x00\x00\x00\x00"                                     /* 1000 ns */
        "\x41\xd0\x07\x00\x00\x00\x00\x00\x00"                                     /* 2000 ns */
        "\x85\x01\x01\x03\x00\x00"                                                 /* flags: sampled, remote */
        "\x4a\x08\x0a\x01k\x12\x03\x0a\x01v"                                       /* k=v */
        "\x4a\x08\x0a\x01n\x12\x03\x18\xac\x02"                                    /* n=300 */
        "\x5a\x16\x09\xe8\x03\x00\x00\x00\x00\x00\x00\x12\x01"
        "e\x1a\x08\x0a\x01k\x12\x03\x0a\x01v"                                              /* event e */
        "\x6a\x1c\x0a\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10" /* link */
        "\x12\x08\x15\x16\x17\x18\x19\x1a\x1b\x1c"
        "\x7a\x07\x12\x03"
        "bad\x18\x02"; /* status */
    unsigned char bytes[400];
    struct ob_pb pb;
    struct ob_span span = {trace_id, span_id, parent_id, "a=1", "send", OB_SPAN_PRODUCER, 1, 2, 1, true};
    (void)state;
    ob_pb_init(&pb, bytes, sizeof bytes);
    ob_otlp_span(&pb, &span);
    ob_otlp_text(&pb, "k", "v");
    ob_otlp_text(&pb, "nothing", NULL);
    ob_otlp_int(&pb, "n", 300);
    ob_otlp_event(&pb, "e", 1, &(struct ob_attribute){.key = "k", .text = "v"}, 1);
    ob_otlp_link(&pb, trace_id, span_id);
    ob_otlp_status(&pb, OB_SPAN_ERROR, "bad");
    assert_false(pb.full);
    assert_int_equal(pb.len, sizeof expected - 1);
    assert_memory_equal(bytes, expected, pb.len);
}

static void a_request(void **state)
{
    static const unsigned char expected[] = "\x0a\x26"
                                            "\x0a\x0a\x0a\x08\x0a\x01k\x12\x03\x0a\x01v"
                                            "\x12\x18\x0a\x0b\x0a\x06outbox\x12\x01"
                                            "1\x12\x02\x2a\x00\x12\x05\x2a\x03"
                                            "abc";
    struct ob_buf spans = OB_BUF_INIT, request = OB_BUF_INIT;
    const struct ob_attribute resource = {.key = "k", .text = "v"};
    (void)state;
    ob_otlp_add(&spans, &(struct ob_pb){.data = (unsigned char *)"\x2a\x00", .len = 2});
    ob_otlp_add(&spans, &(struct ob_pb){.data = (unsigned char *)"\x2a\x03"
                                                                 "abc",
                                        .len = 5});
    ob_otlp_head(&request, &resource, 1, "1", spans.len);
    ob_buf_put(&request, spans.data, spans.len);
    assert_true(ob_buf_ok(&request));
    assert_int_equal(request.len, sizeof expected - 1);
    assert_memory_equal(request.data, expected, request.len);
    ob_buf_fini(&spans);
    ob_buf_fini(&request);
}

/* The end is never before the begin: clocks of two machines may differ. */
static void what_does_not_fit_is_noticed(void **state)
{
    unsigned char small[20];
    struct ob_pb pb;
    struct ob_span span = {trace_id, span_id, NULL, NULL, "send", OB_SPAN_CLIENT, 2, 1, 0, false};
    (void)state;
    for (size_t room = 0; room <= sizeof small; room++) {
        ob_pb_init(&pb, small, room);
        ob_otlp_span(&pb, &span);
        assert_true(pb.full);
        assert_true(pb.len <= room);
    }
}

static void answers_are_read(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int64_t rejected;
        const char *text;
    } rows[] = {
        {"", 0, 0, ""},
        {"\x0a\x07\x08\x03\x12\x03why", 9, 3, "why"},
        {"\x0a\x02\x08\x03", 4, 3, ""},
        {"\x0a\x02\x08", 3, 0, ""},                         /* breaks off */
        {"\x0a\x7f\x08\x03", 4, 0, ""},                     /* longer than it is */
        {"\x00\x01\x02", 3, 0, ""},                         /* no field has number 0 */
        {"\x0d\x01\x02\x03\x04\x0a\x02\x08\x05", 9, 5, ""}, /* a field of another version */
        {"<html>", 6, 0, ""},
    };
    char text[32];
    (void)state;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        assert_int_equal(ob_otlp_rejected(rows[i].bytes, rows[i].len, text, sizeof text), rows[i].rejected);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span),
        cmocka_unit_test(a_request),
        cmocka_unit_test(what_does_not_fit_is_noticed),
        cmocka_unit_test(answers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
