/* test_number.c - exact decimals. Proves: S12, no amount is judged by a rounded neighbour of itself. */
#include "jsonschema/number.h"
#include "ob_test.h"

#include <string.h>

static struct ob_arena arena;

static struct ob_number number(const char *text)
{
    struct ob_number number;
    assert_int_equal(ob_number_read(&number, text, strlen(text), &arena), OB_NUMBER_OK);
    return number;
}

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

static void numbers_compare_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int order;
    } cases[] = {
        {"0", "-0", 0},
        {"0.0", "0e99999", 0},
        {"1", "1.0", 0},
        {"100", "1e2", 0},
        {"-1.50", "-15e-1", 0},
        {"0.1", "0.10000000000000000000000000001", -1},
        {"9007199254740993", "9007199254740992", 1},
        {"18446744073709551616", "18446744073709551615", 1},
        {"-2", "1", -1},
        {"-2", "-3", 1},
        {"0", "-1e-999999", 1},
        {"0", "1e-999999", -1},
        {"99", "100", -1},
        {"1e308", "1e309", -1},
        {"12", "123", -1},
        {"0.12", "0.123", -1},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_number a = number(cases[i].a), b = number(cases[i].b);
        assert_int_equal(sign(ob_number_compare(&a, &b)), cases[i].order);
        assert_int_equal(sign(ob_number_compare(&b, &a)), -cases[i].order);
    }
    ob_arena_fini(&arena);
}

static void multiples_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *number, *divisor;
        bool multiple;
    } cases[] = {
        {"0", "0.01", true},
        {"19.99", "0.01", true},
        {"19.999", "0.01", false},
        {"0.3", "0.1", true},
        {"1e300", "7", false},
        {"7e300", "7", true},
        {"-4.02", "0.01", true},
        {"1e-300", "0.01", false},
        {"12345678901234567890123456789", "3", true},
        {"12345678901234567890123456788", "3", false},
        {"999999999999999999", "999999999999999999", true},
        {"1e1000000000", "1e-1000000000", true},
        {"4.35", "0.05", true},
        {"1", "2", false},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_number a = number(cases[i].number), b = number(cases[i].divisor);
        if (ob_number_is_multiple(&a, &b) != cases[i].multiple)
            fail_msg("%s / %s", cases[i].number, cases[i].divisor);
    }
    ob_arena_fini(&arena);
}

static void integers_and_counts(void **state)
{
    (void)state;
    struct ob_number one = number("10e-1"), half = number("0.5"), big = number("1e30"),
                     exact = number("18446744073709551615");
    size_t size = 7;
    assert_true(ob_number_is_integer(&one));
    assert_false(ob_number_is_integer(&half));
    assert_true(ob_number_to_size(&one, &size));
    assert_int_equal(size, 1);
    assert_false(ob_number_to_size(&half, &size));
    assert_true(ob_number_to_size(&big, &size));
    assert_true(size == SIZE_MAX);
    assert_true(ob_number_to_size(&exact, &size));
    assert_true(size == SIZE_MAX);
    struct ob_number zero = number("0"), minus = number("-1");
    assert_true(ob_number_to_size(&zero, &size));
    assert_int_equal(size, 0);
    assert_false(ob_number_to_size(&minus, &size));
    ob_arena_fini(&arena);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"1e1000000001", "1e-1000000001", "1e99999999999999999999", "0.1e-1000000000"};
    struct ob_number out;
    for (size_t i = 0; i < OB_COUNT(cases); i++)
        assert_int_equal(ob_number_read(&out, cases[i], strlen(cases[i]), &arena), OB_NUMBER_TOO_BIG);
    static char digits[OB_NUMBER_DIGITS_MAX + 1];
    memset(digits, '7', sizeof digits);
    assert_int_equal(ob_number_read(&out, digits, sizeof digits, &arena), OB_NUMBER_TOO_BIG);
    assert_int_equal(ob_number_read(&out, digits, sizeof digits - 1, &arena), OB_NUMBER_OK);
    ob_arena_fini(&arena);
}

int main(void)
{
    ob_arena_init(&arena, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_compare_exactly),
        cmocka_unit_test(multiples_are_exact),
        cmocka_unit_test(integers_and_counts),
        cmocka_unit_test(what_is_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
