/* bounds.c - what a claim brings is bounded: by bytes, by what may go together, and never by what stands in front. */
#include "suite.h"

#include "core/batch.h"

#include <pthread.h>

enum { SIZE = 1000 };

static const char *payload_of(char text[SIZE + 1])
{
    memset(text, 'x', SIZE);
    text[0] = text[SIZE - 1] = '"';
    text[SIZE] = '\0';
    return text;
}

static size_t taken(struct fx *fx, size_t wanted, bool more, outbox_batch *batch)
{
    if (outbox_batch_size(batch) != wanted || batch->more != more)
        blame(fx, "claimed %zu, more: %d", outbox_batch_size(batch), batch->more);
    return wanted;
}

static void by_bytes(struct fx *fx)
{
    char text[SIZE + 1];
    for (int i = 0; i < 6; i++)
        put(fx, .payload = payload_of(text), .topic = i % 2 ? "a" : "b");
    taken(AT(fx), 2, true, claim(fx, .max_bytes = 2 * SIZE));
    taken(AT(fx), 2, true, claim(fx, .max_bytes = 2 * SIZE + 500)); /* at once, not after a sweep */
    taken(AT(fx), 1, true, claim(fx, .max_bytes = 1));              /* whatever its size */
    taken(AT(fx), 1, false, claim(fx, .max_bytes = SIZE));
    taken(AT(fx), 0, false, claim(fx, .max_bytes = SIZE));
    assert_int_equal(count_status(fx, OB_PROCESSING), 6);
}

/* What did not fit is as it was: nothing is spent, and a key is cut at its end. */
static void by_bytes_in_order(struct fx *fx)
{
    enum { KEYS = 3, EACH = 4 };
    char text[SIZE + 1];
    int64_t last[KEYS] = {0};
    for (int i = 0; i < KEYS * EACH; i++)
        put(fx, .payload = payload_of(text), .key = i % KEYS == 0 ? "k0" : i % KEYS == 1 ? "k1" : "k2");
    for (size_t seen = 0; seen < KEYS * EACH;) {
        outbox_batch *batch = claim(fx, .max_bytes = 5 * SIZE, .run = EACH);
        size_t n = outbox_batch_size(batch);
        assert_in_range(n, 1, 5);
        for (size_t i = 0; i < n; i++) {
            const struct outbox_delivery *msg = outbox_batch_at(batch, i);
            assert_int_equal(msg->seq, ++last[msg->key[1] - '0']);
            assert_int_equal(msg->attempt, 1);
        }
        seen += n;
        ack_all(fx, batch);
    }
}

#ifdef HAVE_ZSTD
/* Compressed, they count as what they are when they are delivered. */
static void by_bytes_as_delivered(struct fx *fx)
{
    enum { LARGE = 200000 };
    char *text = keep(fx, malloc(LARGE + 1), free);
    memset(text, 'x', LARGE);
    text[0] = text[LARGE - 1] = '"';
    text[LARGE] = '\0';
    for (int i = 0; i < 3; i++)
        put(fx, .payload = text);
    taken(AT(fx), 2, true, claim(fx, .max_bytes = 2 * LARGE));
    taken(AT(fx), 1, false, claim(fx, .max_bytes = 2 * LARGE));
}
#endif

/* A worker that dies with every batch takes nobody along: the last attempt of what was always lost is made alone. */
static void alone_at_last(struct fx *fx)
{
    enum { COUNT = 12 };
    struct outbox_uuid poison = put(fx, .max_attempts = 3).id;
    for (int i = 1; i < COUNT; i++)
        put(fx, .max_attempts = 3, .key = i % 3 ? NULL : "k", .topic = i % 2 ? "a" : "b");
    for (int i = 0; i < 2; i++) { /* the key gives one at a time */
        assert_true(outbox_batch_size(claim(fx)) > 1);
        expire_all(fx);
    }
    int left = COUNT, rounds = 0;
    while (left > 0 && rounds++ < 10 * COUNT) {
        outbox_batch *batch = claim(fx);
        bool bad = false, last = false;
        for (size_t i = 0; i < outbox_batch_size(batch); i++) {
            const struct outbox_delivery *msg = outbox_batch_at(batch, i);
            bad = bad || uuid_equal(msg->id, poison);
            last = last || (msg->lost == 2 && msg->spent == 3);
        }
        assert_true(!last || outbox_batch_size(batch) == 1);
        if (bad) {
            expire_all(fx); /* down it goes */
            left -= 1;
            continue;
        }
        left -= (int)outbox_batch_size(batch);
        ack_all(fx, batch);
    }
    claim_none(fx);
    expect_state(fx, poison, "dead attempts 3 spent 3");
    assert_int_equal(count_status(fx, OB_DEAD), 1);
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), COUNT - 1);
}

/* Nor do those that go alone keep the others waiting. */
static void alone_by_turns(struct fx *fx)
{
    for (int i = 0; i < 6; i++)
        put(fx, .max_attempts = 2);
    assert_int_equal(outbox_batch_size(claim(fx)), 6);
    expire_all(fx);
    struct outbox_uuid id = put(fx).id;
    size_t seen = 0;
    for (int i = 0; i < 3 && look(fx, id)->status == OB_PENDING; i++)
        seen += outbox_batch_size(claim(fx));
    assert_int_equal(look(fx, id)->status, OB_PROCESSING);
    assert_in_range(seen, 1, 3);
}

/* An attempt that somebody answered for was not lost with its worker; an operator begins anew. */
static void not_alone(struct fx *fx)
{
    struct outbox_uuid id = put(fx, .max_attempts = 3).id;
    take(fx);
    expire(fx, id);
    nack(fx, take(fx));
    put(fx);
    assert_int_equal(outbox_batch_size(claim(fx)), 2);
    expire_all(fx);
    ack_all(fx, claim_n(fx, 1));
    expect_state(fx, id, "dead attempts 3 spent 3");
    int64_t n;
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &(struct ob_actor){"ann", "again"}, &n);
    put(fx);
    assert_int_equal(outbox_batch_size(claim(fx)), 2);
}

/* However many are buried first. */
static void behind_the_dead(struct fx *fx)
{
    for (int i = 0; i < 150; i++)
        put(fx, .max_attempts = 1, .key = i % 3 ? NULL : "k");
    while (outbox_batch_size(claim(fx)) > 0)
        ;
    expire_all(fx);
    struct outbox_uuid id = put(fx).id;
    for (outbox_batch *batch;;) { /* the first that is not empty, unless it says that there is more */
        batch = claim(fx, .limit = 1);
        if (outbox_batch_size(batch) == 0 && batch->more)
            continue;
        assert_int_equal(outbox_batch_size(batch), 1);
        if (uuid_equal(outbox_batch_at(batch, 0)->id, id))
            break;
        ack_all(fx, batch);
    }
}

static void *claim_all(void *arg)
{
    struct fx *fx = arg;
    outbox_batch *batch;
    do
        batch = claim(fx);
    while (outbox_batch_size(batch) == 0 && batch->more);
    return (void *)(uintptr_t)outbox_batch_size(batch);
}

/* A claim of them takes no more of the stack than one of a few. */
static void a_key_that_expired(struct fx *fx)
{
    enum { COUNT = 3000, STACK = 256 * 1024 };
    int64_t expiry = now_us() + 2 * SECOND;
    pthread_attr_t attr;
    pthread_t thread;
    void *size;
    int made = 0;
    for (; made < COUNT && now_us() < expiry - SECOND / 2; made++)
        put(fx, .key = "k", .expires_at_us = expiry);
    struct outbox_uuid id = put(fx, .key = "k").id;
    until_us(expiry + 1000);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    assert_int_equal(pthread_create(&thread, &attr, claim_all, fx), 0);
    pthread_join(thread, &size);
    pthread_attr_destroy(&attr);
    assert_int_equal((int)(uintptr_t)size, 1);
    assert_int_equal(look(fx, id)->status, OB_PROCESSING);
    assert_int_equal(count_status(fx, OB_DEAD), made);
}

/* What waits in front for a sink that is shut does not slow down a key behind it. */
static void among_many_lanes(struct fx *fx)
{
    enum { LANES = 40, COUNT = 6 };
    static const struct outbox_lane shut = {"default", "shut"};
    char topic[16];
    for (int i = 0; i < LANES; i++) {
        snprintf(topic, sizeof topic, "t%d", i);
        put(fx, .topic = topic);
    }
    ack_all(fx, claim_n(fx, LANES));
    for (int i = 0; i < COUNT; i++) {
        put(fx, .topic = "t0", .key = "k");
        put(fx, .topic = "shut");
    }
    for (int i = 1; i <= COUNT; i++) {
        outbox_batch *batch = claim_n(fx, 1, .skip = &shut, .skip_count = 1);
        assert_int_equal(outbox_batch_at(batch, 0)->seq, i);
        claim_none(fx, .skip = &shut, .skip_count = 1);
        ack_all(fx, batch);
    }
}

const struct contract_test bounds_tests[] = {
    {"V15 M6: a claim ends before its payloads are too many bytes, and says that there is more", by_bytes},
    {"V15 N2: what does not fit stays as it was, in order", by_bytes_in_order},
#ifdef HAVE_ZSTD
    {"V15: compressed payloads count as they are delivered", by_bytes_as_delivered},
#endif
    {"M7 M10: a message whose attempts were all lost makes the last one alone", alone_at_last},
    {"M7 M9: those that go alone and others take turns", alone_by_turns},
    {"M7 M12: an attempt that was answered is not lost, and a retry begins anew", not_alone},
    {"M9 M12: a claim finds what stands behind many that are buried", behind_the_dead},
    {"M9 N2: a key goes on at once among many topics, some of which are left out", among_many_lanes},
    {"N2 N10: a key of which many expired goes on", a_key_that_expired},
    {NULL, NULL, 0},
};
