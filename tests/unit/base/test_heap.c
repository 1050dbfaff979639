/* test_heap.c - the heap that timers will live in. Proves: order, removal from anywhere, no memory (style). */
#include "base/heap.h"
#include "base/list.h"
#include "ob_test.h"

struct timer {
    struct ob_heap_node node;
    int due;
};

static bool due_first(const struct ob_heap_node *a, const struct ob_heap_node *b)
{
    return OB_CONTAINER(a, struct timer, node)->due < OB_CONTAINER(b, struct timer, node)->due;
}

static void check_invariants(const struct ob_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        assert_int_equal(heap->nodes[i]->place, i + 1);
        if (i > 0)
            assert_false(due_first(heap->nodes[i], heap->nodes[(i - 1) / 2]));
    }
}

static int pop_due(struct ob_heap *heap)
{
    struct ob_heap_node *node = ob_heap_pop(heap);
    check_invariants(heap);
    return node ? OB_CONTAINER(node, struct timer, node)->due : -1;
}

/* A fixed sequence with the spread of chance. */
static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static void pops_in_order(void **state)
{
    (void)state;
    struct timer timers[500] = {0};
    struct ob_heap heap;
    unsigned seed = 1;
    ob_heap_init(&heap, due_first);
    for (size_t i = 0; i < OB_COUNT(timers); i++) {
        timers[i].due = (int)(next_random(&seed) % 100);
        assert_true(ob_heap_push(&heap, &timers[i].node));
    }
    check_invariants(&heap);
    int last = -1;
    for (size_t i = 0; i < OB_COUNT(timers); i++) {
        int due = pop_due(&heap);
        assert_true(due >= last);
        last = due;
    }
    assert_int_equal(pop_due(&heap), -1);
    assert_null(ob_heap_peek(&heap));
    ob_heap_fini(&heap);
}

static void removes_and_moves_anywhere(void **state)
{
    (void)state;
    struct timer timers[200] = {0};
    struct ob_heap heap;
    unsigned seed = 7;
    size_t inside = 0;
    ob_heap_init(&heap, due_first);
    for (int step = 0; step < 20000; step++) {
        struct timer *timer = &timers[next_random(&seed) % OB_COUNT(timers)];
        int due = (int)(next_random(&seed) % 1000);
        if (timer->node.place == 0) {
            timer->due = due;
            assert_true(ob_heap_push(&heap, &timer->node));
            inside++;
        } else if (next_random(&seed) % 2) {
            timer->due = due;
            ob_heap_moved(&heap, &timer->node);
        } else {
            ob_heap_remove(&heap, &timer->node);
            ob_heap_remove(&heap, &timer->node); /* again: nothing happens */
            inside--;
        }
        assert_int_equal(heap.count, inside);
        if (step % 100 == 0)
            check_invariants(&heap);
    }
    check_invariants(&heap);
    ob_heap_fini(&heap);
    ob_heap_fini(NULL);
}

static void a_push_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct timer timers[17] = {0};
    struct ob_heap heap;
    ob_fail_alloc(1);
    ob_heap_init(&heap, due_first);
    for (size_t i = 0; i < 16; i++)
        assert_true(ob_heap_push(&heap, &timers[i].node));
    assert_false(ob_heap_push(&heap, &timers[16].node));
    assert_int_equal(timers[16].node.place, 0);
    assert_int_equal(heap.count, 16);
    check_invariants(&heap);
    ob_heap_fini(&heap);
    assert_true(ob_fail_alloc_end());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pops_in_order),
        cmocka_unit_test(removes_and_moves_anywhere),
        cmocka_unit_test(a_push_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
