/* groups.c - failures that are alike are one group, whatever their ids, numbers and quoted texts; a group can be listed. */
#include "suite.h"

struct group {
    char fingerprint[17], code[64], sample[1024], topics[256];
    int64_t count, dead, retrying, first_us, last_us;
};
struct found {
    struct group groups[64];
    size_t count;
};

static bool found_group(void *ctx, const struct ob_group_row *row)
{
    struct found *found = ctx;
    struct group *group = &found->groups[found->count < 63 ? found->count : 63];
    found->count++;
    snprintf(group->fingerprint, sizeof group->fingerprint, "%s", row->fingerprint);
    snprintf(group->code, sizeof group->code, "%s", row->code ? row->code : "-");
    snprintf(group->sample, sizeof group->sample, "%s", row->sample ? row->sample : "-");
    snprintf(group->topics, sizeof group->topics, "%s", row->topics ? row->topics : "-");
    group->count = row->count, group->dead = row->dead, group->retrying = row->retrying;
    group->first_us = row->first_seen_us, group->last_us = row->last_seen_us;
    return true;
}

static struct outbox_uuid fail_with(struct fx *fx, const char *code, const char *error, bool dies)
{
    struct outbox_uuid id = put(fx, .topic = "mail").id;
    bool dead = settle(fx, take(fx), .outcome = dies ? OUTBOX_FAILED : OUTBOX_RETRY, .code = code, .error = error,
                       .delay_us = HOUR);
    assert_true(dead == dies);
    return id;
}

/* Each row is one group: texts that must be alike. No two rows may be. */
static const char *const alike[][6] = {
    {"HTTP 503 from 10.0.0.7:8080 after 31 ms", "http 500 from [fe80::1]:80 after 2 ms", NULL},
    {"order 0190d7c4-5a6b-7c8d-9e0f-112233445566 is closed", "order 42 is closed", "Order 43 IS closed", NULL},
    {"no such user \"ann smith\"", "no such user \"bob\"", "no such user `x y z`", "no such user 'carl'", NULL},
    {"can't connect: it's down", NULL},
    {"can't connect: it's busy", NULL},
    {"timed out at 2026-01-01T10:00:00Z", "timed out at 2027-11-30T23:59:59.123+02:00", NULL},
    {"mailbox ann@example.org is full", "mailbox bob.x@mail.test is full", NULL},
    {"ids 1, 2, 3 are unknown", "ids 7 are unknown", "ids 1,2;\n3\t4 are unknown", NULL},
    {"\xc3\x84rger mit Gr\xc3\xb6\xc3\x9f"
     "e 12",
     "\xc3\x84rger mit Gr\xc3\xb6\xc3\x9f"
     "e 9",
     NULL},
    {"quote \" does not end 5", "quote \" does not end 6", NULL},
    {"", NULL, NULL},
};
enum { ROWS = sizeof alike / sizeof alike[0] };

static void shapes(struct fx *fx)
{
    struct found found = {0};
    int64_t sizes[ROWS] = {0};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; alike[i][k]; k++, sizes[i]++)
            fail_with(fx, "c", alike[i][k], (i + k) % 2 == 0);
    ok(fx, groups, 0, found_group, &found);
    if (found.count != ROWS)
        for (size_t i = 0; i < found.count; i++)
            fprintf(stderr, "%s %d %s\n", found.groups[i].fingerprint, (int)found.groups[i].count,
                    found.groups[i].sample);
    assert_int_equal(found.count, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        size_t hits = 0;
        for (size_t g = 0; g < found.count; g++)
            for (size_t k = 0; alike[i][k]; k++)
                if (strcmp(found.groups[g].sample, alike[i][k]) == 0) {
                    hits++;
                    assert_int_equal(found.groups[g].count, sizes[i]);
                    assert_int_equal(found.groups[g].dead + found.groups[g].retrying, sizes[i]);
                }
        if (hits != 1)
            blame(fx, "\"%s\" is the sample of %zu groups", alike[i][0], hits);
    }
}

static void a_group(struct fx *fx)
{
    struct found found = {0};
    int64_t before = now_us(), n = 0;
    struct outbox_uuid first = fail_with(fx, "http_503", "gone 1", true);
    tick();
    fail_with(fx, "http_503", "gone 2", true);
    struct outbox_uuid waiting = fail_with(fx, "http_503", "gone 3", false);
    fail_with(fx, "http_500", "gone 4", true);
    struct outbox_uuid delivered = fail_with(fx, "http_503", "gone 5", false);
    make_due(fx, delivered);
    ack(fx, take(fx));
    ok(fx, groups, 0, found_group, &found);
    assert_int_equal(found.count, 2);
    struct group *group = &found.groups[0];
    assert_string_equal(group->code, "http_503");
    assert_string_equal(group->topics, "[\"mail\"]");
    assert_string_equal(group->sample, "gone 2");
    assert_int_equal(group->dead, 2);
    assert_int_equal(group->retrying, 1);
    assert_true(group->first_us >= before - SECOND && group->first_us < group->last_us);
    assert_true(group->last_us <= now_us() + SECOND);
    assert_int_equal(count(fx, .group = group->fingerprint), 3);
    assert_int_equal(count(fx, .group = group->fingerprint, .status_plus_1 = OB_DEAD + 1), 2);
    assert_int_equal(count(fx, .group = group->fingerprint, .status_plus_1 = OB_PENDING + 1), 1);
    assert_int_equal(count(fx, .group = group->fingerprint, .ids = &first, .id_count = 1), 1);
    assert_int_equal(count(fx, .group = group->fingerprint, .topic = "none*"), 0);
    assert_int_equal(count(fx, .group = "00000000000000ff"), 0);
    ok(fx, retry, &(struct ob_filter){.ids = &first, .id_count = 1}, &(struct ob_actor){"ann", "x"}, &n);
    ack(fx, take(fx));
    assert_int_equal(count(fx, .group = group->fingerprint), 2);
    struct ob_filter rest = {.code = "http_503"};
    ok(fx, discard, &rest, &(struct ob_actor){"ann", "x"}, &n);
    make_due(fx, waiting);
    ack(fx, take(fx));
    found.count = 0;
    ok(fx, groups, 0, found_group, &found);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.groups[0].code, "http_500");
}

static void pages_of_a_group(struct fx *fx)
{
    struct found found = {0};
    for (int i = 0; i < 5; i++)
        fail_with(fx, i == 2 ? "other" : "c", "gone", i % 2 == 0);
    ok(fx, groups, 1, found_group, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.groups[0].count, 4);
    struct ob_listed listed;
    struct ob_filter filter = {.group = found.groups[0].fingerprint, .limit = 3, .listed = &listed};
    assert_int_equal(count_(AT(fx), filter), 3);
}

/* Errors that have nothing in common: how many groups are read is bounded, and the largest is among them, and first. */
static void hostile(struct fx *fx)
{
    struct found found = {0};
    char text[] = "aaaa";
    for (int i = 0; i < 260; i++) {
        snprintf(text, sizeof text, "%c%c%c", 'a' + i % 26, 'a' + i / 26, 'z');
        fail_with(fx, text, text, i % 2);
        if (i % 60 == 0)
            fail_with(fx, "real", "the receiver is on fire", i % 2);
    }
    ok(fx, groups, 0, found_group, &found);
    assert_int_equal(found.count, 100);
    assert_string_equal(found.groups[0].sample, "the receiver is on fire");
    assert_int_equal(found.groups[0].count, 5);
}

const struct contract_test groups_tests[] = {
    {"T4: failures that differ in ids, numbers, addresses, times and quoted texts are one group", shapes},
    {"T4: a group counts what is dead and what waits now, and can be listed", a_group},
    {"V13: a page of a group", pages_of_a_group},
    {"T4: texts made to differ: the groups that are read are bounded, the largest first", hostile},
    {NULL, NULL, 0},
};
