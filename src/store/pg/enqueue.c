/* enqueue.c - enqueues one message, many, or one on the caller's connection. */
#include "store/pg/pg.h"

#include "base/alloc.h"
#include "core/codec.h"
#include "core/message_check.h"
#include "store/pg/render.h"

#include <string.h>

/* ---- one --------------------------------------------------------------------------------------------------------- */

/* frame holds the payload when there is an encoding. */
static enum ob_pg_stmt fill(struct ob_pg_params *params, const struct outbox_message *msg, const char *encoding,
                            const struct ob_buf *frame)
{
    ob_pg_put_text(params, msg->topic);
    if (encoding)
        ob_pg_put_bytes(params, frame->data, frame->len);
    else if (msg->content_type)
        ob_pg_put_bytes(params, msg->payload, msg->payload_len);
    else
        ob_pg_put_jsonb(params, msg->payload, msg->payload_len);
    ob_pg_put_text(params, msg->key);
    ob_pg_put_text(params, msg->dedupe_key);
    ob_pg_put_text(params, msg->tenant_id);
    ob_pg_put_text(params, msg->name_space);
    ob_pg_put_text(params, msg->subject);
    ob_pg_put_text(params, msg->recipient);
    ob_pg_put_text(params, msg->headers);
    if (msg->priority == -1)
        ob_pg_put_null(params);
    else
        ob_pg_put_int4(params, msg->priority);
    ob_pg_put_time(params, msg->deliver_after_us);
    ob_pg_put_time(params, msg->expires_at_us);
    if (msg->max_attempts == 0)
        ob_pg_put_null(params);
    else
        ob_pg_put_int4(params, msg->max_attempts);
    ob_pg_put_text(params, msg->correlation_id);
    if (!msg->content_type && !encoding)
        return OB_PG_enqueue;
    ob_pg_put_text(params, msg->content_type);
    ob_pg_put_text(params, encoding);
    return OB_PG_enqueue_bytes;
}

/* The server says what is wrong with a text that should be JSON, but not which one: payload or headers. */
static ob_code name_json(ob_code code, bool headers, struct outbox_error *err)
{
    if (!err || code != OUTBOX_INVALID || (strcmp(err->sqlstate, "22P02") != 0 && strcmp(err->sqlstate, "22P05") != 0))
        return code;
    struct outbox_error cause = *err;
    return ob_error_set_sqlstate(err, code, cause.sqlstate, "%s: %s", headers ? "payload or headers" : "payload",
                                 cause.text);
}

/* Columns from the given one on: id, created, seq. */
static void read_receipt(const PGresult *res, int row, int column, struct outbox_receipt *receipt)
{
    ob_pg_uuid(res, row, column, &receipt->id);
    receipt->created = ob_pg_bool(res, row, column + 1);
    receipt->seq = ob_pg_int8(res, row, column + 2);
}

ob_code ob_pg_enqueue(struct ob_store *base, const struct outbox_message *msg, struct outbox_receipt *receipt,
                      struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    ob_code code = ob_message_check(msg, err);
    if (code)
        return code;
    struct ob_pg_params params;
    struct ob_buf frame = OB_BUF_INIT;
    PGresult *res = NULL;
    const char *encoding = ob_codec_pack(msg, &frame);
    ob_pg_params_init(&params, &store->scratch);
    enum ob_pg_stmt which = fill(&params, msg, encoding, &frame);
    code = ob_pg_params_seal(&params) ? ob_pg_call(store, which, &params, &res, err) : ob_error_nomem(err);
    ob_buf_fini(&frame);
    if (code)
        return name_json(code, msg->headers != NULL, err);
    if (receipt)
        read_receipt(res, 0, 0, receipt);
    PQclear(res);
    return OUTBOX_OK;
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static void put_texts(struct ob_pg_params *params, const struct outbox_message *msgs, size_t count, size_t offset)
{
    ob_pg_array_begin(params, OB_PG_TEXT, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_text(params, *(const char *const *)(const void *)((const char *)&msgs[i] + offset));
    ob_pg_array_end(params);
}

/* The number that means "not given" becomes null. */
static void put_ints(struct ob_pg_params *params, const struct outbox_message *msgs, size_t count, size_t offset,
                     int none)
{
    ob_pg_array_begin(params, OB_PG_INT4, count);
    for (size_t i = 0; i < count; i++) {
        int value = *(const int *)(const void *)((const char *)&msgs[i] + offset);
        if (value == none)
            ob_pg_array_null(params);
        else
            ob_pg_array_int4(params, value);
    }
    ob_pg_array_end(params);
}

static void put_times(struct ob_pg_params *params, const struct outbox_message *msgs, size_t count, size_t offset)
{
    ob_pg_array_begin(params, OB_PG_TIMESTAMPTZ, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_time(params, *(const int64_t *)(const void *)((const char *)&msgs[i] + offset));
    ob_pg_array_end(params);
}

/* A payload that is sent compressed has an encoding. */
struct packed {
    const char *encoding;
    struct ob_buf frame;
};

static void put_payloads(struct ob_pg_params *params, const struct outbox_message *msgs, const struct packed *packed,
                         size_t count, bool bytes)
{
    ob_pg_array_begin(params, bytes ? OB_PG_BYTEA : OB_PG_JSONB, count);
    for (size_t i = 0; i < count; i++) {
        if ((msgs[i].content_type || packed[i].encoding) != bytes)
            ob_pg_array_null(params);
        else if (packed[i].encoding)
            ob_pg_array_bytes(params, packed[i].frame.data, packed[i].frame.len);
        else if (bytes)
            ob_pg_array_bytes(params, msgs[i].payload, msgs[i].payload_len);
        else
            ob_pg_array_jsonb(params, msgs[i].payload, msgs[i].payload_len);
    }
    ob_pg_array_end(params);
}

static void fill_many(struct ob_pg_params *params, const struct outbox_message *msgs, const struct packed *packed,
                      size_t count)
{
#define FIELD(name) offsetof(struct outbox_message, name)
    put_texts(params, msgs, count, FIELD(topic));
    put_payloads(params, msgs, packed, count, false);
    put_payloads(params, msgs, packed, count, true);
    static const size_t texts[] = {FIELD(content_type), FIELD(key),     FIELD(dedupe_key), FIELD(tenant_id),
                                   FIELD(name_space),   FIELD(subject), FIELD(recipient)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        put_texts(params, msgs, count, texts[i]);
    ob_pg_array_begin(params, OB_PG_JSONB, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_jsonb(params, msgs[i].headers, msgs[i].headers ? strlen(msgs[i].headers) : 0);
    ob_pg_array_end(params);
    put_ints(params, msgs, count, FIELD(priority), -1);
    put_times(params, msgs, count, FIELD(deliver_after_us));
    put_times(params, msgs, count, FIELD(expires_at_us));
    put_ints(params, msgs, count, FIELD(max_attempts), 0);
    put_texts(params, msgs, count, FIELD(correlation_id));
    ob_pg_array_begin(params, OB_PG_TEXT, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_text(params, packed[i].encoding);
    ob_pg_array_end(params);
#undef FIELD
}

ob_code ob_pg_enqueue_many(struct ob_store *base, const struct outbox_message *msgs, size_t count,
                           struct outbox_receipt *receipts, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    if (count == 0)
        return OUTBOX_OK;
    ob_code code = ob_messages_check(msgs, count, err);
    if (code)
        return code;
    struct packed *packed = ob_calloc(count, sizeof *packed);
    if (!packed)
        return ob_error_nomem(err);
    for (size_t i = 0; i < count; i++)
        packed[i].encoding = ob_codec_pack(&msgs[i], &packed[i].frame);
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    fill_many(&params, msgs, packed, count);
    for (size_t i = 0; i < count; i++) /* arrays are copied */
        ob_buf_fini(&packed[i].frame);
    ob_free(packed);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    PGresult *res;
    code = ob_pg_call(store, OB_PG_enqueue_many, &params, &res, err);
    if (code)
        return code;
    for (int row = 0; receipts && row < PQntuples(res); row++) {
        int ord = ob_pg_int4(res, row, 0);
        if (ord >= 1 && (size_t)ord <= count)
            read_receipt(res, row, 1, &receipts[ord - 1]);
    }
    PQclear(res);
    return OUTBOX_OK;
}

/* ---- on the caller's connection ---------------------------------------------------------------------------------- */

static bool is_ascii(const char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text > 127)
            return false;
    return true;
}

/* Our texts are UTF-8. With another client encoding they would be misread, unless they are plain ASCII. */
static ob_code check_encoding(PGconn *conn, const char *schema, const struct outbox_message *msg,
                              struct outbox_error *err)
{
    const char *name = PQparameterStatus(conn, "client_encoding");
    if (!name || strcmp(name, "UTF8") == 0 || strcmp(name, "SQL_ASCII") == 0)
        return OUTBOX_OK;
    bool ascii = is_ascii(schema) && is_ascii(msg->topic) && is_ascii(msg->content_type) && is_ascii(msg->name_space) &&
                 is_ascii(msg->key) && is_ascii(msg->dedupe_key) && is_ascii(msg->subject) &&
                 is_ascii(msg->recipient) && is_ascii(msg->headers) && is_ascii(msg->correlation_id);
    if (ascii && !msg->content_type)
        for (size_t i = 0; i < msg->payload_len && ascii; i++)
            ascii = ((const unsigned char *)msg->payload)[i] < 128;
    if (ascii)
        return OUTBOX_OK;
    return ob_error_set(
        err, OUTBOX_INVALID,
        "the connection's client_encoding is %s, but the message is UTF-8; SET client_encoding TO 'UTF8'", name);
}

static ob_code check_connection(PGconn *conn, struct outbox_error *err)
{
    if (PQstatus(conn) != CONNECTION_OK)
        return ob_error_set(err, OUTBOX_UNREACHABLE, "the connection is closed or broken; nothing was sent");
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return ob_error_set(err, OUTBOX_INVALID, "the connection is in pipeline mode; call PQexitPipelineMode first");
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_INERROR:
        return ob_error_set_sqlstate(err, OUTBOX_FAILED_TRANSACTION, "25P02",
                                     "the transaction has already failed; roll back, then begin again");
    case PQTRANS_ACTIVE:
        return ob_error_set(err, OUTBOX_INVALID,
                            "a statement is still running on the connection; read its results with PQgetResult first");
    case PQTRANS_UNKNOWN: return ob_error_set(err, OUTBOX_UNREACHABLE, "the connection is broken; nothing was sent");
    default: return OUTBOX_OK;
    }
}

ob_code ob_pg_enqueue_on(PGconn *conn, const char *schema, const struct outbox_message *msg,
                         struct outbox_receipt *receipt, struct outbox_error *err)
{
    ob_code code = ob_pg_schema_check(schema, err);
    if (!code)
        code = ob_message_check(msg, err);
    if (!code)
        code = check_connection(conn, err);
    if (!code)
        code = check_encoding(conn, schema, msg, err);
    if (code)
        return code;
    struct ob_buf scratch = OB_BUF_INIT, frame = OB_BUF_INIT;
    struct ob_pg_params params;
    char *sql = NULL;
    PGresult *res = NULL;
    ob_pg_params_init(&params, &scratch);
    const char *encoding = ob_codec_pack(msg, &frame);
    enum ob_pg_stmt which = fill(&params, msg, encoding, &frame);
    code = ob_pg_params_seal(&params) ? ob_pg_stmt_render(which, schema, &sql, err) : ob_error_nomem(err);
    if (code)
        goto done;
    /* Not prepared: poolers and DISCARD would interfere with a statement name left in a session that is not ours. */
    res = PQexecParams(conn, sql, params.count, NULL, params.values, params.lengths, params.formats, 1);
    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        code =
            name_json(ob_pg_error(&(struct ob_pg_cause){.conn = conn, .schema = schema, .role = ob_pg_stmt_role(which)},
                                  res, err),
                      msg->headers != NULL, err);
    else if (receipt)
        read_receipt(res, 0, 0, receipt);
done:
    PQclear(res);
    ob_free(sql);
    ob_buf_fini(&scratch);
    ob_buf_fini(&frame);
    return code;
}
