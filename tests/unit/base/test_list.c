/* test_list.c - the intrusive list. Proves: order and safe removal (style). */
#include "base/list.h"
#include "ob_test.h"

struct item {
    int number;
    struct ob_list node;
};

static int number_of(struct ob_list *node)
{
    return node ? OB_CONTAINER(node, struct item, node)->number : -1;
}

static void keeps_order_at_both_ends(void **state)
{
    (void)state;
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct ob_list list;
    ob_list_init(&list);
    assert_true(ob_list_empty(&list));
    assert_null(ob_list_shift(&list));
    ob_list_push(&list, &items[1].node);
    ob_list_push(&list, &items[2].node);
    ob_list_push_front(&list, &items[0].node);
    int expected = 1;
    OB_LIST_EACH (it, &list)
        assert_int_equal(number_of(it), expected++);
    assert_int_equal(expected, 4);
    for (expected = 1; expected <= 3; expected++)
        assert_int_equal(number_of(ob_list_shift(&list)), expected);
    assert_true(ob_list_empty(&list));
}

static void removal_while_walking_and_twice(void **state)
{
    (void)state;
    struct item items[6];
    struct ob_list list;
    ob_list_init(&list);
    for (int i = 0; i < 6; i++) {
        items[i].number = i;
        ob_list_push(&list, &items[i].node);
    }
    OB_LIST_EACH_SAFE (it, &list) {
        if (number_of(it) % 2 == 0) {
            ob_list_remove(it);
            ob_list_remove(it);
        }
    }
    int sum = 0, count = 0;
    OB_LIST_EACH (it, &list) {
        sum += number_of(it);
        count++;
    }
    assert_int_equal(count, 3);
    assert_int_equal(sum, 1 + 3 + 5);
}

static void a_removed_node_harms_nobody(void **state)
{
    (void)state;
    struct item items[3];
    struct ob_list list;
    ob_list_init(&list);
    for (int i = 0; i < 3; i++) {
        items[i].number = i;
        ob_list_push(&list, &items[i].node);
    }
    ob_list_remove(&items[1].node);
    ob_list_remove(&items[2].node);
    ob_list_remove(&items[1].node); /* its old neighbour is gone: it must not come back */
    assert_int_equal(number_of(ob_list_shift(&list)), 0);
    assert_true(ob_list_empty(&list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_at_both_ends),
        cmocka_unit_test(removal_while_walking_and_twice),
        cmocka_unit_test(a_removed_node_harms_nobody),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
