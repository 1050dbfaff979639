/* async_store.c - the store as a relay uses it: asked now, answered later. Every ask is answered once, whatever happens. */
#include "wire.h"

#include "base/clock.h"
#include "lib/open.h"
#include "lib/shared_store.h"

#include <stdatomic.h>

/* ---- what an ask does ---- */

static void round_trip(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid id = put(fx, .payload = "{\"a\": 1}", .tenant_id = TENANT_A).id;
    ask_claim(wire, TIMEOUT_US, .tenant_id = TENANT_A);
    hear_out(wire);
    expect_code(wire, CLAIM, OUTBOX_OK);
    assert_int_equal(outbox_batch_size(wire->batch), 1);
    const struct outbox_delivery *msg = outbox_batch_at(wire->batch, 0);
    assert_same_id(msg->id, id);
    assert_memory_equal(msg->payload, "{\"a\": 1}", msg->payload_len);
    expect_state(fx, id, "processing attempts 1 spent 1 by line");
    struct outbox_settle item = SETTLE(msg, .outcome = OUTBOX_DELIVERED, .reference = "r-1");
    int64_t until = look(fx, id)->locked_until_us;
    ask_extend(wire, &item, 1, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, EXTEND, OUTBOX_OK);
    assert_int_equal(item.result, OUTBOX_SETTLED);
    assert_true(look(fx, id)->locked_until_us > until);
    ask_settle(wire, &item, 1, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
    assert_int_equal(item.result, OUTBOX_SETTLED);
    expect_state(fx, id, "delivered attempts 1 spent 1");
    assert_string_equal(attempt_of(fx, id, 1)->reference, "r-1");
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    assert_true(state.connected);
    assert_int_equal(state.fault.code, OUTBOX_OK);
    assert_true(state.connects >= 1);
    for (int i = 0; i < KINDS; i++)
        assert_int_equal(wire->answers[i], 1);
}

static void all_at_once(struct fx *fx)
{
    struct wire *wire = wire(fx);
    for (int i = 0; i < 6; i++)
        put(fx);
    struct outbox_settle *first = async_take(wire, 2), *second = async_take(wire, 2);
    ask_extend(wire, second, 2, TIMEOUT_US);
    ask_settle(wire, first, 2, TIMEOUT_US);
    ask_claim(wire, TIMEOUT_US);
    hear_out(wire);
    assert_int_equal(outbox_batch_size(wire->batch), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(first[i].result, OUTBOX_SETTLED);
        assert_int_equal(second[i].result, OUTBOX_SETTLED);
    }
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), 2);
    ask_settle(wire, first, 0, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
}

/* What was asked with may go away at once. */
static void wants_are_copied(struct fx *fx)
{
    struct wire *wire = wire(fx);
    char worker[] = "borrowed", topic[] = "a", other[] = "b";
    put(fx, .topic = "a");
    put(fx, .topic = "b");
    struct outbox_lane only[] = {{"default", topic}, {"default", other}}, skip[] = {{"default", other}};
    const char *topics[] = {topic, other};
    ask_claim(wire, TIMEOUT_US, .worker = worker, .only = only, .only_count = 2, .skip = skip, .skip_count = 1,
              .topics = topics, .topic_count = 2);
    memset(worker, 'x', sizeof worker - 1);
    memset(topic, 'x', sizeof topic - 1);
    memset(other, 'x', sizeof other - 1);
    memset(only, 0, sizeof only);
    memset(skip, 0, sizeof skip);
    memset(topics, 0, sizeof topics);
    hear_out(wire);
    expect_code(wire, CLAIM, OUTBOX_OK);
    assert_int_equal(outbox_batch_size(wire->batch), 1);
    assert_string_equal(outbox_batch_at(wire->batch, 0)->topic, "a");
    expect_state(fx, outbox_batch_at(wire->batch, 0)->id, "processing attempts 1 spent 1 by borrowed");
}

/* The right token is not enough where the async store says whose claims are its own. */
static void another_holder(struct fx *fx)
{
    char url[PLACE_MAX];
    fixture.url(fx->place, url);
    struct wire *mine = wire_new(AT(fx), url, NULL, "line");
    struct outbox_uuid id = put(fx).id;
    struct outbox_settle *items = async_take(mine, 1), copy = items[0];
    ask_extend(mine, &copy, 1, TIMEOUT_US); /* so that it has a lease of its own, also in the log */
    hear_out(mine);
    cut(mine); /* one relay a file */
    struct wire *other = wire_new(AT(fx), url, NULL, "lane");
    ask_extend(other, &copy, 1, TIMEOUT_US);
    ask_settle(other, items, 1, TIMEOUT_US);
    hear_out(other);
    assert_int_equal(copy.result, OUTBOX_SETTLE_LOST);
    assert_int_equal(items[0].result, OUTBOX_SETTLE_LOST);
    expect_state(fx, id, "processing attempts 1 spent 1 by line");
    cut(other);
    mine = wire_new(AT(fx), url, NULL, "li"); /* how it begins */
    ask_settle(mine, items, 1, TIMEOUT_US);
    hear_out(mine);
    assert_int_equal(items[0].result, OUTBOX_SETTLED);
    expect_state(fx, id, "delivered attempts 1 spent 1");
}

static void fenced(struct fx *fx)
{
    struct wire *wire = wire(fx);
    put(fx);
    put(fx);
    struct outbox_settle *items = async_take(wire, 2);
    expire(fx, items[0].id);
    struct fx *other = another(fx);
    assert_same_id(take(other)->id, items[0].id);
    ask_extend(wire, items, 2, TIMEOUT_US);
    hear_out(wire);
    assert_int_equal(items[0].result, OUTBOX_SETTLE_LOST);
    assert_int_equal(items[1].result, OUTBOX_SETTLED);
    struct outbox_settle mixed[3] = {items[0], items[1], items[1]};
    memset(mixed[2].id.bytes, 7, sizeof mixed[2].id.bytes);
    mixed[1].outcome = OUTBOX_FAILED;
    mixed[1].code = "no";
    ask_settle(wire, mixed, 3, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
    assert_int_equal(mixed[0].result, OUTBOX_SETTLE_LOST);
    assert_int_equal(mixed[1].result, OUTBOX_SETTLED);
    assert_true(mixed[1].dead);
    assert_int_equal(mixed[2].result, OUTBOX_SETTLE_UNKNOWN);
    expect_state(fx, items[1].id, "dead attempts 1 spent 1");
}

static void ugly_output(struct fx *fx)
{
    struct wire *wire = wire(fx);
    put(fx);
    struct outbox_settle *item = async_take(wire, 1);
    item->output = "no JSON \xff";
    ask_settle(wire, item, 1, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
    assert_int_equal(item->result, OUTBOX_SETTLED);
}

static void bad_asks(struct fx *fx)
{
    struct wire *wire = wire(fx);
    put(fx);
    for (int i = 0; i < 3; i++) {
        ask_claim(wire, TIMEOUT_US, .limit = 0);
        hear_out(wire);
        expect_code(wire, CLAIM, OUTBOX_INVALID);
    }
    async_take(wire, 1);
}

/* ---- waking ---- */

/* The fallback is a minute away: only a ring can be as quick. */
static void a_commit_wakes(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct ob_async_store_state state = {0};
    for (int round = 0; round < 3; round++) {
        uint64_t before = state.wakeups;
        for (int tries = 0; tries < 10 && state.wakeups == before; tries++) {
            ask_claim(wire, TIMEOUT_US);
            hear_out(wire);
            int wakes = wire->wakes;
            int64_t end = ob_clock_boot_us() + SECOND;
            put(fx);
            while (ob_clock_boot_us() < end && state.wakeups == before) {
                turn(wire, 100000);
                wire->async->ops->state(wire->async, &state);
            }
            assert_true(state.wakeups == before || wire->wakes > wakes);
        }
        assert_true(state.wakeups > before);
        ask_claim(wire, TIMEOUT_US);
        hear_out(wire);
        assert_true(outbox_batch_size(wire->batch) >= 1);
    }
}

/* A new ask does not wait until the wait for work is over. */
static void a_wait_is_interrupted(struct fx *fx)
{
    struct wire *wire = wire(fx);
    for (int i = 0; i < 3; i++) {
        ask_claim(wire, TIMEOUT_US);
        hear_out(wire);
        for (int turns = 0; turns < 5; turns++)
            turn(wire, 20000);
        int64_t start = ob_clock_boot_us();
        ask_claim(wire, TIMEOUT_US);
        hear_out(wire);
        assert_true(ob_clock_boot_us() - start < TIMEOUT_US);
    }
}

static void nobody_rings_yet_it_looks(struct fx *fx)
{
    struct wire *wire = keep(fx, calloc(1, sizeof *wire), wire_free);
    char url[PLACE_MAX];
    fixture.url(fx->place, url);
    wire->fx = fx;
    struct ob_async_store_options options = {
        .url = url,
        .fallback_us = 300000,
        .polling = true,
        .host = wire_host(wire),
    };
    check_(AT(fx), ob_async_store_open(&options, &wire->async, &fx->err), OUTBOX_OK, "ob_async_store_open");
    int64_t end = ob_clock_boot_us() + PATIENCE_US;
    while (wire->wakes < 3 && ob_clock_boot_us() < end) {
        int wakes = wire->wakes;
        turn(wire, SECOND);
        if (wire->wakes > wakes) {
            ask_claim(wire, TIMEOUT_US);
            hear_out(wire);
        }
    }
    assert_true(wire->wakes >= 3);
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    assert_true(state.polling);
    assert_int_equal(state.wakeups, 0);
}

/* ---- trouble ---- */

static void thaw(void *place)
{
    fixture.freeze(place, false);
}

static void a_silent_store(struct fx *fx)
{
    struct wire *wire = wire(fx);
    for (int i = 0; i < 3; i++)
        put(fx);
    struct outbox_settle *items = async_take(wire, 2);
    ask_extend(wire, items, 2, TIMEOUT_US); /* all connections are there */
    hear_out(wire);
    fixture.freeze(fx->place, true);
    void *frozen = keep(fx, fx->place, thaw);
    int64_t start = ob_clock_boot_us();
    ask_settle(wire, items, 1, SECOND / 2);
    ask_extend(wire, items + 1, 1, SECOND / 2);
    ask_claim(wire, SECOND / 2);
    hear_out(wire);
    assert_in_range(ob_clock_boot_us() - start, SECOND / 2 - 1000, TIMEOUT_US);
    for (int i = 0; i < KINDS; i++)
        expect_code(wire, (enum kind)i, OUTBOX_UNREACHABLE);
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    thaw(frozen);
    /* What was asked may have been done: a lease that is lost, or settled already, is no failure of the call. */
    ask_settle(wire, items, 2, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
    put(fx);
    ask_claim(wire, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, CLAIM, OUTBOX_OK);
    assert_true(outbox_batch_size(wire->batch) >= 1);
    assert_int_equal(wire->answers[CLAIM], 3);
    assert_int_equal(wire->answers[SETTLE_], 2);
    assert_int_equal(wire->answers[EXTEND], 2);
}

static void a_cut_connection(struct fx *fx)
{
    struct wire *wire = wire(fx);
    for (int i = 0; i < 4; i++)
        put(fx);
    for (int round = 0; round < 3; round++) {
        struct outbox_settle *items = async_take(wire, 1);
        fixture.sever(fx->place);
        /* The asks that find the connection gone fail, at most once each; then all is well again. */
        int failed = 0;
        for (;;) {
            ask_settle(wire, items, 1, TIMEOUT_US);
            ask_extend(wire, items, 1, TIMEOUT_US);
            hear_out(wire);
            if (!wire->codes[SETTLE_])
                break;
            expect_code(wire, SETTLE_, OUTBOX_UNREACHABLE);
            assert_true(++failed < 3);
        }
        assert_int_equal(items->result, OUTBOX_SETTLE_LOST); /* of the extend: it is settled */
        for (failed = 0;; assert_true(++failed < 3)) {
            ask_claim(wire, TIMEOUT_US, .limit = 1, .topics = (const char *[]){"none"}, .topic_count = 1);
            hear_out(wire);
            if (!wire->codes[CLAIM])
                break;
            expect_code(wire, CLAIM, OUTBOX_UNREACHABLE);
        }
    }
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    assert_true(state.connected);
    assert_true(state.connects >= 5);
}

static void nobody_there(struct fx *fx)
{
    struct wire *wire = wire_new(AT(fx), fixture.nowhere, NULL, NULL);
    struct outbox_settle item = {.outcome = OUTBOX_DELIVERED};
    for (int i = 1; i <= 2; i++) {
        ask_claim(wire, TIMEOUT_US);
        ask_settle(wire, &item, 1, TIMEOUT_US);
        ask_extend(wire, &item, 1, TIMEOUT_US);
        hear_out(wire);
        for (int kind = 0; kind < KINDS; kind++) {
            expect_code(wire, (enum kind)kind, OUTBOX_UNREACHABLE);
            assert_int_equal(wire->answers[kind], i);
        }
    }
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    assert_false(state.connected);
    assert_int_equal(state.fault.code, OUTBOX_UNREACHABLE);
}

static void no_schema(struct fx *fx)
{
    char url[PLACE_MAX];
    fixture.url(fx->place, url);
    struct wire *wire = wire_new(AT(fx), url, "nowhere", NULL);
    ask_claim(wire, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, CLAIM, OUTBOX_SCHEMA);
    assert_non_null(strstr(wire->texts[CLAIM], "outbox migrate --schema nowhere"));
    struct ob_async_store_state state;
    wire->async->ops->state(wire->async, &state);
    assert_int_equal(state.fault.code, OUTBOX_SCHEMA);
}

static void a_second_relay(struct fx *fx)
{
    struct wire *first = wire(fx);
    put(fx);
    async_take(first, 1);
    struct wire *second = wire(fx);
    struct ob_async_store_state state;
    ask_claim(second, TIMEOUT_US);
    hear_out(second);
    if (store_has(NEEDS_MANY_WRITERS)) {
        expect_code(second, CLAIM, OUTBOX_OK);
        return;
    }
    expect_code(second, CLAIM, OUTBOX_LOCKED);
    second->async->ops->state(second->async, &state);
    assert_int_equal(state.fault.code, OUTBOX_LOCKED);
    cut(first);
    ask_claim(second, TIMEOUT_US);
    hear_out(second);
    expect_code(second, CLAIM, OUTBOX_OK);
}

static void closed_half_way(struct fx *fx)
{
    for (int i = 0; i < 3; i++)
        put(fx);
    for (int turns = 0; turns < 12; turns++) {
        struct wire *wire = wire(fx);
        struct outbox_settle item = {.outcome = OUTBOX_DELIVERED, .delay_us = -1, .latency_us = -1};
        ask_claim(wire, TIMEOUT_US);
        ask_settle(wire, &item, 1, TIMEOUT_US);
        ask_extend(wire, &item, 1, TIMEOUT_US);
        for (int i = 0; i < turns; i++)
            turn(wire, 10000);
        cut(wire);
    }
    fixture.freeze(fx->place, true);
    void *frozen = keep(fx, fx->place, thaw);
    struct wire *wire = wire(fx);
    ask_claim(wire, TIMEOUT_US);
    int64_t start = ob_clock_boot_us();
    cut(wire);
    assert_true(ob_clock_boot_us() - start < TIMEOUT_US);
    thaw(frozen);
}

/* ---- memory ---- */

static atomic_int scarce; /* which allocation from now on fails */

static void *alloc_some(size_t size)
{
    return atomic_fetch_sub(&scarce, 1) == 1 ? NULL : malloc(size);
}

static void out_of_memory(struct fx *fx)
{
    struct wire *wire = wire(fx);
    int failures = 0;
    for (int i = 0; i < 40; i++) {
        put(fx);
        struct outbox_settle *items = async_take(wire, 1);
        put(fx);
        int before = wire->answers[CLAIM];
        atomic_store(&scarce, i + 1);
        outbox_set_allocator(alloc_some, free);
        ask_claim(wire, TIMEOUT_US);
        ask_settle(wire, items, 1, TIMEOUT_US);
        ask_extend(wire, items, 1, TIMEOUT_US);
        hear_out(wire);
        atomic_store(&scarce, 0);
        outbox_set_allocator(NULL, NULL);
        assert_int_equal(wire->answers[CLAIM], before + 1);
        for (int kind = 0; kind < KINDS; kind++)
            failures += wire->codes[kind] != OUTBOX_OK;
        expire_all(fx);
        ask_claim(wire, TIMEOUT_US);
        hear_out(wire);
        expect_code(wire, CLAIM, OUTBOX_OK);
        for (size_t n = 0; n < outbox_batch_size(wire->batch); n++) {
            struct outbox_settle item = SETTLE(outbox_batch_at(wire->batch, n), .outcome = OUTBOX_DELIVERED);
            ask_settle(wire, &item, 1, TIMEOUT_US);
            hear_out(wire);
        }
    }
    assert_true(failures >= 1);
}

/* ---- several on one async store ---- */

static struct wire *wire_on_(struct fx *fx, struct ob_shared_store *shared)
{
    struct wire *wire = keep(fx, calloc(1, sizeof *wire), wire_free);
    const struct ob_async_store_host host = wire_host(wire);
    wire->fx = fx;
    if (ob_shared_store_use(shared, &host, &wire->async, &fx->err))
        blame(fx, "cannot use the line: %s", fx->err.text);
    return wire;
}

/* Each is answered for what it asked, in turn; one that goes with its asks out harms nobody; with the last one the async store is
 * closed, so that the next relay finds the store free. */
static void shared_by_three(struct fx *fx)
{
    char url[PLACE_MAX], topics[2][8] = {"one", "two"};
    struct ob_shared_store *shared = NULL;
    fixture.url(fx->place, url);
    struct ob_async_store_options options = {.url = url, .application = "line", .fallback_us = 60 * SECOND};
    check_(AT(fx), ob_shared_store_open(&options, &shared, &fx->err), OUTBOX_OK, "ob_shared_store_open");
    struct wire *wires[3] = {wire_on_(AT(fx), shared), wire_on_(AT(fx), shared), wire_on_(AT(fx), shared)};
    ob_shared_store_unref(shared);
    struct outbox_uuid ids[2] = {put(fx, .topic = "one").id, put(fx, .topic = "two").id};
    for (int i = 1; i >= 0; i--) {
        char wanted[8];
        snprintf(wanted, sizeof wanted, "%s", topics[i]);
        ask_claim(wires[i], TIMEOUT_US, .topics = (const char *[]){wanted}, .topic_count = 1);
        memset(wanted, '?', sizeof wanted - 1); /* what waits was copied */
    }
    ask_claim(wires[2], TIMEOUT_US, .topics = (const char *[]){"none"}, .topic_count = 1);
    hear_out(wires[0]);
    hear_out(wires[1]);
    struct outbox_settle *items[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outbox_batch_size(wires[i]->batch), 1);
        assert_same_id(outbox_batch_at(wires[i]->batch, 0)->id, ids[i]);
        items[i] = keep(fx, calloc(1, sizeof *items[i]), free);
        *items[i] = SETTLE(outbox_batch_at(wires[i]->batch, 0), .outcome = OUTBOX_DELIVERED);
        ask_settle(wires[i], items[i], 1, TIMEOUT_US);
    }
    cut(wires[2]);
    cut(wires[0]); /* its settle is out */
    hear_out(wires[1]);
    assert_int_equal(items[1]->result, OUTBOX_SETTLED);
    expect_state(fx, ids[1], "delivered attempts 1 spent 1");
    cut(wires[1]);
    struct wire *next = wire(fx);
    ask_claim(next, TIMEOUT_US);
    hear_out(next);
    expect_code(next, CLAIM, OUTBOX_OK);
}

const struct contract_test async_store_tests[] = {
    {"M6 M10: an async store: claim, extend, settle", round_trip},
    {"M6 M10: an async store: a claim, a settle and an extend are out at once", all_at_once},
    {"M18: an async store: what was asked with may go away", wants_are_copied},
    {"M10 V10: an async store: late holders are told so", fenced},
    {"M10 V10: an async store: what another name has claimed is not its own", another_holder},
    {"M6: an async store: an outcome is never refused for ugly text", ugly_output},
    {"M6: an async store: a bad ask is refused, the next one is not", bad_asks},
    {"S9 N4: an async store: a commit wakes it", a_commit_wakes},
    {"S9: an async store: an ask ends the wait for work", a_wait_is_interrupted},
    {"S9: an async store: where nobody can ring, it looks by itself", nobody_rings_yet_it_looks},
    {"M10 N4: an async store: a store that is silent is given up in time", a_silent_store},
    {"M10 N4: an async store: a connection that was cut is made again", a_cut_connection, NEEDS_CONNECTION},
    {"N4: an async store: nobody there at the start", nobody_there},
    {"N4: an async store: a missing schema names the command", no_schema, NEEDS_CONNECTION},
    {"V10: an async store: a second relay", a_second_relay},
    {"N4: an async store: closed with asks out", closed_half_way},
    {"N4: an async store: out of memory, no answer is lost", out_of_memory},
    {"M21 V10: an async store that three use: each has its answers", shared_by_three},
    {NULL, NULL, 0},
};
