/* test_value.c - values as people write them. Proves: V11 (settings are given with their units). */
#include "base/value.h"
#include "ob_test.h"

#include <string.h>

/* V11 */
static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"250ms", 250000},
        {"10s", 10000000},
        {"1.5s", 1500000},
        {"5m", 300000000},
        {"5min", 300000000},
        {"1h30m", INT64_C(5400000000)},
        {"2d", INT64_C(172800000000)},
        {"7us", 7},
        {"0.001ms", 1},
        {"0s", 0},
        {"10", -1},
        {"s", -1},
        {"", -1},
        {"-1s", -1},
        {"1 s", -1},
        {"1s ", -1},
        {"1x", -1},
        {"1.s", -1},
        {"1.5.5s", -1},
        {"0.5us", -1},
        {"99999999999999999999s", -1},
        {"9223372036854775807d", -1},
        {"9223372036854775807us1us", -1},
        {"1S", -1},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        int64_t us = -1;
        bool ok = ob_value_duration(rows[i].text, &us);
        if (ok != (rows[i].us >= 0) || us != rows[i].us)
            fail_msg("\"%s\": %d, %lld", rows[i].text, ok, (long long)us);
    }
}

/* V11 */
static void sizes_and_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {
        {"0", 0},      {"512", 512},     {"64KiB", 65536}, {"32MiB", 33554432},   {"1GiB", 1073741824}, {"1kB", 1000},
        {"1KB", 1000}, {"2MB", 2000000}, {"1.5KiB", 1536}, {"10B", 10},           {"-1", -1},           {"1TiB", -1},
        {"", -1},      {"KiB", -1},      {"1 KiB", -1},    {"9999999999GiB", -1},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        int64_t bytes = -1;
        bool ok = ob_value_size(rows[i].text, &bytes);
        if (ok != (rows[i].bytes >= 0) || bytes != rows[i].bytes)
            fail_msg("\"%s\": %d, %lld", rows[i].text, ok, (long long)bytes);
    }
    int64_t number = 5;
    assert_true(ob_value_int("-12", &number) && number == -12);
    assert_false(ob_value_int("12x", &number) || ob_value_int("", &number) || ob_value_int("-", &number) ||
                 ob_value_int("9223372036854775808", &number) || ob_value_int("0x10", &number));
    assert_int_equal(number, -12);
    bool yes = false;
    assert_true(ob_value_bool("True", &yes) && yes && ob_value_bool("off", &yes) && !yes);
    assert_false(ob_value_bool("2", &yes) || ob_value_bool("", &yes));
}

/* V11 */
static void rates(void **state)
{
    (void)state;
    int64_t count = -1, period = -1;
    assert_true(ob_value_rate("100/s", &count, &period) && count == 100 && period == 1000000);
    assert_true(ob_value_rate("5/10s", &count, &period) && count == 5 && period == 10000000);
    assert_true(ob_value_rate("1000/h", &count, &period) && count == 1000 && period == INT64_C(3600000000));
    assert_true(ob_value_rate("none", &count, &period) && count == 0);
    static const char *const bad[] = {
        "",     "100",   "/s",     "100/",  "0/s",
        "-1/s", "100/x", "100/0s", "1.5/s", "1/1111111111111111111111111111111111111111111s"};
    for (size_t i = 0; i < OB_COUNT(bad); i++)
        if (ob_value_rate(bad[i], &count, &period))
            fail_msg("\"%s\" was taken", bad[i]);
}

/* V11: what is shown means the same again. */
static void texts(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0,       1,   999, 1000, 1500000, 60000000, 90000000, INT64_C(86400000000),
                                      1 << 20, 1536};
    for (size_t i = 0; i < OB_COUNT(numbers); i++) {
        char text[OB_VALUE_TEXT];
        int64_t back = -1;
        ob_value_duration_text(numbers[i], text);
        assert_true(ob_value_duration(text, &back) && back == numbers[i]);
        ob_value_size_text(numbers[i], text);
        assert_true(ob_value_size(text, &back) && back == numbers[i]);
    }
    char text[OB_VALUE_TEXT];
    ob_value_duration_text(1500000, text);
    assert_string_equal(text, "1500ms");
    ob_value_size_text(33554432, text);
    assert_string_equal(text, "32MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations), cmocka_unit_test(sizes_and_numbers),
                                       cmocka_unit_test(rates), cmocka_unit_test(texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
