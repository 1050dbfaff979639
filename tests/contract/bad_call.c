/* bad_call.c - workers and operators that ask for nonsense get a clear error, and nothing changes. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "because"};

static void claims(struct fx *fx)
{
    put(fx);
    refuse_claim(fx, OUTBOX_INVALID, .worker = NULL);
    refuse_claim(fx, OUTBOX_INVALID, .worker = "");
    refuse_claim(fx, OUTBOX_INVALID, .worker = repeat_text(fx, 'w', 201));
    refuse_claim(fx, OUTBOX_INVALID, .worker = "\xff");
    refuse_claim(fx, OUTBOX_INVALID, .limit = 0);
    refuse_claim(fx, OUTBOX_INVALID, .limit = -1);
    refuse_claim(fx, OUTBOX_INVALID, .limit = 10001);
    refuse_claim(fx, OUTBOX_INVALID, .limit = INT32_MAX);
    refuse_claim(fx, OUTBOX_INVALID, .lease_us = 0);
    refuse_claim(fx, OUTBOX_INVALID, .lease_us = -SECOND);
    refuse_claim(fx, OUTBOX_INVALID, .lease_us = 1000);
    refuse_claim(fx, OUTBOX_INVALID, .lease_us = 25 * HOUR);
    refuse_claim(fx, OUTBOX_INVALID, .lease_us = INT64_MAX);
    refuse_claim(fx, OUTBOX_INVALID, .run = 0);
    refuse_claim(fx, OUTBOX_INVALID, .run = -1);
    refuse_claim(fx, OUTBOX_INVALID, .run = 10001);
    refuse_claim(fx, OUTBOX_INVALID, .max_attempts = -1);
    refuse_claim(fx, OUTBOX_INVALID, .max_attempts = 1001);
    refuse_claim(fx, OUTBOX_INVALID, .retry_base_us = -1);
    refuse_claim(fx, OUTBOX_INVALID, .retry_base_us = INT64_MAX);
    refuse_claim(fx, OUTBOX_INVALID, .retry_cap_us = -1);
    refuse_claim(fx, OUTBOX_INVALID, .retry_cap_us = INT64_MAX);
    refuse_claim(fx, OUTBOX_INVALID, .tenant_id = "nobody");
    claim_n(fx, 1, .worker = repeat_text(fx, 'w', 200), .limit = 10000, .lease_us = 24 * HOUR, .run = 10000,
            .max_attempts = 1000);
}

static void settle_is(struct fx *fx, enum outbox_code wanted, struct outbox_settle item)
{
    const char *before = digest(fx);
    check_(fx, (fx->store->ops->settle)(fx->store, &item, 1, &fx->err), wanted, "settle");
    expect_unchanged_(fx, before, "a bad settle");
}

static void settles(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    const struct outbox_delivery *msg = take(fx);
    settle_is(AT(fx), OUTBOX_INVALID, SETTLE(msg, .outcome = 0));
    settle_is(AT(fx), OUTBOX_INVALID, SETTLE(msg, .outcome = OUTBOX_LOST));
    settle_is(AT(fx), OUTBOX_INVALID, SETTLE(msg, .outcome = (enum outbox_outcome)11));
    settle_is(AT(fx), OUTBOX_INVALID, SETTLE(msg, .outcome = (enum outbox_outcome) - 1));
    settle_is(AT(fx), OUTBOX_INVALID, SETTLE(msg, .outcome = OUTBOX_RETRY, .delay_us = INT64_MAX));
    expect_state(fx, id, "processing attempts 1 spent 1 by w1");
    ack(fx, msg);
}

/* One bad element refuses the call: the good ones beside it are not settled behind the caller's back. */
static void settles_all_or_nothing(struct fx *fx)
{
    put(fx);
    put(fx);
    outbox_batch *batch = claim_n(fx, 2);
    struct outbox_settle items[2] = {SETTLE(outbox_batch_at(batch, 0), .outcome = OUTBOX_DELIVERED),
                                     SETTLE(outbox_batch_at(batch, 1), .outcome = OUTBOX_LOST)};
    const char *before = digest(fx);
    fails(fx, OUTBOX_INVALID, settle, items, 2);
    expect_unchanged(fx, before, "a bad batch");
}

/* An outcome is never refused because a receiver's words are ugly: bytes that are no UTF-8, output that is no JSON. */
static void ugly_words(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "c\xff", .error = "caf\xe9 closed", .reference = "\x80",
           .delay_us = 0);
    const struct ob_attempt_row *row = attempt_of(fx, id, 1);
    assert_non_null(strstr(row->error, " closed"));
    assert_null(strchr(row->error, '\xe9'));
    assert_null(strchr(row->code, '\xff'));
    assert_null(strchr(row->reference, '\x80'));
    assert_string_equal(look(fx, id)->last_error, row->error);
    settle(fx, take(fx), .outcome = OUTBOX_DELIVERED, .output = "no json");
    expect_state(fx, id, "delivered attempts 2 spent 2");
}

/* A sink's error can be any length; the record keeps the beginning of it. */
static void a_long_error(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .error = repeat_text(fx, 'e', 100000), .delay_us = 0);
    size_t kept = strlen(look(fx, id)->last_error);
    assert_in_range(kept, 1000, 10000);
    assert_string_equal(attempt_of(fx, id, 1)->error, look(fx, id)->last_error);
}

static void leases(struct fx *fx)
{
    put(fx);
    const struct outbox_delivery *msg = take(fx);
    struct outbox_settle item = SETTLE(msg);
    const char *before = digest(fx);
    fails(fx, OUTBOX_INVALID, extend, &item, 1, 0);
    fails(fx, OUTBOX_INVALID, extend, &item, 1, -SECOND);
    fails(fx, OUTBOX_INVALID, extend, &item, 1, 25 * HOUR);
    fails(fx, OUTBOX_INVALID, extend, &item, 1, INT64_MAX);
    expect_unchanged(fx, before, "a bad extend");
}

static void settings(struct fx *fx)
{
    static const char *const bad[][3] = {
        {"default", "no_such_setting", "1"}, {"default", "dedupe_scope", "galaxy"},
        {"default", "order_scope", ""},      {"default", "tenant_prefix", "perhaps"},
        {"default", "on_dead", "panic"},     {"default", "max_payload", "-1"},
        {"default", "max_payload", "0"},     {"default", "max_payload", "many"},
        {"default", "max_attempts", "0"},    {"default", "max_attempts", "1001"},
        {"default", "max_attempts", "1e3"},  {"default", "retry_base", "-1 s"},
        {"default", "retry_base", "0"},      {"default", "retry_cap", "soon"},
        {"default", "retention", "1 day"},   {"*", "retention", "yesterday"},
        {"", "max_attempts", "5"},           {"default", "max_attempts", "99999999999999999999"},
        {"*", "max_attempts", NULL},         {"a b", "max_attempts", "5"},
        {"a*", "max_attempts", "5"},         {"a?", "max_attempts", "5"},
        {"a\x01", "max_attempts", "5"},      {"a\u00a0b", "max_attempts", "5"},
        {"a\u3000", "max_attempts", "5"},
    };
    const char *before = digest(fx);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum outbox_code code = fx->store->ops->configure(fx->store, bad[i][0], bad[i][1], bad[i][2], NULL, &fx->err);
        if (code != OUTBOX_INVALID)
            blame(AT(fx), "configure(%s, %s, %s) gave %s", bad[i][0], bad[i][1], bad[i][2] ? bad[i][2] : "NULL",
                  outbox_code_name(code));
    }
    expect_unchanged(fx, before, "a bad setting");
}

static void acts(struct fx *fx)
{
    make_dead(fx);
    const char *before = digest(fx);
    int64_t n = -1;
    fails(fx, OUTBOX_INVALID, retry, &(struct ob_filter){0}, &ann, &n);
    fails(fx, OUTBOX_INVALID, discard, &(struct ob_filter){0}, &ann, &n);
    fails(fx, OUTBOX_INVALID, retry, &(struct ob_filter){.tenant_id = "nobody"}, &ann, &n);
    fails(fx, OUTBOX_INVALID, retry, &(struct ob_filter){.topic = "t", .limit = -1}, &ann, &n);
    fails(fx, OUTBOX_INVALID, pause, NULL, "a topic without a namespace", NULL, &ann);
    expect_unchanged(fx, before, "a bad act");
}

static void transactions(struct fx *fx)
{
    fails(fx, OUTBOX_INVALID, commit);
    fails(fx, OUTBOX_INVALID, rollback);
    ok(fx, begin);
    fails(fx, OUTBOX_INVALID, begin);
    put(fx);
    ok(fx, commit);
    assert_int_equal(count(fx), 1);
}

const struct contract_test bad_call_tests[] = {
    {"M6 M10: bad input: absurd limits, leases and names of a claim", claims},
    {"M10: bad input: outcomes and delays of a settle", settles},
    {"M10: bad input: one bad element refuses the whole settle", settles_all_or_nothing},
    {"V9 S7: an outcome in ugly words stands", ugly_words},
    {"V9 S7: a very long error is kept in part", a_long_error},
    {"M10: bad input: absurd leases of an extend", leases},
    {"M4 M5 M11: bad input: settings", settings},
    {"T4: bad input: acts that do not say on what", acts},
    {"M1: bad input: transactions that are not there, or there already", transactions},
    {NULL, NULL, 0},
};
