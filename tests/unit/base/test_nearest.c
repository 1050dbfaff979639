/* test_nearest.c - the word that was meant. Proves: V11 (mistyped settings are told, with the right word). */
#include "base/nearest.h"
#include "ob_test.h"

#include <string.h>

static const char *nearest(const char *word)
{
    static const char *const words[] = {"concurrency", "batch", "retry.policy", "timeout", "rate", "run"};
    struct ob_nearest near;
    ob_nearest_init(&near, word);
    for (size_t i = 0; i < OB_COUNT(words); i++)
        ob_nearest_try(&near, words[i]);
    return near.best ? near.best : "";
}

/* V11 */
static void words(void **state)
{
    (void)state;
    assert_string_equal(nearest("concurency"), "concurrency");
    assert_string_equal(nearest("bacth"), "batch");
    assert_string_equal(nearest("retry.polcy"), "retry.policy");
    assert_string_equal(nearest("time"), "timeout"); /* the beginning will do */
    assert_string_equal(nearest("rte"), "rate");
    assert_string_equal(nearest("elephant"), "");
    assert_string_equal(nearest(""), "");
    char far[2000];
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    assert_string_equal(nearest(far), "");
}

/* V11 */
static void lists(void **state)
{
    (void)state;
    assert_true(ob_word_listed("webhook https", "webhook") && ob_word_listed("webhook https", "HTTPS"));
    assert_true(ob_word_listed("a  b ", "b"));
    assert_false(ob_word_listed("webhook https", "http") || ob_word_listed("webhook https", "hook"));
    assert_false(ob_word_listed("a b", "") || ob_word_listed("", "a") || ob_word_listed(NULL, "a") ||
                 ob_word_listed("a b", "a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
