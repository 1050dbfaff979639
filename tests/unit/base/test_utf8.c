/* test_utf8.c - what is UTF-8. Proves: invalid UTF-8 is recognised before it is stored (style, bad input). */
#include "base/utf8.h"
#include "ob_test.h"

#include <string.h>

static void widths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t width;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* continuation alone */
        {"\xc0\x80", 0},         /* overlong */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xed\xbf\xbf", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc3", 0},         /* cut */
        {"\xe2\x82", 0},     /* cut */
        {"\xf0\x9f\x93", 0}, /* cut */
        {"\xc3(", 0},
        {"\xe2\x82(", 0},
        {"", 0},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        assert_int_equal(ob_utf8_width(cases[i].text, strlen(cases[i].text)), cases[i].width);
        assert_int_equal(ob_utf8_valid(cases[i].text, strlen(cases[i].text)), cases[i].width > 0 || !*cases[i].text);
    }
}

static void whole_texts(void **state)
{
    (void)state;
    assert_true(ob_utf8_valid("gr\xc3\xbc\xc3\x9f dich", 11));
    assert_true(ob_utf8_valid("a\0b", 3));
    assert_false(ob_utf8_valid("gr\xc3\xbc\xc3\x9f dich", 3));
    assert_false(ob_utf8_valid("abc\xff", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(widths), cmocka_unit_test(whole_texts)};
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
