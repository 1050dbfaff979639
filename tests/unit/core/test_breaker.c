/* test_breaker.c - every way through the states of a breaker. Proves: N5. */
#include "core/breaker.h"
#include "ob_test.h"

enum { MS = 1000 };

static struct ob_breaker fresh(int threshold)
{
    struct ob_breaker breaker;
    ob_breaker_init(&breaker,
                    &(struct ob_breaker_settings){.threshold = threshold, .base_us = 100 * MS, .cap_us = 400 * MS});
    return breaker;
}

static void opens_on_consecutive_failures_only(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(3);
    for (int i = 0; i < 10; i++) {
        assert_false(ob_breaker_unreachable(&breaker, false, 0));
        assert_false(ob_breaker_unreachable(&breaker, false, 0));
        assert_false(ob_breaker_answered(&breaker));
    }
    assert_false(ob_breaker_unreachable(&breaker, false, 0));
    assert_false(ob_breaker_unreachable(&breaker, false, 0));
    assert_true(ob_breaker_unreachable(&breaker, false, 0));
    assert_int_equal(breaker.state, OB_BREAKER_OPEN);
}

static void never_by_count_when_told_so(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(-1);
    for (int i = 0; i < 1000; i++)
        assert_false(ob_breaker_unreachable(&breaker, false, 0));
    ob_breaker_blocked(&breaker, false, -1, 0);
    assert_int_equal(breaker.state, OB_BREAKER_OPEN);
}

static void probes_wait_longer_each_time(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(1);
    int64_t now = 0;
    const int64_t waits[] = {100 * MS, 200 * MS, 400 * MS, 400 * MS};
    assert_true(ob_breaker_unreachable(&breaker, false, now));
    for (size_t i = 0; i < OB_COUNT(waits); i++) {
        assert_int_equal(breaker.probe_at_us - now, waits[i]);
        assert_false(ob_breaker_tick(&breaker, breaker.probe_at_us - 1));
        now = breaker.probe_at_us;
        assert_true(ob_breaker_tick(&breaker, now));
        assert_int_equal(breaker.state, OB_BREAKER_HALF_OPEN);
        assert_false(ob_breaker_unreachable(&breaker, false, now)); /* sent long before: tells nothing */
        assert_int_equal(breaker.state, OB_BREAKER_HALF_OPEN);
        assert_true(ob_breaker_unreachable(&breaker, true, now));
    }
    assert_true(ob_breaker_answered(&breaker)); /* one sent before it opened was answered after all */
    assert_int_equal(breaker.state, OB_BREAKER_CLOSED);
    assert_true(ob_breaker_unreachable(&breaker, false, now));
    assert_int_equal(breaker.probe_at_us - now, 100 * MS);
}

static void a_probe_that_came_to_nothing_is_no_failure(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(1);
    assert_true(ob_breaker_unreachable(&breaker, false, 0));
    assert_true(ob_breaker_tick(&breaker, 100 * MS));
    ob_breaker_probe_gone(&breaker, 100 * MS);
    assert_int_equal(breaker.state, OB_BREAKER_OPEN);
    assert_int_equal(breaker.probe_at_us, 200 * MS);
}

static void blocked_waits_as_long_as_it_was_told(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(5);
    ob_breaker_blocked(&breaker, false, 5000 * MS, 0);
    assert_int_equal(breaker.probe_at_us, 5000 * MS);
    assert_false(ob_breaker_tick(&breaker, 4999 * MS));
    assert_true(ob_breaker_tick(&breaker, 5000 * MS));
    assert_string_equal(ob_breaker_state_name(breaker.state), "half open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_on_consecutive_failures_only),
        cmocka_unit_test(never_by_count_when_told_so),
        cmocka_unit_test(probes_wait_longer_each_time),
        cmocka_unit_test(a_probe_that_came_to_nothing_is_no_failure),
        cmocka_unit_test(blocked_waits_as_long_as_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
