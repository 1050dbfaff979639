/* test_arena.c - memory freed all at once. Proves: a batch survives each allocation failing (style, ownership). */
#include "base/arena.h"
#include "ob_test.h"

#include <stdalign.h>
#include <string.h>

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    struct ob_arena arena;
    ob_arena_init(&arena, 64);
    unsigned char *pieces[50];
    for (size_t i = 0; i < OB_COUNT(pieces); i++) {
        pieces[i] = ob_arena_alloc(&arena, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)i, i);
    }
    for (size_t i = 0; i < OB_COUNT(pieces); i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(pieces[i][k], i);
    ob_arena_fini(&arena);
}

static void a_large_piece_does_not_waste_the_block_in_use(void **state)
{
    (void)state;
    struct ob_arena arena;
    ob_fail_alloc(2);
    ob_arena_init(&arena, 1024);
    assert_non_null(ob_arena_alloc(&arena, 16));
    assert_non_null(ob_arena_alloc(&arena, 100000));
    assert_non_null(ob_arena_alloc(&arena, 16)); /* still fits the first block: a third would fail */
    ob_arena_fini(&arena);
    assert_false(ob_fail_alloc_end());
}

static void copies_end_with_nul(void **state)
{
    (void)state;
    struct ob_arena arena;
    ob_arena_init(&arena, 0);
    assert_string_equal(ob_arena_strdup(&arena, "hello"), "hello");
    assert_string_equal(ob_arena_memdup(&arena, "hello", 2), "he");
    assert_string_equal(ob_arena_memdup(&arena, NULL, 0), "");
    assert_memory_equal(ob_arena_calloc(&arena, 2, 4), "\0\0\0\0\0\0\0\0", 8);
    ob_arena_fini(&arena);
    ob_arena_fini(&arena);
    ob_arena_fini(NULL);
}

static void absurd_sizes_fail(void **state)
{
    (void)state;
    struct ob_arena arena;
    ob_arena_init(&arena, 0);
    assert_null(ob_arena_alloc(&arena, SIZE_MAX));
    assert_null(ob_arena_alloc(&arena, SIZE_MAX - 20));
    assert_null(ob_arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(ob_arena_memdup(&arena, "", SIZE_MAX));
    assert_string_equal(ob_arena_strdup(&arena, "alive"), "alive");
    ob_arena_fini(&arena);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t failing = 0;
    bool failed = true;
    for (; failed; failing++) {
        struct ob_arena arena;
        char *texts[20];
        bool complete = true;
        ob_fail_alloc(failing);
        ob_arena_init(&arena, 64);
        for (size_t i = 0; i < OB_COUNT(texts); i++) {
            texts[i] = ob_arena_strdup(&arena, i % 5 ? "a text of some length" : "short");
            complete = complete && texts[i];
        }
        for (size_t i = 0; i < OB_COUNT(texts); i++)
            if (texts[i])
                assert_string_equal(texts[i], i % 5 ? "a text of some length" : "short");
        ob_arena_fini(&arena);
        failed = ob_fail_alloc_end();
        assert_int_equal(complete, !failed);
    }
    assert_true(failing > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart), cmocka_unit_test(a_large_piece_does_not_waste_the_block_in_use),
        cmocka_unit_test(copies_end_with_nul),          cmocka_unit_test(absurd_sizes_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
