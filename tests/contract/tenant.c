/* tenant.c - erasing a tenant takes all that is its own, in every state, and nothing else. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "contract ended"};

/* One message in every state. */
static void populate(struct fx *fx, const char *tenant, const char *dedupe_key, struct outbox_uuid ids[4])
{
    for (int i = 0; i < 4; i++)
        ids[i] = put(fx, .tenant_id = tenant, .dedupe_key = i == 0 ? dedupe_key : NULL, .priority = 9 - i,
                     .key = i == 3 ? "k" : NULL, .subject = "s")
                     .id;
    outbox_batch *batch = claim_n(fx, 3, .limit = 3, .tenant_id = tenant);
    ack(fx, outbox_batch_at(batch, 0));
    settle(fx, outbox_batch_at(batch, 1), .outcome = OUTBOX_FAILED);
}

static void erase(struct fx *fx)
{
    struct outbox_uuid a[4], b[4];
    populate(fx, TENANT_A, TENANT_A "/1", a);
    populate(fx, TENANT_B, TENANT_B "/1", b);
    struct outbox_uuid nobody = put(fx).id;
    int64_t removed = -1;
    ok(fx, erase_tenant, TENANT_A, &ann, &removed);
    assert_int_equal(removed, 4);
    assert_int_equal(count(fx, .tenant_id = TENANT_A), 0);
    for (int i = 0; i < 4; i++) {
        expect_state(fx, a[i], "none");
        expect_attempts(fx, a[i], "");
    }
    claim_none(fx, .tenant_id = TENANT_A);
    expect_state(fx, nobody, "pending attempts 0 spent 0");
    expect_state(fx, b[0], "delivered attempts 1 spent 1");
    expect_state(fx, b[1], "dead attempts 1 spent 1");
    expect_state(fx, b[2], "processing attempts 1 spent 1 by w1");
    expect_state(fx, b[3], "pending attempts 0 spent 0");
    expect_attempts(fx, b[0], "1 delivered w1");
    expect_acts(fx, NULL, "erase_tenant ann contract ended");
}

/* Nothing of the tenant is left, so its keys are free again. */
static void a_new_life(struct fx *fx)
{
    struct outbox_uuid a[4];
    populate(fx, TENANT_A, TENANT_A "/1", a);
    int64_t removed = -1;
    ok(fx, erase_tenant, TENANT_A, &ann, &removed);
    assert_true(put(fx, .tenant_id = TENANT_A, .dedupe_key = TENANT_A "/1").created);
    assert_int_equal(put(fx, .tenant_id = TENANT_A, .key = "k").seq, 1);
    claim_n(fx, 2, .tenant_id = TENANT_A);
}

static void late_settle(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .tenant_id = TENANT_A).id;
    const struct outbox_delivery *msg = take(fx);
    int64_t removed = -1;
    ok(fx, erase_tenant, TENANT_A, &ann, &removed);
    settle_refused(fx, OUTBOX_SETTLE_UNKNOWN, msg, .outcome = OUTBOX_DELIVERED);
    expect_attempts(fx, id, "");
}

static void acts_go_too(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .tenant_id = TENANT_A);
    int64_t n = -1;
    ok(fx, discard, &(struct ob_filter){.ids = &id, .id_count = 1}, &ann, &n);
    ok(fx, erase_tenant, TENANT_A, &ann, &n);
    expect_acts(fx, &id, "");
    expect_acts(fx, NULL, "erase_tenant ann contract ended");
}

static void nobody_known(struct fx *fx)
{
    put(fx, .tenant_id = TENANT_A);
    int64_t removed = -1;
    ok(fx, erase_tenant, TENANT_B, &ann, &removed);
    assert_int_equal(removed, 0);
    assert_int_equal(count(fx), 1);
}

static void no_tenant_at_all(struct fx *fx)
{
    put(fx);
    const char *before = digest(fx);
    int64_t removed = -1;
    fails(fx, OUTBOX_INVALID, erase_tenant, NULL, &ann, &removed);
    fails(fx, OUTBOX_INVALID, erase_tenant, "everybody", &ann, &removed);
    expect_unchanged(fx, before, "an erasure of nobody");
}

static void filtered(struct fx *fx)
{
    struct outbox_uuid a[4], b[4];
    populate(fx, TENANT_A, NULL, a);
    populate(fx, TENANT_B, NULL, b);
    assert_int_equal(count(fx, .tenant_id = TENANT_A), 4);
    assert_int_equal(count(fx, .tenant_id = TENANT_A, .status_plus_1 = OB_DEAD + 1), 1);
    int64_t n = -1;
    ok(fx, retry, &(struct ob_filter){.tenant_id = TENANT_A}, &ann, &n);
    assert_int_equal(n, 1);
    expect_state(fx, b[1], "dead attempts 1 spent 1");
}

const struct contract_test tenant_tests[] = {
    {"V14: erasing a tenant takes its messages in every state, their attempts, and nothing else", erase},
    {"V14: an erased tenant can begin anew", a_new_life},
    {"V14 M10: a worker that held an erased message learns that it is unknown", late_settle},
    {"V14: acts on an erased tenant's messages go too, the erasure stays on record", acts_go_too},
    {"V14: erasing a tenant that has nothing", nobody_known},
    {"V14: an erasure must name its tenant", no_tenant_at_all},
    {"V14 M18 T4: acts by tenant reach no other tenant", filtered},
    {NULL, NULL, 0},
};
