/* test_net_guard.c - which addresses may be dialled: public ones, and what an operator allowed.
 *
 * Proves: N3 (the guard against requests forged through a URL). */
#include "ob_test.h"

#include "sink/curl/net_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

static struct ob_net_guard none;

/* Both ways in must agree. */
static bool passes(const struct ob_net_guard *guard, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool by_text = ob_net_guard_passes_text(guard, text), by_address;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        by_address = ob_net_guard_passes(guard, (struct sockaddr *)&v4, sizeof v4);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        by_address = ob_net_guard_passes(guard, (struct sockaddr *)&v6, sizeof v6);
    }
    assert_int_equal(by_text, by_address);
    return by_text;
}

static void public_addresses_pass(void **state)
{
    (void)state;
    /* The neighbours of what is refused: a rule that is too wide would show. */
    static const char *const open[] = {
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "2001:200::1",
        "2001:4860::8888",
        "2003::1",
        "::ffff:8.8.8.8",
        "3ffe::1",
        "101::1",
        "5eff::1",
        "64:ff9a::1",
        "168.63.129.15",
        "168.63.129.17",
        "2606:4700::1:5efe:10.0.0.1",
        "2606:4700::5eff:10.0.0.1",
    };
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (!passes(&none, open[i]))
            fail_msg("%s is refused", open[i]);
}

static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const shut[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::8.8.8.8",
        "::ffff:10.0.0.1",
        "::ffff:0.0.0.0",
        "::ffff:0:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:1ff::1",
        "2001:db8::1",
        "2002:808:808::1",
        "3fff:fff::1",
        "5f00::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:169.254.169.254",
        "2606:4700::5efe:8.8.8.8",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
    };
    for (size_t i = 0; i < sizeof shut / sizeof *shut; i++)
        if (passes(&none, shut[i]))
            fail_msg("%s passes", shut[i]);
}

static void what_cannot_be_judged_is_refused(void **state)
{
    (void)state;
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    inet_pton(AF_INET, "8.8.8.8", &v4.sin_addr);
    assert_false(ob_net_guard_passes(&none, (struct sockaddr *)&local, sizeof local));
    assert_false(ob_net_guard_passes(&none, (struct sockaddr *)&v4, sizeof v4 - 1));
    assert_false(ob_net_guard_passes_text(&none, NULL));
    assert_false(ob_net_guard_passes_text(&none, ""));
    assert_false(ob_net_guard_passes_text(&none, "fe80::1%eth0"));
    assert_false(ob_net_guard_passes_text(&none, "localhost"));
}

static void an_operator_allows(void **state)
{
    (void)state;
    struct outbox_error err;
    struct ob_net_guard guard;
    ob_net_guard_init(&guard);
    assert_int_equal(ob_net_guard_allow(&guard, "10.1.2.0/23", &err), OUTBOX_OK);
    assert_int_equal(ob_net_guard_allow(&guard, "fd00::/8", &err), OUTBOX_OK);
    assert_true(passes(&guard, "10.1.2.0") && passes(&guard, "10.1.3.255") && passes(&guard, "::ffff:10.1.2.1"));
    assert_false(passes(&guard, "10.1.1.255") || passes(&guard, "10.1.4.0") || passes(&guard, "127.0.0.1"));
    assert_true(passes(&guard, "fd00::1") && !passes(&guard, "fc00::1"));
    ob_net_guard_fini(&guard);
    assert_int_equal(ob_net_guard_allow(&guard, "::/0", &err), OUTBOX_OK);
    assert_true(passes(&guard, "fe80::1") && !passes(&guard, "127.0.0.1") && !passes(&guard, "::ffff:127.0.0.1"));
    ob_net_guard_fini(&guard);
    assert_int_equal(ob_net_guard_allow(&guard, "0.0.0.0/0", &err), OUTBOX_OK);
    assert_true(passes(&guard, "127.0.0.1") && !passes(&guard, "::1"));
    ob_net_guard_fini(&guard);
    assert_int_equal(ob_net_guard_allow(&guard, "any", &err), OUTBOX_OK);
    assert_true(passes(&guard, "127.0.0.1") && passes(&guard, "::1"));
    assert_int_equal(ob_net_guard_allow(&guard, "10.0.0.0/33", &err), OUTBOX_INVALID);
    ob_net_guard_fini(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_addresses_pass),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(what_cannot_be_judged_is_refused),
        cmocka_unit_test(an_operator_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
