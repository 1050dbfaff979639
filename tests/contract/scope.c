/* scope.c - a claim takes only what it was asked to take. */
#include "suite.h"

#include "core/batch.h"

struct lot {
    struct outbox_uuid default_a, default_b, other_a, tenant_a, tenant_b;
};

static struct lot lot(struct fx *fx)
{
    return (struct lot){
        .default_a = put(fx, .topic = "a").id,
        .default_b = put(fx, .topic = "b").id,
        .other_a = put(fx, .topic = "a", .name_space = "other").id,
        .tenant_a = put(fx, .topic = "c", .tenant_id = TENANT_A).id,
        .tenant_b = put(fx, .topic = "c", .tenant_id = TENANT_B).id,
    };
}

static void by_namespace(struct fx *fx)
{
    struct lot all = lot(fx);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .name_space = "other"), 0)->id, all.other_a);
    claim_none(fx, .name_space = "nobody");
    claim_n(fx, 4, .name_space = "default");
    claim_none(fx);
}

static void by_topics(struct fx *fx)
{
    struct lot all = lot(fx);
    const char *topics[] = {"b", "nothing"};
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .topics = topics, .topic_count = 2), 0)->id, all.default_b);
    const char *a[] = {"a"};
    claim_n(fx, 2, .topics = a, .topic_count = 1);
    claim_n(fx, 2);
}

static void by_namespace_and_topic(struct fx *fx)
{
    struct lot all = lot(fx);
    const char *a[] = {"a"};
    const struct outbox_delivery *msg =
        outbox_batch_at(claim_n(fx, 1, .name_space = "default", .topics = a, .topic_count = 1), 0);
    assert_same_id(msg->id, all.default_a);
    expect_state(fx, all.other_a, "pending attempts 0 spent 0");
}

static void by_tenant(struct fx *fx)
{
    struct lot all = lot(fx);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .tenant_id = TENANT_B), 0)->id, all.tenant_b);
    claim_none(fx, .tenant_id = TENANT_B);
    claim_none(fx, .tenant_id = TENANT_A, .name_space = "other");
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .tenant_id = TENANT_A), 0)->id, all.tenant_a);
    claim_n(fx, 3);
}

static void every_topic_at_once(struct fx *fx)
{
    char topic[16];
    for (int i = 0; i < 60; i++) {
        snprintf(topic, sizeof(topic), "topic.%d", i % 30);
        put(fx, .topic = topic);
    }
    claim_n(fx, 60);
}

static void reclaim_is_scoped(struct fx *fx)
{
    struct lot all = lot(fx);
    claim_n(fx, 5, .worker = "dead");
    expire_all(fx);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .name_space = "other"), 0)->id, all.other_a);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .tenant_id = TENANT_A), 0)->id, all.tenant_a);
    expect_attempts(fx, all.default_a, "1 open dead");
    claim_n(fx, 3);
}

static void by_lanes(struct fx *fx)
{
    struct lot all = lot(fx);
    const struct outbox_lane only[] = {{"other", "a"}, {"default", "b"}, {"nobody", "b"}};
    claim_none(fx, .only = only + 2, .only_count = 1);
    claim_none(fx, .only = only, .only_count = 0);
    const char *b[] = {"b"};
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .only = only, .only_count = 3, .topics = b, .topic_count = 1), 0)->id,
                   all.default_b);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .only = only, .only_count = 3), 0)->id, all.other_a);
    expect_state(fx, all.default_a, "pending attempts 0 spent 0");
    claim_n(fx, 3);
}

static void without_lanes(struct fx *fx)
{
    struct lot all = lot(fx);
    const struct outbox_lane skip[] = {{"default", "a"}, {"default", "c"}, {"nobody", "b"}};
    claim_none(fx, .name_space = "default", .topics = (const char *[]){"a"}, .topic_count = 1, .skip = skip,
               .skip_count = 3);
    claim_n(fx, 2, .skip = skip, .skip_count = 3);
    expect_state(fx, all.default_a, "pending attempts 0 spent 0");
    claim_none(fx, .only = skip, .only_count = 2, .skip = skip, .skip_count = 2);
    claim_none(fx, .tenant_id = TENANT_A, .skip = skip, .skip_count = 2);
    assert_same_id(outbox_batch_at(claim_n(fx, 1, .skip = skip + 1, .skip_count = 1), 0)->id, all.default_a);
    claim_n(fx, 2, .skip = skip, .skip_count = 0);
}

/* The first rule that matches decides; globs are what routes have, and nothing else in a name means anything. */
static void by_rules(struct fx *fx)
{
    static const char *const topics[] = {"order.paid", "order.vip", "mail", "a%b_[c", "axbyc"};
    struct outbox_uuid ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = put(fx, .topic = topics[i]).id;
    const struct outbox_lane_rule rules[] = {
        {NULL, "*.vip", false}, {"def?ult", "order.*", true}, {"default", "a%b_\\[c", true}, {"other", NULL, true}};
    outbox_batch *batch = claim_n(fx, 3, .rules = rules, .rule_count = 4);
    assert_same_id(outbox_batch_at(batch, 0)->id, ids[1]);
    assert_same_id(outbox_batch_at(batch, 1)->id, ids[2]);
    assert_same_id(outbox_batch_at(batch, 2)->id, ids[4]);
    const struct outbox_lane_rule none = {NULL, NULL, true};
    claim_none(fx, .rules = &none, .rule_count = 1);
    claim_none(fx, .tenant_id = TENANT_A, .rules = rules, .rule_count = 4);
    claim_n(fx, 2, .rules = rules, .rule_count = 1);
}

/* The same where there are many topics, and most of what is due may not be taken. */
static void many_lanes(struct fx *fx)
{
    enum { LANES = 80, EACH = 30 };
    const struct ob_actor ann = {"ann", "because"};
    const struct outbox_lane_rule ones = {NULL, "*1", true};
    char topic[16];
    for (int i = 0; i < LANES * EACH; i++) {
        snprintf(topic, sizeof(topic), "t%02d", i % LANES);
        put(fx, .topic = topic, .key = i % 3 ? NULL : "k");
    }
    snprintf(topic, sizeof(topic), "t%02d", 2);
    ok(fx, pause, "default", topic, NULL, &ann);
    for (int seen = 0, left = 1; left;) {
        outbox_batch *batch = claim(fx, .rules = &ones, .rule_count = 1, .run = 4);
        for (size_t i = 0; i < outbox_batch_size(batch); i++) {
            const char *of = outbox_batch_at(batch, i)->topic;
            assert_true(of[2] != '1' && strcmp(of, topic) != 0);
        }
        seen += (int)outbox_batch_size(batch);
        left = outbox_batch_size(batch) > 0 || batch->more;
        ack_all(fx, batch);
        if (!left)
            assert_int_equal(seen, (LANES - LANES / 10 - 1) * EACH);
    }
    ok(fx, resume, "default", topic, NULL, &ann);
    fx_refresh(fx);
    for (int seen = 0; seen < (LANES / 10 + 1) * EACH;) {
        outbox_batch *batch = claim(fx, .run = 4);
        assert_true(outbox_batch_size(batch) > 0);
        seen += (int)outbox_batch_size(batch);
        ack_all(fx, batch);
    }
    claim_none(fx);
}

/* A key that goes through two lanes: a run stops where a lane is left out, and goes on when it is not any more. */
static void a_run_stops_at_a_lane_left_out(struct fx *fx)
{
    ok(fx, configure, "default", "order_scope", "namespace", NULL);
    const struct outbox_lane skip = {"default", "b"};
    put(fx, .topic = "a", .key = "k");
    put(fx, .topic = "b", .key = "k");
    put(fx, .topic = "a", .key = "k");
    const struct outbox_delivery *first = outbox_batch_at(claim_n(fx, 1, .run = 10, .skip = &skip, .skip_count = 1), 0);
    ack(fx, first);
    claim_none(fx, .run = 10, .skip = &skip, .skip_count = 1);
    claim_n(fx, 2, .run = 10);
}

/* A busy session remembers where it was in each lane: also in those that it leaves out for a while. */
static void lanes_come_back(struct fx *fx)
{
    const struct outbox_lane skip = {"default", "b"};
    for (int i = 0; i < 800; i++)
        put(fx, .topic = i % 4 ? "a" : "b");
    for (int i = 0; i < 3; i++) {
        ack_all(fx, claim_n(fx, 100));
        ack_all(fx, claim_n(fx, 100, .skip = &skip, .skip_count = 1));
    }
    for (int i = 0; i < 2; i++)
        ack_all(fx, claim_n(fx, 100));
    claim_none(fx);
}

/* What is paused stays so, whatever a claim asks for or leaves out. */
static void paused_lanes(struct fx *fx)
{
    const struct ob_actor ann = {"ann", "because"};
    const struct outbox_lane a = {"default", "a"}, b = {"default", "b"};
    struct lot all = lot(fx);
    ok(fx, pause, "default", "a", NULL, &ann);
    claim_none(fx, .only = &a, .only_count = 1);
    claim_n(fx, 3, .skip = &b, .skip_count = 1);
    expect_state(fx, all.default_a, "pending attempts 0 spent 0");
    ok(fx, resume, "default", "a", NULL, &ann);
    claim_n(fx, 1, .only = &a, .only_count = 1);
}

const struct contract_test scope_tests[] = {
    {"M18 M2: a claim of one namespace", by_namespace},
    {"M18: a claim of some topics", by_topics},
    {"M18: a claim of a topic in one namespace", by_namespace_and_topic},
    {"M18: a claim of one tenant", by_tenant},
    {"M18: a claim of some lanes", by_lanes},
    {"M18: a claim of all lanes but some", without_lanes},
    {"M18: a claim by rules, as routes are", by_rules},
    {"M18 M20: a claim of all lanes but some, where there are many", many_lanes},
    {"M18 M9 V10: a run stops at a lane left out", a_run_stops_at_a_lane_left_out},
    {"M18: a busy worker finds the lanes again that it left out", lanes_come_back},
    {"M18 T4: a paused lane stays paused", paused_lanes},
    {"M18: a claim of everything sees every topic", every_topic_at_once},
    {"M18 M8: a reclaim keeps to its scope", reclaim_is_scoped},
    {NULL, NULL, 0},
};
