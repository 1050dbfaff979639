/* bad_message.c - a bad message gets a clear error and changes nothing. One table: what is wrong, and the code. */
#include "suite.h"

static void names(struct fx *fx)
{
    refuse(fx, OUTBOX_INVALID, .topic = NULL);
    refuse(fx, OUTBOX_INVALID, .topic = "");
    refuse(fx, OUTBOX_INVALID, .topic = "with space");
    refuse(fx, OUTBOX_INVALID, .topic = "line\nbreak");
    refuse(fx, OUTBOX_INVALID, .topic = "a*");
    refuse(fx, OUTBOX_INVALID, .name_space = "");
    refuse(fx, OUTBOX_INVALID, .name_space = "with space");
    refuse(fx, OUTBOX_INVALID, .name_space = "*");
    refuse(fx, OUTBOX_INVALID, .key = "");
    refuse(fx, OUTBOX_INVALID, .key = "tab\t");
    refuse(fx, OUTBOX_INVALID, .dedupe_key = "");
    refuse(fx, OUTBOX_INVALID, .dedupe_key = "doorbell\a");
    refuse(fx, OUTBOX_INVALID, .subject = "");
    refuse(fx, OUTBOX_INVALID, .recipient = "");
    refuse(fx, OUTBOX_INVALID, .correlation_id = "");
    refuse(fx, OUTBOX_INVALID, .content_type = "", .payload = "x", .payload_len = 1);
    refuse(fx, OUTBOX_INVALID, .tenant_id = "");
    refuse(fx, OUTBOX_INVALID, .tenant_id = "not-a-uuid");
    refuse(fx, OUTBOX_INVALID, .tenant_id = TENANT_A "0");
}

/* The longest that is allowed passes; one byte more does not. Bytes, not characters. */
static void lengths(struct fx *fx)
{
    put(fx, .topic = repeat_text(fx, 't', 255), .name_space = repeat_text(fx, 'n', 63),
        .key = repeat_text(fx, 'k', 512), .dedupe_key = repeat_text(fx, 'd', 512), .subject = repeat_text(fx, 's', 512),
        .recipient = repeat_text(fx, 'r', 1024), .correlation_id = repeat_text(fx, 'c', 255));
    refuse(fx, OUTBOX_INVALID, .topic = repeat_text(fx, 't', 256));
    refuse(fx, OUTBOX_INVALID, .name_space = repeat_text(fx, 'n', 64));
    refuse(fx, OUTBOX_INVALID, .key = repeat_text(fx, 'k', 513));
    refuse(fx, OUTBOX_INVALID, .dedupe_key = repeat_text(fx, 'd', 513));
    refuse(fx, OUTBOX_INVALID, .subject = repeat_text(fx, 's', 513));
    refuse(fx, OUTBOX_INVALID, .recipient = repeat_text(fx, 'r', 1025));
    refuse(fx, OUTBOX_INVALID, .correlation_id = repeat_text(fx, 'c', 256));
    refuse(fx, OUTBOX_INVALID, .content_type = repeat_text(fx, 'x', 256), .payload = "x", .payload_len = 1);
    char *umlauts = repeat_text(fx, 0, 514);
    for (size_t i = 0; i < 257; i++)
        memcpy(umlauts + 2 * i, "ü", 2);
    refuse(fx, OUTBOX_INVALID, .key = umlauts);
    umlauts[512] = '\0';
    put(fx, .key = umlauts);
}

static void payload_limit(struct fx *fx)
{
    char *big = repeat_text(fx, 'x', 1 << 20);
    put(fx, .payload = big, .payload_len = 1 << 20, .content_type = "text/plain");
    big = repeat_text(fx, 'x', (1 << 20) + 1);
    refuse(fx, OUTBOX_TOO_LARGE, .payload = big, .payload_len = (1 << 20) + 1, .content_type = "text/plain");
    big[0] = big[1 << 20] = '"';
    refuse(fx, OUTBOX_TOO_LARGE, .payload = big, .payload_len = (1 << 20) + 1);
    ok(fx, configure, "small", "max_payload", "10", NULL);
    put(fx, .name_space = "small", .payload = "12345678", .payload_len = 8);
    refuse(fx, OUTBOX_TOO_LARGE, .name_space = "small", .payload = "\"123456789\"");
    put(fx, .payload = "\"123456789\"");
    ok(fx, configure, "default", "max_payload", "2000000", NULL);
    put(fx, .payload = big, .payload_len = (1 << 20) + 1, .content_type = "text/plain");
}

static void numbers(struct fx *fx)
{
    refuse(fx, OUTBOX_INVALID, .priority = 10);
    refuse(fx, OUTBOX_INVALID, .priority = -2);
    refuse(fx, OUTBOX_INVALID, .priority = INT32_MAX);
    refuse(fx, OUTBOX_INVALID, .max_attempts = -1);
    refuse(fx, OUTBOX_INVALID, .max_attempts = 1001);
    refuse(fx, OUTBOX_INVALID, .max_attempts = INT32_MAX);
    refuse(fx, OUTBOX_INVALID, .deliver_after_us = -1);
    refuse(fx, OUTBOX_INVALID, .expires_at_us = -1);
    assert_int_equal(look(fx, put(fx, .priority = 0).id)->priority, 0);
    assert_int_equal(look(fx, put(fx, .priority = 9).id)->priority, 9);
    assert_int_equal(look(fx, put(fx, .max_attempts = 1000).id)->max_attempts, 1000);
}

static void headers(struct fx *fx)
{
    refuse(fx, OUTBOX_INVALID, .headers = "");
    refuse(fx, OUTBOX_INVALID, .headers = "no json");
    refuse(fx, OUTBOX_INVALID, .headers = "[]");
    refuse(fx, OUTBOX_INVALID, .headers = "\"text\"");
    refuse(fx, OUTBOX_INVALID, .headers = "null");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"\": \"v\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"with space\": \"v\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"colon:\": \"v\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"größe\": \"v\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"number\": 1}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"null\": null}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"deep\": {}}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"split\": \"a\\r\\nSet-Cookie: b\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"nul\": \"a\\u0000b\"}");
    refuse(fx, OUTBOX_INVALID, .headers = "{\"raw\": \"\xff\"}");
    char *name = keep(fx, malloc(200), free);
    snprintf(name, 200, "{\"%s\": \"v\"}", repeat_text(fx, 'n', 129));
    refuse(fx, OUTBOX_INVALID, .headers = name);
    char *large = keep(fx, malloc(20000), free);
    snprintf(large, 20000, "{\"h\": \"%s\"}", repeat_text(fx, 'v', 17000));
    refuse(fx, OUTBOX_TOO_LARGE, .headers = large);
    put(fx, .headers = "{}");
    put(fx, .headers = "{\"X-Ok_1.2~\": \"größe ☃\"}");
    assert_string_equal(look(fx, put(fx, .headers = "{\"a\": \"\"}").id)->headers, "{\"a\": \"\"}");
}

/* Not UTF-8: a lone byte, an overlong form, a surrogate, a character cut short, one beyond the last. */
static void not_utf8(struct fx *fx)
{
    static const char *const bad[] = {"\xff", "a\x80", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x98", "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char json[16];
        snprintf(json, sizeof(json), "\"%s\"", bad[i]);
        refuse(fx, OUTBOX_INVALID, .topic = bad[i]);
        refuse(fx, OUTBOX_INVALID, .name_space = bad[i]);
        refuse(fx, OUTBOX_INVALID, .key = bad[i]);
        refuse(fx, OUTBOX_INVALID, .dedupe_key = bad[i]);
        refuse(fx, OUTBOX_INVALID, .subject = bad[i]);
        refuse(fx, OUTBOX_INVALID, .recipient = bad[i]);
        refuse(fx, OUTBOX_INVALID, .correlation_id = bad[i]);
        refuse(fx, OUTBOX_INVALID, .payload = json);
    }
}

static void not_json(struct fx *fx)
{
    static const char *const bad[] = {
        "{", "{\"a\": }",  "nope", "{\"a\": 1} x", "'a'", "\"a\\u0000b\"", "{\"a\\u0000\": 1}", "\"line\nbreak\"",
        " ", "\"\\ud800\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse(fx, OUTBOX_INVALID, .payload = bad[i]);
    refuse(fx, OUTBOX_INVALID, .payload = "\"a\0b\"", .payload_len = 5);
    static const char *const good[] = {"null", "0", "\"\"", "[]", "{}", "\"\\ud83d\\ude00\"", "-1.5e300"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        put(fx, .payload = good[i]);
}

static void no_payload(struct fx *fx)
{
    const char *before = digest(fx);
    struct outbox_message msg = MSG(.payload = NULL);
    fails(fx, OUTBOX_INVALID, enqueue, &msg, NULL);
    msg = MSG(.payload = "", .payload_len = 0);
    fails(fx, OUTBOX_INVALID, enqueue, &msg, NULL);
    expect_unchanged(fx, before, "a message without a payload");
}

/* What is right must not be refused for looking odd. */
static void odd_but_right(struct fx *fx)
{
    struct outbox_uuid id =
        put(fx, .topic = "größe/☃.v1", .key = "a b'c\"d\\e;--", .dedupe_key = "%s%n{}[]", .subject = "' OR 1=1 --",
            .recipient = "\"Ann O'Hara\" <ann@example.org>", .correlation_id = "日本語")
            .id;
    const struct outbox_delivery *msg = take(fx, .worker = "wörker'; --");
    assert_same_id(msg->id, id);
    assert_string_equal(msg->topic, "größe/☃.v1");
    assert_string_equal(msg->key, "a b'c\"d\\e;--");
    assert_string_equal(msg->dedupe_key, "%s%n{}[]");
    assert_string_equal(msg->subject, "' OR 1=1 --");
    assert_string_equal(msg->recipient, "\"Ann O'Hara\" <ann@example.org>");
    assert_string_equal(msg->correlation_id, "日本語");
    settle(fx, msg, .outcome = OUTBOX_RETRY, .code = "it's", .error = "line one\nline \"two\"\t☃", .delay_us = 0);
    assert_string_equal(look(fx, id)->last_error, "line one\nline \"two\"\t☃");
    assert_string_equal(attempt_of(fx, id, 1)->worker, "wörker'; --");
}

const struct contract_test bad_message_tests[] = {
    {"M2 M4 V16: bad input: names that are missing, empty or malformed", names},
    {"M2 M4 V15: bad input: the longest names pass, one byte more does not", lengths},
    {"M6: bad input: a payload over the limit, and the limit is a setting", payload_limit},
    {"V9 M6: bad input: numbers out of range", numbers},
    {"M6: bad input: headers that are no object of strings with proper names", headers},
    {"M6: bad input: text that is not UTF-8", not_utf8},
    {"M6: bad input: a payload that is not JSON, or holds \\u0000", not_json},
    {"M6: bad input: no payload at all", no_payload},
    {"M6 M19: odd but right input comes through unchanged", odd_but_right},
    {NULL, NULL, 0},
};
