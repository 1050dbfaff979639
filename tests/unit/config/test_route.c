/* test_route.c - which sink a message goes to. Proves: Y9 (messages go by routes; one without a route is seen). */
#include "base/buf.h"
#include "base/glob.h"
#include "config/route.h"
#include "core/retry.h"
#include "ob_test.h"

#include <stdio.h>
#include <string.h>

/* Y9 */
static void globs(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *text;
        bool match;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "a.b", true},
        {"a", "a", true},
        {"a", "A", false},
        {"a", "ab", false},
        {"a*", "a", true},
        {"orders.*", "orders.paid", true},
        {"orders.*", "orders.paid.eu", true},
        {"orders.*", "orders", false},
        {"*.paid", "orders.paid", true},
        {"*.paid", "orders.paid.x", false},
        {"o*s.*d", "orders.paid", true},
        {"**", "x", true},
        {"*a*b*", "xaxbx", true},
        {"*a*b*", "xbxax", false},
        {"?", "a", true},
        {"?", "", false},
        {"?", "ab", false},
        {"?", "é", true},
        {"a?c", "aéc", true},
        {"*?", "é", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\?x", "?x", true},
        {"a\\", "a\\", true},
        {"*aaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
        {"?", "\xff", true},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++)
        if (ob_glob_match(rows[i].glob, rows[i].text) != rows[i].match)
            fail_msg("\"%s\" and \"%s\"", rows[i].glob, rows[i].text);
}

/* Y9: what is said to cover does cover: every text that the narrow one matches, the wide one matches too. */
static void covers(void **state)
{
    (void)state;
    static const char letters[] = "ab*?.";
    uint64_t seed = 11;
    int found = 0;
    assert_true(ob_glob_covers(NULL, "a") && ob_glob_covers("*", NULL) && ob_glob_covers("orders.*", "orders.paid.*"));
    assert_false(ob_glob_covers("a", NULL) || ob_glob_covers("orders.*", "*") || ob_glob_covers("a?", "a*"));
    for (int round = 0; round < 200000; round++) {
        char word[3][8] = {"", "", ""};
        for (int w = 0; w < 3; w++) {
            size_t len = ob_random_next(&seed) % 6;
            for (size_t i = 0; i < len; i++)
                word[w][i] = letters[ob_random_next(&seed) % (w == 2 ? 2 : 5)];
        }
        if (!ob_glob_covers(word[0], word[1]) || !ob_glob_match(word[1], word[2]))
            continue;
        found++;
        if (!ob_glob_match(word[0], word[2]))
            fail_msg("\"%s\" does not cover \"%s\": \"%s\"", word[0], word[1], word[2]);
    }
    assert_true(found > 1000);
}

/* ---- routes ---- */

static const struct ob_config_match eu[] = {{"region", "eu*"}}, both[] = {{"region", "eu*"}, {"size", "1?"}};
static struct ob_config_route table[] = {
    {.name_space = "default", .topic = "orders.*", .headers = both, .header_count = 2, .sink = 0},
    {.topic = "orders.*", .headers = eu, .header_count = 1, .sink = 1},
    {.topic = "orders.paid", .sink = 2},
    {.topic = "mail.*", .headers = eu, .header_count = 1, .sink = 3},
    {.topic = "mail.*", .sink = 3},
    {.name_space = "tenant-*", .sink = 4},
};

static struct outbox_delivery message(const char *name_space, const char *topic, const char *headers)
{
    return (struct outbox_delivery){
        .size = sizeof(struct outbox_delivery), .name_space = name_space, .topic = topic, .headers = headers};
}

/* Y9: the first that matches; asked twice, the memory says the same. */
static void finds(void **state)
{
    (void)state;
    static const struct {
        const char *name_space, *topic, *headers;
        int route;
    } rows[] = {
        {"default", "orders.paid", "{\"region\": \"eu-1\", \"size\": 12}", 0},
        {"default", "orders.paid", "{\"region\": \"eu-1\", \"size\": 120}", 1},
        {"default", "orders.paid", "{\"region\": \"us\"}", 2},
        {"default", "orders.paid", "{\"Region\": \"eu\"}", 2}, /* names have a case */
        {"default", "orders.paid", "{\"region\": [\"eu\"]}", 2},
        {"default", "orders.paid", "{\"region\": null}", 2},
        {"default", "orders.paid", "not JSON", 2},
        {"default", "orders.paid", NULL, 2},
        {"default", "orders.sent", NULL, OB_ROUTE_NONE},
        {"other", "orders.sent", "{\"region\": \"eu\", \"size\": 12}", 1},
        {"tenant-1", "whatever", NULL, 5},
        {"tenant-1", "mail.out", NULL, 4},
        {"nobody", "nothing", NULL, OB_ROUTE_NONE},
    };
    struct ob_arena arena;
    ob_arena_init(&arena, 0);
    struct ob_config config = {.routes = table, .route_count = OB_COUNT(table), .memo = ob_route_memo_new(&arena)};
    for (int again = 0; again < 3; again++)
        for (size_t i = 0; i < OB_COUNT(rows); i++) {
            struct outbox_delivery msg = message(rows[i].name_space, rows[i].topic, rows[i].headers);
            int route = ob_route_find(&config, &msg);
            if (route != rows[i].route)
                fail_msg("row %zu, time %d: %d", i, again, route);
        }
    ob_arena_fini(&arena);
}

/* Y9: what a claim may rely on. */
static void lanes(void **state)
{
    (void)state;
    struct ob_config config = {.routes = table, .route_count = OB_COUNT(table)};
    assert_int_equal(ob_route_lane(&config, "default", "orders.paid"), OB_ROUTE_BY_HEADERS);
    assert_int_equal(ob_route_lane(&config, "default", "orders.sent"), OB_ROUTE_BY_HEADERS);
    assert_int_equal(ob_route_lane(&config, "default", "mail.out"), 3); /* the same sink with and without */
    assert_int_equal(ob_route_lane(&config, "tenant-9", "x"), 4);
    assert_int_equal(ob_route_lane(&config, "default", "x"), OB_ROUTE_NONE);
}

/* Y9: with more lanes than the memory holds, and names too long for it, the answer is that of a fresh look. */
static void remembers_right(void **state)
{
    (void)state;
    struct ob_arena arena;
    uint64_t seed = 3;
    ob_arena_init(&arena, 0);
    struct ob_config with = {.routes = table, .route_count = OB_COUNT(table), .memo = ob_route_memo_new(&arena)},
                     without = {.routes = table, .route_count = OB_COUNT(table)};
    for (int i = 0; i < 100000; i++) {
        static const char *const tops[] = {"orders.%d",   "mail.%d",       "x.%d",
                                           "orders.paid", "orders.%0200d", "mail.%0120d"};
        static const char *const headers[] = {NULL, "{\"region\": \"eu\"}", "{\"region\": \"eu\", \"size\": \"11\"}"};
        static const char *const spaces[] = {"default", "tenant-a", "z"};
        char topic[256];
        const char *form = tops[ob_random_next(&seed) % OB_COUNT(tops)];
        int number = (int)(ob_random_next(&seed) % 2000);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(topic, sizeof topic, form, number);
#pragma GCC diagnostic pop
        struct outbox_delivery msg =
            message(spaces[ob_random_next(&seed) % 3], topic, headers[ob_random_next(&seed) % 3]);
        assert_int_equal(ob_route_find(&with, &msg), ob_route_find(&without, &msg));
    }
    ob_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(globs), cmocka_unit_test(covers), cmocka_unit_test(finds),
                                       cmocka_unit_test(lanes), cmocka_unit_test(remembers_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
