/* keys.c - which keys wait behind their first message, how many messages that are, and why. */
#include "suite.h"

struct waiting {
    char key[4][32], status[4][16], head[4][37], why[4][256];
    int64_t waiting[4];
    size_t count;
};

static bool found_key(void *ctx, const struct ob_key_row *row)
{
    struct waiting *found = ctx;
    size_t i = found->count++;
    if (i >= 4)
        return false;
    snprintf(found->key[i], sizeof found->key[i], "%s", row->key);
    snprintf(found->status[i], sizeof found->status[i], "%s", row->head_status);
    snprintf(found->head[i], sizeof found->head[i], "%s", row->head);
    snprintf(found->why[i], sizeof found->why[i], "%s", row->why);
    found->waiting[i] = row->waiting;
    assert_true(row->since_us > now_us() - HOUR && row->since_us <= now_us() + SECOND);
    return true;
}

static struct waiting waits(struct fx *fx, int limit)
{
    struct waiting found = {.count = 0};
    ok(fx, waiting_keys, limit, found_key, &found);
    return found;
}

static void expect_key(const struct waiting *found, size_t at, const char *key, struct outbox_uuid head,
                       const char *status, int64_t waiting, const char *why)
{
    char text[37];
    outbox_uuid_format(&head, text);
    assert_string_equal(found->key[at], key);
    assert_string_equal(found->head[at], text);
    assert_string_equal(found->status[at], status);
    assert_string_equal(found->why[at], why);
    assert_int_equal(found->waiting[at], waiting);
}

static struct outbox_uuid put_key(struct fx *fx, const char *key, int behind)
{
    struct outbox_uuid head = put(fx, .key = key).id;
    for (int i = 0; i < behind; i++)
        put(fx, .key = key);
    return head;
}

static void behind_a_retry(struct fx *fx)
{
    assert_int_equal(waits(fx, 0).count, 0);
    struct outbox_uuid few = put_key(fx, "few", 1), many = put_key(fx, "many", 3);
    put(fx, .key = NULL, .topic = "other");
    for (int i = 0; i < 2; i++)
        settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "gone", .delay_us = HOUR);
    ack(fx, take(fx));
    claim_none(fx);
    struct waiting found = waits(fx, 0);
    assert_int_equal(found.count, 2);
    expect_key(&found, 0, "many", many, "pending", 3, "attempt 1 failed: http_503: gone");
    expect_key(&found, 1, "few", few, "pending", 1, "attempt 1 failed: http_503: gone");
    found = waits(fx, 1);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.key[0], "many");
}

static void behind_a_dead_letter(struct fx *fx)
{
    ok(fx, configure, "default", "on_dead", "hold", NULL);
    struct outbox_uuid head = put_key(fx, "held", 2);
    settle(fx, take(fx), .outcome = OUTBOX_FAILED, .code = "http_400", .error = "no");
    claim_none(fx);
    struct waiting found = waits(fx, 0);
    assert_int_equal(found.count, 1);
    expect_key(&found, 0, "held", head, "dead", 2, "dead: http_400: no");
}

const struct contract_test keys_tests[] = {
    {"N2 V13: keys that wait behind a message that is retried, the fullest first", behind_a_retry},
    {"N2 V13: a key that waits behind its dead letter", behind_a_dead_letter},
    {NULL, NULL, 0},
};
