/* levers.c - what an operator does with a message, in every state it can be in; and the same to many. */
#include "suite.h"

#include "core/lever.h"
#include "lib/bulk.h"

struct operated {
    char result[16], detail[256], made[37];
    int rows;
};

static bool one_row(void *ctx, const struct ob_operated_row *row)
{
    struct operated *operated = ctx;
    operated->rows++;
    snprintf(operated->result, sizeof operated->result, "%s", row->result);
    snprintf(operated->detail, sizeof operated->detail, "%s", row->detail ? row->detail : "");
    snprintf(operated->made, sizeof operated->made, "%s", row->made ? row->made : "");
    assert_true(row->done == (strcmp(row->result, "ok") == 0));
    return true;
}

/* The lever on one message must have this result; nothing changes unless that is "ok". */
static struct operated pull_(struct fx *fx, enum ob_lever lever, struct outbox_uuid id, const char *wanted)
{
    struct operated operated = {0};
    struct ob_operation operation = {.lever = lever,
                                     .ids = &id,
                                     .id_count = 1,
                                     .topic = lever == OB_LEVER_MOVE ? "elsewhere" : NULL,
                                     .actor = {"ann", "why"}};
    check_(fx, fx->store->ops->operate(fx->store, &operation, one_row, &operated, &fx->err), OUTBOX_OK,
           ob_lever_name(lever));
    if (operated.rows != 1 || strcmp(operated.result, wanted) != 0)
        blame(fx, "%s: %d rows, %s (%s), wanted %s", ob_lever_name(lever), operated.rows, operated.result,
              operated.detail, wanted);
    return operated;
}
#define pull(fx, lever, id, wanted) pull_(AT(fx), OB_LEVER_##lever, id, wanted)

/* ---- a state that a message can be in, and what each lever does with it ------------------------------------------ */

static struct outbox_uuid fresh(struct fx *fx) /* on PostgreSQL it is in the log */
{
    return put(fx, .topic = "t").id;
}

static struct outbox_uuid delayed(struct fx *fx)
{
    return put(fx, .deliver_after_us = now_us() + HOUR).id;
}

static const char *new_key(struct fx *fx)
{
    static int number;
    char text[32];
    snprintf(text, sizeof text, "key %d", ++number);
    return keep_text(fx, text);
}

static struct outbox_uuid backing_off(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .key = new_key(fx)).id;
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "e", .delay_us = HOUR);
    return id;
}

static struct outbox_uuid leased(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .key = new_key(fx)).id;
    take(fx);
    return id;
}

static struct outbox_uuid behind(struct fx *fx)
{
    const char *key = new_key(fx);
    put(fx, .key = key);
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .delay_us = HOUR);
    return put(fx, .key = key).id;
}

static struct outbox_uuid dead(struct fx *fx)
{
    return make_dead(fx, .key = new_key(fx));
}

static struct outbox_uuid held(struct fx *fx)
{
    ok(fx, configure, "strict", "on_dead", "hold", NULL);
    return make_dead(fx, .name_space = "strict", .key = new_key(fx));
}

static struct outbox_uuid delivered(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .topic = "t").id;
    ack(fx, take(fx));
    return id;
}

static struct outbox_uuid discarded(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .topic = "t");
    pull(fx, DISCARD, id, "ok");
    return id;
}

static struct outbox_uuid nobody(struct fx *fx)
{
    (void)fx;
    return (struct outbox_uuid){{1, 2, 3}};
}

static const struct {
    const char *name;
    struct outbox_uuid (*make)(struct fx *);
    const char *wanted[OB_LEVER_COUNT]; /* retry, discard, skip, redeliver, expire, move */
} states[] = {
    {"fresh", fresh, {"due", "ok", "ok", "pending", "ok", "ok"}},
    {"delayed", delayed, {"ok", "ok", "ok", "pending", "ok", "ok"}},
    {"backing off", backing_off, {"ok", "ok", "ok", "pending", "ok", "ok"}},
    {"leased", leased, {"leased", "leased", "leased", "leased", "leased", "leased"}},
    {"behind", behind, {"behind", "behind", "behind", "pending", "behind", "behind"}},
    {"dead", dead, {"ok", "ok", "dead", "dead", "dead", "ok"}},
    {"held", held, {"ok", "ok", "ok", "dead", "dead", "ok"}},
    {"delivered", delivered, {"delivered", "delivered", "delivered", "ok", "delivered", "delivered"}},
    {"discarded", discarded, {"discarded", "discarded", "discarded", "ok", "discarded", "discarded"}},
    {"unknown", nobody, {"unknown", "unknown", "unknown", "unknown", "unknown", "unknown"}},
};

/* What a message is after each lever that did something. */
static const char *after(enum ob_lever lever, enum ob_status before)
{
    static const enum ob_status status[] = {[OB_LEVER_RETRY] = OB_PENDING,
                                            [OB_LEVER_DISCARD] = OB_DISCARDED,
                                            [OB_LEVER_SKIP] = OB_DEAD,
                                            [OB_LEVER_EXPIRE] = OB_DEAD,
                                            [OB_LEVER_MOVE] = OB_DISCARDED};
    static const char *const names[] = {"pending", "processing", "delivered", "dead", "discarded"};
    return names[lever == OB_LEVER_REDELIVER ? before : status[lever]];
}

static void every_state(struct fx *fx)
{
    static const char *const names[] = {"pending", "processing", "delivered", "dead", "discarded"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        for (int lever = 0; lever < OB_LEVER_COUNT; lever++) {
            struct outbox_uuid id = states[i].make(fx);
            bool there = states[i].make != nobody;
            enum ob_status before = there ? look(fx, id)->status : OB_PENDING;
            const char *wanted = states[i].wanted[lever], *same = NULL;
            bool done = strcmp(wanted, "ok") == 0;
            if (states[i].make == leased)
                same = digest(fx);
            struct operated operated = pull_(AT(fx), (enum ob_lever)lever, id, wanted);
            if (same)
                expect_unchanged(fx, same, states[i].name);
            if (!done && states[i].make == leased && !strstr(operated.detail, "w1 has it until"))
                blame(fx, "it does not say who has it: %s", operated.detail);
            if (there &&
                strcmp(names[look(fx, id)->status], done ? after((enum ob_lever)lever, before) : names[before]))
                blame(fx, "%s, %s: it is %s", states[i].name, ob_lever_name((enum ob_lever)lever),
                      names[look(fx, id)->status]);
            /* What can be claimed is, so that it does not disturb the next one. */
            for (outbox_batch *batch; states[i].make != leased && outbox_batch_size(batch = claim(fx, .run = 10));)
                ack_all(fx, batch);
        }
}

/* ---- retry ------------------------------------------------------------------------------------------------------- */

static void retry_now(struct fx *fx)
{
    struct outbox_uuid id = backing_off(fx);
    claim_none(fx);
    pull(fx, RETRY, id, "ok");
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    assert_int_equal(msg->attempt, 2);
    assert_int_equal(msg->spent, 2);
    assert_false(msg->redriven);
    expect_acts(fx, &id, "retry ann why");
    id = delayed(fx);
    pull(fx, RETRY, id, "ok");
    assert_same_id(take(fx)->id, id);
}

/* ---- skip -------------------------------------------------------------------------------------------------------- */

static void expect_seq_(struct fx *fx, int64_t seq)
{
    const struct outbox_delivery *msg = take_(fx, WANT(.limit = 1));
    if (msg->seq != seq)
        blame(fx, "next is seq %lld, wanted %lld", (long long)msg->seq, (long long)seq);
    settle_(fx, SETTLE(msg, .outcome = OUTBOX_DELIVERED));
}
#define expect_seq(fx, seq) expect_seq_(AT(fx), seq)

/* A head that backs off steps aside; the others keep their order, and it can come back without one. */
static void skip_head(struct fx *fx)
{
    struct outbox_uuid head = backing_off(fx), ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = put(fx, .key = look(fx, head)->key).id;
    claim_none(fx, .run = 5);
    struct operated operated = pull(fx, SKIP, ids[1], "behind");
    assert_non_null(strstr(operated.detail, uuid_text(fx, head)));
    claim_none(fx, .run = 5);
    pull(fx, SKIP, head, "ok");
    expect_state(fx, head, "dead attempts 1 spent 1");
    assert_string_equal(look(fx, head)->dead_reason, "skipped");
    assert_string_equal(look(fx, head)->last_code, "http_503");
    expect_acts(fx, &head, "skip ann why");
    expect_seq(fx, 2);
    const struct outbox_delivery *third = take(fx);
    assert_int_equal(third->seq, 3);
    pull(fx, RETRY, head, "ok");
    const struct outbox_delivery *again = take(fx);
    assert_same_id(again->id, head);
    assert_true(again->redriven);
    ack(fx, third);
    ack(fx, again);
    expect_seq(fx, 4);
    expect_state(fx, head, "delivered attempts 2 spent 1");
}

static void skip_held(struct fx *fx)
{
    struct outbox_uuid head = held(fx);
    put(fx, .name_space = "strict", .key = look(fx, head)->key);
    put(fx, .name_space = "strict", .key = look(fx, head)->key);
    claim_none(fx, .run = 5);
    pull(fx, SKIP, head, "ok");
    expect_state(fx, head, "dead attempts 1 spent 1");
    assert_string_equal(look(fx, head)->dead_reason, "terminal");
    expect_seq(fx, 2);
    expect_seq(fx, 3);
    pull(fx, SKIP, head, "dead");
    pull(fx, RETRY, head, "ok");
    assert_same_id(take(fx)->id, head);
}

/* Those of a key that go together go in their order; one that stays keeps those behind it. */
static void from_the_front(struct fx *fx)
{
    static const enum ob_lever all[] = {OB_LEVER_SKIP, OB_LEVER_DISCARD, OB_LEVER_EXPIRE, OB_LEVER_MOVE};
    struct outbox_uuid ids[5];
    int changed = 0;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        char *key = repeat_text(fx, (char)('a' + k), 3);
        for (int i = 0; i < 5; i++)
            ids[i] = put(fx, .key = key, .deliver_after_us = i == 3 ? now_us() + HOUR : 0).id;
        struct outbox_uuid some[] = {ids[4], ids[1], ids[0], ids[3]}; /* not the third */
        struct operated operated = {0};
        struct ob_operation operation = {.lever = all[k],
                                         .ids = some,
                                         .id_count = 4,
                                         .topic = all[k] == OB_LEVER_MOVE ? "elsewhere" : NULL,
                                         .actor = {"ann", "why"}};
        ok(fx, operate, &operation, one_row, &operated);
        assert_int_equal(operated.rows, 4);
        for (int i = 0; i < 5; i++)
            changed += look(fx, ids[i])->status != OB_PENDING;
        assert_int_equal(changed, 2);
        changed = 0;
        expect_seq(fx, 3);
        claim_none(fx, .topics = (const char *const[]){"t"}, .topic_count = 1, .run = 5);
        if (all[k] == OB_LEVER_MOVE)
            break;
        pull(fx, RETRY, ids[3], "ok");
        expect_seq(fx, 4);
        expect_seq(fx, 5);
    }
    outbox_batch *moved = claim_n(fx, 2, .topics = (const char *const[]){"elsewhere"}, .topic_count = 1, .run = 5);
    for (size_t i = 0; i < 2; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(moved, i);
        assert_int_equal(msg->seq, i + 1);
        assert_non_null(strstr(msg->headers, uuid_text(fx, ids[i])));
    }
}

static void expire_holds(struct fx *fx)
{
    ok(fx, configure, "strict", "on_dead", "hold", NULL);
    struct outbox_uuid ids[2];
    for (int i = 0; i < 2; i++)
        ids[i] = put(fx, .name_space = "strict", .key = "k", .deliver_after_us = now_us() + HOUR).id;
    struct operated operated = {0};
    struct ob_operation operation = {.lever = OB_LEVER_EXPIRE, .ids = ids, .id_count = 2, .actor = {"ann", "why"}};
    ok(fx, operate, &operation, one_row, &operated);
    expect_state(fx, ids[0], "dead attempts 0 spent 0");
    expect_state(fx, ids[1], "pending attempts 0 spent 0");
    assert_string_equal(look(fx, ids[0])->dead_reason, "expired");
    pull(fx, EXPIRE, ids[1], "behind");
    pull(fx, SKIP, ids[0], "ok");
    pull(fx, EXPIRE, ids[1], "ok");
}

/* ---- new messages ------------------------------------------------------------------------------------------------ */

static void redelivers(struct fx *fx)
{
    struct outbox_uuid id =
        put(fx, .topic = "t", .key = "k", .dedupe_key = "once", .subject = "s", .headers = "{\"h\": \"v\"}",
            .correlation_id = "c", .payload = "{\"n\": 7}", .payload_len = 8)
            .id;
    ack(fx, take(fx));
    struct operated operated = {0};
    struct ob_operation operation = {
        .lever = OB_LEVER_REDELIVER, .ids = &id, .id_count = 1, .run = "night", .actor = {"ann", "why"}};
    ok(fx, operate, &operation, one_row, &operated);
    assert_string_equal(operated.result, "ok");
    ok(fx, operate, &operation, one_row, &operated);
    assert_string_equal(operated.result, "done");
    const struct outbox_delivery *msg = take(fx);
    assert_string_equal(uuid_text(fx, msg->id), operated.made[0] ? operated.made : uuid_text(fx, msg->id));
    assert_false(uuid_equal(msg->id, id));
    assert_string_equal(msg->topic, "t");
    assert_string_equal(msg->key, "k");
    assert_int_equal(msg->seq, 2);
    assert_string_equal(msg->subject, "s");
    assert_string_equal(msg->correlation_id, "c");
    assert_null(msg->dedupe_key);
    assert_int_equal(msg->attempt, 1);
    assert_non_null(strstr(msg->headers, "\"h\""));
    assert_non_null(strstr(msg->headers, "x-outbox-origin"));
    assert_non_null(strstr(msg->headers, uuid_text(fx, id)));
    assert_memory_equal(msg->payload, "{\"n\": 7}", 8);
    ack(fx, msg);
    claim_none(fx);
    assert_false(put(fx, .topic = "t", .key = "k", .dedupe_key = "once").created); /* the key stays with the first */
    operation.run = "another night";
    ok(fx, operate, &operation, one_row, &operated);
    assert_string_equal(operated.result, "ok");
    expect_acts(fx, &id, "redeliver ann why; redeliver ann why");
}

static void moves(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx, .topic = "t", .tenant_id = TENANT_A, .priority = 7);
    struct operated operated = pull(fx, MOVE, id, "ok");
    expect_state(fx, id, "discarded attempts 1 spent 1");
    assert_int_equal(count(fx, .status_plus_1 = OB_DISCARDED + 1), 1);
    const struct outbox_delivery *msg = take(fx);
    assert_string_equal(uuid_text(fx, msg->id), operated.made);
    assert_string_equal(msg->topic, "elsewhere");
    assert_string_equal(msg->tenant_id, TENANT_A);
    assert_int_equal(msg->priority, 7);
    assert_int_equal(msg->attempt, 1);
    nack(fx, msg);
    pull(fx, MOVE, msg->id, "same");
    ok(fx, configure, "small", "max_payload", "10", NULL);
    struct outbox_uuid big = make_dead(fx, .topic = "t", .payload = "\"0123456789\"", .payload_len = 12);
    struct ob_operation operation = {.lever = OB_LEVER_MOVE,
                                     .ids = &big,
                                     .id_count = 1,
                                     .topic = "x",
                                     .name_space = "small",
                                     .actor = {"ann", "why"}};
    operated = (struct operated){0};
    ok(fx, operate, &operation, one_row, &operated);
    assert_string_equal(operated.result, "invalid");
    expect_state(fx, big, "dead attempts 1 spent 1");
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

struct watch {
    int steps, stop_after;
};

static bool is_enough(void *ctx)
{
    const struct watch *watch = ctx;
    return watch->stop_after && watch->steps >= watch->stop_after;
}

static void on_step(void *ctx, const struct ob_bulk *bulk)
{
    struct watch *watch = ctx;
    watch->steps += bulk->tried > 0;
}

static struct ob_bulk bulk_of(struct fx *fx, enum ob_lever lever, struct watch *watch)
{
    struct ob_bulk bulk = {.store = fx->store,
                           .operation = {.lever = lever, .run = "r", .actor = {"ann", "why"}},
                           .filter = {.topic = "b*"},
                           .stop = is_enough,
                           .progress = on_step,
                           .ctx = watch};
    ob_buf_init(&bulk.ids);
    check_(fx, ob_bulk_check(&bulk, &fx->err), OUTBOX_OK, "check");
    check_(fx, ob_bulk_find(&bulk, 100000, NULL, NULL, &fx->err), OUTBOX_OK, "find");
    return bulk;
}

/* Interrupted after two steps, and begun again: each message once, the oldest first. */
static void in_steps(struct fx *fx)
{
    enum { MANY = 1700 };
    struct outbox_message msgs[100];
    struct watch watch = {.stop_after = 0};
    for (size_t i = 0; i < 100; i++)
        msgs[i] = MSG(.topic = "bulk", .payload = "1", .payload_len = 1);
    for (int i = 0; i < MANY / 100; i++)
        ok(fx, enqueue_many, msgs, 100, NULL);
    put(fx, .topic = "other");
    for (outbox_batch *batch; outbox_batch_size(batch = claim(fx, .limit = 1000));)
        ack_all(fx, batch);

    struct ob_bulk bulk = bulk_of(fx, OB_LEVER_REDELIVER, &watch);
    assert_int_equal(bulk.total, MANY);
    watch = (struct watch){.stop_after = 2};
    check_(fx, ob_bulk_run(&bulk, &fx->err), OUTBOX_OK, "run");
    assert_true(bulk.interrupted && bulk.done == 1000 && ob_bulk_left(&bulk) == 700);
    ob_bulk_fini(&bulk);

    watch = (struct watch){0};
    bulk = bulk_of(fx, OB_LEVER_REDELIVER, &watch);
    check_(fx, ob_bulk_run(&bulk, &fx->err), OUTBOX_OK, "run");
    assert_true(!bulk.interrupted && bulk.done == 700 && ob_bulk_left(&bulk) == 0);
    assert_true(bulk.refused == 1000 && strcmp(bulk.refusals[0].result, "done") == 0);
    ob_bulk_fini(&bulk);

    bulk =
        (struct ob_bulk){.operation.lever = OB_LEVER_EXPIRE, .filter = {.topic = "b*", .status_plus_1 = OB_DEAD + 1}};
    check_(fx, ob_bulk_check(&bulk, &fx->err), OUTBOX_INVALID, "a state that it is not for");
    bulk = bulk_of(fx, OB_LEVER_EXPIRE, &watch);
    assert_int_equal(bulk.total, MANY);
    bulk.limit = 600;
    check_(fx, ob_bulk_run(&bulk, &fx->err), OUTBOX_OK, "run");
    assert_true(bulk.done == 600 && ob_bulk_left(&bulk) == MANY - 600);
    ob_bulk_fini(&bulk);
    assert_int_equal(count(fx, .status_plus_1 = OB_DEAD + 1, .topic = "bulk"), 600);
}

/* A request of a tenant reaches its own messages only, whatever ids it names. */
static void of_a_tenant(struct fx *fx)
{
    struct outbox_uuid ids[] = {make_dead(fx, .topic = "b", .tenant_id = TENANT_A),
                                make_dead(fx, .topic = "b", .tenant_id = TENANT_B), make_dead(fx, .topic = "b")};
    struct ob_bulk bulk = {.store = fx->store,
                           .operation = {.lever = OB_LEVER_RETRY, .actor = {"ann", "why"}},
                           .filter = {.ids = ids, .id_count = 3},
                           .enters = true,
                           .tenant_id = TENANT_A};
    ob_buf_init(&bulk.ids);
    check_(fx, ob_bulk_check(&bulk, &fx->err), OUTBOX_OK, "check");
    check_(fx, ob_bulk_find(&bulk, 100000, NULL, NULL, &fx->err), OUTBOX_OK, "find");
    check_(fx, ob_bulk_run(&bulk, &fx->err), OUTBOX_OK, "run");
    assert_true(bulk.done == 1 && bulk.refused == 2 && strcmp(bulk.refusals[0].result, "unknown") == 0);
    ob_bulk_fini(&bulk);
    assert_int_equal(look(fx, ids[0])->status, OB_PENDING);
    assert_int_equal(look(fx, ids[1])->status, OB_DEAD);
    assert_int_equal(look(fx, ids[2])->status, OB_DEAD);
}

/* ---- bad calls --------------------------------------------------------------------------------------------------- */

static void bad_calls(struct fx *fx)
{
    struct outbox_uuid id = backing_off(fx);
    const char *before = digest(fx);
    struct operated operated = {0};
    struct ob_operation operation = {.lever = OB_LEVER_MOVE, .ids = &id, .id_count = 1, .actor = {"ann", "why"}};
    fails(fx, OUTBOX_INVALID, operate, &operation, one_row, &operated);
    operation.topic = "two words";
    fails(fx, OUTBOX_INVALID, operate, &operation, one_row, &operated);
    operation.topic = "orders.*";
    fails(fx, OUTBOX_INVALID, operate, &operation, one_row, &operated);
    operation.lever = OB_LEVER_SKIP;
    operation.topic = "t";
    fails(fx, OUTBOX_INVALID, operate, &operation, one_row, &operated);
    operation.topic = NULL;
    operation.id_count = 0;
    fails(fx, OUTBOX_INVALID, operate, &operation, one_row, &operated);
    assert_int_equal(operated.rows, 0);
    expect_unchanged(fx, before, "a bad call");
}

const struct contract_test levers_tests[] = {
    {"T4 N2: every lever in every state does what it says, or nothing", every_state},
    {"T4 N2: a retry of a message that backs off or is delayed is due now", retry_now},
    {"T4 N2 V8: a poison head that is skipped steps aside, its key goes on in order", skip_head},
    {"T4 N2 V8: a dead letter that holds its key and is skipped lets it go", skip_held},
    {"T4 V8: the messages of a key leave from the front only, whatever the lever", from_the_front},
    {"T4 N10: an expired head holds its key where the namespace says so", expire_holds},
    {"N10: a delivered message is redelivered as a new one that names its origin, once a run", redelivers},
    {"T4: a dead letter moves to another topic as a new message", moves},
    {"T4 V13: a bulk act goes in steps, stops when told, and goes on where it was", in_steps},
    {"T4 V1: a lever of a tenant reaches its own messages only", of_a_tenant},
    {"T4: what makes no sense is refused and changes nothing", bad_calls},
    {0},
};
