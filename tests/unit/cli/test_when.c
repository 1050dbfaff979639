/* test_when.c - times as people type them. Proves: T3 (delays and times are given exactly) at the command line. */
#include "cli/args.h"
#include "ob_test.h"

#define NOW 1700000000000000LL

static void times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t wanted;
    } rows[] = {
        {"2024-05-01T12:00:00Z", 1714564800000000},
        {"2024-05-01t12:00z", 1714564800000000},
        {"2024-05-01 12:00:00.5Z", 1714564800500000},
        {"2024-05-01T12:00:00.123456789Z", 1714564800123456},
        {"2024-05-01T14:30:00+02:30", 1714564800000000},
        {"2024-05-01T04:00:00-0800", 1714564800000000},
        {"2024-02-29T00:00:00Z", 1709164800000000},
        {"+30s", NOW + 30000000},
        {"+5m", NOW + 300000000},
        {"+5min", NOW + 300000000},
        {"+250ms", NOW + 250000},
        {"-2h", NOW - 7200000000},
        {"-7d", NOW - 604800000000},
        {"+0s", NOW},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        int64_t got = 0;
        if (!ob_when_parse(rows[i].text, NOW, &got) || got != rows[i].wanted)
            fail_msg("%s: %lld", rows[i].text, (long long)got);
    }
}

static void no_times(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "now",
        "12:00",
        "2024-05-01",
        "2024-05-01T12:00:00",
        "2024-05-01T12:00:00Zx",
        "2024-13-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-05-01T24:00:00Z",
        "2024-05-01T12:60:00Z",
        "2024-05-01T12:00:00+2",
        "1969-12-31T00:00:00Z",
        "+",
        "+s",
        "+5",
        "+5w",
        "+-5s",
        "+99999999999999999999d",
        "-99999999d",
        "5s",
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        int64_t got = 0;
        if (ob_when_parse(rows[i], NOW, &got))
            fail_msg("\"%s\" was taken for %lld", rows[i], (long long)got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(times), cmocka_unit_test(no_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
