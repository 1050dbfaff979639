/* lib_dispatcher.c - the dispatcher of dispatcher.h, on a thread of its own and stepped, on both stores.
 * Proves: V4 (starts and stops with the program, can be disabled), M14 (the callback is the program's, payloads are not
 * looked at), M15 (stops on cancellation, finishes or releases what it holds; warns of a long poll), S11 (a task without an
 * answer is given up), N1. */
#include "pg_fixture.h"

#include <outbox/dispatcher.h>
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "lib/migrate.h"
#include "lib/open.h"

static char file[64], url[1100];
static struct outbox_error err;
static outbox_store *store;

struct seen {
    pthread_mutex_t lock;
    int calls;
    bool fail_first; /* what differs from the payload before it fails */
    char payloads[16][64];
    struct outbox_task *kept; /* not answered yet */
    bool keep;
    bool warned;
};

static void deliver(void *ctx, struct outbox_task *task, const struct outbox_delivery *msg)
{
    struct seen *seen = ctx;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    pthread_mutex_lock(&seen->lock);
    int call = seen->calls++;
    if (call < 16)
        snprintf(seen->payloads[call], sizeof seen->payloads[0], "%.*s", (int)msg->payload_len,
                 (const char *)msg->payload);
    bool keep = seen->keep;
    if (keep)
        seen->kept = task;
    pthread_mutex_unlock(&seen->lock);
    if (keep)
        return;
    if (seen->fail_first && (call == 0 || strcmp(seen->payloads[call], seen->payloads[call - 1]) != 0)) {
        verdict.outcome = OUTBOX_SINK_RETRY;
        verdict.code = "busy";
    }
    outbox_task_done(task, &verdict);
}

static void log_line(void *ctx, enum outbox_log_level level, const char *line)
{
    struct seen *seen = ctx;
    if (level == OUTBOX_LOG_WARN && strstr(line, "third of the lease"))
        seen->warned = true;
}

static struct outbox_dispatch options_for(struct seen *seen)
{
    struct outbox_dispatch options = OUTBOX_DISPATCH_INIT;
    pthread_mutex_init(&seen->lock, NULL);
    options.url = url;
    options.deliver = deliver;
    options.ctx = seen;
    options.log = log_line;
    options.poll_us = 50000;
    options.retry_base_us = 20000;
    return options;
}

static void send(const char *payload)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    msg.topic = "t";
    msg.key = "k";
    msg.payload = payload;
    msg.payload_len = strlen(payload);
    if (outbox_send(store, &msg, &receipt, &err))
        fail_msg("%s", err.text);
}

static bool on_status(void *ctx, const struct ob_status_row *row)
{
    int64_t *open = ctx;
    *open += row->pending + row->processing;
    return true;
}

/* Messages that are neither delivered nor dead. */
static int64_t open_messages(void)
{
    struct ob_store *look;
    int64_t open = 0;
    if (ob_store_open(url, NULL, &look, &err) || look->ops->status(look, on_status, &open, &err))
        fail_msg("%s", err.text);
    look->ops->close(look);
    return open;
}

static void wait_until_empty(outbox_dispatcher *stepped)
{
    int64_t end = ob_clock_mono_us() + 20000000;
    while (open_messages() > 0) {
        if (ob_clock_mono_us() > end)
            fail_msg("messages are left");
        if (stepped) {
            struct pollfd fd = {.fd = outbox_dispatcher_fd(stepped), .events = POLLIN};
            int timeout = outbox_dispatcher_timeout_ms(stepped);
            poll(&fd, 1, timeout < 0 || timeout > 100 ? 100 : timeout);
            outbox_dispatcher_step(stepped);
        } else {
            usleep(10000);
        }
    }
}

static outbox_dispatcher *made(const struct outbox_dispatch *options)
{
    outbox_dispatcher *dispatcher;
    if (outbox_dispatcher_new(options, &dispatcher, &err))
        fail_msg("%s", err.text);
    return dispatcher;
}

/* ---- tests ---- */

static void runs_on_its_own_thread(void **state)
{
    (void)state;
    struct seen seen = {.fail_first = true};
    struct outbox_dispatch options = options_for(&seen);
    outbox_dispatcher *dispatcher = made(&options);
    send("{\"n\": 1}");
    send("{\"n\": 2}");
    assert_int_equal(outbox_dispatcher_start(dispatcher, &err), OUTBOX_OK);
    assert_int_equal(outbox_dispatcher_start(dispatcher, &err), OUTBOX_INVALID);
    wait_until_empty(NULL);
    outbox_dispatcher_stop(dispatcher);
    assert_int_equal(seen.calls, 4); /* each fails once */
    assert_string_equal(seen.payloads[0], "{\"n\": 1}");
    assert_string_equal(seen.payloads[1], "{\"n\": 1}"); /* order: the second waits for the first */
    assert_string_equal(seen.payloads[3], "{\"n\": 2}");
    struct outbox_dispatcher_stats stats = {.size = sizeof stats};
    outbox_dispatcher_stats(dispatcher, &stats);
    assert_int_equal(stats.delivered, 2);
    assert_int_equal(stats.retried, 2);
    assert_int_equal(stats.held, 0);
    struct outbox_dispatcher_stats forgotten = {0}; /* its size */
    outbox_dispatcher_stats(dispatcher, &forgotten);
    assert_int_equal(forgotten.delivered, 0);
    outbox_dispatcher_free(dispatcher);
}

static void is_stepped_by_a_host(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct outbox_dispatch options = options_for(&seen);
    outbox_dispatcher *dispatcher = made(&options);
    for (int i = 0; i < 10; i++)
        send("{}");
    wait_until_empty(dispatcher);
    assert_int_equal(seen.calls, 10);
    outbox_dispatcher_cancel(dispatcher);
    while (outbox_dispatcher_step(dispatcher))
        usleep(1000);
    outbox_dispatcher_free(dispatcher);
}

static void disabled_claims_nothing(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct outbox_dispatch options = options_for(&seen);
    options.disabled = true;
    outbox_dispatcher *dispatcher = made(&options);
    send("{}");
    assert_int_equal(outbox_dispatcher_start(dispatcher, &err), OUTBOX_OK);
    assert_int_equal(outbox_dispatcher_timeout_ms(dispatcher), -1);
    outbox_dispatcher_stop(dispatcher);
    outbox_dispatcher_free(dispatcher);
    assert_int_equal(open_messages(), 1);
    assert_int_equal(seen.calls, 0);
}

/* A cancel gives back what was not begun, unspent; what is out has the grace period. */
static void cancel_gives_back(void **state)
{
    (void)state;
    struct seen seen = {.keep = true};
    struct outbox_dispatch options = options_for(&seen);
    options.grace_us = 200000;
    outbox_dispatcher *dispatcher = made(&options);
    for (int i = 0; i < 3; i++)
        send("{}");
    int64_t end = ob_clock_mono_us() + 10000000;
    while (!seen.kept && ob_clock_mono_us() < end) {
        outbox_dispatcher_step(dispatcher);
        usleep(1000);
    }
    assert_non_null(seen.kept);
    outbox_dispatcher_cancel(dispatcher);
    for (int i = 0; i < 20; i++) {
        outbox_dispatcher_step(dispatcher);
        usleep(1000);
    }
    outbox_task_done(seen.kept, NULL); /* within the grace period: it counts */
    while (outbox_dispatcher_step(dispatcher))
        usleep(1000);
    outbox_dispatcher_free(dispatcher);
    assert_int_equal(open_messages(), 2);
    seen.keep = false;
    struct outbox_dispatch again = options_for(&seen);
    dispatcher = made(&again);
    wait_until_empty(dispatcher);
    outbox_dispatcher_free(dispatcher);
    assert_int_equal(seen.calls, 3);
}

/* A task may be answered after everything is over. */
static void a_task_outlives_its_dispatcher(void **state)
{
    (void)state;
    struct seen seen = {.keep = true};
    struct outbox_dispatch options = options_for(&seen);
    options.timeout_us = 50000;
    options.lease_us = 1000000;
    outbox_dispatcher *dispatcher = made(&options);
    send("{}");
    int64_t end = ob_clock_mono_us() + 10000000;
    struct outbox_dispatcher_stats stats = {.size = sizeof stats};
    do {
        outbox_dispatcher_step(dispatcher);
        outbox_dispatcher_stats(dispatcher, &stats);
        usleep(1000);
        if (seen.calls == 1)
            seen.keep = false;
    } while (stats.delivered == 0 && ob_clock_mono_us() < end);
    assert_int_equal(stats.retried, 1); /* given up as unknown, then again */
    assert_int_equal(seen.calls, 2);
    outbox_dispatcher_free(dispatcher);
    outbox_task_done(seen.kept, NULL);
}

static void bad_options_are_named(void **state)
{
    (void)state;
    outbox_dispatcher *dispatcher = NULL;
    struct outbox_dispatch options = OUTBOX_DISPATCH_INIT;
    assert_int_equal(outbox_dispatcher_new(&options, &dispatcher, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "options.url"));
    options.url = url;
    assert_int_equal(outbox_dispatcher_new(&options, &dispatcher, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "options.deliver"));
    options.size = 0;
    assert_int_equal(outbox_dispatcher_new(&options, &dispatcher, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "OUTBOX_DISPATCH_INIT"));
    assert_null(dispatcher);
    struct seen seen = {0};
    options = options_for(&seen);
    options.lease_us = 1000000;
    options.poll_us = 900000;
    outbox_dispatcher_free(made(&options));
    assert_true(seen.warned);
    outbox_dispatcher_free(NULL);
}

/* ---- the two stores ---- */

static int open_store(void)
{
    return outbox_open(url, NULL, &store, &err) == OUTBOX_OK ? 0 : -1;
}

static int pg_each(void **state)
{
    pg_empty(state);
    snprintf(url, sizeof url, "%s", pg_conninfo);
    return open_store();
}

static int sqlite_each(void **state)
{
    (void)state;
    snprintf(file, sizeof file, "/tmp/ob-lib-dispatcher-%d.db", (int)getpid());
    snprintf(url, sizeof url, "sqlite:%s", file);
    struct ob_open create = {.create = true};
    if (ob_store_migrate(url, &create, NULL, &err))
        fail_msg("%s", err.text);
    return open_store();
}

static int close_each(void **state)
{
    (void)state;
    outbox_close(store);
    static const char *const suffixes[] = {"", "-wal", "-shm", "-relay"};
    for (size_t i = 0; *file && i < 4; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", file, suffixes[i]);
        unlink(name);
    }
    file[0] = '\0';
    return 0;
}

#define EACH(setup) \
    cmocka_unit_test_setup_teardown(runs_on_its_own_thread, setup, close_each), \
        cmocka_unit_test_setup_teardown(is_stepped_by_a_host, setup, close_each), \
        cmocka_unit_test_setup_teardown(disabled_claims_nothing, setup, close_each), \
        cmocka_unit_test_setup_teardown(cancel_gives_back, setup, close_each), \
        cmocka_unit_test_setup_teardown(a_task_outlives_its_dispatcher, setup, close_each), \
        cmocka_unit_test_setup_teardown(bad_options_are_named, setup, close_each)

int main(void)
{
    const struct CMUnitTest tests[] = {EACH(pg_each), EACH(sqlite_each)};
    if (!pg_given())
        return 0;
    return cmocka_run_group_tests_name("dispatcher", tests, pg_setup, pg_teardown);
}
