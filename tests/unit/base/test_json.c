/* test_json.c - the JSON writer. Proves: output is always valid JSON, whatever the strings hold (style). */
#include "base/json.h"
#include "ob_test.h"

#include <math.h>

static void nests_and_places_commas(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "a"), ob_json_int(&json, INT64_MIN);
    ob_json_key(&json, "b"), ob_json_array(&json);
    ob_json_bool(&json, true);
    ob_json_null(&json);
    ob_json_object(&json);
    ob_json_end(&json);
    ob_json_double(&json, 0.5);
    ob_json_double(&json, NAN);
    ob_json_end(&json);
    ob_json_key(&json, "c"), ob_json_string(&json, NULL);
    ob_json_key(&json, "d"), ob_json_raw(&json, "{\"x\": 1}", 8);
    ob_json_end(&json);
    assert_string_equal(ob_buf_text(&buf),
                        "{\"a\":-9223372036854775808,\"b\":[true,null,{},0.5,null],\"c\":null,\"d\":{\"x\": 1}}");
    ob_buf_fini(&buf);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *json;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"\"\\/", 3, "\"\\\"\\\\/\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\""},
        {"\xc3\xbc\xf0\x9f\x93\xa6", 6, "\"\xc3\xbc\xf0\x9f\x93\xa6\""},
        {"a\xffz", 3, "\"a\xef\xbf\xbdz\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"cut \xe2\x82", 6, "\"cut \xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_buf buf = OB_BUF_INIT;
        struct ob_json json;
        ob_json_init(&json, &buf);
        ob_json_string_n(&json, cases[i].text, cases[i].len);
        assert_string_equal(ob_buf_text(&buf), cases[i].json);
        ob_buf_fini(&buf);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    size_t failing = 0;
    for (; failed; failing++) {
        struct ob_buf buf = OB_BUF_INIT;
        struct ob_json json;
        ob_fail_alloc(failing);
        ob_json_init(&json, &buf);
        ob_json_array(&json);
        for (int i = 0; i < 200; i++)
            ob_json_string(&json, "some text");
        ob_json_end(&json);
        bool complete = ob_buf_ok(&buf);
        ob_buf_fini(&buf);
        failed = ob_fail_alloc_end();
        assert_int_equal(complete, !failed);
    }
    assert_true(failing > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nests_and_places_commas),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
