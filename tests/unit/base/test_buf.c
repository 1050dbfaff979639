/* test_buf.c - the growing buffer. Proves: sticky failure, one check at the end (style, errors). */
#include "base/alloc.h"
#include "base/buf.h"
#include "ob_test.h"

#include <string.h>

static void pieces_are_joined(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    assert_string_equal(ob_buf_text(&buf), "");
    ob_buf_puts(&buf, "a=");
    ob_buf_printf(&buf, "%d, %s", 42, "b");
    ob_buf_putc(&buf, '\0');
    ob_buf_put(&buf, "xyz", 2);
    assert_int_equal(buf.len, 10);
    assert_memory_equal(buf.data, "a=42, b\0xy", 11);
    assert_true(ob_buf_ok(&buf));
    ob_buf_fini(&buf);
    ob_buf_fini(NULL);
}

static void grows_far_and_stays_terminated(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    for (int i = 0; i < 10000; i++) {
        ob_buf_printf(&buf, "%04d", i);
        assert_int_equal(buf.data[buf.len], '\0');
    }
    assert_int_equal(strlen(ob_buf_text(&buf)), 40000);
    assert_memory_equal(buf.data + 39996, "9999", 4);
    ob_buf_fini(&buf);
}

static void reserved_room_can_be_written(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    char *room = ob_buf_reserve(&buf, 1000);
    assert_non_null(room);
    memset(room, 'x', 1000);
    ob_buf_added(&buf, 1000);
    assert_int_equal(strlen(ob_buf_text(&buf)), 1000);
    ob_buf_fini(&buf);
}

static void taking_hands_the_memory_over(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    ob_buf_puts(&buf, "mine");
    char *text = ob_buf_take(&buf);
    assert_string_equal(text, "mine");
    assert_null(buf.data);
    ob_free(text);
    text = ob_buf_take(&buf);
    assert_string_equal(text, "");
    ob_free(text);
}

static void failure_is_sticky_until_reset(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    ob_buf_puts(&buf, "before");
    assert_null(ob_buf_reserve(&buf, SIZE_MAX));
    ob_buf_puts(&buf, "after");
    assert_false(ob_buf_ok(&buf));
    assert_string_equal(ob_buf_text(&buf), "");
    ob_buf_reset(&buf);
    ob_buf_puts(&buf, "again");
    assert_true(ob_buf_ok(&buf));
    assert_string_equal(ob_buf_text(&buf), "again");
    assert_null(ob_buf_reserve(&buf, SIZE_MAX));
    assert_null(ob_buf_take(&buf));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t failing = 0;
    bool failed = true;
    for (; failed; failing++) {
        struct ob_buf buf = OB_BUF_INIT;
        ob_fail_alloc(failing);
        for (int i = 0; i < 100; i++)
            ob_buf_printf(&buf, "piece %02d;", i);
        char *text = ob_buf_take(&buf);
        if (text) {
            assert_int_equal(strlen(text), 900);
            assert_memory_equal(text + 891, "piece 99;", 9);
        }
        bool complete = text;
        ob_free(text);
        failed = ob_fail_alloc_end();
        assert_int_equal(complete, !failed);
    }
    assert_true(failing > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_joined),
        cmocka_unit_test(grows_far_and_stays_terminated),
        cmocka_unit_test(reserved_room_can_be_written),
        cmocka_unit_test(taking_hands_the_memory_over),
        cmocka_unit_test(failure_is_sticky_until_reset),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
