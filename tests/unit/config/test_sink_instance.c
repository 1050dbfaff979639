/* test_sink_instance.c - the seam between the relay and a sink that was compiled elsewhere. Proves: V5: a sink made for an older
 * header says what that header had, and no more. */
#include "config/sink_instance.h"

#include "ob_test.h"

#include <stdio.h>
#include <string.h>

struct outbox_sink {
    const struct outbox_sink_host *host;
    size_t size; /* of its verdicts */
};

static struct outbox_sink the_sink;
static struct outbox_verdict heard;

static enum outbox_code open_it(const struct outbox_sink_option *options, size_t count,
                                const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    (void)options, (void)count, (void)err;
    the_sink.host = host;
    *sink = &the_sink;
    return OUTBOX_OK;
}

/* Every byte beyond its size is set: it is not the sink's to say. */
static void deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    struct outbox_verdict verdict;
    (void)count;
    memset(&verdict, 0x01, sizeof verdict);
    memset(&verdict, 0, sink->size);
    verdict.outcome = OUTBOX_SINK_TERMINAL;
    verdict.size = sink->size;
    sink->host->done(sink->host->ctx, items[0].handle, &verdict);
}

static int closed;

static void close_it(outbox_sink *sink)
{
    (void)sink;
    closed++;
}

static enum outbox_code open_badly(const struct outbox_sink_option *options, size_t count,
                                   const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    (void)open_it(options, count, host, sink, err);
    return OUTBOX_INVALID;
}

static void done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    (void)ctx, (void)handle;
    heard = *verdict;
}

static void verdicts_of_any_size_are_taken(void **state)
{
    (void)state;
    static const struct outbox_sink_ops ops = {OUTBOX_SINK_OPS_HEAD, .open = open_it, .deliver = deliver,
                                               .close = close_it};
    static const struct ob_config_sink config = {.name = "x"};
    static const struct outbox_sink_item item = {.handle = 7};
    uv_loop_t loop;
    struct ob_sink_instance *instance;
    struct outbox_error err;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct ob_sink_instance_settings settings = {.loop = &loop, .ops = &ops, .sink = &config, .done = done};
    assert_int_equal(ob_sink_instance_open(&settings, &instance, &err), OUTBOX_OK);

    the_sink.size = offsetof(struct outbox_verdict, output);
    ob_sink_instance_deliver(instance, &item, 1);
    assert_int_equal(heard.outcome, OUTBOX_SINK_TERMINAL);
    assert_int_equal(heard.size, sizeof heard);
    assert_null(heard.output);

    the_sink.size = 0; /* it forgot OUTBOX_VERDICT_INIT: who knows what the rest is worth */
    ob_sink_instance_deliver(instance, &item, 1);
    assert_int_equal(heard.outcome, OUTBOX_SINK_UNKNOWN);
    assert_string_equal(heard.code, "bad_verdict");

    ob_sink_instance_close(instance);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* It may have told us of a sink that it took back since. */
static void what_did_not_open_is_not_closed(void **state)
{
    (void)state;
    static const struct outbox_sink_ops ops = {OUTBOX_SINK_OPS_HEAD, .open = open_badly, .deliver = deliver,
                                               .close = close_it};
    static const struct ob_config_sink config = {.name = "x"};
    uv_loop_t loop;
    struct ob_sink_instance *instance;
    struct outbox_error err;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct ob_sink_instance_settings settings = {.loop = &loop, .ops = &ops, .sink = &config, .done = done};
    closed = 0;
    assert_int_equal(ob_sink_instance_open(&settings, &instance, &err), OUTBOX_INVALID);
    assert_null(instance);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(closed, 0);
}

static enum outbox_code open_and_quote(const struct outbox_sink_option *options, size_t count,
                                       const struct outbox_sink_host *host, outbox_sink **sink,
                                       struct outbox_error *err)
{
    (void)options, (void)count, (void)host, (void)sink;
    snprintf(err->text, sizeof err->text, "no \"hunter22\", not even hunter22hunter22, nor ****");
    return err->code = OUTBOX_INVALID;
}

/* Also one that somebody has masked already, and copied so. */
static void secrets_are_not_repeated(void **state)
{
    (void)state;
    static const struct outbox_sink_ops ops = {OUTBOX_SINK_OPS_HEAD, .open = open_and_quote, .deliver = deliver,
                                               .close = close_it};
    static const char *masks[] = {"****", "hunter22"};
    const struct ob_config_sink config = {.name = "x", .masks = masks, .mask_count = 2};
    uv_loop_t loop;
    struct ob_sink_instance *instance;
    struct outbox_error err;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct ob_sink_instance_settings settings = {.loop = &loop, .ops = &ops, .sink = &config, .done = done};
    assert_int_equal(ob_sink_instance_open(&settings, &instance, &err), OUTBOX_INVALID);
    assert_string_equal(err.text, "no \"********\", not even ****************, nor ****");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static int closed_when_done_returned;

static void deliver_and_look(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    for (size_t i = 0; i < count; i++) {
        sink->host->done(sink->host->ctx, items[i].handle, &verdict);
        closed_when_done_returned = closed;
    }
}

static struct ob_sink_instance *to_close;
static int heard_count;

static void done_and_close(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    (void)ctx, (void)handle, (void)verdict;
    heard_count++;
    ob_sink_instance_close(to_close);
}

/* V5: a sink still exists when done returns, whoever closes it from within; so no sink has to be prepared for it. */
static void no_sink_is_closed_within_its_own_call(void **state)
{
    (void)state;
    static const struct outbox_sink_ops ops = {OUTBOX_SINK_OPS_HEAD, .open = open_it, .deliver = deliver_and_look,
                                               .close = close_it};
    static const struct ob_config_sink config = {.name = "x"};
    static const struct outbox_sink_item items[] = {{.handle = 7}, {.handle = 8}};
    uv_loop_t loop;
    struct outbox_error err;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct ob_sink_instance_settings settings = {
        .loop = &loop, .ops = &ops, .sink = &config, .done = done_and_close};
    closed = closed_when_done_returned = heard_count = 0;
    assert_int_equal(ob_sink_instance_open(&settings, &to_close, &err), OUTBOX_OK);
    ob_sink_instance_deliver(to_close, items, 2);
    assert_int_equal(closed_when_done_returned, 0);
    assert_int_equal(heard_count, 1); /* who closed it wants to hear no more */
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(closed, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_of_any_size_are_taken),
        cmocka_unit_test(what_did_not_open_is_not_closed),
        cmocka_unit_test(secrets_are_not_repeated),
        cmocka_unit_test(no_sink_is_closed_within_its_own_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
