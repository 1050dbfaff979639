/* fair.c - a flood, of one tenant or of a high priority, holds nobody back for long. */
#include "suite.h"

enum { CALL = 1000 };
#define BACKLOG_US (20 * SECOND)
#define GIVE_UP_US (60 * SECOND)

/* So many messages like this one. */
static void flood(struct fx *fx, size_t count, struct outbox_message like)
{
    struct outbox_message messages[CALL];
    struct outbox_receipt receipts[CALL];
    complete(&like);
    for (size_t i = 0; i < CALL; i++)
        messages[i] = like;
    for (size_t left = count; left > 0;) {
        size_t n = left < CALL ? left : CALL;
        ok(fx, enqueue_many, messages, n, receipts);
        left -= n;
    }
}

static bool has(const outbox_batch *batch, struct outbox_uuid id)
{
    for (size_t i = 0; i < outbox_batch_size(batch); i++)
        if (uuid_equal(outbox_batch_at(batch, i)->id, id))
            return true;
    return false;
}

static size_t count_of(const outbox_batch *batch, const char *tenant)
{
    size_t n = 0;
    for (size_t i = 0; i < outbox_batch_size(batch); i++) {
        const char *of = outbox_batch_at(batch, i)->tenant_id;
        n += of && strcmp(of, tenant) == 0;
    }
    return n;
}

/* Claims and acks, full batches all the time, until the message comes: before the backlog in front of it is through. A
 * store may look for turns in a twentieth of the time, so claims pace themselves: the backlog lasts some seconds, on a
 * fast machine too. */
static void comes_before(struct fx *fx, struct outbox_uuid id, int limit, size_t backlog)
{
    size_t claims = backlog / (size_t)limit;
    for (size_t i = 0; i < claims; i++) {
        int64_t next = now_us() + BACKLOG_US / (int64_t)claims;
        outbox_batch *batch = claim(fx, .limit = limit);
        ack_all(fx, batch);
        if (has(batch, id))
            return;
        if ((int)outbox_batch_size(batch) < limit)
            blame(fx, "the backlog is over after %zu claims", i);
        until_us(next);
    }
    blame(fx, "it has not come within %zu claims", claims);
}

/* The same where the flood never ends. */
static void comes_through(struct fx *fx, struct outbox_uuid id, int limit)
{
    for (int64_t end = now_us() + GIVE_UP_US; now_us() < end;) {
        outbox_batch *batch = claim(fx, .limit = limit);
        ack_all(fx, batch);
        if (has(batch, id))
            return;
        if ((int)outbox_batch_size(batch) < limit)
            blame(fx, "the flood is over");
        flood(fx, (size_t)limit, MSG(.priority = 9));
    }
    blame(fx, "it has not come");
}

static void one_of_another_tenant(struct fx *fx)
{
    flood(fx, 20000, MSG(.tenant_id = TENANT_A));
    ack_all(fx, claim(fx));
    ack_all(fx, claim(fx));
    comes_before(AT(fx), put(fx, .tenant_id = TENANT_B).id, 10, 9000);
    comes_before(AT(fx), put(fx, .tenant_id = TENANT_B, .key = "k", .topic = "mail").id, 10, 9000);
    assert_true(status_of(fx, NULL, NULL).pending > 0);
}

/* One message at a time is the smallest share there is. */
static void one_by_one(struct fx *fx)
{
    flood(fx, 8000, MSG(.tenant_id = TENANT_A));
    take(fx);
    comes_before(AT(fx), put(fx, .tenant_id = TENANT_B).id, 1, 7900);
}

static void what_has_no_tenant(struct fx *fx)
{
    flood(fx, 10000, MSG(.topic = "t"));
    ack_all(fx, claim(fx));
    comes_before(AT(fx), put(fx, .tenant_id = TENANT_B).id, 10, 9500);
}

static void many_tenants(struct fx *fx)
{
    for (int i = 0; i < 300; i++) {
        char tenant[37];
        snprintf(tenant, sizeof tenant, "0a0a0a0a-1111-4222-8333-%012d", i);
        flood(fx, 100, MSG(.tenant_id = tenant));
    }
    ack_all(fx, claim(fx));
    comes_before(AT(fx), put(fx, .tenant_id = TENANT_B).id, 100, 14000);
    comes_before(AT(fx), put(fx, .tenant_id = "00000000-0000-0000-0000-000000000000", .priority = 0).id, 100, 14000);
}

/* Half of a batch in equal parts, the other half to the oldest. Not every claim looks for tenants: see comes_before. */
static void equal_parts(struct fx *fx)
{
    static const char third[] = "0c0c0c0c-1111-4222-8333-444444444444";
    flood(fx, 6000, MSG(.tenant_id = TENANT_A));
    flood(fx, 500, MSG(.tenant_id = TENANT_B));
    flood(fx, 500, MSG(.tenant_id = third));
    size_t a = 0, b = 0, c = 0;
    int64_t pause = SECOND / 100;
    while (b < 64 && a < 5000) {
        outbox_batch *batch = claim(fx);
        size_t mine = count_of(batch, TENANT_B), theirs = count_of(batch, third);
        assert_int_equal(outbox_batch_size(batch), 100);
        assert_true(mine <= 50 && theirs <= 50);
        a += count_of(batch, TENANT_A);
        b += mine;
        c += theirs;
        ack_all(fx, batch);
        pause = mine + theirs ? SECOND / 100 : pause < SECOND / 2 ? 2 * pause : pause;
        until_us(now_us() + pause);
    }
    assert_true(b >= 64 && b + 16 > c && c + 16 > b && a > b);
}

/* Its own messages still go by priority. */
static void priority_within_a_turn(struct fx *fx)
{
    flood(fx, 1000, MSG(.tenant_id = TENANT_A));
    for (int i = 0; i < 40; i++)
        put(fx, .tenant_id = TENANT_B, .priority = i % 4);
    outbox_batch *batch = claim(fx, .limit = 20);
    size_t mine = 0;
    for (size_t i = 0; i < outbox_batch_size(batch); i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        if (msg->tenant_id && strcmp(msg->tenant_id, TENANT_B) == 0)
            mine += msg->priority == 3;
    }
    ack_all(fx, batch);
    if (mine == 0) { /* a store may see only by its first full claim that there is more */
        batch = claim(fx, .limit = 20);
        for (size_t i = 0; i < outbox_batch_size(batch); i++)
            mine += outbox_batch_at(batch, i)->priority == 3;
    }
    assert_true(mine > 0);
}

static void lowest_priority(struct fx *fx)
{
    flood(fx, 2000, MSG(.priority = 9));
    ack_all(fx, claim(fx));
    comes_through(AT(fx), put(fx, .priority = 0).id, 100);
    comes_through(AT(fx), put(fx, .priority = 0, .key = "k", .topic = "mail").id, 100);
}

static void lowest_priority_one_by_one(struct fx *fx)
{
    flood(fx, 2000, MSG(.priority = 9));
    take(fx);
    comes_through(AT(fx), put(fx, .priority = 0).id, 1);
}

/* A sixteenth of a batch and no more; again and again, though not of every batch: see comes_before. */
static void a_small_share(struct fx *fx)
{
    size_t low = 0, batches = 0;
    flood(fx, 500, MSG(.priority = 1));
    flood(fx, 500, MSG(.priority = 9));
    for (int64_t end = now_us() + GIVE_UP_US; batches < 4 && now_us() < end;) {
        outbox_batch *batch = claim(fx);
        size_t lows = 0;
        assert_int_equal(outbox_batch_size(batch), 100);
        for (size_t k = 0; k < 100; k++)
            lows += outbox_batch_at(batch, k)->priority == 1;
        ack_all(fx, batch);
        assert_true(lows <= 100 / 16 + 1);
        low += lows;
        batches += lows > 0;
        flood(fx, 100 - lows, MSG(.priority = 9));
        tick();
    }
    assert_in_range(low, 4 * (100 / 16), 4 * (100 / 16 + 1));
}

static void order_stays(struct fx *fx)
{
    enum { KEYS = 6, EACH = 40 };
    int64_t last[KEYS] = {0};
    size_t seen = 0;
    flood(fx, 1500, MSG(.priority = 9, .tenant_id = TENANT_A));
    for (int i = 0; i < KEYS * EACH; i++) {
        char key[] = "k0";
        key[1] = (char)('0' + i % KEYS);
        put(fx, .key = key, .priority = i * 7 % 10,
            .tenant_id = i % KEYS < 2   ? TENANT_A
                         : i % KEYS < 4 ? TENANT_B
                                        : NULL);
    }
    while (seen < 1500 + KEYS * EACH) {
        outbox_batch *batch = claim(fx, .limit = 48, .run = 4);
        size_t n = outbox_batch_size(batch);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            const struct outbox_delivery *msg = outbox_batch_at(batch, i);
            if (msg->key) {
                assert_int_equal(msg->seq, last[msg->key[1] - '0'] + 1);
                last[msg->key[1] - '0'] = msg->seq;
            }
        }
        seen += n;
        ack_all(fx, batch);
    }
}

const struct contract_test fair_tests[] = {
    {"Y7: the backlog of one tenant does not hold back another's message", one_of_another_tenant},
    {"Y7: nor where messages are claimed one by one", one_by_one},
    {"Y7: nor does a backlog of no tenant", what_has_no_tenant},
    {"Y7: nor do the backlogs of many", many_tenants},
    {"Y7: tenants with a backlog get equal parts of half a batch", equal_parts},
    {"Y7 M9: a tenant's turn goes to its highest priority", priority_within_a_turn},
    {"Y7 M9: the lowest priority gets through a lasting flood of the highest", lowest_priority},
    {"Y7 M9: also where messages are claimed one by one", lowest_priority_one_by_one},
    {"Y7 M9: what lower priorities get is a small share", a_small_share},
    {"N2 M9 Y7: turns keep the order of a key", order_stays},
    {NULL, NULL, 0},
};
