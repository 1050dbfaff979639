/* test_message_check.c - what is wrong with a message, told without a store. Proves: M2, M6, V3. */
#include "base/limits.h"
#include "core/message_check.h"
#include "ob_test.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Woverride-init" /* MSG has defaults */
#define MSG(...) \
    (&(struct outbox_message){.size = sizeof(struct outbox_message), \
                              .priority = -1, \
                              .topic = "t", \
                              .payload = "{}", \
                              .payload_len = 2, \
                              __VA_ARGS__})

static void expect(const struct outbox_message *msg, enum outbox_code code, const char *words)
{
    struct outbox_error err = {.code = OUTBOX_OK};
    assert_int_equal(ob_message_check(msg, &err), code);
    if (words && !strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void texts(void **state)
{
    (void)state;
    expect(MSG(), OUTBOX_OK, NULL);
    expect(MSG(.topic = "b\xc3\xbc"
                        "cher"),
           OUTBOX_OK, NULL);
    expect(MSG(.topic = NULL), OUTBOX_INVALID, "\"topic\" is missing");
    expect(MSG(.topic = ""), OUTBOX_INVALID, "\"topic\" has 0 bytes; it takes 1 to 255 bytes");
    expect(MSG(.topic = "a b"), OUTBOX_INVALID, "contains a space");
    expect(MSG(.topic = "a\xe3\x80\x80"
                        "b"),
           OUTBOX_INVALID, "contains a space"); /* U+3000 */
    expect(MSG(.name_space = "a*"), OUTBOX_INVALID, "\"namespace\"");
    expect(MSG(.key = "a b*?"), OUTBOX_OK, NULL);
    expect(MSG(.key = "a\xc2\x85"), OUTBOX_INVALID, "\"key\" contains a control character"); /* U+0085 */
    expect(MSG(.subject = "\xff"), OUTBOX_INVALID, "\"subject\" is not valid UTF-8");
    expect(MSG(.tenant_id = "nobody"), OUTBOX_INVALID, "\"tenant_id\" is \"nobody\"");
}

static void headers(void **state)
{
    (void)state;
    static const char *const good[] = {"{}", " { } ", "{\"a\":\"\"}",
                                       "{\"a\" : \"b\" , \"X-c\":\"\\u00fc \\\\ \\\" \\ud83d\\ude00\"}\n",
                                       "{\"\\u0061\":\"1\"}"};
    static const char *const bad[] = {"",
                                      "[]",
                                      "\"a\"",
                                      "{\"a\":1}",
                                      "{\"a\":{\"b\":\"c\"}}",
                                      "{\"a\":null}",
                                      "{\"a\":\"b\"",
                                      "{\"a\":\"b\",}",
                                      "{\"\":\"b\"}",
                                      "{\"a b\":\"c\"}",
                                      "{\"\\u00fc\":\"c\"}",
                                      "{\"a\":\"\\n\"}",
                                      "{\"a\":\"\\u0085\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":\"\xff\"}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect(MSG(.headers = good[i]), OUTBOX_OK, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(MSG(.headers = bad[i]), OUTBOX_INVALID, "header");
}

static void the_rest(void **state)
{
    (void)state;
    expect(MSG(.priority = 10), OUTBOX_INVALID, "\"priority\" is 10; it takes 0 to 9");
    expect(MSG(.max_attempts = -1), OUTBOX_INVALID, "it takes 1 to 1000");
    expect(MSG(.expires_at_us = -1), OUTBOX_INVALID, "\"expires_at\" is before 1970");
    expect(MSG(.payload = NULL, .payload_len = 0), OUTBOX_INVALID, "\"payload\" is missing");
    expect(MSG(.payload = NULL, .payload_len = 0, .content_type = "a/b"), OUTBOX_OK, NULL);
    expect(MSG(.payload = "\"\0\"", .payload_len = 3), OUTBOX_INVALID, "NUL byte");
    expect(MSG(.payload_len = (size_t)OB_MOST(max_payload) + 1), OUTBOX_TOO_LARGE, "1 to 268435456 bytes");
    struct outbox_message many[2] = {*MSG(), *MSG(.topic = "?")};
    struct outbox_error err;
    assert_int_equal(ob_messages_check(many, 2, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "message 2: \"topic\""));
}

static void ranges(void **state)
{
    (void)state;
    char text[64];
    assert_string_equal(ob_limit_range(OB_LIMIT_lease, text), "100 ms to 24 h");
    assert_string_equal(ob_limit_range(OB_LIMIT_retry_cap, text), "1 ms to 24 days");
    assert_string_equal(ob_limit_range(OB_LIMIT_delay, text), "up to 365 days");
    assert_string_equal(ob_limit_range(OB_LIMIT_error, text), "0 to 4000 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(headers),
        cmocka_unit_test(the_rest),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests_name("message_check", tests, NULL, NULL);
}
