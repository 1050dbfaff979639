/* compress.c - large payloads are stored as zstd frames, and nobody who reads them through the library can tell. */
#include "suite.h"

#include "core/codec.h"

#include <zstd.h>

enum { LARGE = 100000, RATIO_LEN = 1 << 20 };

static bool is_sqlite(const struct fx *fx)
{
    return strcmp(fx->store->ops->kind, "sqlite") == 0;
}

/* JSON of so many bytes, as producers write it: compressible, but not absurdly. */
static char *make_json(struct fx *fx, size_t len)
{
    char *text = keep(fx, malloc(len + 64), free);
    size_t at = 1;
    text[0] = '[';
    for (unsigned i = 0; at + 64 < len; i++)
        at += (size_t)sprintf(text + at, "{\"n\": %u, \"name\": \"line %u\"}, ", i, i * 2654435761U);
    memset(text + at, ' ', len - at);
    memcpy(text + len - 2, "0]", 2);
    text[len] = '\0';
    return text;
}

static void make_noise(unsigned char *bytes, size_t len)
{
    uint64_t state = 88172645463325252ULL;
    for (size_t i = 0; i < len; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 32);
    }
}

/* "zstd 1" or "none 0": the encoding, and whether less is stored than len. */
static const char *stored(struct fx *fx, struct outbox_uuid id, size_t len)
{
    char sql[512];
    if (is_sqlite(fx))
        snprintf(sql, sizeof sql,
                 "SELECT coalesce(encoding, 'none') || ' ' || (length(CAST(coalesce(body, payload) AS BLOB)) < %zu) "
                 "FROM outbox_messages WHERE id = '%s'",
                 len, uuid_text(fx, id));
    else
        snprintf(sql, sizeof sql,
                 "SELECT coalesce(encoding, 'none') || ' ' || "
                 "(coalesce(octet_length(body), octet_length(payload::text)) < %zu)::int "
                 "FROM outbox.messages WHERE id = '%s'",
                 len, uuid_text(fx, id));
    return scalar(fx, sql);
}

static void expect_payload(struct fx *fx, const struct outbox_delivery *msg, const void *payload, size_t len)
{
    if (msg->fault || msg->payload_len != len || memcmp(msg->payload, payload, len) != 0)
        blame(fx, "fault %d, %zu bytes instead of %zu", (int)msg->fault, msg->payload_len, len);
    assert_int_equal(((const char *)msg->payload)[len], '\0');
}

static void round_trip(struct fx *fx)
{
    char *json = make_json(fx, LARGE);
    struct outbox_uuid id = put(fx, .payload = json, .payload_len = LARGE).id;
    assert_string_equal(stored(fx, id, LARGE / 2), "zstd 1");
    const struct ob_message_row *row = look(fx, id);
    assert_int_equal(row->fault, OUTBOX_FAULT_NONE);
    assert_int_equal(row->payload_len, LARGE);
    assert_memory_equal(row->payload, json, LARGE);
    assert_null(row->content_type);
    const struct outbox_delivery *msg = take(fx);
    expect_payload(AT(fx), msg, json, LARGE);
    assert_null(msg->content_type);
    ack(fx, msg);

    put(fx, .payload = json, .payload_len = LARGE, .content_type = "text/plain");
    msg = take(fx);
    expect_payload(AT(fx), msg, json, LARGE);
    assert_string_equal(msg->content_type, "text/plain");
}

static void threshold(struct fx *fx)
{
    char *json = make_json(fx, LARGE);
    const struct {
        size_t len;
        int64_t over;
        const char *wanted;
    } cases[] = {{16384, 0, "none 0"},     {16385, 0, "zstd 1"}, {LARGE, -1, "none 0"},
                 {LARGE, LARGE, "none 0"}, {300, 299, "zstd 1"}, {300, 300, "none 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outbox_uuid id = put(fx, .payload = json, .payload_len = cases[i].len, .content_type = "text/plain",
                                    .compress_over = cases[i].over)
                                    .id;
        assert_string_equal(stored(fx, id, cases[i].len), cases[i].wanted);
        const struct outbox_delivery *msg = take(fx);
        expect_payload(AT(fx), msg, json, cases[i].len);
        ack(fx, msg);
    }
}

static void not_worth_it(struct fx *fx)
{
    unsigned char *noise = keep(fx, malloc(LARGE), free);
    make_noise(noise, LARGE);
    struct outbox_uuid id = put(fx, .payload = noise, .payload_len = LARGE, .content_type = "image/png").id;
    assert_string_equal(stored(fx, id, LARGE), "none 0");
    const struct outbox_delivery *msg = take(fx);
    assert_int_equal(msg->payload_len, LARGE);
    assert_memory_equal(msg->payload, noise, LARGE);
}

/* What a store refuses is refused whether it is large or not. */
static void bad_json_stays_bad(struct fx *fx)
{
    static const char *const bad[] = {"{", "[1,]", "[\"\\u0000\"]", "[\"\\ud800\"]", "[01]", "{\"a\" 1}", "[1] 2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *json = keep(fx, malloc(LARGE + 1), free);
        memset(json, ' ', LARGE);
        memcpy(json, bad[i], strlen(bad[i]));
        json[LARGE] = '\0';
        refuse(fx, OUTBOX_INVALID, .payload = json, .payload_len = LARGE);
    }
}

static void in_a_batch(struct fx *fx)
{
    enum { N = 6 };
    struct outbox_message msgs[N];
    struct outbox_receipt receipts[N];
    size_t lens[N] = {LARGE, 30, 40000, 20, 17000, 50000};
    for (size_t i = 0; i < N; i++) {
        msgs[i] = MSG(.payload = make_json(fx, lens[i] < 100 ? 100 : lens[i]), .key = "k");
        msgs[i].payload_len = lens[i] = strlen(msgs[i].payload);
        msgs[i].content_type = i % 2 ? "text/plain" : NULL;
    }
    ok(fx, enqueue_many, msgs, N, receipts);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(stored(fx, receipts[i].id, lens[i]), lens[i] > 16384 ? "zstd 1" : "none 0");
        const struct outbox_delivery *msg = take(fx);
        assert_same_id(msg->id, receipts[i].id);
        if (lens[i] > 16384)
            expect_payload(AT(fx), msg, msgs[i].payload, lens[i]);
        ack(fx, msg);
    }
}

static void survives_death(struct fx *fx)
{
    char *json = make_json(fx, LARGE);
    struct ob_actor ann = {"ann", "fixed"};
    struct outbox_uuid id = make_dead(fx, .payload = json, .payload_len = LARGE);
    int64_t changed = 0, removed;
    make_old(fx, &id, 40);
    ok(fx, purge, &removed);
    assert_string_equal(stored(fx, id, LARGE / 2), "zstd 1");
    assert_memory_equal(look(fx, id)->payload, json, LARGE);
    struct ob_filter filter = {.ids = &id, .id_count = 1};
    ok(fx, retry, &filter, &ann, &changed);
    assert_int_equal(changed, 1);
    const struct outbox_delivery *msg = take(fx);
    assert_same_id(msg->id, id);
    expect_payload(AT(fx), msg, json, LARGE);
    give_back(fx, msg);
    ok(fx, purge, &removed);
    assert_memory_equal(look(fx, id)->payload, json, LARGE);
    expect_payload(AT(fx), take(fx), json, LARGE);
}

/* ---- frames of other producers ---- */

/* The answer of the store to a frame that comes by SQL. */
static enum outbox_code insert(struct fx *fx, const unsigned char *frame, size_t len, const char *encoding)
{
    size_t room = 2 * len + 512;
    char *sql = keep(fx, malloc(room), free);
    int at = snprintf(sql, room,
                      is_sqlite(fx) ? "INSERT INTO outbox (topic, encoding, payload) VALUES ('t', '%s', x'"
                                    : "SELECT outbox.enqueue_bytes('t', content_type => null, "
                                      "encoding => '%s', payload => decode('",
                      encoding);
    for (size_t i = 0; i < len; i++)
        at += sprintf(sql + at, "%02x", frame[i]);
    strcpy(sql + at, is_sqlite(fx) ? "')" : "', 'hex'))");
    return fx->store->ops->exec(fx->store, sql, &fx->err);
}

static size_t make_frame(unsigned char *frame, size_t room, const char *text, size_t len)
{
    size_t made = ZSTD_compress(frame, room, text, len, 3);
    assert_false(ZSTD_isError(made));
    return made;
}

/* JSON that hardly takes any room: one very long number. */
static char *make_ones(struct fx *fx, size_t len)
{
    char *ones = keep(fx, malloc(len), free);
    memset(ones, '1', len);
    return ones;
}

static void from_sql(struct fx *fx)
{
    /* Sizes of every width that a frame header has: 1, 2 and 4 bytes. */
    static const size_t lens[] = {100, 255, 256, 300, 65791, 65792, LARGE};
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char *json = make_json(fx, lens[i]);
        size_t len = make_frame(frame, LARGE, json, lens[i]);
        check_(AT(fx), insert(fx, frame, len, "zstd"), OUTBOX_OK, "insert");
        const struct outbox_delivery *msg = take(fx);
        expect_payload(AT(fx), msg, json, lens[i]);
        ack(fx, msg);
    }
}

static void refuse_frame(struct fx *fx, enum outbox_code code, const unsigned char *frame, size_t len,
                         const char *encoding)
{
    const char *before = digest(fx);
    enum outbox_code got = insert(fx, frame, len, encoding);
    if (got != code && !(got == OUTBOX_DATABASE && code == OUTBOX_INVALID))
        blame(fx, "%s instead of %s: %s", outbox_code_name(got), outbox_code_name(code), fx->err.text);
    expect_unchanged(fx, before, "a refused frame");
}

static void bad_frames_refused(struct fx *fx)
{
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    char *json = make_json(fx, 1000);
    size_t len = make_frame(frame, LARGE, json, 1000);
    refuse_frame(AT(fx), OUTBOX_INVALID, frame, len, "gzip");
    refuse_frame(AT(fx), OUTBOX_INVALID, frame, 5, "zstd");
    refuse_frame(AT(fx), OUTBOX_INVALID, (const unsigned char *)json, 1000, "zstd");
    refuse_frame(AT(fx), OUTBOX_INVALID, (const unsigned char *)"", 0, "zstd");
    /* As a stream makes it, which does not know the size beforehand. */
    unsigned char unsized[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x09, 0x00, 0x00, 0x31};
    refuse_frame(AT(fx), OUTBOX_INVALID, unsized, sizeof unsized, "zstd");
    unsigned char dictionary[] = {0x28, 0xb5, 0x2f, 0xfd, 0x21, 0x07, 0x01, 0x09, 0x00, 0x00, 0x31};
    refuse_frame(AT(fx), OUTBOX_INVALID, dictionary, sizeof dictionary, "zstd");
}

static void bombs_refused(struct fx *fx)
{
    char *ones = make_ones(fx, 2 * RATIO_LEN);
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    size_t len = make_frame(frame, LARGE, ones, RATIO_LEN); /* as large as a payload may be: 1 MiB */
    assert_in_range(len, 1, 200);
    check_(AT(fx), insert(fx, frame, len, "zstd"), OUTBOX_OK, "insert");
    expect_payload(AT(fx), take(fx), ones, RATIO_LEN);
    len = make_frame(frame, LARGE, ones, RATIO_LEN + 1);
    refuse_frame(AT(fx), OUTBOX_TOO_LARGE, frame, len, "zstd");
    /* The same through the library, which counts what receivers get. */
    refuse(fx, OUTBOX_TOO_LARGE, .payload = ones, .payload_len = RATIO_LEN + 1, .content_type = "application/x-ones");
    /* 8 bytes of size, all of them set. */
    unsigned char huge[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff,
                            0xff, 0xff, 0xff, 0xff, 0x09, 0,    0,    0x31};
    refuse_frame(AT(fx), OUTBOX_TOO_LARGE, huge, sizeof huge, "zstd");
}

/* A hundred small frames, each as large as a payload may be: one claim must not become all of that. */
static void a_claim_is_bounded(struct fx *fx)
{
    enum { COUNT = 100 };
    char *ones = make_ones(fx, RATIO_LEN);
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    size_t len = make_frame(frame, LARGE, ones, RATIO_LEN), had = 0, bytes = 0;
    for (int i = 0; i < COUNT; i++)
        check_(AT(fx), insert(fx, frame, len, "zstd"), OUTBOX_OK, "insert");
    outbox_batch *batch = claim_n(fx, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        had += !msg->fault;
        bytes += msg->payload_len;
        if (msg->fault && (msg->fault != OUTBOX_FAULT_MEMORY || msg->payload))
            blame(AT(fx), "message %zu: fault %d", i, (int)msg->fault);
        if (msg->fault)
            give_back(fx, msg);
        else
            ack(fx, msg);
    }
    assert_in_range(bytes, OB_CODEC_BATCH / 2, OB_CODEC_BATCH);
    batch = claim_n(fx, COUNT - (int)had);
    for (size_t i = 0; i < COUNT - had; i++)
        expect_payload(AT(fx), outbox_batch_at(batch, i), ones, RATIO_LEN);
}

/* One that is over that bound by itself goes alone, for it would never go otherwise. */
static void a_giant_goes_alone(struct fx *fx)
{
    const size_t giant = OB_CODEC_BATCH + 1;
    char *ones = make_ones(fx, giant);
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    ok(fx, configure, "default", "max_payload", "100000000", NULL);
    check_(AT(fx), insert(fx, frame, make_frame(frame, LARGE, ones, giant), "zstd"), OUTBOX_OK, "insert");
    check_(AT(fx), insert(fx, frame, make_frame(frame, LARGE, ones, 20000), "zstd"), OUTBOX_OK, "insert");
    outbox_batch *batch = claim_n(fx, 2);
    expect_payload(AT(fx), outbox_batch_at(batch, 0), ones, giant);
    assert_int_equal(outbox_batch_at(batch, 1)->fault, OUTBOX_FAULT_MEMORY);
}

/* A frame whose header is good says what it likes behind it: no crash, no loss, and the rest of the batch goes on. */
static void damage_is_a_fault(struct fx *fx)
{
    unsigned char *frame = keep(fx, malloc(LARGE), free);
    char *json = make_json(fx, 20000);
    size_t len = make_frame(frame, LARGE, json, 20000);
    put(fx);
    check_(AT(fx), insert(fx, frame, len - 7, "zstd"), OUTBOX_OK, "insert"); /* cut */
    frame[len / 2] ^= 0x55;
    frame[len / 2 + 1] ^= 0x55;
    check_(AT(fx), insert(fx, frame, len, "zstd"), OUTBOX_OK, "insert"); /* flipped */
    len = make_frame(frame, LARGE, json, 20000);
    memcpy(frame + len, frame, len);
    check_(AT(fx), insert(fx, frame, 2 * len, "zstd"), OUTBOX_OK, "insert"); /* two */
    frame[5] = 1;
    check_(AT(fx), insert(fx, frame, len, "zstd"), OUTBOX_OK, "insert"); /* more than the header tells */
    put(fx);
    outbox_batch *batch = claim_n(fx, 6);
    for (size_t i = 1; i < 5; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        if (msg->fault != OUTBOX_FAULT_DAMAGED || msg->payload || msg->payload_len)
            blame(AT(fx), "message %zu: fault %d", i, (int)msg->fault);
        const struct ob_message_row *row = look(fx, msg->id);
        assert_int_equal(row->fault, OUTBOX_FAULT_DAMAGED);
        assert_null(row->payload);
        assert_true(settle(fx, msg, .outcome = OUTBOX_FAILED, .code = "encoding"));
        assert_int_equal(look(fx, msg->id)->status, OB_DEAD);
    }
    expect_payload(AT(fx), outbox_batch_at(batch, 0), DEFAULT_PAYLOAD, strlen(DEFAULT_PAYLOAD));
    expect_payload(AT(fx), outbox_batch_at(batch, 5), DEFAULT_PAYLOAD, strlen(DEFAULT_PAYLOAD));
}

/* What comes out of a frame without a content type is pasted into documents: it must be one JSON value, no more, no less. */
static void json_inside_is_checked(struct fx *fx)
{
    static const char *const bad[] = {
        "{}},\"id\":\"forged\",\"x\":{\"y\":1", "{\"a\":1", "", "{} {}", "\"\xff\"", "{\"a\":1,}", "nul", "[1]\n,"};
    static const char good[] = " {\"deep\": [\"\\u0000 \\ud800\", 1e9999]}\n";
    unsigned char frame[256];
    size_t count = sizeof bad / sizeof bad[0];
    for (size_t i = 0; i < count; i++)
        check_(AT(fx), insert(fx, frame, make_frame(frame, sizeof frame, bad[i], strlen(bad[i])), "zstd"), OUTBOX_OK,
               "insert");
    check_(AT(fx), insert(fx, frame, make_frame(frame, sizeof frame, good, strlen(good)), "zstd"), OUTBOX_OK, "insert");
    outbox_batch *batch = claim_n(fx, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        if (msg->fault != OUTBOX_FAULT_NOT_JSON || msg->payload || msg->payload_len)
            blame(AT(fx), "%s: fault %d", bad[i], (int)msg->fault);
        const struct ob_message_row *row = look(fx, msg->id);
        assert_int_equal(row->fault, OUTBOX_FAULT_NOT_JSON);
        assert_int_equal(row->payload_len, strlen(bad[i])); /* an operator sees what it is */
    }
    expect_payload(AT(fx), outbox_batch_at(batch, count), good, strlen(good));
}

const struct contract_test compress_tests[] = {
    {"Y7: a large payload is stored compressed, and claimed and shown as it was", round_trip},
    {"Y7: only what is over the threshold, which a message may set, is compressed", threshold},
    {"Y7: what would hardly become smaller is stored as it is", not_worth_it},
    {"Y7: JSON that a store refuses is refused when it is large, too", bad_json_stays_bad},
    {"Y7: enqueue_many compresses each by itself", in_a_batch},
    {"Y7: it stays compressed through death, retention and retry", survives_death},
    {"Y7: frames from SQL, with every width of size", from_sql},
    {"Y7: a frame that does not tell its size, and no frame at all, is refused", bad_frames_refused},
    {"Y7: max_payload counts what receivers get, not what is stored", bombs_refused},
    {"Y7: what a claim decompresses is bounded; the rest comes with the next", a_claim_is_bounded},
    {"Y7: a payload over that bound goes alone", a_giant_goes_alone},
    {"Y7: what cannot be decompressed is a fault of that message alone", damage_is_a_fault},
    {"Y7 N8: a frame without a content type that holds no JSON is a fault, however it came in", json_inside_is_checked},
    {NULL, NULL, 0},
};
