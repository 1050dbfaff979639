/* Proves: V12 V15 S15. What is logged and counted of a message's way. */
#include "ob_test.h"

#include "daemon/observer.h"

#include <stdio.h>
#include <string.h>

/* A note gives defaults which a test overrides by name. */
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif

static char lines[64 * 1024];
static size_t async_count;
static int64_t wall_us;

static int64_t clock_now(void)
{
    return wall_us;
}

static void keep_line(void *ctx, enum ob_log_level level, const char *line, size_t len)
{
    (void)ctx;
    (void)level;
    size_t used = strlen(lines);
    async_count++;
    if (used + len + 2 < sizeof lines)
        snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static struct ob_log log_to_lines = {.write = keep_line, .clock_us = clock_now};
static struct ob_metrics *metrics;
static struct ob_observer *observer;

static const struct outbox_delivery message = {
    .size = sizeof message,
    .id = {{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, 16}},
    .name_space = "default",
    .topic = "orders.paid",
    .tenant_id = "7a5e1f0c-0000-4000-8000-000000000001",
    .key = "k",
    .seq = 4,
    .subject = "order 42",
    .recipient = "secret@example.com",
    .headers = "{\"authorization\": \"hidden\"}",
    .correlation_id = "c-1",
    .payload = "{\"card\": \"hidden\"}",
    .payload_len = 17,
    .attempt = 1,
    .created_at_us = 1000000,
};

static int setup(void **state)
{
    static const char *const names[] = {"billing", "mail"};
    (void)state;
    lines[0] = '\0';
    async_count = 0;
    wall_us = 3000000;
    log_to_lines.level = OB_LOG_DEBUG;
    metrics = ob_metrics_new("1");
    observer = ob_observer_new(&(struct ob_observer_settings){.metrics = metrics,
                                                              .log = &log_to_lines,
                                                              .store = "shop",
                                                              .sinks = names,
                                                              .sink_count = 2,
                                                              .wall_us = clock_now});
    return observer ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ob_observer_free(observer);
    ob_metrics_free(metrics);
    return 0;
}

#define NOTE(...) \
    ob_observer_note( \
        observer, &(struct ob_note){.id = message.id, .msg = &message, .latency_us = -1, .delay_us = -1, __VA_ARGS__})

static bool counted(const char *line)
{
    struct ob_buf page = OB_BUF_INIT;
    ob_metrics_render(metrics, &page);
    bool found = strstr(ob_buf_text(&page), line) != NULL;
    ob_buf_fini(&page);
    return found;
}

#define IDS \
    "store=shop id=01020304-0506-7008-800a-0b0c0d0e0f10 namespace=default topic=orders.paid " \
    "tenant=7a5e1f0c-0000-4000-8000-000000000001 key=k seq=4 subject=\"order 42\" correlation_id=c-1 attempt=1"

/* V12 V15: every step has a log line with the message's ids, and none of them has its content. */
static void test_lines(void **state)
{
    (void)state;
    NOTE(.kind = OB_NOTE_CLAIMED, .sink = -1);
    assert_string_equal(lines, "time=1970-01-01T00:00:03.000000Z level=debug msg=claimed " IDS "\n");
    NOTE(.kind = OB_NOTE_SENT);
    assert_non_null(strstr(lines, "level=debug msg=sent " IDS " sink=billing\n"));
    NOTE(.kind = OB_NOTE_ENDED, .outcome = OUTBOX_RETRY, .latency_us = 1500, .code = "http_503", .delay_us = 2000000);
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_RETRY, .latency_us = 1500, .code = "http_503", .error = "busy");
    assert_non_null(
        strstr(lines, "level=info msg=retry " IDS " sink=billing code=http_503 error=busy latency_ms=1.5\n"));
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_FAILED, .dead = true, .code = "http_400");
    assert_non_null(strstr(lines, "level=warn msg=dead " IDS " sink=billing code=http_400\n"));
    NOTE(.kind = OB_NOTE_LOST, .sink = 1);
    assert_non_null(strstr(lines, "level=warn msg=\"lease lost\" " IDS " sink=mail\n"));
    NOTE(.kind = OB_NOTE_UNROUTED, .sink = -1);
    assert_non_null(strstr(lines, "level=info msg=\"no route\" " IDS "\n"));
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_DELIVERED, .latency_us = 1000);
    assert_non_null(strstr(lines, "level=debug msg=delivered " IDS " sink=billing latency_ms=1\n"));
    NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_OPEN);
    assert_non_null(
        strstr(lines, "level=warn msg=\"breaker open: deliveries suspended\" store=shop sink=mail breaker=open"));
    assert_null(strstr(lines, "hidden"));
    assert_null(strstr(lines, "secret@"));
}

static int count_lines(const char *with)
{
    int count = 0;
    for (const char *at = strstr(lines, with); at; at = strstr(at + 1, with))
        count++;
    return count;
}

/* V12: a sink that goes away is worth one warning, with the code; that it is still away is not. */
static void test_left_alone_once(void **state)
{
    (void)state;
    NOTE(.kind = OB_NOTE_ENDED, .sink = 1, .outcome = OUTBOX_RETRY, .latency_us = 1, .code = "smtp_connect");
    for (int i = 0; i < 3; i++) {
        NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_OPEN);
        NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_HALF_OPEN);
    }
    assert_int_equal(
        count_lines("level=warn msg=\"breaker open: deliveries suspended\" store=shop sink=mail breaker=open "
                    "cause=down code=smtp_connect\n"),
        1);
    NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_CLOSED);
    NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_OPEN);
    assert_int_equal(count_lines("level=warn msg=\"breaker open: deliveries suspended\""), 2);
}

/* V12 S10: a sink that could not try for want of descriptors is told, once in a while; a probe that went back is not that. */
static void test_starved(void **state)
{
    (void)state;
    NOTE(.kind = OB_NOTE_ENDED, .outcome = OUTBOX_RELEASED, .latency_us = 5, .delay_us = 1000, .code = "http_401");
    assert_int_equal(count_lines("descriptors or memory"), 0);
    for (int i = 0; i < 3; i++)
        NOTE(.kind = OB_NOTE_ENDED, .outcome = OUTBOX_RELEASED, .delay_us = 1000, .starved = true);
    assert_int_equal(count_lines("descriptors or memory"), 1);
}

/* V12: as JSON, a log line is a document. */
static void test_json(void **state)
{
    (void)state;
    log_to_lines.format = OB_LOG_JSON;
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_FAILED, .dead = true, .code = "c\n\"");
    log_to_lines.format = OB_LOG_LOGFMT;
    assert_non_null(strstr(lines, "\"msg\":\"dead\""));
    assert_non_null(strstr(lines, "\"code\":\"c\\n\\\"\""));
}

/* S15: what the page says after the same steps. */
static void test_counts(void **state)
{
    (void)state;
    NOTE(.kind = OB_NOTE_SENT);
    NOTE(.kind = OB_NOTE_ENDED, .outcome = OUTBOX_DELIVERED, .latency_us = 30000);
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_DELIVERED, .latency_us = 30000);
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_UNKNOWN, .sink = 1);
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_RETRY, .sink = 1, .dead = true);
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_RELEASED, .sink = 1);
    NOTE(.kind = OB_NOTE_LOST);
    NOTE(.kind = OB_NOTE_UNROUTED, .sink = -1);
    NOTE(.kind = OB_NOTE_BREAKER, .msg = NULL, .sink = 1, .breaker = OB_BREAKER_HALF_OPEN);
    assert_true(counted("\noutbox_delivered_total{store=\"shop\"} 1\n"));
    assert_true(counted("\noutbox_retried_total{store=\"shop\"} 1\n"));
    assert_true(counted("\noutbox_dead_letters_total{store=\"shop\"} 1\n"));
    assert_true(counted("\noutbox_lease_lost_total{store=\"shop\"} 1\n"));
    assert_true(counted("\noutbox_unrouted_total{store=\"shop\"} 1\n"));
    assert_true(counted("{store=\"shop\",sink=\"billing\",outcome=\"delivered\"} 1\n"));
    assert_true(counted("{store=\"shop\",sink=\"mail\",outcome=\"unknown\"} 1\n"));
    assert_true(counted("{store=\"shop\",sink=\"mail\",outcome=\"retry\"} 1\n"));
    assert_true(counted("\noutbox_delivery_seconds_sum{store=\"shop\",sink=\"billing\"} 0.03\n"));
    assert_true(counted("\noutbox_queue_seconds_sum{store=\"shop\",sink=\"billing\"} 2\n"));
    assert_true(counted("\noutbox_end_to_end_seconds_sum{store=\"shop\",sink=\"billing\"} 2\n"));
    assert_true(counted("\noutbox_last_success_timestamp_seconds{store=\"shop\",sink=\"billing\"} 3\n"));
    assert_true(counted("\noutbox_sink_state{store=\"shop\",sink=\"mail\",state=\"half_open\"} 1\n"));
}

/* S15: counts of the core are taken over by difference: a new generation begins at zero and adds to the same counters. */
static void test_ticks(void **state)
{
    (void)state;
    struct ob_machine_stats stats = {.claims = 3, .claimed = 30, .held = 7, .in_flight = 2, .bytes = 99};
    struct ob_async_store_state async = {.connected = true, .connects = 3, .wakeups = 5};
    ob_observer_tick(observer, &stats, &async);
    stats.claimed = 40;
    async.wakeups = 6;
    ob_observer_tick(observer, &stats, &async);
    assert_true(counted("\noutbox_claims_total{store=\"shop\"} 3\n"));
    assert_true(counted("\noutbox_claimed_total{store=\"shop\"} 40\n"));
    assert_true(counted("\noutbox_wakeups_total{store=\"shop\"} 6\n"));
    assert_true(counted("\noutbox_store_reconnects_total{store=\"shop\"} 2\n"));
    assert_true(counted("\noutbox_store_connected{store=\"shop\"} 1\n"));
    assert_true(counted("\noutbox_held{store=\"shop\"} 7\n"));
    struct ob_observer *next =
        ob_observer_new(&(struct ob_observer_settings){.metrics = metrics, .store = "shop", .wall_us = clock_now});
    ob_observer_tick(next, &(struct ob_machine_stats){.claimed = 2}, &(struct ob_async_store_state){.connects = 1});
    assert_true(counted("\noutbox_claimed_total{store=\"shop\"} 42\n"));
    assert_true(counted("\noutbox_store_reconnects_total{store=\"shop\"} 2\n"));
    ob_observer_free(next);
}

/* V12: a busy relay logs one line in ten seconds; what fails at full speed does not drown the log. */
static void test_calm(void **state)
{
    (void)state;
    log_to_lines.level = OB_LOG_INFO;
    for (int i = 0; i < 100000; i++) {
        NOTE(.kind = OB_NOTE_CLAIMED, .sink = -1);
        NOTE(.kind = OB_NOTE_SENT);
        NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_DELIVERED, .latency_us = 1);
    }
    assert_int_equal(async_count, 0);
    ob_observer_tick(observer, NULL, NULL);
    assert_int_equal(async_count, 0);
    for (int i = 0; i < 1000; i++)
        NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_RETRY, .code = "http_503");
    assert_int_equal(async_count, OB_OBSERVER_LINES);
    wall_us += 1000000;
    NOTE(.kind = OB_NOTE_SETTLED, .outcome = OUTBOX_RETRY, .code = "http_503");
    assert_int_equal(async_count, OB_OBSERVER_LINES + 1);
    wall_us += 9000000;
    ob_observer_tick(observer, NULL, NULL);
    assert_int_equal(async_count, OB_OBSERVER_LINES + 2);
    assert_non_null(strstr(lines, "level=info msg=deliveries store=shop seconds=10 claimed=100000 delivered=100000 "
                                  "retried=1001 dead=0 lost=0 unrouted=0 lines_left_out=950"));
    wall_us += OB_OBSERVER_SUMMARY_US;
    ob_observer_tick(observer, NULL, NULL);
    assert_int_equal(async_count, OB_OBSERVER_LINES + 2); /* nothing happened: nothing to say */
}

/* S15: every allocation may fail. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        ob_fail_alloc(n);
        struct ob_metrics *own = ob_metrics_new("1");
        struct ob_observer_settings set = {.metrics = own, .store = "s", .sinks = names, .sink_count = 2};
        ob_observer_free(own ? ob_observer_new(&set) : NULL);
        ob_metrics_free(own);
        failed = ob_fail_alloc_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_left_alone_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_starved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ticks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calm, setup, teardown),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
