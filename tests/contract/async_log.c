/* async_log.c - the async store's claims as a whole, and in parts: what a relay sees of the log's windows. All of it holds for
 * messages of the queue, and for stores that have no log, too. */
#include "wire.h"

#include "base/clock.h"
#include "core/batch.h"

enum { MANY = 20 };

static void ask_and_hear(struct wire *wire, struct outbox_settle *items, size_t n)
{
    ask_settle(wire, items, n, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_OK);
}

static void expect_settled_(struct fx *fx, const struct outbox_settle *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].result != OUTBOX_SETTLED)
            blame(fx, "item %zu was not settled: %d", i, items[i].result);
}
#define expect_settled(wire, items, n) expect_settled_(AT((wire)->fx), items, n)

/* Claims until so many have come, at most one claim after the other. */
static struct outbox_settle *gather_(struct fx *fx, struct wire *wire, size_t n, int run)
{
    struct outbox_settle *items = keep(fx, calloc(n + 1, sizeof *items), free);
    int64_t end = ob_clock_boot_us() + PATIENCE_US;
    for (size_t have = 0; have < n;) {
        if (ob_clock_boot_us() > end)
            blame(fx, "claimed %zu messages, wanted %zu", have, n);
        ask_claim(wire, TIMEOUT_US, .limit = (int)(n - have), .run = run);
        hear_out(wire);
        expect_code_(fx, wire, CLAIM, OUTBOX_OK);
        for (size_t i = 0; i < outbox_batch_size(wire->batch); i++)
            items[have++] = SETTLE(outbox_batch_at(wire->batch, i), .outcome = OUTBOX_DELIVERED);
    }
    return items;
}
#define gather(wire, n, run) gather_(AT((wire)->fx), wire, n, run)

static void nothing_there(struct fx *fx)
{
    struct wire *wire = wire(fx);
    for (int i = 0; i < 3; i++) {
        ask_claim(wire, TIMEOUT_US);
        hear_out(wire);
        expect_code(wire, CLAIM, OUTBOX_OK);
        assert_int_equal(outbox_batch_size(wire->batch), 0);
        assert_false(wire->batch->more);
        if (i == 1)
            put(fx, .deliver_after_us = now_us() + HOUR);
    }
}

/* ---- in parts ---- */

static void part_by_part(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[6];
    for (int i = 0; i < 6; i++)
        ids[i] = put(fx, .tenant_id = i % 2 ? TENANT_A : NULL).id;
    struct outbox_settle *items = async_take(wire, 6);
    ask_and_hear(wire, items, 2);
    expect_settled(wire, items, 2);
    ask_extend(wire, items + 2, 1, TIMEOUT_US);
    hear_out(wire);
    expect_code(wire, EXTEND, OUTBOX_OK);
    expect_settled(wire, items + 2, 1);
    for (int i = 2; i < 6; i++)
        expect_state(fx, ids[i], "processing attempts 1 spent 1 by line");
    items[4].outcome = OUTBOX_FAILED;
    ask_and_hear(wire, items + 2, 4);
    expect_settled(wire, items + 2, 4);
    assert_true(items[4].dead);
    for (int i = 0; i < 6; i++)
        expect_state(fx, ids[i], i == 4 ? "dead attempts 1 spent 1" : "delivered attempts 1 spent 1");
    expect_attempts(fx, ids[1], "1 delivered line");
    expect_attempts(fx, ids[3], "1 delivered line");
    ask_and_hear(wire, items, 6); /* all of it is over */
    for (int i = 0; i < 6; i++)
        assert_int_equal(items[i].result, OUTBOX_SETTLE_LOST);
}

static void failures_go_on(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[3] = {put(fx).id, put(fx).id, put(fx).id};
    struct outbox_settle *items = async_take(wire, 3);
    items[0].outcome = OUTBOX_RETRY;
    items[0].code = "http_503";
    items[0].delay_us = 0;
    items[1].outcome = OUTBOX_RELEASED;
    items[1].delay_us = 0;
    ask_and_hear(wire, items, 3);
    expect_settled(wire, items, 3);
    expect_state(fx, ids[0], "pending attempts 1 spent 1");
    expect_state(fx, ids[1], "pending attempts 1 spent 0");
    items = gather(wire, 2, 1);
    ask_and_hear(wire, items, 2);
    expect_settled(wire, items, 2);
    expect_attempts(fx, ids[0], "1 retry line http_503; 2 delivered line");
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(fx, ids[i])->status, OB_STATUS_DELIVERED);
}

/* What waits for its time or has a priority, and what does not, in one call. */
static void both_lanes_at_once(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[4] = {put(fx).id, put(fx, .priority = 1).id, put(fx, .key = "k").id, put(fx).id};
    struct outbox_settle *items = gather(wire, 4, 1);
    items[3].outcome = OUTBOX_FAILED;
    items[3].error = "bad bytes: \xff\xfe";
    items[0].output = "no JSON \xff";
    ask_and_hear(wire, items, 4);
    expect_settled(wire, items, 4);
    for (int i = 0; i < 4; i++)
        assert_true(look(fx, ids[i])->attempts == 1);
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), 3);
    assert_true(items[3].dead);
}

static void bytes_are_bounded(struct fx *fx)
{
    struct wire *wire = wire(fx);
    char *payload = repeat_text(fx, '1', 1000);
    for (int i = 0; i < 4; i++)
        put(fx, .payload = payload);
    for (int claims = 0; claims < 2; claims++) {
        ask_claim(wire, TIMEOUT_US, .max_bytes = 2500);
        hear_out(wire);
        expect_code(wire, CLAIM, OUTBOX_OK);
        assert_int_equal(outbox_batch_size(wire->batch), 2);
    }
    ask_claim(wire, TIMEOUT_US, .max_bytes = 1);
    put(fx, .payload = payload);
    hear_out(wire);
    ask_claim(wire, TIMEOUT_US, .max_bytes = 1);
    hear_out(wire);
    assert_true(outbox_batch_size(wire->batch) <= 1); /* one, whatever its size */
}

/* ---- order ---- */

/* One that is given back does not overtake the one before it, which is still under way. */
static void nothing_overtakes(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = put(fx, .key = "k").id;
    struct outbox_settle *items = gather(wire, 3, 3);
    for (int i = 1; i < 3; i++) {
        items[i].outcome = OUTBOX_RELEASED;
        items[i].delay_us = 0;
    }
    ask_and_hear(wire, items + 1, 2);
    expect_settled(wire, items + 1, 2);
    claim_none(fx);
    ask_claim(wire, TIMEOUT_US);
    hear_out(wire);
    assert_int_equal(outbox_batch_size(wire->batch), 0);
    ask_and_hear(wire, items, 1);
    expect_settled(wire, items, 1);
    struct outbox_settle *second = gather(wire, 1, 1);
    assert_same_id(second->id, ids[1]);
    ask_and_hear(wire, second, 1);
    assert_same_id(gather(wire, 1, 1)->id, ids[2]);
}

/* Keys wait for nobody but themselves, at least not for long. The other one claims only when it is woken. */
static void a_slow_key_blocks_itself(struct fx *fx)
{
    if (!store_has(NEEDS_MANY_WRITERS))
        return; /* one relay a file */
    struct wire *slow = wire(fx), *other = wire(fx);
    char key[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "slow %d", i);
        put(fx, .key = key);
    }
    struct outbox_settle *items = gather(slow, MANY, 1);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "slow %d", i);
        put(fx, .key = key);
        snprintf(key, sizeof key, "quick %d", i);
        put(fx, .key = key);
    }
    size_t have = 0;
    int wakes = -1;
    int64_t end = ob_clock_boot_us() + PATIENCE_US;
    while (have < MANY) {
        if (ob_clock_boot_us() > end)
            blame(AT(fx), "only %zu of %d came past the slow ones", have, MANY);
        if (!other->out[CLAIM] && other->wakes != wakes) {
            wakes = other->wakes;
            ask_claim(other, TIMEOUT_US);
        }
        int answers = other->answers[CLAIM];
        turn(slow, 5000);
        turn(other, 5000);
        if (other->answers[CLAIM] == answers)
            continue;
        size_t n = outbox_batch_size(other->batch);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(strncmp(outbox_batch_at(other->batch, i)->key, "quick", 5), 0);
        have += n;
        wakes -= n > 0; /* a relay that got something asks again */
    }
    ask_and_hear(slow, items, MANY);
    expect_settled(slow, items, MANY);
}

/* ---- trouble ---- */

static void a_dead_relay(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[MANY];
    for (int i = 0; i < MANY; i++)
        ids[i] = put(fx, .key = i % 2 ? "k" : NULL).id;
    struct outbox_settle *items = gather(wire, MANY / 2 + 1, 1); /* of the key, one */
    ask_and_hear(wire, items, 1);
    struct outbox_uuid first = items->id;
    cut(wire);
    expire_all(fx);
    wire = wire(fx);
    for (size_t rest = MANY - 1; rest > 0;) {
        items = gather(wire, 1, 1);
        ask_and_hear(wire, items, 1);
        expect_settled(wire, items, 1);
        rest--;
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(look(fx, ids[i])->status, OB_STATUS_DELIVERED);
    expect_attempts(fx, first, "1 delivered line");
}

static void thaw(void *place)
{
    fixture.freeze(place, false);
}

/* A settle whose answer never came is made again: nothing is lost, and nothing is on record twice. */
static void settled_twice(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = put(fx).id;
    struct outbox_settle *items = async_take(wire, 4), none = {.outcome = OUTBOX_DELIVERED, .delay_us = -1};
    items[1].outcome = OUTBOX_RETRY;
    items[1].delay_us = HOUR;
    ask_and_hear(wire, &none, 1); /* the connection is there */
    fixture.freeze(fx->place, true);
    void *frozen = keep(fx, fx->place, thaw);
    ask_settle(wire, items, 3, SECOND / 4);
    hear_out(wire);
    expect_code(wire, SETTLE_, OUTBOX_UNREACHABLE);
    thaw(frozen);
    for (int tries = 0;; tries++) {
        ask_settle(wire, items, 4, TIMEOUT_US);
        hear_out(wire);
        if (!wire->codes[SETTLE_])
            break;
        assert_true(tries < 5);
    }
    assert_int_equal(items[3].result, OUTBOX_SETTLED);
    expect_attempts(fx, ids[0], "1 delivered line");
    expect_attempts(fx, ids[1], "1 retry line");
    expect_attempts(fx, ids[2], "1 delivered line");
    expect_attempts(fx, ids[3], "1 delivered line");
    expect_state(fx, ids[1], "pending attempts 1 spent 1");
    claim_none(fx);
}

/* Likewise an extend: what it has done, or not done, the next settle finds out. */
static void extended_without_an_answer(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = put(fx, .key = i < 2 ? "k" : NULL).id;
    struct outbox_settle *items = gather(wire, 4, 2), none = {.outcome = OUTBOX_DELIVERED, .delay_us = -1};
    ask_and_hear(wire, &none, 1);
    fixture.freeze(fx->place, true);
    void *frozen = keep(fx, fx->place, thaw);
    ask_extend(wire, items, 4, SECOND / 4);
    hear_out(wire);
    expect_code(wire, EXTEND, OUTBOX_UNREACHABLE);
    thaw(frozen);
    for (int tries = 0;; tries++) {
        ask_settle(wire, items, 4, TIMEOUT_US);
        hear_out(wire);
        if (!wire->codes[SETTLE_])
            break;
        assert_true(tries < 5);
    }
    expect_settled(wire, items, 4);
    for (int i = 0; i < 4; i++) {
        expect_state(fx, ids[i], "delivered attempts 1 spent 1");
        expect_attempts(fx, ids[i], "1 delivered line");
    }
}

/* After a lease has ended, an outcome still counts until somebody else has the message. */
static void late_but_not_lost(struct fx *fx)
{
    struct wire *wire = wire(fx);
    struct outbox_uuid ids[3] = {put(fx).id, put(fx).id, put(fx).id};
    struct outbox_settle *items = async_take(wire, 3);
    expire_all(fx);
    struct fx *other = another(fx);
    struct outbox_uuid taken = take(other)->id;
    ask_and_hear(wire, items, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(items[i].result, uuid_equal(ids[i], taken) ? OUTBOX_SETTLE_LOST : OUTBOX_SETTLED);
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), 2);
}

const struct contract_test async_log_tests[] = {
    {"M8: an async store: nothing is due", nothing_there},
    {"M6 M10: an async store: a claim is settled and extended in parts", part_by_part},
    {"M6 M8: an async store: what fails of a claim goes on, with its attempts on record", failures_go_on},
    {"M6: an async store: messages of both lanes in one settle", both_lanes_at_once},
    {"M18: an async store: a claim is bounded in bytes", bytes_are_bounded},
    {"V8: an async store: what is given back does not overtake what is under way", nothing_overtakes},
    {"V8 N4: an async store: a slow key does not block others for long", a_slow_key_blocks_itself},
    {"M10 V10: an async store: what a dead relay had, another gets", a_dead_relay},
    {"M10 V10: an async store: a settle without an answer is made again", settled_twice, NEEDS_CONNECTION},
    {"M10 V10: an async store: an extend without an answer", extended_without_an_answer, NEEDS_CONNECTION},
    {"M10 V10: an async store: an outcome after the lease has ended", late_but_not_lost},
    {NULL, NULL, 0},
};
