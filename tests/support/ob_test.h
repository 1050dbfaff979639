/* ob_test.h - what every C test includes: cmocka with the headers it forgets, skips with a reason, and an allocator that
 * fails on demand.
 *
 * A test says which requirements it proves in the comment above it (or, for a whole file, in a "Proves:" line of its
 * head); tools/check-tree looks for that. */
#ifndef OB_TEST_H
#define OB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include <outbox/outbox.h>

/* Both end the test. tools/test lists the reasons; a skip says that this machine cannot run the test, not applicable
 * that the tested thing has no such property. */
#define OB_SKIP(reason) \
    do { \
        print_message("# SKIP %s\n", (reason)); \
        skip(); \
    } while (0)
#define OB_NOT_APPLICABLE(reason) \
    do { \
        print_message("# SKIP not applicable: %s\n", (reason)); \
        skip(); \
    } while (0)

/* OUTBOX_TEST_FILTER='*retry*' runs only the tests of that name: tools/test FILE::TEST sets it. */
__attribute__((constructor)) static inline void ob_test_filter(void)
{
    const char *pattern = getenv("OUTBOX_TEST_FILTER");
    if (pattern)
        cmocka_set_test_filter(pattern);
}

#define OB_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What this process has worked, for tests of effort: a busy machine does not change it. */
static inline int64_t ob_cpu_us(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000 + spent.tv_nsec / 1000;
}

/* ---- failing allocations: for (n = 0; ob_fail_alloc(n), run(), ob_fail_alloc_end(); n++) ------------------------ */

static size_t ob_test_allocs_left, ob_test_blocks_live;
static bool ob_test_alloc_failed;

static inline void *ob_test_alloc(size_t size)
{
    if (ob_test_allocs_left == 0) {
        ob_test_alloc_failed = true;
        return NULL;
    }
    ob_test_allocs_left--;
    void *block = malloc(size);
    if (block)
        ob_test_blocks_live++;
    return block;
}

static inline void ob_test_release(void *block)
{
    if (block)
        ob_test_blocks_live--;
    free(block);
}

/* From now on the first `successes` allocations succeed and all later ones fail. */
static inline void ob_fail_alloc(size_t successes)
{
    ob_test_allocs_left = successes;
    ob_test_blocks_live = 0;
    ob_test_alloc_failed = false;
    outbox_set_allocator(ob_test_alloc, ob_test_release);
}

/* Back to malloc. Returns whether an allocation did fail; fails the test when a block was leaked. */
static inline bool ob_fail_alloc_end(void)
{
    outbox_set_allocator(NULL, NULL);
    assert_int_equal(ob_test_blocks_live, 0);
    return ob_test_alloc_failed;
}

#endif
