/* test_retry.c - the retry policies and the rate limit as functions. */
#include "core/rate.h"
#include "core/retry.h"
#include "ob_test.h"

enum { SECOND = 1000000 };
#define MINUTE (INT64_C(60) * SECOND)

static struct ob_retry policy(enum ob_retry_kind kind)
{
    return ob_retry_settings(&(struct ob_retry){.kind = kind});
}

/* M11, V9: d = min(base * 2^(n-1), cap), uniform in [d/2, d]; both ends are reached, nothing lies outside. */
static void equal_jitter_m11(void **state)
{
    (void)state;
    struct ob_retry retry = policy(OB_RETRY_EQUAL);
    for (int spent = 1; spent <= 40; spent++) {
        int64_t most = spent > 11 ? 1800 * INT64_C(1000000) : (INT64_C(1) << (spent - 1)) * SECOND;
        most = most < retry.cap_us ? most : retry.cap_us;
        assert_int_equal(ob_retry_delay_us(&retry, spent, -1, 0), most / 2);
        assert_int_equal(ob_retry_delay_us(&retry, spent, -1, (uint64_t)(most - most / 2)), most);
        uint64_t seed = 1;
        for (int i = 0; i < 200; i++) {
            int64_t delay = ob_retry_delay_us(&retry, spent, -1, ob_random_next(&seed));
            assert_true(delay >= most / 2 && delay <= most);
        }
    }
}

/* V9, V11: the bounds of the jitter are settings. */
static void jitter_bounds_v11(void **state)
{
    (void)state;
    struct ob_retry retry = ob_retry_settings(&(struct ob_retry){.jitter_low = 90, .jitter_high = 95});
    assert_true(ob_retry_valid(&retry));
    uint64_t seed = 1;
    for (int i = 0; i < 500; i++) {
        int64_t delay = ob_retry_delay_us(&retry, 3, -1, ob_random_next(&seed));
        assert_true(delay >= 4 * SECOND * 90 / 100 && delay <= 4 * SECOND * 95 / 100);
    }
    retry.jitter_low = retry.jitter_high = 100;
    assert_int_equal(ob_retry_delay_us(&retry, 3, -1, 12345), 4 * SECOND);
    retry.jitter_high = 99;
    assert_false(ob_retry_valid(&retry));
}

/* V9: full jitter lies in [0, d]. */
static void full_jitter_v9(void **state)
{
    (void)state;
    struct ob_retry retry = policy(OB_RETRY_FULL);
    assert_int_equal(ob_retry_delay_us(&retry, 3, -1, 0), 0);
    assert_int_equal(ob_retry_delay_us(&retry, 3, -1, 4 * SECOND), 4 * SECOND);
    assert_int_equal(ob_retry_delay_us(&retry, 3, -1, 4 * SECOND + 1), 0);
}

/* Y3: exactly 2, 4, 8, 16, 32 minutes, then an hour; chance has no part in it. */
static void minutes_y3(void **state)
{
    (void)state;
    struct ob_retry retry = policy(OB_RETRY_MINUTES);
    const int64_t expected[] = {2, 4, 8, 16, 32, 60, 60, 60};
    for (int i = 0; i < (int)OB_COUNT(expected); i++) {
        assert_int_equal(ob_retry_delay_us(&retry, i + 1, -1, 12345), expected[i] * MINUTE);
        assert_int_equal(ob_retry_delay_us(&retry, i + 1, -1, 99999), expected[i] * MINUTE);
    }
}

/* V9: a list; the last one for all that follow. */
static void list_v9(void **state)
{
    (void)state;
    struct ob_retry retry =
        ob_retry_settings(&(struct ob_retry){.kind = OB_RETRY_LIST, .list_count = 3, .list_us = {5, 300, 18000}});
    assert_true(ob_retry_valid(&retry));
    assert_int_equal(ob_retry_delay_us(&retry, 1, -1, 7), 5);
    assert_int_equal(ob_retry_delay_us(&retry, 2, -1, 7), 300);
    assert_int_equal(ob_retry_delay_us(&retry, 3, -1, 7), 18000);
    assert_int_equal(ob_retry_delay_us(&retry, 100, -1, 7), 18000);
    retry.list_count = 0;
    assert_false(ob_retry_valid(&retry));
}

/* M11, V9: the greater of our delay and the receiver's, theirs capped. */
static void retry_after_m11(void **state)
{
    (void)state;
    struct ob_retry retry = policy(OB_RETRY_MINUTES);
    assert_int_equal(ob_retry_delay_us(&retry, 1, SECOND, 0), 2 * MINUTE);
    assert_int_equal(ob_retry_delay_us(&retry, 1, 10 * MINUTE, 0), 10 * MINUTE);
    assert_int_equal(ob_retry_delay_us(&retry, 1, 600 * MINUTE, 0), 60 * MINUTE);
    assert_int_equal(ob_retry_delay_us(&retry, 1, INT64_MAX, 0), 60 * MINUTE);
}

/* S10: never more than burst + rate * time, and no less either. */
static void rate_s10(void **state)
{
    (void)state;
    struct ob_rate rate;
    ob_rate_init(&rate, 10, SECOND, 3);
    int taken = 0;
    int64_t now = 1000 * (int64_t)SECOND;
    for (int64_t at = now; at < now + 2 * SECOND; at += 1000)
        taken += ob_rate_take(&rate, at);
    assert_int_equal(taken, 3 + 19);
    int64_t ready = ob_rate_ready_us(&rate, now + 2 * SECOND);
    assert_true(ready >= now + 2 * SECOND && ready <= now + 2 * SECOND + 100000);
    assert_true(ob_rate_take(&rate, ready));
    assert_false(ob_rate_take(&rate, ready));
    assert_true(ob_rate_take(&rate, ready + 10 * (int64_t)SECOND)); /* it does not save up more than the burst */
    assert_true(ob_rate_take(&rate, ready + 10 * (int64_t)SECOND));
    assert_true(ob_rate_take(&rate, ready + 10 * (int64_t)SECOND));
    assert_false(ob_rate_take(&rate, ready + 10 * (int64_t)SECOND));
    ob_rate_init(&rate, 0, SECOND, 1);
    for (int i = 0; i < 1000; i++)
        assert_true(ob_rate_take(&rate, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_jitter_m11), cmocka_unit_test(jitter_bounds_v11), cmocka_unit_test(full_jitter_v9),
        cmocka_unit_test(minutes_y3),       cmocka_unit_test(list_v9),           cmocka_unit_test(retry_after_m11),
        cmocka_unit_test(rate_s10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
