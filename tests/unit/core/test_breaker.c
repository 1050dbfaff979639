/* test_breaker.c - every way through the states of a breaker, and what opens it. Proves: N5. */
#include "core/breaker.h"
#include "ob_test.h"

enum { MS = 1000 };

static struct ob_breaker fresh(int threshold)
{
    struct ob_breaker breaker;
    ob_breaker_init(&breaker, &(struct ob_breaker_settings){.threshold = threshold,
                                                            .window = 10,
                                                            .base_us = 100 * MS,
                                                            .cap_us = 400 * MS,
                                                            .failing_cap_us = 800 * MS,
                                                            .blocked_cap_us = 1600 * MS});
    return breaker;
}

static bool answers_with_a_failure(struct ob_breaker *breaker, int64_t now)
{
    return ob_breaker_failed(breaker, false, false, now);
}

static void unreachable_in_a_row_is_down(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(3);
    for (int i = 0; i < 10; i++) {
        assert_false(ob_breaker_failed(&breaker, true, false, 0));
        assert_false(ob_breaker_failed(&breaker, true, false, 0));
        assert_false(ob_breaker_accepted(&breaker, 0));
        assert_false(ob_breaker_accepted(&breaker, 0));
    }
    assert_false(ob_breaker_failed(&breaker, true, false, 0));
    assert_false(ob_breaker_failed(&breaker, true, false, 0));
    assert_true(ob_breaker_failed(&breaker, true, false, 0));
    assert_int_equal(breaker.state, OB_BREAKER_OPEN);
    assert_int_equal(breaker.cause, OB_BREAKER_DOWN);
}

/* A receiver broken by a bad deploy: whatever it gets, it fails. */
static void failures_of_any_kind_open_it(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(5);
    for (int i = 0; i < 4; i++)
        assert_false(ob_breaker_failed(&breaker, i % 2, false, 0)); /* with and without an answer */
    assert_true(answers_with_a_failure(&breaker, 0));
    assert_string_equal(ob_breaker_cause_name(breaker.cause), "failing");
}

/* It worked until now: the window must be full of failures, not only have some. */
static void after_acceptances_it_takes_the_ratio(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(5);
    for (int i = 0; i < 100; i++)
        assert_false(ob_breaker_accepted(&breaker, 0));
    for (int i = 0; i < 7; i++)
        assert_false(answers_with_a_failure(&breaker, 0));
    assert_true(answers_with_a_failure(&breaker, 0)); /* the eighth of the last ten */
}

/* A message that is wrong fails again and again; others are accepted between. */
static void poison_among_healthy_ones_does_not(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(5);
    for (int i = 0; i < 1000; i++) {
        assert_false(answers_with_a_failure(&breaker, 0));
        assert_false(answers_with_a_failure(&breaker, 0));
        assert_false(ob_breaker_accepted(&breaker, 0));
    }
}

/* A refusal of the message is no result: it does not hide the failures around it. */
static void refusals_hide_nothing(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(5);
    for (int i = 0; i < 4; i++) {
        assert_false(answers_with_a_failure(&breaker, 0));
        for (int k = 0; k < 20; k++)
            assert_false(ob_breaker_answered(&breaker));
    }
    assert_true(answers_with_a_failure(&breaker, 0));
}

static void old_results_do_not_count(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(3);
    int64_t now = 0;
    for (int i = 0; i < 10; i++)
        assert_false(answers_with_a_failure(&breaker, now += 61000 * MS));
    for (int i = 0; i < 100; i++)
        assert_false(ob_breaker_accepted(&breaker, now));
    now += 61000 * MS;
    assert_false(answers_with_a_failure(&breaker, now));
    assert_false(answers_with_a_failure(&breaker, now));
    assert_true(answers_with_a_failure(&breaker, now)); /* that it worked once helps nobody today */
}

/* Each cause has its own longest wait, and its own way out. */
static void causes(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(1);
    int64_t now = 0;
    const int64_t waits[] = {100 * MS, 200 * MS, 400 * MS, 800 * MS, 800 * MS};
    assert_true(answers_with_a_failure(&breaker, now));
    for (size_t i = 0; i < OB_COUNT(waits); i++) {
        assert_int_equal(breaker.probe_at_us - now, waits[i]);
        now = breaker.probe_at_us;
        assert_true(ob_breaker_tick(&breaker, now));
        assert_false(ob_breaker_answered(&breaker)); /* a refusal of the message: it may still fail the others */
        assert_int_equal(breaker.state, OB_BREAKER_HALF_OPEN);
        assert_true(ob_breaker_failed(&breaker, false, true, now));
    }
    assert_true(ob_breaker_tick(&breaker, now += 800 * MS));
    assert_true(ob_breaker_failed(&breaker, true, true, now)); /* now it is down: probes cost nothing */
    assert_int_equal(breaker.probe_at_us - now, 400 * MS);
    assert_true(ob_breaker_tick(&breaker, now += 400 * MS));
    ob_breaker_blocked(&breaker, true, -1, now);
    assert_int_equal(breaker.probe_at_us - now, 800 * MS);
    assert_true(ob_breaker_tick(&breaker, now += 800 * MS));
    ob_breaker_blocked(&breaker, true, -1, now);
    assert_int_equal(breaker.probe_at_us - now, 1600 * MS);
    assert_true(ob_breaker_tick(&breaker, now += 1600 * MS));
    assert_true(ob_breaker_answered(&breaker));
    assert_true(answers_with_a_failure(&breaker, now));
    assert_int_equal(breaker.probe_at_us - now, 100 * MS);
    assert_true(ob_breaker_accepted(&breaker, now));
}

static void never_by_count_when_told_so(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(-1);
    for (int i = 0; i < 1000; i++)
        assert_false(ob_breaker_failed(&breaker, true, false, 0));
    ob_breaker_blocked(&breaker, false, -1, 0);
    assert_int_equal(breaker.state, OB_BREAKER_OPEN);
}

static void probes_wait_longer_each_time(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(1);
    int64_t now = 0;
    const int64_t waits[] = {100 * MS, 200 * MS, 400 * MS, 400 * MS};
    assert_true(ob_breaker_failed(&breaker, true, false, now));
    for (size_t i = 0; i < OB_COUNT(waits); i++) {
        assert_int_equal(breaker.probe_at_us - now, waits[i]);
        assert_false(ob_breaker_tick(&breaker, breaker.probe_at_us - 1));
        now = breaker.probe_at_us;
        assert_true(ob_breaker_tick(&breaker, now));
        assert_int_equal(breaker.state, OB_BREAKER_HALF_OPEN);
        assert_false(ob_breaker_failed(&breaker, true, false, now)); /* sent long before: tells nothing */
        assert_int_equal(breaker.state, OB_BREAKER_HALF_OPEN);
        assert_true(ob_breaker_failed(&breaker, true, true, now));
    }
    assert_true(ob_breaker_answered(&breaker)); /* one sent before it opened was answered after all */
    assert_int_equal(breaker.state, OB_BREAKER_CLOSED);
    assert_true(ob_breaker_failed(&breaker, true, false, now));
    assert_int_equal(breaker.probe_at_us - now, 100 * MS);
}

static void a_probe_that_came_to_nothing_is_no_failure(void **state)
{
    (void)state;
    struct ob_breaker breaker = fresh(1);
    assert_true(ob_breaker_failed(&breaker, true, false, 0));
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
        cmocka_unit_test(unreachable_in_a_row_is_down),
        cmocka_unit_test(failures_of_any_kind_open_it),
        cmocka_unit_test(after_acceptances_it_takes_the_ratio),
        cmocka_unit_test(poison_among_healthy_ones_does_not),
        cmocka_unit_test(refusals_hide_nothing),
        cmocka_unit_test(old_results_do_not_count),
        cmocka_unit_test(causes),
        cmocka_unit_test(never_by_count_when_told_so),
        cmocka_unit_test(probes_wait_longer_each_time),
        cmocka_unit_test(a_probe_that_came_to_nothing_is_no_failure),
        cmocka_unit_test(blocked_waits_as_long_as_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
