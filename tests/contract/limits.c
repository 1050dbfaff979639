/* limits.c - every row of def/limits.def, on every store: what is at the limit is accepted, one more is refused. */
#include "suite.h"

#include "base/limits.h"

static char *repeat(struct fx *fx, char c, int64_t n)
{
    char *text = keep(fx, malloc((size_t)n + 1), free);
    memset(text, c, (size_t)n);
    text[n] = '\0';
    return text;
}

static char *print(struct fx *fx, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *print(struct fx *fx, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    assert_true(vasprintf(&text, format, args) >= 0);
    va_end(args);
    return keep(fx, text, free);
}

/* ---- one call with one value: what comes of it ------------------------------------------------------------------- */

static enum outbox_code send_it(struct fx *fx, struct outbox_message msg)
{
    complete(&msg);
    return fx->store->ops->enqueue(fx->store, &msg, NULL, &fx->err);
}

#define TEXT(limit, field) \
    static enum outbox_code try_##limit(struct fx *fx, int64_t n) \
    { \
        return send_it(fx, MSG(.field = repeat(fx, 'x', n))); \
    }
TEXT(topic, topic)
TEXT(namespace, name_space)
TEXT(key, key)
TEXT(dedupe_key, dedupe_key)
TEXT(subject, subject)
TEXT(recipient, recipient)
TEXT(correlation_id, correlation_id)

static enum outbox_code try_content_type(struct fx *fx, int64_t n)
{
    return send_it(fx, MSG(.content_type = repeat(fx, 'x', n), .payload = "x", .payload_len = 1));
}

static enum outbox_code try_header_name(struct fx *fx, int64_t n)
{
    return send_it(fx, MSG(.headers = print(fx, "{\"%s\": \"v\"}", repeat(fx, 'x', n))));
}

/* Spaces, quotes and escapes do not count: a store may keep them otherwise. */
static enum outbox_code try_headers(struct fx *fx, int64_t n)
{
    return send_it(
        fx, MSG(.headers =
                    n == 0 ? "{}" : print(fx, " { \"a\" :\"%s\", \"b\":\"\\u00fc\\\\\"}", repeat(fx, 'x', n - 2 - 3))));
}

static enum outbox_code try_priority(struct fx *fx, int64_t n)
{
    return send_it(fx, MSG(.priority = (int)n));
}

static enum outbox_code try_moment(struct fx *fx, int64_t n)
{
    enum outbox_code after = send_it(fx, MSG(.topic = "later", .deliver_after_us = n));
    assert_int_equal(send_it(fx, MSG(.topic = "later", .expires_at_us = n)), after);
    return after;
}

static enum outbox_code configure(struct fx *fx, const char *name, const char *value)
{
    return fx->store->ops->configure(fx->store, "default", name, value, NULL, &fx->err);
}

static enum outbox_code claim_it(struct fx *fx, struct outbox_claim want)
{
    outbox_batch *batch = NULL;
    enum outbox_code code = (fx->store->ops->claim)(fx->store, &want, &batch, &fx->err);
    outbox_batch_free(batch);
    return code;
}

/* Of a message, of a claim and of a namespace: all or none. 0 is none given in the first two. */
static enum outbox_code try_max_attempts(struct fx *fx, int64_t n)
{
    enum outbox_code all[3] = {configure(fx, "max_attempts", print(fx, "%lld", (long long)n)),
                               send_it(fx, MSG(.max_attempts = (int)n)), claim_it(fx, WANT(.max_attempts = (int)n))};
    if (n > 0 && (all[1] != all[0] || all[2] != all[0]))
        blame(AT(fx), "max_attempts %lld: %s, %s, %s", (long long)n, outbox_code_name(all[0]), outbox_code_name(all[1]),
              outbox_code_name(all[2]));
    return all[0];
}

static enum outbox_code try_enqueue_many(struct fx *fx, int64_t n)
{
    struct outbox_message *msgs = keep(fx, calloc((size_t)n, sizeof *msgs), free);
    for (int64_t i = 0; i < n; i++) {
        msgs[i] = MSG();
        complete(&msgs[i]);
    }
    return fx->store->ops->enqueue_many(fx->store, msgs, (size_t)n, NULL, &fx->err);
}

static enum outbox_code try_worker(struct fx *fx, int64_t n)
{
    return claim_it(fx, WANT(.worker = repeat(fx, 'w', n)));
}

static enum outbox_code try_claim(struct fx *fx, int64_t n)
{
    return claim_it(fx, WANT(.limit = (int)n));
}

static enum outbox_code try_run(struct fx *fx, int64_t n)
{
    return claim_it(fx, WANT(.run = (int)n));
}

static enum outbox_code try_lease(struct fx *fx, int64_t n)
{
    struct outbox_settle item = {.token = 1};
    enum outbox_code extended = fx->store->ops->extend(fx->store, &item, 1, n, &fx->err);
    enum outbox_code claimed = claim_it(fx, WANT(.lease_us = n));
    assert_int_equal(extended, claimed);
    return claimed;
}

static enum outbox_code try_settle(struct fx *fx, int64_t n)
{
    struct outbox_settle *items = keep(fx, calloc((size_t)n + 1, sizeof *items), free);
    for (int64_t i = 0; i < n; i++)
        items[i] = (struct outbox_settle){.id.bytes = {1, 2, 3, (uint8_t)(i >> 8), (uint8_t)i},
                                          .token = i + 1,
                                          .outcome = OUTBOX_DELIVERED,
                                          .delay_us = -1,
                                          .latency_us = -1};
    enum outbox_code extended = fx->store->ops->extend(fx->store, items, (size_t)n, SECOND, &fx->err);
    enum outbox_code settled = (fx->store->ops->settle)(fx->store, items, (size_t)n, &fx->err);
    assert_int_equal(extended, settled);
    return settled;
}

static enum outbox_code try_delay(struct fx *fx, int64_t n)
{
    struct outbox_settle item = {.token = 1, .outcome = OUTBOX_RETRY, .delay_us = n, .latency_us = -1};
    return (fx->store->ops->settle)(fx->store, &item, 1, &fx->err);
}

static enum outbox_code try_max_payload(struct fx *fx, int64_t n)
{
    return configure(fx, "max_payload", print(fx, "%lld", (long long)n));
}

static enum outbox_code try_retry_base(struct fx *fx, int64_t n)
{
    enum outbox_code code = configure(fx, "retry_base", print(fx, "%lld us", (long long)n));
    assert_int_equal(claim_it(fx, WANT(.retry_base_us = n)), code);
    return code;
}

static enum outbox_code try_retry_cap(struct fx *fx, int64_t n)
{
    enum outbox_code code = configure(fx, "retry_cap", print(fx, "%lld us", (long long)n));
    assert_int_equal(claim_it(fx, WANT(.retry_cap_us = n)), code);
    return code;
}

static enum outbox_code try_operate(struct fx *fx, int64_t n)
{
    const struct ob_filter filter = {.topic = "t", .limit = (int)n};
    const struct ob_actor actor = {"ann", "because"};
    int64_t count;
    enum outbox_code code = fx->store->ops->retry(fx->store, &filter, &actor, &count, &fx->err);
    assert_int_equal(fx->store->ops->discard(fx->store, &filter, &actor, &count, &fx->err), code);
    return code;
}

static enum outbox_code try_heartbeat(struct fx *fx, int64_t n)
{
    const struct ob_beat beat = {
        .worker = "w1", .host = "h", .pid = 1, .version = "1", .state = "running", .every_us = n};
    return fx->store->ops->beat(fx->store, &beat, NULL, &fx->err);
}

static enum outbox_code tune(struct fx *fx, const char *name, char *value)
{
    return fx->store->ops->tune(fx->store, name, value, NULL, &fx->err);
}

static enum outbox_code try_sink_name(struct fx *fx, int64_t n)
{
    const struct ob_actor actor = {"ann", "because"};
    return fx->store->ops->pause(fx->store, NULL, NULL, repeat(fx, 's', n), &actor, &fx->err);
}

static enum outbox_code try_poll(struct fx *fx, int64_t n)
{
    return tune(fx, "poll", print(fx, "%lldms", (long long)(n / 1000)));
}

static enum outbox_code try_concurrency(struct fx *fx, int64_t n)
{
    return tune(fx, "sink.d.concurrency", print(fx, "%lld", (long long)n));
}

/* ---- both ends ---------------------------------------------------------------------------------------------------- */

enum { ZERO_IS_DEFAULT = 1, MILLISECONDS = 2, ZERO_IS_NOTHING = 4, CUT = 8 };

static const struct row {
    const char *name;
    enum outbox_code (*attempt)(struct fx *fx, int64_t value);
    enum outbox_code beyond;
    unsigned flags;
} rows[OB_LIMIT_COUNT] = {
#define ROW(limit, code, flags) [OB_LIMIT_##limit] = {#limit, try_##limit, code, flags},
    /* clang-format off */
    ROW(topic, OUTBOX_INVALID, 0)
    ROW(namespace, OUTBOX_INVALID, 0)
    ROW(key, OUTBOX_INVALID, 0)
    ROW(dedupe_key, OUTBOX_INVALID, 0)
    ROW(subject, OUTBOX_INVALID, 0)
    ROW(recipient, OUTBOX_INVALID, 0)
    ROW(correlation_id, OUTBOX_INVALID, 0)
    ROW(content_type, OUTBOX_INVALID, 0)
    ROW(header_name, OUTBOX_INVALID, 0)
    ROW(headers, OUTBOX_TOO_LARGE, 0)
    ROW(priority, OUTBOX_INVALID, ZERO_IS_DEFAULT) /* -1 is */
    ROW(max_attempts, OUTBOX_INVALID, 0)
    ROW(moment, OUTBOX_INVALID, ZERO_IS_DEFAULT)
    ROW(enqueue_many, OUTBOX_INVALID, ZERO_IS_NOTHING)
    ROW(worker, OUTBOX_INVALID, 0)
    ROW(claim, OUTBOX_INVALID, 0)
    ROW(run, OUTBOX_INVALID, 0)
    ROW(lease, OUTBOX_INVALID, 0)
    ROW(settle, OUTBOX_INVALID, ZERO_IS_NOTHING)
    ROW(delay, OUTBOX_INVALID, ZERO_IS_DEFAULT) /* below zero is */
    ROW(max_payload, OUTBOX_INVALID, 0)
    ROW(retry_base, OUTBOX_INVALID, 0)
    ROW(retry_cap, OUTBOX_INVALID, 0)
    ROW(sink_name, OUTBOX_INVALID, 0)
    ROW(operate, OUTBOX_INVALID, ZERO_IS_DEFAULT)
    ROW(poll, OUTBOX_INVALID, MILLISECONDS)
    ROW(concurrency, OUTBOX_INVALID, 0)
    ROW(heartbeat, OUTBOX_INVALID, 0)
/* clang-format on */
#undef ROW
                    [OB_LIMIT_code] = {"code", NULL, OUTBOX_OK, CUT},
    [OB_LIMIT_error] = {"error", NULL, OUTBOX_OK, CUT},
    [OB_LIMIT_reference] = {"reference", NULL, OUTBOX_OK, CUT},
};

static int expect(struct fx *fx, const struct row *row, int64_t value, enum outbox_code wanted)
{
    enum outbox_code code = row->attempt(fx, value);
    if (code == wanted)
        return 0;
    print_error("%s %lld: %s instead of %s: %s\n", row->name, (long long)value, outbox_code_name(code),
                outbox_code_name(wanted), fx->err.text);
    return 1;
}

static void every_limit(struct fx *fx)
{
    int wrong = 0;
    for (int i = 0; i < OB_LIMIT_COUNT; i++) {
        const struct row *row = &rows[i];
        int64_t least = ob_limit_least((enum ob_limit)i), most = ob_limit_most((enum ob_limit)i);
        int64_t step = row->flags & MILLISECONDS ? 1000 : 1;
        assert_non_null(row->name); /* a new row of the table needs one here */
        if (row->flags & CUT)
            continue;
        wrong += expect(fx, row, least, OUTBOX_OK);
        wrong += expect(fx, row, most, OUTBOX_OK);
        wrong += expect(fx, row, most + step, row->beyond);
        if (row->flags & ZERO_IS_NOTHING)
            wrong += expect(fx, row, 0, OUTBOX_OK);
        else if (!(row->flags & ZERO_IS_DEFAULT) && least > 0)
            wrong += expect(fx, row, least - step, row->beyond);
    }
    if (wrong)
        blame(AT(fx), "%d limits do not hold", wrong);
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static char *umlauts(struct fx *fx, int64_t n)
{
    char *text = repeat(fx, 'x', 2 * n);
    for (int64_t i = 0; i < n; i++)
        memcpy(text + 2 * i, "ü", 2);
    return text;
}

/* What a receiver said is never refused. Characters, whatever their bytes. */
static void cut(struct fx *fx)
{
    struct outbox_uuid id = put(fx).id;
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .delay_us = 0, .code = umlauts(fx, OB_MOST(code)),
           .error = umlauts(fx, OB_MOST(error)), .reference = umlauts(fx, OB_MOST(reference)));
    settle(fx, take(fx), .outcome = OUTBOX_RETRY, .delay_us = 0, .code = umlauts(fx, OB_MOST(code) + 1),
           .error = umlauts(fx, OB_MOST(error) + 1), .reference = umlauts(fx, OB_MOST(reference) + 1));
    for (int i = 1; i <= 2; i++) {
        const struct ob_attempt_row *row = attempt_of(fx, id, i);
        assert_int_equal(characters(row->code), OB_MOST(code));
        assert_int_equal(characters(row->error), OB_MOST(error));
        assert_int_equal(characters(row->reference), OB_MOST(reference));
    }
}

/* A payload of more than any namespace takes is refused before it is read. */
static void largest_payload(struct fx *fx)
{
    refuse(fx, OUTBOX_TOO_LARGE, .payload = "x", .payload_len = (size_t)OB_MOST(max_payload) + 1,
           .content_type = "a/b");
    refuse(fx, OUTBOX_TOO_LARGE, .payload = "1", .payload_len = (size_t)OB_MOST(max_payload) + 1);
}

const struct contract_test limits_tests[] = {
    {"M2 M6 M11: limits: what is at a limit is accepted, one more is refused", every_limit},
    {"V9 S7: limits: words of a receiver are cut", cut},
    {"M6: limits: a payload that no namespace takes", largest_payload},
    {NULL, NULL, 0},
};
