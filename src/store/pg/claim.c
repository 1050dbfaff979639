/* claim.c - claims messages under a lease.
 *
 * A batch borrows everything from its PGresult: payloads are never copied here, only decompressed. Values are in binary format,
 * and libpq appends a NUL to each, so text is handed out in place. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "core/batch.h"
#include "core/codec.h"

#include <string.h>

/* In the order of sql/postgres/stmt/claim.sql, and of page.sql, which has no MORE. */
enum column {
    ID,
    TOKEN,
    NAMESPACE,
    TOPIC,
    TENANT_ID,
    KEY,
    SEQ,
    DEDUPE_KEY,
    SUBJECT,
    RECIPIENT,
    HEADERS,
    CORRELATION_ID,
    PAYLOAD,
    BODY,
    CONTENT_TYPE,
    PRIORITY,
    ATTEMPT,
    SPENT,
    MAX_ATTEMPTS,
    REDRIVEN,
    CREATED_AT,
    CLAIMED_AT,
    LOCKED_UNTIL,
    EXPIRES_AT,
    PLACE,
    ENCODING,
    STREAM,
    DEFERRED,
    LOST,
    OWN_ATTEMPTS,
    RETRY_BASE,
    RETRY_CAP,
    MORE,
};

struct batch {
    struct outbox_batch base; /* first: free finds us by a cast */
    PGresult *res;            /* owned; the messages borrow from it */
    struct ob_arena arena;    /* payloads that were compressed */
    struct outbox_delivery items[];
};

static void batch_free(struct outbox_batch *base)
{
    struct batch *batch = (struct batch *)(void *)base;
    PQclear(batch->res);
    ob_arena_fini(&batch->arena);
    ob_free(batch);
}

static void read_delivery(const PGresult *res, int row, struct outbox_delivery *msg)
{
    *msg = (struct outbox_delivery){
        .size = sizeof *msg,
        .token = ob_pg_token(ob_pg_int8(res, row, TOKEN), ob_pg_be(res, row, PLACE, 6)),
        .name_space = ob_pg_text(res, row, NAMESPACE),
        .topic = ob_pg_text(res, row, TOPIC),
        .tenant_id = ob_pg_text(res, row, TENANT_ID),
        .key = ob_pg_text(res, row, KEY),
        .seq = ob_pg_int8(res, row, SEQ),
        .dedupe_key = ob_pg_text(res, row, DEDUPE_KEY),
        .subject = ob_pg_text(res, row, SUBJECT),
        .recipient = ob_pg_text(res, row, RECIPIENT),
        .headers = ob_pg_jsonb(res, row, HEADERS),
        .correlation_id = ob_pg_text(res, row, CORRELATION_ID),
        .content_type = ob_pg_text(res, row, CONTENT_TYPE),
        .priority = ob_pg_int4(res, row, PRIORITY),
        .attempt = ob_pg_int4(res, row, ATTEMPT),
        .spent = ob_pg_int4(res, row, SPENT),
        .max_attempts = ob_pg_int4(res, row, MAX_ATTEMPTS),
        .redriven = ob_pg_bool(res, row, REDRIVEN),
        .created_at_us = ob_pg_time(res, row, CREATED_AT),
        .claimed_at_us = ob_pg_time(res, row, CLAIMED_AT),
        .locked_until_us = ob_pg_time(res, row, LOCKED_UNTIL),
        .expires_at_us = ob_pg_time(res, row, EXPIRES_AT),
        .stream = ob_pg_int8(res, row, STREAM),
        .deferred = ob_pg_int4(res, row, DEFERRED),
        .lost = ob_pg_int4(res, row, LOST),
        .own_attempts = ob_pg_bool(res, row, OWN_ATTEMPTS),
        .retry_base_us = INT64_C(1000) * ob_pg_int4(res, row, RETRY_BASE),
        .retry_cap_us = INT64_C(1000) * ob_pg_int4(res, row, RETRY_CAP),
    };
    ob_pg_uuid(res, row, ID, &msg->id);
    if (PQgetisnull(res, row, BODY)) {
        msg->payload = ob_pg_jsonb(res, row, PAYLOAD);
        msg->payload_len = msg->payload ? (size_t)PQgetlength(res, row, PAYLOAD) - 1 : 0;
    } else {
        msg->payload = PQgetvalue(res, row, BODY);
        msg->payload_len = (size_t)PQgetlength(res, row, BODY);
    }
}

static void put_interval_or_null(struct ob_pg_params *params, int64_t us)
{
    if (us == 0)
        ob_pg_put_null(params);
    else
        ob_pg_put_interval(params, us);
}

/* Two parallel arrays; null without lanes, which means no restriction. */
static void put_lanes(struct ob_pg_params *params, const struct outbox_lane *lanes, size_t count)
{
    for (int half = 0; half < 2; half++) {
        if (!lanes) {
            ob_pg_put_null(params);
            continue;
        }
        ob_pg_array_begin(params, OB_PG_TEXT, count);
        for (size_t i = 0; i < count; i++)
            ob_pg_array_text(params, half ? lanes[i].topic : lanes[i].name_space);
        ob_pg_array_end(params);
    }
}

/* Writes a glob as a LIKE pattern. */
static void like(struct ob_buf *buf, const char *glob)
{
    for (; glob && *glob; glob++) {
        if (*glob == '*' || *glob == '?') {
            ob_buf_putc(buf, *glob == '*' ? '%' : '_');
            continue;
        }
        if (*glob == '\\' && glob[1])
            glob++;
        if (strchr("%_\\", *glob))
            ob_buf_putc(buf, '\\');
        ob_buf_putc(buf, *glob);
    }
    if (!glob)
        ob_buf_putc(buf, '%');
}

static void put_max_bytes(struct ob_pg_params *params, const struct outbox_claim *want)
{
    if (want->max_bytes)
        ob_pg_put_int8(params, want->max_bytes < INT64_MAX ? (int64_t)want->max_bytes : INT64_MAX);
    else
        ob_pg_put_null(params);
}

static void put_rules(struct ob_pg_params *params, const struct outbox_lane_rule *rules, size_t count)
{
    for (int half = 0; half < 2; half++) {
        if (count == 0) {
            ob_pg_put_null(params);
            continue;
        }
        ob_pg_array_begin(params, OB_PG_TEXT, count);
        for (size_t i = 0; i < count; i++) {
            struct ob_buf text = OB_BUF_INIT;
            like(&text, half ? rules[i].topic : rules[i].name_space);
            ob_pg_array_text(params, ob_buf_text(&text));
            params->scratch->failed |= !ob_buf_ok(&text);
            ob_buf_fini(&text);
        }
        ob_pg_array_end(params);
    }
    if (count == 0) {
        ob_pg_put_null(params);
        return;
    }
    ob_pg_array_begin(params, OB_PG_BOOL, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_bool(params, rules[i].skip);
    ob_pg_array_end(params);
}

void ob_pg_claim_params(struct ob_pg_params *params, const struct outbox_claim *want, bool admit)
{
    ob_pg_put_text(params, want->worker);
    ob_pg_put_int4(params, want->limit);
    ob_pg_put_interval(params, want->lease_us);
    ob_pg_put_text(params, want->name_space);
    if (want->topics) {
        ob_pg_array_begin(params, OB_PG_TEXT, want->topic_count);
        for (size_t i = 0; i < want->topic_count; i++)
            ob_pg_array_text(params, want->topics[i]);
        ob_pg_array_end(params);
    } else {
        ob_pg_put_null(params);
    }
    ob_pg_put_text(params, want->tenant_id);
    if (want->max_attempts == 0)
        ob_pg_put_null(params);
    else
        ob_pg_put_int4(params, want->max_attempts);
    ob_pg_put_int4(params, want->run);
    ob_pg_put_bool(params, want->prefetch);
    put_interval_or_null(params, want->retry_base_us);
    put_interval_or_null(params, want->retry_cap_us);
    put_lanes(params, want->only, want->only_count);
    put_lanes(params, want->skip_count ? want->skip : NULL, want->skip_count);
    put_max_bytes(params, want);
    put_rules(params, want->rules, want->rule_count);
    ob_pg_put_bool(params, admit);
}

void ob_pg_take_params(struct ob_pg_params *params, const struct outbox_claim *want, int64_t nonce, int hint)
{
    ob_pg_put_text(params, want->worker);
    ob_pg_put_int4(params, want->limit);
    ob_pg_put_interval(params, want->lease_us);
    ob_pg_put_int8(params, nonce);
    if (hint == OB_PG_SHARD_ANY)
        ob_pg_put_null(params);
    else
        ob_pg_put_int4(params, hint);
    put_max_bytes(params, want);
    ob_pg_put_int4(params, want->run);
    put_lanes(params, want->skip_count ? want->skip : NULL, want->skip_count);
    put_rules(params, want->rules, want->rule_count);
}

bool ob_pg_claim_filtered(const struct outbox_claim *want)
{
    return want->name_space || want->topics || want->tenant_id || want->only || want->skip_count || want->rule_count;
}

bool ob_pg_claim_takes(const struct outbox_claim *want)
{
    return !want->name_space && !want->topics && !want->tenant_id && !want->only && !want->max_attempts &&
           !want->retry_base_us && !want->retry_cap_us;
}

/* The first count rows. */
static ob_code read_rows(PGresult *res, size_t count, bool more, struct outbox_batch **out, struct outbox_error *err)
{
    struct batch *batch = ob_alloc(sizeof *batch + count * sizeof batch->items[0]);
    *out = NULL;
    if (!batch) {
        /* The messages stay leased until their lease ends; nothing is lost. */
        PQclear(res);
        return ob_error_nomem(err);
    }
    batch->base = (struct outbox_batch){.size = count, .items = batch->items, .more = more, .free = batch_free};
    batch->res = res;
    ob_arena_init(&batch->arena, 0);
    size_t left = OB_CODEC_BATCH;
    for (size_t i = 0; i < count; i++) {
        read_delivery(res, (int)i, &batch->items[i]);
        if (!PQgetisnull(res, (int)i, ENCODING))
            ob_codec_deliver(ob_pg_text(res, (int)i, ENCODING), &batch->arena, &left, &batch->items[i]);
    }
    *out = &batch->base;
    return OUTBOX_OK;
}

ob_code ob_pg_claim_read(PGresult *res, struct outbox_batch **out, struct outbox_error *err)
{
    size_t count = (size_t)PQntuples(res);
    bool more = count > 0 && ob_pg_bool(res, 0, MORE);
    if (count == 1 && PQgetisnull(res, 0, ID))
        count = 0;
    return read_rows(res, count, more, out, err);
}

ob_code ob_pg_page_read(PGresult *res, struct outbox_batch **out, struct outbox_error *err)
{
    return read_rows(res, (size_t)PQntuples(res), false, out, err);
}

ob_code ob_pg_claim(struct ob_store *base, const struct outbox_claim *want, struct outbox_batch **out,
                    struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    *out = NULL;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_claim_params(&params, want, true);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    PGresult *res;
    ob_pg_doorbell_claiming(store->doorbell);
    ob_code code = ob_pg_call(store, OB_PG_claim, &params, &res, err);
    if (code == OUTBOX_CONFLICT) /* a rare race in spite of SKIP LOCKED, see 005_claim.sql: nothing was taken */
        code = ob_pg_call(store, OB_PG_claim, &params, &res, err);
    if (code)
        return code;
    code = ob_pg_claim_read(res, out, err);
    if (*out)
        ob_pg_doorbell_claimed(store->doorbell, (*out)->size, (*out)->more || (*out)->size == (size_t)want->limit,
                               ob_pg_claim_filtered(want));
    return code;
}
