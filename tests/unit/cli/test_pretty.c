/* test_pretty.c - JSON laid out for reading. Proves: V13 (an operator reads the payload as it is, to the last digit). */
#include "cli/cli.h"
#include "ob_test.h"

#include <string.h>

static void lays_out(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"1", "1"},
        {"12345678901234567890.10", "12345678901234567890.10"},
        {"\"a\"", "\"a\""},
        {"{}", "{}"},
        {"[ ]", "[]"},
        {"{\"a\":1,\"b\":[1,2]}", "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}"},
        {"{ \"a\" : { } }", "{\n  \"a\": {}\n}"},
        {"[\"x{,}:\\\"]\", null]", "[\n  \"x{,}:\\\"]\",\n  null\n]"},
        {"\"never closed\\", "\"never closed\\"},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct ob_buf buf = OB_BUF_INIT;
        ob_json_pretty(&buf, rows[i][0], strlen(rows[i][0]), 0);
        assert_string_equal(ob_buf_text(&buf), rows[i][1]);
        ob_buf_fini(&buf);
    }
}

static void indents(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    ob_json_pretty(&buf, "[1]", 3, 2);
    assert_string_equal(ob_buf_text(&buf), "  [\n    1\n  ]");
    ob_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lays_out), cmocka_unit_test(indents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
