/* test_lag.c - how long the loop works between two waits is measured, and said when it is long.
 *
 * Proves: S15, N5 (a loop that serves nobody is noticed). */
#include "ob_test.h"

#include "daemon/lag.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct place {
    uv_loop_t loop;
    uv_timer_t timer;
    struct ob_lag lag;
    struct ob_log log;
    struct ob_metrics *metrics;
    int turns, lines;
    char line[512];
    useconds_t work;
};

static void on_line(void *ctx, enum ob_log_level level, const char *line, size_t len)
{
    struct place *place = ctx;
    assert_int_equal(level, OB_LOG_WARN);
    snprintf(place->line, sizeof place->line, "%.*s", (int)len, line);
    place->lines++;
}

static void on_timer(uv_timer_t *timer)
{
    struct place *place = timer->data;
    usleep(place->work);
    if (--place->turns <= 0)
        uv_stop(&place->loop);
}

/* So many turns, each with so much work, and long waits between them. */
static void run(struct place *place, int turns, useconds_t work)
{
    place->turns = turns;
    place->work = work;
    uv_timer_start(&place->timer, on_timer, 20, 20);
    uv_run(&place->loop, UV_RUN_DEFAULT);
    uv_run(&place->loop, UV_RUN_NOWAIT); /* the end of the last turn */
}

static int place_open(void **state)
{
    static struct place place;
    memset(&place, 0, sizeof place);
    place.log = (struct ob_log){.level = OB_LOG_DEBUG, .write = on_line, .ctx = &place};
    place.metrics = ob_metrics_new("1");
    assert_int_equal(uv_loop_init(&place.loop), 0);
    assert_int_equal(ob_lag_start(&place.lag, &place.loop, &place.log, ob_metrics_process(place.metrics)), 0);
    uv_timer_init(&place.loop, &place.timer);
    place.timer.data = &place;
    *state = &place;
    return 0;
}

static int place_close(void **state)
{
    struct place *place = *state;
    uv_close((uv_handle_t *)&place->timer, NULL);
    uv_close((uv_handle_t *)&place->lag.prepare, NULL);
    uv_run(&place->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&place->loop), 0);
    ob_metrics_free(place->metrics);
    return 0;
}

static double sum_of(struct place *place)
{
    struct ob_buf page = OB_BUF_INIT;
    double sum = -1;
    ob_metrics_render(place->metrics, &page);
    const char *at = strstr(ob_buf_text(&page), "\noutbox_loop_turn_seconds_sum ");
    if (at)
        sscanf(at, "\noutbox_loop_turn_seconds_sum %lf", &sum);
    ob_buf_fini(&page);
    return sum;
}

/* Waiting is not work: twenty waits of 20 ms. */
static void waits_do_not_count(void **state)
{
    struct place *place = *state;
    run(place, 20, 0);
    assert_int_equal(place->lines, 0);
    assert_true(sum_of(place) >= 0 && sum_of(place) < 0.3);
}

static void a_long_turn_is_told_once(void **state)
{
    struct place *place = *state;
    run(place, 2, OB_LAG_WARN_US + 50000);
    assert_int_equal(place->lines, 1); /* the second one within ten seconds waits for its line */
    assert_non_null(strstr(place->line, "event loop blocked"));
    assert_non_null(strstr(place->line, "longest_ms="));
    assert_true(sum_of(place) >= 1.0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waits_do_not_count, place_open, place_close),
        cmocka_unit_test_setup_teardown(a_long_turn_is_told_once, place_open, place_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
