/* Proves: S15 Y6. The registry of metrics and the page that Prometheus reads. */
#include "ob_test.h"

#include "core/breaker.h"
#include "daemon/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct ob_buf page;

static const char *render(struct ob_metrics *metrics)
{
    ob_buf_reset(&page);
    ob_metrics_render(metrics, &page);
    return ob_buf_text(&page);
}

/* A whole line of the page. */
static bool has(struct ob_metrics *metrics, const char *line)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    return strstr(render(metrics), wanted) != NULL;
}

/* S15: counters add up, per store and sink. */
static void test_counters(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1.2.3");
    struct ob_series *shop = ob_metrics_store(metrics, "shop"), *mail = ob_metrics_sink(metrics, "shop", "mail");
    ob_series_add(shop, OB_METRIC_claimed, 5);
    ob_series_add(shop, OB_METRIC_claimed, 2);
    ob_series_add_to(mail, OB_METRIC_attempts, OUTBOX_RETRY, 3);
    ob_series_add_to(ob_metrics_process(metrics), OB_METRIC_reloads, 1, 1);
    assert_ptr_equal(ob_metrics_store(metrics, "shop"), shop);
    assert_true(has(metrics, "outbox_build_info{version=\"1.2.3\"} 1"));
    assert_true(has(metrics, "# TYPE outbox_claimed_total counter"));
    assert_true(has(metrics, "outbox_claimed_total{store=\"shop\"} 7"));
    assert_true(has(metrics, "outbox_attempts_total{store=\"shop\",sink=\"mail\",outcome=\"retry\"} 3"));
    assert_true(has(metrics, "outbox_attempts_total{store=\"shop\",sink=\"mail\",outcome=\"delivered\"} 0"));
    assert_true(has(metrics, "outbox_reloads_total{result=\"failed\"} 1"));
    assert_null(strstr(render(metrics), "outcome=\"released\""));
    ob_metrics_free(metrics);
}

/* S15: a histogram has cumulative buckets, its sum in seconds, and a count that is the last bucket. */
static void test_histogram(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    struct ob_series *mail = ob_metrics_sink(metrics, "s", "mail");
    ob_series_observe(mail, OB_METRIC_delivery, 1000); /* on the bound: within */
    ob_series_observe(mail, OB_METRIC_delivery, 1001);
    ob_series_observe(mail, OB_METRIC_delivery, 7200000000); /* above them all */
    ob_series_observe(mail, OB_METRIC_delivery, -5);         /* a clock that was set back */
#define HEAD "{store=\"s\",sink=\"mail\""
    assert_true(has(metrics, "outbox_delivery_seconds_bucket" HEAD ",le=\"0.001\"} 2"));
    assert_true(has(metrics, "outbox_delivery_seconds_bucket" HEAD ",le=\"0.0025\"} 3"));
    assert_true(has(metrics, "outbox_delivery_seconds_bucket" HEAD ",le=\"3600\"} 3"));
    assert_true(has(metrics, "outbox_delivery_seconds_bucket" HEAD ",le=\"+Inf\"} 4"));
    assert_true(has(metrics, "outbox_delivery_seconds_sum" HEAD "} 7200.002001"));
    assert_true(has(metrics, "outbox_delivery_seconds_count" HEAD "} 4"));
    ob_metrics_free(metrics);
}

/* S15: a sink is in exactly one state; a new one works. */
static void test_state_set(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    struct ob_series *mail = ob_metrics_sink(metrics, "s", "mail");
    assert_true(has(metrics, "outbox_sink_state" HEAD ",state=\"closed\"} 1"));
    ob_series_set_state(mail, OB_METRIC_breaker, OB_BREAKER_OPEN);
    assert_true(has(metrics, "outbox_sink_state" HEAD ",state=\"closed\"} 0"));
    assert_true(has(metrics, "outbox_sink_state" HEAD ",state=\"open\"} 1"));
    ob_metrics_free(metrics);
}

/* S15: the figures of the queue are there only while this relay leads, so that sums over relays are right. */
static void test_gauges_of_the_leader(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    struct ob_gauges_row rows[OB_METRICS_NAMESPACES + 5] = {
        {.pending = 12, .oldest_due_s = 1.5, .dead = 2, .table_bytes = 8192, .dead_tuples = -1, .repairs = 6}};
    char names[OB_METRICS_NAMESPACES + 5][8];
    for (int i = 1; i < OB_METRICS_NAMESPACES + 5; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        rows[i] = (struct ob_gauges_row){.name_space = names[i], .pending = i, .table_bytes = -1, .dead_tuples = -1};
    }
    ob_metrics_store(metrics, "s");
    assert_null(strstr(render(metrics), "outbox_pending{"));
    ob_metrics_set_gauges(metrics, "s", rows, OB_COUNT(rows));
    assert_true(has(metrics, "outbox_leader{store=\"s\"} 1"));
    assert_true(has(metrics, "outbox_pending{store=\"s\"} 12"));
    assert_true(has(metrics, "outbox_oldest_due_age_seconds{store=\"s\"} 1.5"));
    assert_true(has(metrics, "outbox_queue_bytes{store=\"s\"} 8192"));
    assert_true(has(metrics, "outbox_repairs_total{store=\"s\"} 6"));
    assert_null(strstr(render(metrics), "outbox_queue_dead_tuples{")); /* not known here */
    assert_true(has(metrics, "outbox_namespace_pending{store=\"s\",namespace=\"n20\"} 20"));
    assert_null(strstr(render(metrics), "namespace=\"n21\"")); /* no more than so many */
    ob_metrics_set_gauges(metrics, "s", NULL, 0);
    assert_true(has(metrics, "outbox_leader{store=\"s\"} 0"));
    assert_null(strstr(render(metrics), "outbox_pending{"));
    assert_null(strstr(render(metrics), "namespace="));
    ob_metrics_free(metrics);
}

/* S15: a name can hold anything, and does not break the page. */
static void test_odd_names(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    ob_metrics_store(metrics, "a\"b\\c\nd");
    assert_true(has(metrics, "outbox_held{store=\"a\\\"b\\\\c\\nd\"} 0"));
    ob_metrics_free(metrics);
}

/* S15: after a reload what is gone is not shown, and what stays goes on counting. */
static void test_reload(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    ob_series_add(ob_metrics_store(metrics, "a"), OB_METRIC_claimed, 1);
    ob_series_add(ob_metrics_store(metrics, "b"), OB_METRIC_claimed, 2);
    ob_metrics_retire(metrics);
    ob_series_add(ob_metrics_store(metrics, "b"), OB_METRIC_claimed, 3);
    assert_null(strstr(render(metrics), "store=\"a\""));
    assert_true(has(metrics, "outbox_claimed_total{store=\"b\"} 5"));
    ob_metrics_free(metrics);
}

static void *write_much(void *ctx)
{
    struct ob_metrics *metrics = ctx;
    struct ob_series *mail = ob_metrics_sink(metrics, "s", "mail");
    for (int i = 0; i < 20000; i++) {
        ob_series_observe(mail, OB_METRIC_delivery, i);
        ob_series_add(mail, OB_METRIC_claimed, 1);
    }
    return NULL;
}

/* S15: read while it is written, by threads, nothing is lost. */
static void test_threads(void **state)
{
    (void)state;
    struct ob_metrics *metrics = ob_metrics_new("1");
    pthread_t threads[2];
    for (size_t i = 0; i < OB_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_much, metrics), 0);
    for (int i = 0; i < 20; i++)
        render(metrics);
    for (size_t i = 0; i < OB_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_true(has(metrics, "outbox_delivery_seconds_count" HEAD "} 40000"));
    ob_metrics_free(metrics);
}

/* S15: every allocation may fail. */
static void test_no_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        ob_fail_alloc(n);
        struct ob_metrics *metrics = ob_metrics_new("1");
        if (metrics) {
            struct ob_gauges_row rows[] = {{.pending = 1}, {.name_space = "n"}};
            struct ob_buf buf = OB_BUF_INIT;
            ob_series_add(ob_metrics_store(metrics, "s"), OB_METRIC_claimed, 1);
            ob_series_observe(ob_metrics_sink(metrics, "s", "d"), OB_METRIC_delivery, 1);
            ob_metrics_set_gauges(metrics, "s", rows, 2);
            ob_metrics_render(metrics, &buf);
            ob_buf_fini(&buf);
        }
        ob_metrics_free(metrics);
        failed = ob_fail_alloc_end();
    }
}

static int group_teardown(void **state)
{
    (void)state;
    ob_buf_fini(&page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),  cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_state_set), cmocka_unit_test(test_gauges_of_the_leader),
        cmocka_unit_test(test_odd_names), cmocka_unit_test(test_reload),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
