/* test_alloc.c - the replaceable allocator. Proves: the library allocates through what the host gives it (style). */
#include "base/alloc.h"
#include "ob_test.h"

#include <string.h>

static void replaced_allocator_serves_all_calls(void **state)
{
    (void)state;
    ob_fail_alloc(3);
    char *text = ob_strdup("abc");
    assert_non_null(text);
    assert_int_equal(ob_test_blocks_live, 1);
    char *grown = ob_realloc(text, 4, 100);
    assert_non_null(grown);
    assert_string_equal(grown, "abc");
    assert_int_equal(ob_test_blocks_live, 1);
    void *zeroed = ob_calloc(3, 5);
    assert_memory_equal(zeroed, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    ob_free(grown);
    ob_free(zeroed);
    assert_false(ob_fail_alloc_end());
}

static void failures_are_null_and_keep_the_old_block(void **state)
{
    (void)state;
    ob_fail_alloc(1);
    char *text = ob_memdup("ab", 2);
    assert_non_null(text);
    assert_null(ob_realloc(text, 3, 10));
    assert_string_equal(text, "ab");
    assert_null(ob_strdup("x"));
    assert_null(ob_alloc(1));
    ob_free(text);
    assert_true(ob_fail_alloc_end());
}

static void shrinking_copies_only_what_fits(void **state)
{
    (void)state;
    char *block = ob_memdup("0123456789", 10);
    block = ob_realloc(block, 11, 4);
    assert_memory_equal(block, "0123", 4);
    ob_free(block);
}

static void absurd_sizes_fail(void **state)
{
    (void)state;
    assert_null(ob_calloc(SIZE_MAX, 2));
    assert_null(ob_memdup("", SIZE_MAX));
}

static void half_an_allocator_is_ignored(void **state)
{
    (void)state;
    ob_test_allocs_left = 0;
    outbox_set_allocator(ob_test_alloc, NULL);
    void *block = ob_alloc(0);
    assert_non_null(block);
    ob_free(block);
    ob_free(NULL);
    outbox_set_allocator(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_allocator_serves_all_calls),
        cmocka_unit_test(failures_are_null_and_keep_the_old_block),
        cmocka_unit_test(shrinking_copies_only_what_fits),
        cmocka_unit_test(absurd_sizes_fail),
        cmocka_unit_test(half_an_allocator_is_ignored),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
