/* test_chat_peer.c - what chat sinks know of recipients: turns, pauses, and that it stays bounded.
 *
 * Proves: S13 (a limit of one recipient is not that of others), Y2. */
#include "ob_test.h"

#include "sink/chat/peer.h"

#include <stdio.h>

enum { SECOND = 1000000 };

static struct ob_chat_peers peers;
static struct ob_rate rate;

static int setup(void **state)
{
    (void)state;
    ob_chat_peers_init(&peers);
    ob_rate_init(&rate, 1, SECOND, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ob_chat_peers_fini(&peers);
    return 0;
}

static int64_t take_or_hold(const char *to, int64_t now, int64_t hold)
{
    return ob_chat_peer_take(ob_chat_peers_get(&peers, to, &rate), now, hold);
}

static int64_t take(const char *to, int64_t now)
{
    return take_or_hold(to, now, 0);
}

/* Who may wait has its place kept; who comes later, however late the first ones leave, stands behind. */
static void places_are_kept_for_those_who_wait(void **state)
{
    (void)state;
    for (int i = 0; i <= 2; i++)
        assert_int_equal(take_or_hold("a", 0, 2 * SECOND), i * SECOND);
    assert_int_equal(take_or_hold("a", 0, 2 * SECOND), 3 * SECOND); /* sent off */
    assert_int_equal(take_or_hold("a", SECOND, 2 * SECOND), 2 * SECOND);
    assert_int_equal(take_or_hold("a", 4 * SECOND, 2 * SECOND), 0);
}

/* Each who must wait has a turn of its own, and finds it free. */
static void turns_are_given_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(take("a", 0), 0);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(take("a", 0), i * SECOND);
    assert_int_equal(take("b", 0), 0);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(take("a", i * SECOND), 0);
}

/* So far ahead and no further: nobody waits for a turn that another may have given up. */
static void turns_are_bounded(void **state)
{
    (void)state;
    take("a", 0);
    for (int i = 1; i <= 60; i++)
        assert_int_equal(take("a", 0), i * SECOND);
    assert_int_equal(take("a", 0), 60 * SECOND);
    assert_int_equal(take("a", 0), 60 * SECOND);
}

/* Turns that nobody took do not hold up those who come later. */
static void promises_are_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i <= 10; i++)
        take("a", 0);
    assert_int_equal(take("a", 100 * SECOND), 0);
    assert_int_equal(take("a", 100 * SECOND), SECOND);
}

static void pause_holds_one_recipient(void **state)
{
    (void)state;
    ob_chat_peers_get(&peers, "a", &rate)->until_us = 90 * SECOND;
    assert_int_equal(take("a", 0), 90 * SECOND);
    assert_int_equal(take("b", 0), 0);
    assert_int_equal(take("a", 90 * SECOND), 0);
}

static void bounded_and_the_oldest_goes_first(void **state)
{
    (void)state;
    char to[32];
    for (int i = 0; i < OB_CHAT_PEERS; i++) {
        snprintf(to, sizeof to, "%d", i);
        assert_non_null(ob_chat_peers_get(&peers, to, &rate));
    }
    assert_non_null(ob_chat_peers_get(&peers, "0", &rate)); /* now 1 is the oldest */
    assert_non_null(ob_chat_peers_get(&peers, "another", &rate));
    assert_int_equal(peers.count, OB_CHAT_PEERS);
    assert_null(ob_chat_peers_find(&peers, "1"));
    assert_non_null(ob_chat_peers_find(&peers, "0"));
    assert_non_null(ob_chat_peers_find(&peers, "2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(turns_are_given_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(places_are_kept_for_those_who_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(promises_are_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(pause_holds_one_recipient, setup, teardown),
        cmocka_unit_test_setup_teardown(bounded_and_the_oldest_goes_first, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
