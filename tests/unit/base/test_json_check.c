/* test_json_check.c - what counts as JSON that every store takes. Proves: Y7 (a payload is compressed only when no store
 * would have refused it). */
#include "base/json_check.h"
#include "ob_test.h"

#include <string.h>

static void good(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "-12.5e+10",
        "1E2",
        "\"\"",
        "\"a\\\"b\\\\\\u00e9\\n\"",
        "\"\\ud83d\\ude00\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1, [2, {\"a\": []}], \"x\"]\n",
        "{\"a\": {\"b\": [1]}, \"c\": null}",
        "\"\xc3\xa9\"",
        "\t[\r\n1\t]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!ob_json_check(texts[i], strlen(texts[i])))
            fail_msg("refused: %s", texts[i]);
}

static void bad(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1e9999",
        "0x1",
        "NaN",
        "'a'",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"a\nb\"",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\": 1,}",
        "{1: 2}",
        "{\"a\" 1}",
        "{\"a\": 1]",
        "[1}",
        "1 2",
        "[] []",
        "\"\\u00g0\"",
        "[\"\\",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (ob_json_check(texts[i], strlen(texts[i])))
            fail_msg("taken: %s", texts[i]);
    assert_false(ob_json_check("\"a\0b\"", 5));
    assert_false(ob_json_check("[1]\0", 4));
}

static void depth(void **state)
{
    (void)state;
    char text[2000];
    for (size_t levels = 255; levels <= 257; levels++) {
        memset(text, '[', levels);
        memset(text + levels, ']', levels);
        assert_int_equal(ob_json_check(text, 2 * levels), levels <= 256);
    }
    memset(text, '[', sizeof text);
    assert_false(ob_json_check(text, sizeof text));
}

/* No cut of a good text is taken, and none is read past its end. */
static void cuts(void **state)
{
    (void)state;
    const char *text = "{\"a\": [1.5e3, \"\\ud83d\\ude00\", true], \"b\": {}}";
    for (size_t len = 0; len < strlen(text); len++) {
        char *copy = malloc(len ? len : 1);
        memcpy(copy, text, len);
        assert_false(ob_json_check(copy, len));
        free(copy);
    }
}

/* N8: what is valid stands in a JSON document as it is, also where a store would refuse it. */
static void valid(void **state)
{
    (void)state;
    static const char *const good[] = {"\"\\u0000\"", "\"\\ud800\"", "1e99999", " {\"a\": [1, {}]} ", "\"\xc3\xa9\""};
    static const char *const bad[] = {
        "",   "{},",      "{}}",    "\"\\u00g0\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}",
        "01", "{'a': 1}", "{a: 1}", "[1,]",        "/**/1",    "Infinity",         "\"a\tb\""};
    static char deep[20002];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!ob_json_valid(good[i], strlen(good[i])))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ob_json_valid(bad[i], strlen(bad[i])))
            fail_msg("taken: %s", bad[i]);
    for (size_t levels = 10000; levels <= 10001; levels++) {
        memset(deep, '[', levels);
        memset(deep + levels, ']', levels);
        assert_int_equal(ob_json_valid(deep, 2 * levels), levels == 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good), cmocka_unit_test(bad),   cmocka_unit_test(depth),
        cmocka_unit_test(cuts), cmocka_unit_test(valid),
    };
    return cmocka_run_group_tests_name("json_check", tests, NULL, NULL);
}
