/* test_resolve.c - names are looked up while the caller goes on. Proves: S10, S11 (one receiver that hangs is in nobody else's way).
 *
 * getaddrinfo is our own here: "slow-N" hangs until it is let go, "name" has two addresses, "gone" does not exist. */
#include "base/clock.h"
#include "base/resolve.h"
#include "ob_test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int asked, hanging;
static atomic_bool let_go;

static struct addrinfo *make(const char *text, struct addrinfo *next)
{
    struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
    struct sockaddr_in *address = (void *)(info + 1);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, text, &address->sin_addr);
    *info = (struct addrinfo){
        .ai_family = AF_INET, .ai_addr = (void *)address, .ai_addrlen = sizeof *address, .ai_next = next};
    return info;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    struct in_addr address;
    (void)service;
    bool numeric = inet_pton(AF_INET, name, &address) == 1;
    if (numeric)
        *list = make(name, NULL);
    if (numeric || hints->ai_flags & AI_NUMERICHOST)
        return numeric ? 0 : EAI_NONAME;
    asked++;
    if (strncmp(name, "slow", 4) == 0) {
        hanging++;
        while (!let_go)
            usleep(1000);
        hanging--;
    }
    if (strcmp(name, "gone") == 0)
        return EAI_NONAME;
    *list = make("192.0.2.1", make("192.0.2.2", make("192.0.2.1", NULL)));
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    for (struct addrinfo *next; list; list = next) {
        next = list->ai_next;
        free(list);
    }
}

static void count(void *ctx)
{
    (*(atomic_int *)ctx)++;
}

static void a_name_has_its_addresses_once_each(void **state)
{
    (void)state;
    atomic_int woken = 0;
    struct ob_addresses found;
    struct ob_lookup *lookup = ob_lookup_start("name", count, &woken);
    assert_true(ob_lookup_wait(lookup, 10000000, &found));
    assert_int_equal(found.error, 0);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.text[0], "192.0.2.1");
    assert_string_equal(found.text[1], "192.0.2.2");
    assert_int_equal(woken, 1);
    ob_lookup_free(lookup);
}

static void an_address_is_its_own_answer(void **state)
{
    (void)state;
    atomic_int woken = 0;
    int before = asked;
    struct ob_addresses found;
    struct ob_lookup *lookup = ob_lookup_start("198.51.100.7", count, &woken);
    assert_true(ob_lookup_poll(lookup, &found));
    assert_int_equal(found.count, 1);
    assert_string_equal(found.text[0], "198.51.100.7");
    assert_int_equal(woken, 1);
    assert_int_equal(asked, before);
    ob_lookup_free(lookup);
}

static void a_name_that_is_not_there_says_so(void **state)
{
    (void)state;
    struct ob_addresses found;
    struct ob_lookup *lookup = ob_lookup_start("gone", NULL, NULL);
    assert_true(ob_lookup_wait(lookup, 10000000, &found));
    assert_int_equal(found.error, EAI_NONAME);
    assert_int_equal(found.count, 0);
    assert_string_equal(found.reason, gai_strerror(EAI_NONAME));
    ob_lookup_free(lookup);
}

/* Waits for what other threads do. */
static void until(atomic_int *value, int wanted)
{
    for (int i = 0; i < 10000 && *value != wanted; i++)
        usleep(1000);
    assert_int_equal(*value, wanted);
}

static void let_all_go(void)
{
    let_go = true;
    until(&hanging, 0);
    usleep(20000);
    let_go = false;
}

static void who_leaves_is_not_called_and_does_not_wait(void **state)
{
    (void)state;
    atomic_int woken = 0, other = 0;
    struct ob_addresses found;
    int before = asked;
    struct ob_lookup *lookup = ob_lookup_start("slow", count, &woken), *second = ob_lookup_start("slow", count, &other);
    until(&hanging, 1);
    assert_int_equal(asked, before + 1); /* one question for both */
    assert_false(ob_lookup_wait(lookup, 20000, &found));
    int64_t start = ob_clock_mono_us();
    ob_lookup_free(lookup);
    assert_true(ob_clock_mono_us() - start < 5000000);
    let_all_go();
    assert_true(ob_lookup_wait(second, 10000000, &found));
    assert_int_equal(woken, 0);
    assert_int_equal(other, 1);
    ob_lookup_free(second);
}

/* Names that nobody answered fill only half of the threads: a good one is answered beside any number of them. */
static void dead_names_leave_room_for_good_ones(void **state)
{
    (void)state;
    enum { MANY = 2 * OB_LOOKUP_THREADS };
    static struct ob_lookup *lookups[MANY];
    struct ob_addresses found;
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "slow-%d", i);
        lookups[i] = ob_lookup_start(name, NULL, NULL);
        assert_non_null(lookups[i]);
    }
    until(&hanging, OB_LOOKUP_THREADS / 2);
    struct ob_lookup *good = ob_lookup_start("name", NULL, NULL);
    assert_true(ob_lookup_wait(good, 10000000, &found));
    assert_int_equal(hanging, OB_LOOKUP_THREADS / 2);
    ob_lookup_free(good);
    for (int i = 0; i < MANY; i++)
        ob_lookup_free(lookups[i]);
    let_all_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_its_addresses_once_each),
        cmocka_unit_test(an_address_is_its_own_answer),
        cmocka_unit_test(a_name_that_is_not_there_says_so),
        cmocka_unit_test(who_leaves_is_not_called_and_does_not_wait),
        cmocka_unit_test(dead_names_leave_room_for_good_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
