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

/* In the order of sql/postgres/stmt/claim.sql; page.sql has the message, and then the columns of enum space_column. */
enum column {
    ID,
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
    CREATED_AT,
    EXPIRES_AT,
    ENCODING,
    STREAM,
    MESSAGE_COLUMNS,
    TOKEN = MESSAGE_COLUMNS,
    ATTEMPT,
    SPENT,
    MAX_ATTEMPTS,
    REDRIVEN,
    CLAIMED_AT,
    LOCKED_UNTIL,
    PLACE,
    DEFERRED,
    LOST,
    OWN_ATTEMPTS,
    RETRY_BASE,
    RETRY_CAP,
    MORE,
};

/* What a message of a window, or its namespace, has of its own: null where it does not. */
enum space_column { OWN_MAX_ATTEMPTS = MESSAGE_COLUMNS, SPACE_MAX_ATTEMPTS, SPACE_RETRY_BASE, SPACE_RETRY_CAP };

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

static void read_message(const PGresult *res, int row, struct outbox_delivery *msg)
{
    *msg = (struct outbox_delivery){
        .size = sizeof *msg,
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
        .created_at_us = ob_pg_time(res, row, CREATED_AT),
        .expires_at_us = ob_pg_time(res, row, EXPIRES_AT),
        .stream = ob_pg_int8(res, row, STREAM),
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

static void read_lease(const PGresult *res, int row, struct outbox_delivery *msg)
{
    msg->token = ob_pg_token(ob_pg_int8(res, row, TOKEN), ob_pg_be(res, row, PLACE, 6));
    msg->attempt = ob_pg_int4(res, row, ATTEMPT);
    msg->spent = ob_pg_int4(res, row, SPENT);
    msg->max_attempts = ob_pg_int4(res, row, MAX_ATTEMPTS);
    msg->redriven = ob_pg_bool(res, row, REDRIVEN);
    msg->claimed_at_us = ob_pg_time(res, row, CLAIMED_AT);
    msg->locked_until_us = ob_pg_time(res, row, LOCKED_UNTIL);
    msg->deferred = ob_pg_int4(res, row, DEFERRED);
    msg->lost = ob_pg_int4(res, row, LOST);
    msg->own_attempts = ob_pg_bool(res, row, OWN_ATTEMPTS);
    msg->retry_base_us = INT64_C(1000) * ob_pg_int4(res, row, RETRY_BASE);
    msg->retry_cap_us = INT64_C(1000) * ob_pg_int4(res, row, RETRY_CAP);
}

static int64_t own_or(const PGresult *res, int row, int column, int64_t common)
{
    return PQgetisnull(res, row, column) ? common : ob_pg_int4(res, row, column);
}

/* The first attempt of a message of a window. The token is given by who remembers the window. */
static void read_terms(const PGresult *res, int row, const struct ob_pg_terms *terms, struct outbox_delivery *msg)
{
    msg->attempt = msg->spent = 1;
    msg->claimed_at_us = terms->taken_at_us;
    msg->locked_until_us = terms->until_us;
    msg->own_attempts = !PQgetisnull(res, row, OWN_MAX_ATTEMPTS);
    msg->max_attempts =
        (int)own_or(res, row, OWN_MAX_ATTEMPTS, own_or(res, row, SPACE_MAX_ATTEMPTS, terms->max_attempts));
    msg->retry_base_us = 1000 * own_or(res, row, SPACE_RETRY_BASE, terms->retry_base_ms);
    msg->retry_cap_us = 1000 * own_or(res, row, SPACE_RETRY_CAP, terms->retry_cap_ms);
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

/* The first count rows. terms: of a window; NULL: rows of a claim. */
static ob_code read_rows(PGresult *res, size_t count, bool more, const struct ob_pg_terms *terms,
                         struct outbox_batch **out, struct outbox_error *err)
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
        read_message(res, (int)i, &batch->items[i]);
        if (terms)
            read_terms(res, (int)i, terms, &batch->items[i]);
        else
            read_lease(res, (int)i, &batch->items[i]);
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
    return read_rows(res, count, more, NULL, out, err);
}

ob_code ob_pg_page_read(PGresult *res, const struct ob_pg_terms *terms, struct outbox_batch **out,
                        struct outbox_error *err)
{
    return read_rows(res, terms ? (size_t)PQntuples(res) : 0, false, terms, out, err);
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
