/* filters.c - the filter language, asked of a store: each term finds what it names and nothing else, wherever that is. */
#include "suite.h"

#include "core/filter.h"

struct found {
    struct outbox_uuid ids[16];
    size_t count;
};

static bool found_one(void *ctx, const struct ob_message_row *row)
{
    struct found *found = ctx;
    if (found->count < 16)
        found->ids[found->count] = row->id;
    found->count++;
    return true;
}

/* The messages that a filter finds, as letters: the first of `all` is a, and so on; newest first. */
static void expect_found_(struct fx *fx, const struct outbox_uuid *all, size_t count, const char *text,
                          const char *wanted)
{
    struct ob_arena arena;
    struct ob_filter filter = {0};
    struct found found = {0};
    char letters[17] = "";
    ob_arena_init(&arena, 0);
    check_(fx, ob_filter_parse(&filter, text, now_us(), &arena, &fx->err), OUTBOX_OK, text);
    check_(fx, fx->store->ops->list(fx->store, &filter, found_one, &found, &fx->err), OUTBOX_OK, text);
    ob_arena_fini(&arena);
    for (size_t i = 0; i < found.count && i < 16; i++) {
        letters[i] = '?';
        for (size_t k = 0; k < count; k++)
            if (memcmp(&all[k], &found.ids[i], sizeof all[k]) == 0)
                letters[i] = (char)('a' + k);
    }
    if (strcmp(letters, wanted) != 0)
        blame(fx, "%s found \"%s\", wanted \"%s\"", text, letters, wanted);
}

static void every_term(struct fx *fx)
{
    struct outbox_uuid ids[6];
    ids[0] = make_dead(fx, .topic = "orders.paid", .key = "k1", .subject = "s1", .recipient = "ann");
    ids[1] = make_dead(fx, .topic = "orders.sent", .tenant_id = TENANT_A);
    int64_t n = 0;
    ok(fx, discard, &(struct ob_filter){.ids = &ids[1], .id_count = 1}, &(struct ob_actor){"ann", "x"}, &n);
    ids[2] = put(fx, .topic = "orders.paid", .subject = "s1", .correlation_id = "c1").id;
    ack(fx, take(fx));
    ids[3] = put(fx, .topic = "mail", .name_space = "shop", .tenant_id = TENANT_A).id;
    assert_false(
        settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "Timed out", .delay_us = HOUR));
    ids[4] = put(fx, .topic = "mail", .key = "k1").id;
    take(fx);
    ids[5] = put(fx, .topic = "mail", .tenant_id = TENANT_A).id;
    const struct {
        const char *text, *wanted;
    } rows[] = {
        {"", "fedcba"},
        {"status:dead", "a"},
        {"status:discarded", "b"},
        {"status:delivered", "c"},
        {"status:processing", "e"},
        {"status:pending", "fd"},
        {"topic:orders.*", "cba"},
        {"topic:mail namespace:shop", "d"},
        {"tenant:" TENANT_A, "fdb"},
        {"tenant:" TENANT_A " status:pending", "fd"},
        {"tenant:" TENANT_A " status:discarded", "b"},
        {"key:k1", "ea"},
        {"key:k1 status:dead", "a"},
        {"subject:s1", "ca"},
        {"subject:s1 status:dead", "a"},
        {"recipient:ann", "a"},
        {"correlation:c1", "c"},
        {"code:http_5*", "d"},
        {"code:wrong", "a"},
        {"code:wrong status:dead", "a"},
        {"code:wrong status:discarded", "b"},
        {"error:~TIMED", "d"},
        {"error:~\"timed out\" status:pending", "d"},
        {"error:~never", "a"},
        {"attempts:0", "f"},
        {"attempts:>0 attempts:<2", "edcba"},
        {"attempts:>=1 status:pending", "d"},
        {"attempts:>1", ""},
        {"age:<1h", "fedcba"},
        {"age:>1h", ""},
        {"age:>=0 status:dead", "a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_found_(AT(fx), ids, 6, rows[i].text, rows[i].wanted);
    char term[64] = "id:";
    for (size_t i = 0; i < 6; i++) {
        snprintf(term + 3, sizeof term - 3, "%s", uuid_text(fx, ids[i]));
        expect_found_(AT(fx), ids, 6, term, (const char[]){(char)('a' + i), 0});
    }
    term[3 + 4] = '\0'; /* messages of the same days */
    expect_found_(AT(fx), ids, 6, term, "fedcba");
}

/* A page, and the next, and so on give everything once. */
static void pages(struct fx *fx)
{
    struct outbox_uuid ids[7];
    for (size_t i = 0; i < 7; i++)
        ids[i] = put(fx, .topic = i % 2 ? "odd" : "even", .key = i == 3 ? "k" : NULL).id;
    struct found found = {0};
    struct ob_listed listed;
    struct ob_filter filter = {.topic = "e*", .limit = 3, .listed = &listed};
    ok(fx, list, &filter, found_one, &found);
    assert_int_equal(found.count, 3);
    assert_false(listed.capped);
    filter.after = &found.ids[2];
    ok(fx, list, &filter, found_one, &found);
    assert_int_equal(found.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_same_id(found.ids[i], ids[6 - 2 * i]);
    filter.after = &found.ids[3];
    ok(fx, list, &filter, found_one, &found);
    assert_int_equal(found.count, 4);
    assert_false(listed.capped);
}

const struct contract_test filters_tests[] = {
    {"V13 T4: each term of a filter finds what it names, in every status", every_term},
    {"V13: pages of a filter give every message once", pages},
    {NULL, NULL, 0},
};
