/* test_filter.c - the filter language. Proves: V13 (messages are found by what is known of them, in one language). */
#include "base/arena.h"
#include "core/filter.h"
#include "ob_test.h"

#include <string.h>

#define NOW 1700000000000000LL
#define HOUR 3600000000LL

static struct ob_arena arena;

static struct ob_filter parsed(const char *text)
{
    struct ob_filter filter = {0};
    struct outbox_error err;
    if (ob_filter_parse(&filter, text, NOW, &arena, &err))
        fail_msg("%s: %s", text, err.text);
    return filter;
}

static void every_term(void **state)
{
    (void)state;
    struct ob_filter f =
        parsed(" status:dead topic:orders.* namespace:shop tenant:6b4a3c1e-0000-4000-8000-000000000001 key:order-42\t"
               "subject:customer-7 recipient:ann@example.org correlation:req-9 code:http_5* error:~timeout "
               "attempts:>3 age:>1h id:0190d7c4");
    assert_int_equal(f.status_plus_1, OB_DEAD + 1);
    assert_string_equal(f.topic, "orders.*");
    assert_string_equal(f.name_space, "shop");
    assert_string_equal(f.tenant_id, "6b4a3c1e-0000-4000-8000-000000000001");
    assert_string_equal(f.key, "order-42");
    assert_string_equal(f.subject, "customer-7");
    assert_string_equal(f.recipient, "ann@example.org");
    assert_string_equal(f.correlation_id, "req-9");
    assert_string_equal(f.code, "http_5*");
    assert_string_equal(f.error, "timeout");
    assert_int_equal(f.attempts_least, 4);
    assert_int_equal(f.attempts_below, 0);
    assert_int_equal(f.before_us, NOW - HOUR);
    assert_true(f.id_range);
    assert_true(ob_filter_selects(&f));
    f = parsed("  \n ");
    assert_false(ob_filter_selects(&f));
}

static void operators(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int least, below;
        int64_t before, since;
    } rows[] = {
        {"attempts:3", 3, 4, 0, 0},
        {"attempts:0", 0, 1, 0, 0},
        {"attempts:>=3", 3, 0, 0, 0},
        {"attempts:<3", 0, 3, 0, 0},
        {"attempts:<=3", 0, 4, 0, 0},
        {"attempts:>3 attempts:<9", 4, 9, 0, 0},
        {"age:<1h", 0, 0, 0, NOW - HOUR + 1},
        {"age:<=1h", 0, 0, 0, NOW - HOUR},
        {"age:>=1h", 0, 0, NOW - HOUR + 1, 0},
        {"age:>1h age:<1h30m", 0, 0, NOW - HOUR, NOW - HOUR - HOUR / 2 + 1},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct ob_filter f = parsed(rows[i].text);
        assert_int_equal(f.attempts_least, rows[i].least);
        assert_int_equal(f.attempts_below, rows[i].below);
        assert_int_equal(f.before_us, rows[i].before);
        assert_int_equal(f.since_us, rows[i].since);
    }
}

static void quotes(void **state)
{
    (void)state;
    struct ob_filter f = parsed("error:~\"timed out\" key:\"a b:\\\"c\\\\ *\" subject:\"x\"y");
    assert_string_equal(f.error, "timed out");
    assert_string_equal(f.key, "a b:\"c\\ *");
    assert_string_equal(f.subject, "xy");
}

static void ids(void **state)
{
    (void)state;
    char first[37], last[37];
    struct ob_filter f = parsed("id:0190d7c4-5");
    outbox_uuid_format(&f.id_first, first);
    outbox_uuid_format(&f.id_last, last);
    assert_string_equal(first, "0190d7c4-5000-0000-0000-000000000000");
    assert_string_equal(last, "0190d7c4-5fff-ffff-ffff-ffffffffffff");
    f = parsed("id:0190D7C45A6B7C8D9E0F112233445566");
    outbox_uuid_format(&f.id_first, first);
    outbox_uuid_format(&f.id_last, last);
    assert_string_equal(first, "0190d7c4-5a6b-7c8d-9e0f-112233445566");
    assert_string_equal(last, first);
}

/* Every error has the place of its term and what to do. */
static void errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"status:dead statsu:dead",
         "character 13: \"statsu:dead\": there is no term \"statsu\"; did you mean \"status\"?"},
        {"colour:red", "there is no term \"colour\"; the terms are status, topic"},
        {"status:daed", "did you mean \"dead\"?"},
        {"orders", "character 1: \"orders\" is not a term; write NAME:VALUE"},
        {"error:~timed out", "character 14: \"out\" is not a term"},
        {":x", "is not a term"},
        {"topic:", "the value is missing"},
        {"topic:a topic:b", "character 9: \"topic:b\": this term was given before"},
        {"topic:\"a*\"", "without quotes"},
        {"topic:\"a b\"", "no spaces"},
        {"code:a\\*", "no backslash"},
        {"key:order-*", "takes no pattern; quote the value"},
        {"tenant:6b4a", "whole uuid"},
        {"error:timeout", "write error:~timeout"},
        {"attempts:many", "takes a number"},
        {"attempts:-1", "takes a number"},
        {"attempts:99999999999", "takes a number"},
        {"attempts:<0", "fewer than 0"},
        {"attempts:3 attempts:>1", "there is a lower bound already"},
        {"attempts:>1 attempts:3", "given before"},
        {"age:1h", "age:>1h"},
        {"age:>1", "age:>1h"},
        {"age:>9999999d", "age:>1h"},
        {"id:019", "at least 4 digits"},
        {"id:0190-d7c4", "with hyphens as in the uuid"},
        {"id:0190d7c4-5a6b-7c8d-9e0f-1122334455667", "an id is a uuid"},
        {"key:\"open", "the quote does not end"},
        {"key:\xff", "not text in UTF-8"},
        {"key:a\x01", "control characters"},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct ob_filter filter = {0};
        struct outbox_error err = {0};
        assert_int_equal(ob_filter_parse(&filter, rows[i].text, NOW, &arena, &err), OUTBOX_INVALID);
        if (!strstr(err.text, rows[i].wanted))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

/* Options are the same terms, with the value as it is. */
static void options(void **state)
{
    (void)state;
    struct ob_filter filter = {0};
    struct outbox_error err;
    assert_int_equal(ob_filter_add(&filter, "key", "order *", NOW, &arena, &err), OUTBOX_OK);
    assert_string_equal(filter.key, "order *");
    assert_int_equal(ob_filter_parse(&filter, "key:other", NOW, &arena, &err), OUTBOX_INVALID);
    assert_int_equal(ob_filter_add(&filter, "tenant", "x", NOW, &arena, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "tenant is \"x\""));
}

static int setup(void **state)
{
    (void)state;
    ob_arena_init(&arena, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ob_arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_term), cmocka_unit_test(operators), cmocka_unit_test(quotes),
        cmocka_unit_test(ids),        cmocka_unit_test(errors),    cmocka_unit_test(options),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
