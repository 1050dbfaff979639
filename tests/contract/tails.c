/* tails.c - what happens, told to a reader: each transition once, also one whose transaction commits late. */
#include "suite.h"

#include "core/filter.h"
#include "core/tail.h"

#include <unistd.h>

struct told {
    char text[TEXT_MAX];
    size_t count;
    struct outbox_uuid last;
};

static void told_one(void *ctx, const struct ob_transition_row *row)
{
    struct told *told = ctx;
    size_t len = strlen(told->text);
    const char *topic = row->topic ? row->topic : "-";
    if (row->kind == OB_TRANSITION_ATTEMPT || row->kind == OB_TRANSITION_DEAD)
        snprintf(told->text + len, sizeof told->text - len, "%s %s %d; ", topic, ob_transition_event(row),
                 row->attempt);
    else
        snprintf(told->text + len, sizeof told->text - len, "%s %s; ", topic, ob_transition_event(row));
    told->count++;
    told->last = row->id;
}

static void free_tail(void *tail)
{
    ob_tail_free(tail);
}

static struct ob_tail *tail_from_(struct fx *fx, int64_t since_us)
{
    struct ob_tail *tail;
    check_(fx, fx->store->ops->tail_begin(fx->store, since_us, &tail, &fx->err), OUTBOX_OK, "tail_begin");
    return keep(fx, tail, free_tail);
}
#define tail_from(fx, since) tail_from_(AT(fx), since)

/* All there is now; the number of calls that it took. */
static int tell_(struct fx *fx, struct ob_tail *tail, const char *text, struct told *told)
{
    struct ob_arena arena;
    struct ob_filter filter = {0};
    bool more = true;
    int calls = 0;
    memset(told, 0, sizeof *told);
    ob_arena_init(&arena, 0);
    check_(fx, ob_filter_parse(&filter, text, now_us(), &arena, &fx->err), OUTBOX_OK, text);
    for (; more; calls++)
        check_(fx, fx->store->ops->tail(fx->store, tail, &filter, told_one, told, &more, &fx->err), OUTBOX_OK, "tail");
    ob_arena_fini(&arena);
    return calls;
}

static void expect_told_(struct fx *fx, struct ob_tail *tail, const char *text, const char *wanted)
{
    struct told told;
    tell_(fx, tail, text, &told);
    if (strcmp(told.text, wanted) != 0)
        blame(fx, "\"%s\" told \"%s\", wanted \"%s\"", text, told.text, wanted);
}
#define expect_told(fx, tail, text, wanted) expect_told_(AT(fx), tail, text, wanted)

static void every_kind(struct fx *fx)
{
    put(fx, .topic = "before");
    ack(fx, take(fx));
    struct ob_tail *tail = tail_from(fx, 0);
    usleep(5000);
    int64_t start = now_us() - 1000; /* a store may count in milliseconds */
    expect_told(fx, tail, "", "");
    put(fx, .topic = "a");
    put(fx, .topic = "b", .key = "k");
    put(fx, .topic = "later", .deliver_after_us = now_us() + HOUR);
    expect_told(fx, tail, "", "a enqueued; b enqueued; later enqueued; ");
    ack(fx, take(fx, .topics = &(const char *){"a"}, .topic_count = 1));
    assert_false(settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "busy", .delay_us = HOUR));
    expect_told(fx, tail, "", "a delivered 1; b retry 1; ");
    expect_told(fx, tail, "", "");
    struct outbox_uuid dead = make_dead(fx, .topic = "c");
    expect_told(fx, tail, "", "c enqueued; c failed 1; c dead 1; ");
    struct told told;
    tell_(AT(fx), tail_from(fx, start), "", &told);
    assert_int_equal(told.count, 8);
    expect_told(fx, tail_from(fx, start), "topic:c", "c enqueued; c failed 1; c dead 1; ");
    int64_t n;
    ok(fx, discard, &(struct ob_filter){.ids = &dead, .id_count = 1}, &(struct ob_actor){"ann", "x"}, &n);
    ok(fx, pause, NULL, NULL, NULL, &(struct ob_actor){"ann", "x"});
    expect_told(fx, tail, "", "c discard; - pause; ");
    expect_told(fx, tail_from(fx, now_us() + HOUR), "", "");
}

static void filtered(struct fx *fx)
{
    put(fx, .topic = "orders.paid", .key = "k1", .subject = "s1", .tenant_id = TENANT_A);
    assert_false(
        settle(fx, take(fx), .outcome = OUTBOX_RETRY, .code = "http_503", .error = "Timed out", .delay_us = HOUR));
    put(fx, .topic = "mail", .name_space = "shop", .correlation_id = "c1");
    const struct {
        const char *text, *wanted;
    } rows[] = {
        {"", "orders.paid enqueued; mail enqueued; orders.paid retry 1; "},
        {"topic:orders.*", "orders.paid enqueued; orders.paid retry 1; "},
        {"namespace:shop", "mail enqueued; "},
        {"tenant:" TENANT_A " status:pending", "orders.paid enqueued; orders.paid retry 1; "},
        {"tenant:" TENANT_B, ""},
        {"key:k1 subject:s1 attempts:1", "orders.paid retry 1; "},
        {"correlation:c1", "mail enqueued; "},
        {"code:http_5* error:~\"timed OUT\"", "orders.paid retry 1; "},
        {"status:dead", ""},
        {"age:>1h", ""},
        {"age:<1h attempts:0", "orders.paid enqueued; mail enqueued; "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_told(fx, tail_from(fx, now_us() - HOUR), rows[i].text, rows[i].wanted);
}

/* More than one call reads: each is told, and once. */
static void many(struct fx *fx)
{
    enum { COUNT = 2500 };
    struct ob_tail *tail = tail_from(fx, 0);
    struct told told;
    struct outbox_message *messages = keep(fx, calloc(COUNT, sizeof *messages), free);
    struct outbox_receipt *receipts = keep(fx, calloc(COUNT, sizeof *receipts), free);
    for (int i = 0; i < COUNT; i++) {
        messages[i] = MSG(.topic = "bulk", .key = i % 3 ? NULL : "k", .deliver_after_us = i % 5 ? 0 : now_us() + HOUR);
        complete(&messages[i]);
    }
    ok(fx, enqueue_many, messages, COUNT, receipts);
    int calls = tell_(AT(fx), tail, "", &told);
    assert_int_equal(told.count, COUNT);
    assert_true(calls > 1 && calls < 8);
    tell_(AT(fx), tail, "", &told);
    assert_int_equal(told.count, 0);
}

/* A transaction that was open when others were told is told when it commits: enqueues of the log, of a key and of the queue. */
static void late(struct fx *fx)
{
    struct fx *slow = another(fx);
    struct ob_tail *early = tail_from(fx, 0);
    ok(slow, begin);
    put(slow, .topic = "slow");
    put(slow, .topic = "slow.later", .deliver_after_us = now_us() + HOUR);
    put(slow, .topic = "slow.key", .key = "s");
    struct ob_tail *tail = tail_from(fx, 0);
    put(fx, .topic = "quick");
    ack(fx, take(fx));
    expect_told(fx, tail, "", "quick enqueued; quick delivered 1; ");
    expect_told(fx, early, "", "quick enqueued; quick delivered 1; ");
    put(fx, .topic = "quick", .key = "q");
    expect_told(fx, tail, "", "quick enqueued; ");
    ok(slow, commit);
    struct told told;
    tell_(AT(fx), tail, "", &told);
    assert_int_equal(told.count, 3);
    expect_told(fx, tail, "", "");
    tell_(AT(fx), early, "topic:slow*", &told);
    assert_int_equal(told.count, 3);
    ok(slow, begin);
    put(slow, .topic = "gone");
    ok(slow, rollback);
    expect_told(fx, tail, "", "");
}

const struct contract_test tails_tests[] = {
    {"V13 M10: every transition is told once, as it happens or from a time on", every_kind},
    {"V13: a filter selects what is told", filtered},
    {"V13: many transitions are told in pieces, each once", many},
    {"V13: what commits late is told when it commits", late, NEEDS_MANY_WRITERS},
    {NULL, NULL, 0},
};
