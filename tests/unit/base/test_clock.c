/* test_clock.c - clocks and written times. Proves: V12 (times in log lines). */
#include "base/clock.h"
#include "ob_test.h"

static void times_are_written_in_utc(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {1, "1970-01-01T00:00:00.000001Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
        {1709210096123456, "2024-02-29T12:34:56.123456Z"},
        {253402300799999999, "9999-12-31T23:59:59.999999Z"},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        char text[OB_CLOCK_TEXT];
        ob_clock_format(cases[i].us, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void extreme_times_do_not_overflow(void **state)
{
    (void)state;
    char text[OB_CLOCK_TEXT];
    ob_clock_format(INT64_MAX, text);
    assert_memory_equal(text, "294247-", 7);
    ob_clock_format(INT64_MIN, text);
    assert_memory_equal(text, "-290308-", 8);
}

static void clocks_run(void **state)
{
    (void)state;
    int64_t start = ob_clock_mono_us();
    assert_true(ob_clock_wall_us() > 1700000000000000);
    assert_true(ob_clock_mono_us() >= start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_written_in_utc),
        cmocka_unit_test(extreme_times_do_not_overflow),
        cmocka_unit_test(clocks_run),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
