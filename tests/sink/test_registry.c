/* test_registry.c - finding, loading and opening adapters; their options; and the harness itself, on the null sink.
 *
 * Proves: V5 (an adapter interface), N3 (sinks by name). */
#include "ob_test.h"

#include "base/arena.h"
#include "harness.h"
#include "setting.h"
#include "sink/common/option.h"
#include "sink/registry.h"

static void every_adapter_is_complete(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct outbox_sink_ops *ops; (ops = ob_sink_at(count)); count++) {
        assert_int_equal(ops->abi, OUTBOX_SINK_ABI);
        assert_int_equal(ops->size, sizeof *ops);
        assert_int_equal(ops->item_size, sizeof(struct outbox_sink_item));
        assert_ptr_equal(ob_sink_find(ops->kind), ops);
        assert_null(ob_sink_missing(ops->kind));
        assert_true(ops->open && ops->deliver && ops->cancel && ops->close);
        assert_non_null(ops->summary);
        for (const struct outbox_sink_setting *row = ops->settings; row && row->name; row++) {
            assert_non_null(row->doc);
            assert_true(row->type != OUTBOX_OPTION_ENUM || row->choices);
            assert_false(row->required && row->fallback);
        }
    }
    assert_true(count >= 1);
    assert_null(ob_sink_find("no such kind"));
    assert_null(ob_sink_find(NULL));
}

static void unknown_kinds_are_named(void **state)
{
    const struct outbox_sink_ops *ops;
    struct outbox_error err;
    (void)state;
    assert_int_equal(ob_sink_load("carrier-pigeon", NULL, &ops, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "carrier-pigeon"));
    assert_non_null(strstr(err.text, "null"));
    assert_int_equal(ob_sink_load("x", "plain.so", &ops, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "./plain.so"));
    assert_int_equal(ob_sink_load("./no/such/file.so", NULL, &ops, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "no/such/file.so"));
    assert_int_equal(ob_sink_load(NULL, NULL, &ops, &err), OUTBOX_INVALID);
    assert_null(ops);
}

static const struct outbox_sink_setting table[] = {
    {.name = "url", .type = OUTBOX_OPTION_TEXT, .required = true, .doc = "where to"},
    {.name = "timeout", .type = OUTBOX_OPTION_DURATION, .fallback = "10s", .least = 1000, .most = 60000000, .doc = "t"},
    {.name = "limit", .type = OUTBOX_OPTION_SIZE, .fallback = "64KiB", .doc = "l"},
    {.name = "count", .type = OUTBOX_OPTION_INT, .least = 1, .most = 10, .doc = "c"},
    {.name = "fast", .type = OUTBOX_OPTION_BOOL, .fallback = "true", .doc = "f"},
    {.name = "format", .type = OUTBOX_OPTION_ENUM, .choices = "json logfmt", .fallback = "json", .doc = "f"},
    {.name = "arg", .type = OUTBOX_OPTION_LIST, .doc = "a"},
    {.name = "headers", .type = OUTBOX_OPTION_MAP, .doc = "h"},
    {.name = "secret", .type = OUTBOX_OPTION_INT, .secret = true, .doc = "s"},
    {0},
};

static void options_are_completed(void **state)
{
    const struct outbox_sink_option given[] = {
        {"url", "u"}, {"arg", "a"}, {"arg", "b"}, {"headers.X-Team", "red"}, {"count", "3"}, {"timeout", "250ms"},
    };
    struct ob_arena arena;
    struct ob_options options = {.settings = table};
    struct outbox_error err;
    (void)state;
    ob_arena_init(&arena, 0);
    assert_int_equal(ob_settings_complete(table, given, OB_COUNT(given), &arena, &options.at, &options.count, &err),
                     OUTBOX_OK);
    assert_string_equal(ob_option_text(&options, "url"), "u");
    assert_int_equal(ob_option_int(&options, "timeout"), 250000);
    assert_int_equal(ob_option_int(&options, "limit"), 65536);
    assert_int_equal(ob_option_int(&options, "count"), 3);
    assert_int_equal(ob_option_int(&options, "secret"), 0);
    assert_true(ob_option_bool(&options, "fast"));
    assert_string_equal(ob_option_text(&options, "format"), "json");
    assert_null(ob_option_text(&options, "secret"));
    size_t i = 0;
    assert_string_equal(ob_option_next(&options, "arg", &i), "a");
    assert_string_equal(ob_option_next(&options, "arg", &i), "b");
    assert_null(ob_option_next(&options, "arg", &i));
    assert_int_equal(ob_option_count(&options, "arg"), 2);
    const char *key;
    i = 0;
    assert_string_equal(ob_option_below(&options, "headers", &i, &key), "red");
    assert_string_equal(key, "X-Team");
    assert_null(ob_option_below(&options, "headers", &i, &key));
    ob_arena_fini(&arena);
}

/* V11: a default stands in the table and nowhere else: who gets no options has the same as who gets them completed. */
static void defaults_are_those_of_the_table(void **state)
{
    const struct ob_options options = {NULL, 0, table};
    (void)state;
    assert_int_equal(ob_option_int(&options, "timeout"), 10000000);
    assert_int_equal(ob_option_int(&options, "limit"), 65536);
    assert_int_equal(ob_option_int(&options, "count"), 0);
    assert_true(ob_option_bool(&options, "fast"));
    assert_true(ob_option_is(&options, "format", "json"));
    assert_null(ob_option_text(&options, "url"));
    assert_string_equal(ob_option_string(&options, "url"), "");
    assert_true(ob_option_known(&options, "url"));
    assert_false(ob_option_known(&options, "nothing"));
    for (size_t i = 0; ob_sink_at(i); i++)
        for (const struct outbox_sink_setting *row = ob_sink_at(i)->settings; row && row->name; row++)
            if (row->fallback && row->type == OUTBOX_OPTION_BOOL)
                assert_true(strcmp(row->fallback, "true") == 0 || strcmp(row->fallback, "false") == 0);
}

static void wrong_options_are_refused(void **state)
{
    static const struct {
        struct outbox_sink_option option;
        const char *says;
    } rows[] = {
        {{"ulr", "x"}, "ulr"},
        {{"timeout", "soon"}, "soon"},
        {{"timeout", "2h"}, "60000000"},
        {{"count", "11"}, "10"},
        {{"count", "3x"}, "3x"},
        {{"fast", "maybe"}, "true or false"},
        {{"format", "xml"}, "logfmt"},
        {{"format", ""}, "logfmt"},
        {{"format", "jso"}, "logfmt"},
        {{"limit", "-1"}, "-1"},
        {{"headers", "x"}, "headers"},
        {{"headers.", "x"}, "headers."},
        {{"limit", "9999999999999GiB"}, "9999999999999GiB"},
    };
    struct ob_arena arena;
    struct ob_options options;
    struct outbox_error err;
    (void)state;
    ob_arena_init(&arena, 0);
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        const struct outbox_sink_option given[] = {{"url", "u"}, rows[i].option};
        assert_int_equal(ob_settings_complete(table, given, 2, &arena, &options.at, &options.count, &err),
                         OUTBOX_INVALID);
        assert_non_null(strstr(err.text, rows[i].says));
    }
    const struct outbox_sink_option secret[] = {{"url", "u"}, {"secret", "hunter2"}};
    assert_int_equal(ob_settings_complete(table, secret, 2, &arena, &options.at, &options.count, &err), OUTBOX_INVALID);
    assert_null(strstr(err.text, "hunter2"));
    assert_int_equal(ob_settings_complete(table, NULL, 0, &arena, &options.at, &options.count, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "where to"));
    ob_arena_fini(&arena);
}

static void null_takes_everything(void **state)
{
    struct outbox_error err;
    struct harness *h = harness_open("null", NULL, 0, &err);
    struct outbox_delivery msgs[] = {HARNESS_MESSAGE("a", "1", .key = "k", .seq = 1),
                                     HARNESS_MESSAGE("a", "2", .key = "k", .seq = 2)};
    const bool follows[] = {false, true};
    (void)state;
    assert_non_null(h);
    uint64_t first = harness_send_many(h, msgs, follows, 2);
    uint64_t ping = harness_ping(h);
    assert_true(harness_wait(h, 1000));
    assert_int_equal(harness_verdict(h, first)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_int_equal(harness_verdict(h, first + 1)->outcome, OUTBOX_SINK_ACCEPTED);
    assert_int_equal(harness_verdict(h, ping)->outcome, OUTBOX_SINK_ACCEPTED);
    harness_cancel(h, first);
    assert_int_equal(harness_strays(h), 0);
    assert_true(harness_close(h));
}

static void options_nobody_knows_are_refused(void **state)
{
    const struct outbox_sink_option option = {"colour", "red"};
    struct outbox_error err;
    (void)state;
    assert_null(harness_open("null", &option, 1, &err));
    assert_non_null(strstr(err.text, "colour"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_adapter_is_complete),
        cmocka_unit_test(unknown_kinds_are_named),
        cmocka_unit_test(options_are_completed),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(null_takes_everything),
        cmocka_unit_test(options_nobody_knows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
