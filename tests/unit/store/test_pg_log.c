/* test_pg_log.c - the windows that an async store holds: tokens, who is where, what is due. Proves: M10, V10. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/batch.h"
#include "store/pg/log.h"
#include "store/pg/wire.h"

enum { SIZE = 5, LEASE_US = 30000000 };

static struct ob_pg_log windows;
static struct outbox_delivery msgs[SIZE];
static struct outbox_batch batch = {.items = msgs, .size = SIZE};

static int setup(void **state)
{
    (void)state;
    ob_pg_log_init(&windows, UINT64_MAX);
    for (int i = 0; i < SIZE; i++) {
        msgs[i] = (struct outbox_delivery){.stream = i % 2 ? 7 : 8};
        memset(msgs[i].id.bytes, i + 1, sizeof msgs[i].id.bytes);
    }
    msgs[1].tenant_id = "0a0a0a0a-1111-4222-8333-444444444444";
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ob_pg_log_fini(&windows);
    return 0;
}

static struct ob_pg_window *open_window(int shard, int64_t now_us)
{
    struct ob_pg_taken taken = {.shard = shard,
                                .id = 3,
                                .nonce = ob_pg_log_nonce(&windows),
                                .size = SIZE + 2,
                                .lease_us = LEASE_US,
                                .asked_us = now_us};
    struct ob_pg_window *window = ob_pg_log_open(&windows, &taken, &batch, now_us);
    assert_non_null(window);
    return window;
}

static struct ob_pg_held *find(int i, struct ob_pg_window **window)
{
    return ob_pg_log_find(&windows, msgs[i].token, &msgs[i].id, window);
}

static void tokens(void **state)
{
    (void)state;
    struct ob_pg_window *window = open_window(2, 0), *found = NULL;
    assert_int_equal(window->missing, 2);
    assert_true(window->taken.nonce > 0);
    for (int i = 0; i < SIZE; i++) {
        assert_true(ob_pg_token_in_window(msgs[i].token));
        assert_int_equal(ob_pg_token_attempt(msgs[i].token), 1);
        assert_int_equal(ob_pg_token_place(msgs[i].token), 0);
        assert_ptr_equal(find(i, &found), &window->held[i]);
        assert_ptr_equal(found, window);
    }
    assert_true(window->held[1].has_tenant && !window->held[0].has_tenant);
    /* Another message, another window, or a row of the queue. */
    assert_null(ob_pg_log_find(&windows, msgs[0].token, &msgs[1].id, &found));
    assert_null(ob_pg_log_find(&windows, msgs[0].token + (INT64_C(1) << 32), &msgs[0].id, &found));
    assert_null(ob_pg_log_find(&windows, ob_pg_token(1, 0x10001), &msgs[0].id, &found));
    assert_false(ob_pg_token_in_window(ob_pg_token(1, (UINT64_C(1) << 46) - 1)));
    assert_int_equal(ob_pg_token_place(ob_pg_token(9, UINT64_C(1) << 46)), 0);
    assert_int_equal(ob_pg_token_attempt(ob_pg_token(70000, 0x10001)), 70000);
}

static void the_last_closes(void **state)
{
    (void)state;
    struct ob_pg_window *window = open_window(-1, 0), *other = open_window(-1, 0);
    assert_int_not_equal(window->taken.nonce, other->taken.nonce);
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(ob_pg_log_gone(&windows, window, &window->held[i]), i == SIZE - 1);
    for (int i = 0; i < SIZE; i++)
        assert_non_null(find(i, &window)); /* of the other */
    ob_pg_log_gone(&windows, other, &other->held[1]);
    assert_null(find(1, &window));
    ob_pg_log_lost(&windows, other);
    assert_null(find(0, &window));
    assert_true(ob_list_empty(&windows.windows));
}

static void earlier_ones_of_a_key(void **state)
{
    (void)state;
    struct ob_pg_window *window = open_window(1, 0);
    assert_false(ob_pg_log_precedes(window, &window->held[1]));
    assert_true(ob_pg_log_precedes(window, &window->held[3]));
    window->held[1].state = OB_PG_SETTLING; /* it goes with it */
    assert_false(ob_pg_log_precedes(window, &window->held[3]));
    window->held[1].state = OB_PG_EJECTING;
    assert_true(ob_pg_log_precedes(window, &window->held[3]));
    ob_pg_log_gone(&windows, window, &window->held[1]);
    assert_false(ob_pg_log_precedes(window, &window->held[3]));
    window->held[4].stream = 0;
    assert_false(ob_pg_log_precedes(window, &window->held[4]));
}

static void keyed_ones_are_ejected(void **state)
{
    (void)state;
    assert_true(ob_pg_log_due_us(&windows) == INT64_MAX);
    struct ob_pg_window *keyless = open_window(-1, 1000);
    assert_true(ob_pg_log_due_us(&windows) == INT64_MAX);
    assert_false(ob_pg_log_keyed(&windows));
    struct ob_pg_window *keyed = open_window(0, 2000);
    assert_int_equal(ob_pg_log_due_us(&windows), 2000 + OB_PG_EJECT_US);
    assert_true(ob_pg_log_keyed(&windows));
    ob_pg_log_eject_at(&windows, keyless, 0);
    assert_int_equal(ob_pg_log_due_us(&windows), 0);
    ob_pg_log_lost(&windows, keyless);
    ob_pg_log_lost(&windows, keyed);
    assert_true(ob_pg_log_due_us(&windows) == INT64_MAX);
}

/* Windows that nobody settles do not pile up; one whose settle is under way is kept. */
static void old_ones_are_forgotten(void **state)
{
    (void)state;
    struct ob_pg_window *window = open_window(-1, 0);
    int64_t later = LEASE_US + 3600000000LL;
    window->held[2].state = OB_PG_SETTLING;
    open_window(-1, later);
    assert_ptr_equal(OB_CONTAINER(windows.windows.next, struct ob_pg_window, node), window);
    window->held[2].state = OB_PG_HELD;
    window = open_window(-1, later);
    assert_ptr_not_equal(OB_CONTAINER(windows.windows.next, struct ob_pg_window, node), window);
    open_window(-1, 3 * later);
    int count = 0;
    OB_LIST_EACH (it, &windows.windows)
        count++;
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(earlier_ones_of_a_key, setup, teardown),
        cmocka_unit_test_setup_teardown(keyed_ones_are_ejected, setup, teardown),
        cmocka_unit_test_setup_teardown(old_ones_are_forgotten, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("pg_log", tests, NULL, NULL);
}
