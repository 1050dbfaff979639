/* test_resp_guard.c - what a Redis may say, and how much of it. Proves: S10 (bounded), S13. */
#include "ob_test.h"
#include "sink/broker/redis/resp_guard.h"

#include <string.h>

enum { LIMIT = 1000 };

/* The same whether it comes at once or byte by byte. */
static bool passes(const char *text)
{
    struct ob_resp_guard whole, pieces;
    ob_resp_guard_init(&whole, LIMIT);
    ob_resp_guard_init(&pieces, LIMIT);
    bool at_once = ob_resp_guard_pass(&whole, text, strlen(text)), by_one = true;
    for (size_t i = 0; i < strlen(text); i++)
        by_one = ob_resp_guard_pass(&pieces, text + i, 1);
    assert_int_equal(at_once, by_one);
    assert_true(at_once == (whole.why == NULL));
    return at_once;
}

static void replies_pass(void **state)
{
    (void)state;
    assert_true(passes("+OK\r\n-ERR no\r\n:7\r\n$3\r\n7-0\r\n$-1\r\n*-1\r\n$0\r\n\r\n"));
    assert_true(passes("*1\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n+OK\r\n"));
    assert_true(passes("$900\r\n"));
    assert_true(passes("*0\r\n*4000\r\n"));
}

static void what_is_too_much_does_not(void **state)
{
    (void)state;
    static char line[LIMIT + 10] = "+";
    memset(line + 1, 'x', LIMIT);
    assert_false(passes(line)); /* a line without its end */
    assert_false(passes("$1073741824\r\n"));
    assert_false(passes("$1001\r\n"));
}

static void what_is_no_reply_does_not(void **state)
{
    (void)state;
    assert_false(passes("HTTP/1.1 400 Bad Request\r\n"));
    assert_false(passes("$-2\r\n"));
    assert_false(passes("$x\r\n"));
    assert_false(passes("$\r\n"));
    assert_false(passes("*1000000\r\n"));
    assert_false(passes("*99999999999999999999999\r\n"));
    assert_false(passes("*3000\r\n*3000\r\n"));
}

/* Each reply has the limit to itself. */
static void many_pass(void **state)
{
    (void)state;
    struct ob_resp_guard guard;
    ob_resp_guard_init(&guard, LIMIT);
    for (int i = 0; i < 10000; i++)
        assert_true(ob_resp_guard_pass(&guard, "*2\r\n$3\r\n7-0\r\n+a\r\n", 17));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_pass),
        cmocka_unit_test(what_is_too_much_does_not),
        cmocka_unit_test(what_is_no_reply_does_not),
        cmocka_unit_test(many_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
