/* test_log.c - log lines. Proves: V12 (structured logs). */
#include "base/log.h"
#include "ob_test.h"

#include <string.h>

struct capture {
    char line[512];
    int count;
};

static void capture_line(void *ctx, enum ob_log_level level, const char *line, size_t len)
{
    struct capture *capture = ctx;
    (void)level;
    assert_int_equal(strlen(line), len);
    assert_true(len < sizeof capture->line);
    memcpy(capture->line, line, len + 1);
    capture->count++;
}

static int64_t fixed_clock(void)
{
    return 1709210096123456;
}

static struct ob_log capturing_log(struct capture *capture, enum ob_log_format format)
{
    return (struct ob_log){
        .level = OB_LOG_INFO, .format = format, .write = capture_line, .ctx = capture, .clock_us = fixed_clock};
}

/* V12 */
static void logfmt_quotes_what_needs_it(void **state)
{
    (void)state;
    struct capture capture = {0};
    struct ob_log log = capturing_log(&capture, OB_LOG_LOGFMT);
    ob_log(&log, OB_LOG_WARN, "delivery failed", OB_STR("topic", "orders.paid"), OB_STR("error", "a \"b\"\nc=d"),
           OB_STR("missing", NULL), OB_STR("empty", ""), OB_STR("sum", "1+1=2"), OB_INT("attempt", -3),
           OB_DOUBLE("age", 1.5), OB_BOOL("dead", true));
    assert_string_equal(capture.line, "time=2024-02-29T12:34:56.123456Z level=warn msg=\"delivery failed\" "
                                      "topic=orders.paid error=\"a \\\"b\\\"\\nc=d\" empty=\"\" sum=\"1+1=2\" "
                                      "attempt=-3 age=1.5 dead=true");
}

/* V12 */
static void json_lines_are_objects(void **state)
{
    (void)state;
    struct capture capture = {0};
    struct ob_log log = capturing_log(&capture, OB_LOG_JSON);
    ob_log(&log, OB_LOG_ERROR, "x", OB_STR("s", "\n"), OB_STR("none", NULL), OB_INT("i", 7), OB_BOOL("b", false));
    assert_string_equal(capture.line, "{\"time\":\"2024-02-29T12:34:56.123456Z\",\"level\":\"error\",\"msg\":\"x\","
                                      "\"s\":\"\\n\",\"i\":7,\"b\":false}");
}

static void low_levels_are_dropped(void **state)
{
    (void)state;
    struct capture capture = {0};
    struct ob_log log = capturing_log(&capture, OB_LOG_LOGFMT);
    ob_log(&log, OB_LOG_DEBUG, "quiet");
    assert_int_equal(capture.count, 0);
    ob_log(&log, OB_LOG_INFO, "loud");
    assert_int_equal(capture.count, 1);
    log.level = OB_LOG_OFF;
    ob_log(&log, OB_LOG_ERROR, "off");
    assert_int_equal(capture.count, 1);
    ob_log(NULL, OB_LOG_ERROR, "no log at all");
}

static void lines_go_to_a_file(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    struct ob_log log = {.file = file, .clock_us = fixed_clock};
    ob_log(&log, OB_LOG_INFO, "one");
    ob_log(&log, OB_LOG_INFO, "two");
    fclose(file);
    assert_string_equal(text, "time=2024-02-29T12:34:56.123456Z level=info msg=one\n"
                              "time=2024-02-29T12:34:56.123456Z level=info msg=two\n");
    free(text);
}

static void without_memory_a_line_is_dropped(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t failing = 0; failed; failing++) {
        struct capture capture = {0};
        struct ob_log log = capturing_log(&capture, failing % 2 ? OB_LOG_JSON : OB_LOG_LOGFMT);
        ob_fail_alloc(failing);
        ob_log(&log, OB_LOG_INFO, "a message long enough to need more than the first piece of memory");
        failed = ob_fail_alloc_end();
        assert_int_equal(capture.count, !failed);
    }
}

static void levels_have_names(void **state)
{
    (void)state;
    for (int i = OB_LOG_DEBUG; i <= OB_LOG_OFF; i++) {
        enum ob_log_level level;
        assert_true(ob_log_level_parse(ob_log_level_name((enum ob_log_level)i), &level));
        assert_int_equal(level, i);
    }
    enum ob_log_level level = OB_LOG_WARN;
    assert_false(ob_log_level_parse("loud", &level));
    assert_int_equal(level, OB_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logfmt_quotes_what_needs_it),      cmocka_unit_test(json_lines_are_objects),
        cmocka_unit_test(low_levels_are_dropped),           cmocka_unit_test(lines_go_to_a_file),
        cmocka_unit_test(without_memory_a_line_is_dropped), cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
