/* dedupe.c - the same dedupe key is the same message, however many producers race. */
#include "proc.h"

static void expect_same(struct outbox_receipt again, struct outbox_receipt first)
{
    assert_false(again.created);
    assert_same_id(again.id, first.id);
    assert_int_equal(again.seq, first.seq);
}

static void same_key_same_message(struct fx *fx)
{
    put(fx, .key = "k");
    struct outbox_receipt first = put(fx, .key = "k", .dedupe_key = "d", .payload = "{\"first\": true}");
    assert_true(first.created);
    assert_int_equal(first.seq, 2);
    const char *before = digest(fx);
    expect_same(put(fx, .key = "k", .dedupe_key = "d", .payload = "{\"first\": false}"), first);
    expect_same(put(another(fx), .key = "other", .dedupe_key = "d"), first);
    expect_unchanged(fx, before, "a duplicate");
    assert_string_equal(look(fx, first.id)->payload, "{\"first\": true}");
    assert_string_equal(look(fx, first.id)->dedupe_key, "d");
}

static void no_key_no_dedupe(struct fx *fx)
{
    put(fx);
    assert_true(put(fx).created);
    assert_int_equal(count(fx), 2);
}

static void scope_topic(struct fx *fx)
{
    struct outbox_receipt first = put(fx, .topic = "a", .dedupe_key = "d");
    assert_true(put(fx, .topic = "b", .dedupe_key = "d").created);
    assert_true(put(fx, .topic = "a", .dedupe_key = "d", .name_space = "other").created);
    expect_same(put(fx, .topic = "a", .dedupe_key = "d"), first);
    assert_int_equal(count(fx), 3);
}

static void scope_namespace(struct fx *fx)
{
    ok(fx, configure, "pay", "dedupe_scope", "namespace", NULL);
    struct outbox_receipt first = put(fx, .topic = "a", .dedupe_key = "d", .name_space = "pay");
    expect_same(put(fx, .topic = "b", .dedupe_key = "d", .name_space = "pay"), first);
    assert_true(put(fx, .topic = "b", .dedupe_key = "e", .name_space = "pay").created);
    /* A setting of one namespace is no setting of another. */
    assert_true(put(fx, .topic = "a", .dedupe_key = "d").created);
    assert_true(put(fx, .topic = "b", .dedupe_key = "d").created);
    assert_int_equal(count(fx), 4);
}

static void after_the_end(struct fx *fx)
{
    struct outbox_receipt sent = put(fx, .key = "k", .dedupe_key = "sent");
    ack(fx, take(fx));
    struct outbox_receipt died = put(fx, .key = "k", .dedupe_key = "died", .max_attempts = 1);
    nack(fx, take(fx));
    expect_same(put(fx, .key = "k", .dedupe_key = "sent"), sent);
    expect_same(put(fx, .key = "k", .dedupe_key = "died"), died);
    expect_state(fx, sent.id, "delivered attempts 1 spent 1");
    expect_state(fx, died.id, "dead attempts 1 spent 1");
    claim_none(fx);
}

static void rolled_back_is_free(struct fx *fx)
{
    ok(fx, begin);
    struct outbox_receipt gone = put(fx, .dedupe_key = "d");
    ok(fx, rollback);
    struct outbox_receipt first = put(fx, .dedupe_key = "d");
    assert_true(first.created);
    assert_false(uuid_equal(gone.id, first.id));
}

static void in_one_transaction(struct fx *fx)
{
    ok(fx, begin);
    struct outbox_receipt first = put(fx, .key = "k", .dedupe_key = "d");
    expect_same(put(fx, .key = "k", .dedupe_key = "d"), first);
    assert_int_equal(put(fx, .key = "k").seq, 2);
    ok(fx, commit);
    assert_int_equal(count(fx), 2);
}

/* All hold their breath at the same line, then go. */
static void producers_race(struct fx *fx)
{
    enum { RACERS = 6, ROUNDS = 8 };
    struct proc *racers[RACERS];
    for (int i = 0; i < RACERS; i++)
        racers[i] = proc_start(fx, "racer", "t", "k");
    for (int round = 0; round < ROUNDS; round++) {
        char key[32];
        snprintf(key, sizeof(key), "round-%d", round);
        for (int i = 0; i < RACERS; i++)
            proc_tell(fx, racers[i], key);
        char id[64], first[64] = "";
        int created = 0, sum = 0, seq;
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(sscanf(proc_hear(fx, racers[i]), "%63s %d %d", id, &created, &seq), 3);
            sum += created;
            assert_int_equal(seq, round + 1);
            if (first[0])
                assert_string_equal(id, first);
            strcpy(first, id);
        }
        assert_int_equal(sum, 1);
        assert_int_equal(count(fx), round + 1);
    }
}

static void second_waits_for_the_first(struct fx *fx)
{
    struct proc *first = proc_start(fx, "producer", "t", "-", "d");
    proc_expect(fx, first, "held 1 0");
    struct proc *second = proc_start(fx, "racer", "t", "-");
    proc_tell(fx, second, "d");
    proc_tell(fx, first, "rollback");
    proc_expect(fx, first, "done");
    char id[64];
    int created = 0;
    assert_int_equal(sscanf(proc_hear(fx, second), "%63s %d", id, &created), 2);
    assert_int_equal(created, 1);
    assert_int_equal(count(fx), 1);
}

static void tenant_prefix(struct fx *fx)
{
    assert_true(put(fx, .tenant_id = TENANT_A, .dedupe_key = TENANT_A "/order/1").created);
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = TENANT_B "/order/1");
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = TENANT_A);
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = "order/1");
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = "x" TENANT_A "/order/1");
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = TENANT_A "x/order/1");
    /* With only one of the two there is nothing to compare. */
    assert_true(put(fx, .tenant_id = TENANT_A).created);
    assert_true(put(fx, .dedupe_key = "order/1").created);
}

static void tenant_prefix_off(struct fx *fx)
{
    ok(fx, configure, "free", "tenant_prefix", "off", NULL);
    assert_true(put(fx, .name_space = "free", .tenant_id = TENANT_A, .dedupe_key = "order/1").created);
    refuse(fx, OUTBOX_DEDUPE, .tenant_id = TENANT_A, .dedupe_key = "order/1");
    ok(fx, configure, "free", "tenant_prefix", "on", NULL);
    refuse(fx, OUTBOX_DEDUPE, .name_space = "free", .tenant_id = TENANT_A, .dedupe_key = "order/2");
}

const struct contract_test dedupe_tests[] = {
    {"M4 S4: the same dedupe key gives the same id and seq and inserts nothing", same_key_same_message},
    {"M4: without a dedupe key every message is its own", no_key_no_dedupe},
    {"M4: dedupe is per namespace and topic by default", scope_topic},
    {"M4: dedupe_scope namespace makes one key for all topics", scope_namespace},
    {"M4 S4 M13: a duplicate of a delivered or dead message brings nothing back", after_the_end},
    {"M1 M4: a rolled back dedupe key is free", rolled_back_is_free},
    {"M4 S18: a duplicate within one transaction", in_one_transaction},
    {"M4 M17 S18: producers that race agree on one message", producers_race},
    {"M4: a duplicate of a message that rolls back is created", second_waits_for_the_first},
    {"M5: tenant and dedupe key must belong together", tenant_prefix},
    {"M5: tenant_prefix is a setting per namespace", tenant_prefix_off},
    {NULL, NULL, 0},
};
