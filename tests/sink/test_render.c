/* test_render.c - what a message looks like on the wire.
 *
 * Proves: N8 (CloudEvents, trace context), M19 (id, dedupe key, tenant, key and seq go with every delivery). */
#include "ob_test.h"

#include "core/trace.h"
#include "harness.h"
#include "sink/common/render.h"

#include <jansson.h>

static struct outbox_delivery full_message(void)
{
    struct outbox_delivery msg = HARNESS_MESSAGE(
        "orders.paid", "{\n \"order\": 42,\n \"who\": \"Zo\xc3\xab\"}", .key = "order 42%", .seq = 7,
        .dedupe_key = "paid-42", .tenant_id = "0a0a0a0a-1111-4222-8333-444444444444", .subject = "o/42",
        .recipient = "a@example.org", .correlation_id = "01900000-0000-7000-8000-0000000000aa", .attempt = 3,
        .redriven = true, .created_at_us = 1700000000123456,
        .headers =
            "{\"X-Team\": \"red\", \"Outbox-Id\": \"forged\", \"ce-id\": \"forged\", \"note\": \"caf\xc3\xa9\"}");
    assert_true(outbox_uuid_parse("018bcfe5-6800-7abc-8def-0123456789ab", &msg.id));
    return msg;
}

static void says(const struct ob_headers *headers, const char *name, const char *value)
{
    const char *got = ob_headers_get(headers, name);
    if (!got && value)
        fail_msg("no header %s", name);
    if (value)
        assert_string_equal(got, value);
    else
        assert_null(got);
}

/* M19 */
static void metadata_goes_along(void **state)
{
    const struct ob_render render = {.format = OB_FORMAT_PLAIN};
    struct outbox_delivery msg = full_message();
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    ob_render_headers(&render, &ob_wire_kafka, &msg, &headers);
    assert_null(headers.code);
    says(&headers, "outbox-id", "018bcfe5-6800-7abc-8def-0123456789ab");
    says(&headers, "outbox-dedupe-key", "paid-42");
    says(&headers, "outbox-tenant", msg.tenant_id);
    says(&headers, "outbox-key", "order 42%");
    says(&headers, "outbox-seq", "7");
    says(&headers, "outbox-attempt", "3");
    says(&headers, "outbox-redriven", "true");
    says(&headers, "outbox-correlation-id", msg.correlation_id);
    says(&headers, "x-team", "red");
    says(&headers, "note", "caf\xc3\xa9");
    says(&headers, "content-type", "application/json");
    says(&headers, "ce-id", NULL);
    ob_headers_reset(&headers);
    ob_render_headers(&render, &ob_wire_http, &msg, &headers);
    says(&headers, "outbox-key", "order%2042%25");
    says(&headers, "content-type", NULL);
    ob_headers_fini(&headers);
}

/* M19: what a message has not is left out */
static void bare_messages_have_few(void **state)
{
    const struct ob_render render = {.format = OB_FORMAT_PLAIN};
    struct outbox_delivery msg = HARNESS_MESSAGE("t", "{}");
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    ob_render_headers(&render, &ob_wire_http, &msg, &headers);
    assert_int_equal(headers.count, 4); /* id, topic, namespace, attempt */
    ob_headers_fini(&headers);
}

/* N8: binary mode */
static void cloudevents_in_headers(void **state)
{
    const struct ob_render render = {.format = OB_FORMAT_BINARY, .source = "/shop"};
    struct outbox_delivery msg = full_message();
    struct ob_headers headers;
    struct ob_buf buf = OB_BUF_INIT;
    const void *body;
    size_t len;
    (void)state;
    ob_headers_init(&headers);
    ob_render_headers(&render, &ob_wire_http, &msg, &headers);
    says(&headers, "ce-specversion", "1.0");
    says(&headers, "ce-id", "018bcfe5-6800-7abc-8def-0123456789ab");
    says(&headers, "ce-source", "/shop");
    says(&headers, "ce-type", "orders.paid");
    says(&headers, "ce-subject", "o/42");
    says(&headers, "ce-time", "2023-11-14T22:13:20.123456Z");
    says(&headers, "ce-partitionkey", "order%2042%25");
    says(&headers, "ce-sequence", "0000000000000000007");
    says(&headers, "ce-outboxdedupekey", "paid-42");
    ob_headers_reset(&headers);
    ob_render_headers(&render, &ob_wire_kafka, &msg, &headers);
    says(&headers, "ce_partitionkey", "order 42%");
    assert_true(ob_render_body(&render, &msg, &buf, &body, &len));
    assert_ptr_equal(body, msg.payload);
    assert_string_equal(ob_render_content_type(&render, &msg), "application/json");
    ob_headers_fini(&headers);
    ob_buf_fini(&buf);
}

/* N8, M19: where attributes have no prefix, a message's own headers cannot pass for one, not even for one it lacks */
static void attributes_are_not_forged(void **state)
{
    static const enum ob_format formats[] = {OB_FORMAT_PLAIN, OB_FORMAT_BINARY};
    struct outbox_delivery msg =
        HARNESS_MESSAGE("t", "{}",
                        .headers = "{\"outboxtenant\": \"forged\", \"Subject\": \"forged\", \"id\": \"forged\", "
                                   "\"PartitionKey\": \"forged\", \"x-team\": \"red\"}");
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct ob_render render = {.format = formats[i]};
        ob_headers_reset(&headers);
        ob_render_headers(&render, &ob_wire_mqtt, &msg, &headers);
        for (size_t at = 0; at < headers.count; at++)
            assert_string_not_equal(headers.at[at].value, "forged");
        says(&headers, "x-team", "red");
    }
    ob_headers_fini(&headers);
}

static json_t *envelope_of(const struct outbox_delivery *msg)
{
    const struct ob_render render = {.format = OB_FORMAT_STRUCTURED};
    struct ob_buf buf = OB_BUF_INIT;
    const void *body;
    size_t len;
    assert_true(ob_render_body(&render, msg, &buf, &body, &len));
    assert_null(memchr(body, '\n', len));
    json_t *envelope = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(envelope);
    ob_buf_fini(&buf);
    return envelope;
}

/* N8: structured mode, with JSON, text and bytes */
static void cloudevents_in_an_envelope(void **state)
{
    const struct ob_render render = {.format = OB_FORMAT_STRUCTURED};
    struct outbox_delivery msg = full_message();
    (void)state;
    json_t *json = envelope_of(&msg);
    assert_string_equal(json_string_value(json_object_get(json, "id")), "018bcfe5-6800-7abc-8def-0123456789ab");
    assert_string_equal(json_string_value(json_object_get(json, "source")), "outbox/default");
    assert_string_equal(json_string_value(json_object_get(json, "partitionkey")), "order 42%");
    assert_string_equal(json_string_value(json_object_get(json, "outboxtenant")), msg.tenant_id);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "data"), "order")), 42);
    json_decref(json);
    assert_string_equal(ob_render_content_type(&render, &msg), "application/cloudevents+json; charset=UTF-8");

    msg.content_type = "text/plain";
    msg.payload = "two\nlines", msg.payload_len = 9;
    json = envelope_of(&msg);
    assert_string_equal(json_string_value(json_object_get(json, "data")), "two\nlines");
    json_decref(json);

    msg.content_type = "application/vnd.x+json; charset=utf-8";
    msg.payload = "{\"a\":1}", msg.payload_len = 7;
    json = envelope_of(&msg);
    assert_true(json_is_object(json_object_get(json, "data")));
    json_decref(json);

    /* numbers that fit no type of C, and what no PostgreSQL takes */
    const char *const numbers[] = {"[12345678901234567890]", "1e400", "[\"\\u0000\"]"};
    for (size_t i = 0; i < OB_COUNT(numbers); i++) {
        struct ob_buf buf = OB_BUF_INIT;
        msg.payload = numbers[i], msg.payload_len = strlen(numbers[i]);
        ob_render_cloudevent(&buf, &msg, NULL);
        if (!strstr(ob_buf_text(&buf), numbers[i]))
            fail_msg("%s", ob_buf_text(&buf));
        ob_buf_fini(&buf);
    }

    /* says JSON and is none: it must not break out of the envelope */
    msg.payload = "1,\"id\":2", msg.payload_len = 8;
    json = envelope_of(&msg);
    assert_string_equal(json_string_value(json_object_get(json, "data_base64")), "MSwiaWQiOjI=");
    json_decref(json);

    msg.content_type = "image/png";
    msg.payload = "\x89PNG\0", msg.payload_len = 5;
    json = envelope_of(&msg);
    assert_string_equal(json_string_value(json_object_get(json, "data_base64")), "iVBORwA=");
    assert_null(json_object_get(json, "data"));
    json_decref(json);
}

/* N8: what may be passed on */
static void trace_context_is_checked(void **state)
{
    static const struct {
        const char *value;
        bool ok;
    } rows[] = {
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", false},
        {"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", true},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false},
        {"", false},
    };
    struct outbox_trace trace;
    (void)state;
    for (size_t i = 0; i < OB_COUNT(rows); i++)
        assert_int_equal(ob_traceparent_parse(rows[i].value, &trace), rows[i].ok);
    assert_true(ob_tracestate_ok("vendor=1,other=2"));
    assert_false(ob_tracestate_ok("vendor=\xc3\xa9"));
    assert_false(ob_tracestate_ok(""));
}

static void begins(const struct ob_headers *headers, const char *with)
{
    const char *value = ob_headers_get(headers, "traceparent");
    struct outbox_trace trace;
    assert_non_null(value);
    assert_memory_equal(value, with, strlen(with));
    assert_true(ob_traceparent_parse(value, &trace));
    assert_int_equal(trace.flags, 1);
}

/* N8 */
static void trace_context_goes_on_or_is_made(void **state)
{
    struct outbox_delivery msg = full_message();
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    msg.headers =
        "{\"Traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\",\"tracestate\":\"a=1\"}";
    ob_headers_add_trace(&headers, &msg, true);
    says(&headers, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    says(&headers, "tracestate", "a=1");

    msg.headers = "{\"traceparent\":\"garbage\",\"tracestate\":\"a=1\"}";
    ob_headers_reset(&headers);
    ob_headers_add_trace(&headers, &msg, false);
    assert_int_equal(headers.count, 0);
    ob_headers_add_trace(&headers, &msg, true);
    begins(&headers, "00-019000000000700080000000000000aa-");
    says(&headers, "tracestate", NULL);

    msg.correlation_id = "no uuid";
    ob_headers_reset(&headers);
    ob_headers_add_trace(&headers, &msg, true);
    begins(&headers, "00-018bcfe568007abc8def0123456789ab-");
    ob_headers_fini(&headers);
}

/* N13: a relay that records traces gives the receiver the attempt's own span, and the producer's state with the producer's trace */
static void the_attempts_own_span_is_sent(void **state)
{
    struct outbox_delivery msg = full_message();
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    msg.headers =
        "{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\",\"tracestate\":\"a=1\"}";
    ob_trace_begin(&msg, 0);
    memset(msg.trace.span_id, 0xab, sizeof msg.trace.span_id);
    ob_headers_add_trace(&headers, &msg, false);
    says(&headers, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-abababababababab-01");
    says(&headers, "tracestate", "a=1");

    msg.headers = "{\"traceparent\":\"garbage\",\"tracestate\":\"a=1\"}"; /* not chosen: the receiver is told so */
    ob_trace_begin(&msg, 0);
    memset(msg.trace.span_id, 0xab, sizeof msg.trace.span_id);
    ob_headers_reset(&headers);
    ob_headers_add_trace(&headers, &msg, false);
    says(&headers, "traceparent", "00-019000000000700080000000000000aa-abababababababab-00");
    says(&headers, "tracestate", NULL);
    ob_headers_fini(&headers);
}

/* S13: what would be an injection is terminal, with a code */
static void bad_headers_are_refused(void **state)
{
    static const char *const rows[] = {
        "{\"a\":\"x\\r\\nB: y\"}",
        "{\"a\":\"x\\u0000y\"}",
        "{\"a b\":\"x\"}",
        "{\"a\\r\\nb\":\"x\"}",
        "{\"\":\"x\"}",
        "{\"a\":1}",
        "[\"a\"]",
        "not json",
        "{\"a\":\"\x7f\"}",
    };
    const struct ob_render render = {.format = OB_FORMAT_PLAIN};
    struct outbox_delivery msg = full_message();
    struct outbox_verdict verdict;
    struct ob_headers headers;
    (void)state;
    ob_headers_init(&headers);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        msg.headers = rows[i];
        ob_headers_reset(&headers);
        ob_render_headers(&render, &ob_wire_http, &msg, &headers);
        assert_string_equal(headers.code, "header_invalid");
        ob_headers_verdict(&headers, &verdict);
        assert_int_equal(verdict.outcome, OUTBOX_SINK_TERMINAL);
        assert_true(ob_header_value_ok(verdict.text, strlen(verdict.text)));
    }
    msg.headers = NULL;
    const char **fields[] = {&msg.key, &msg.subject, &msg.dedupe_key, &msg.content_type, &msg.topic};
    for (size_t i = 0; i < OB_COUNT(fields); i++) {
        const char *kept = *fields[i];
        *fields[i] = "a\r\nb: c";
        ob_headers_reset(&headers);
        ob_render_headers(&render, i % 2 ? &ob_wire_http : &ob_wire_kafka, &msg, &headers);
        assert_string_equal(headers.code, "header_invalid");
        *fields[i] = kept;
    }
    ob_headers_fini(&headers);
}

/* M19: sinks without headers */
static void records_are_one_line(void **state)
{
    struct outbox_delivery msg = full_message();
    struct ob_buf buf = OB_BUF_INIT;
    (void)state;
    ob_render_record(&buf, &msg);
    json_t *json = json_loads(ob_buf_text(&buf), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_null(strchr(ob_buf_text(&buf), '\n'));
    assert_string_equal(json_string_value(json_object_get(json, "key")), "order 42%");
    assert_int_equal(json_integer_value(json_object_get(json, "seq")), 7);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "payload"), "who")), "Zo\xc3\xab");
    json_decref(json);
    ob_buf_reset(&buf);
    ob_render_logfmt(&buf, &msg);
    assert_null(strchr(ob_buf_text(&buf), '\n'));
    assert_non_null(strstr(ob_buf_text(&buf), " key=\"order 42%\" seq=7 attempt=3 dedupe_key=paid-42 "));
    ob_buf_fini(&buf);
}

/* Y8: no allocation that fails leaks or lies */
static void memory_may_run_out(void **state)
{
    const struct ob_render render = {.format = OB_FORMAT_BINARY};
    struct outbox_delivery msg = full_message();
    bool failed = true;
    (void)state;
    for (size_t n = 0; failed && n < 1000; n++) {
        struct ob_headers headers;
        struct ob_buf buf = OB_BUF_INIT;
        ob_fail_alloc(n);
        ob_headers_init(&headers);
        ob_render_headers(&render, &ob_wire_http, &msg, &headers);
        ob_render_cloudevent(&buf, &msg, NULL);
        bool ok = !headers.code && ob_buf_ok(&buf);
        ob_headers_fini(&headers);
        ob_buf_fini(&buf);
        failed = ob_fail_alloc_end();
        assert_true(ok || failed);
        assert_true(!ok || !failed);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_goes_along),           cmocka_unit_test(bare_messages_have_few),
        cmocka_unit_test(cloudevents_in_headers),        cmocka_unit_test(cloudevents_in_an_envelope),
        cmocka_unit_test(trace_context_is_checked),      cmocka_unit_test(trace_context_goes_on_or_is_made),
        cmocka_unit_test(the_attempts_own_span_is_sent), cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(records_are_one_line),          cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(attributes_are_not_forged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
