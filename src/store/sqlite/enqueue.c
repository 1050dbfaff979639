/* enqueue.c - messages in: one, many, and one on a connection that is not ours.
 *
 * The view `outbox` does the work and the checking, for us as for any other producer. Only what SQL cannot see is
 * checked here: text that is not UTF-8, and numbers that mean "none" in the struct. */
#include "store/sqlite/sqlite.h"

#include "base/utf8.h"
#include "core/codec.h"
#include "store/sqlite/borrow.h"

#include <string.h>

enum { ARGS = 16 };

static ob_code check_payload(const struct outbox_message *msg, struct outbox_error *err)
{
    if (!msg->payload && (msg->payload_len || !msg->content_type))
        return ob_error_set(err, OUTBOX_INVALID, "payload is missing; JSON null is a payload, and bytes may be empty");
    if (msg->payload_len > OB_CODEC_MAX)
        return ob_error_set(err, OUTBOX_TOO_LARGE, "the payload has %zu bytes; no namespace takes more than %d",
                            msg->payload_len, OB_CODEC_MAX);
    if (!msg->content_type && !ob_utf8_valid(msg->payload, msg->payload_len))
        return ob_error_set(err, OUTBOX_INVALID,
                            "payload is JSON but not valid UTF-8; give bytes with a content_type instead");
    return OUTBOX_OK;
}

static ob_code check(const struct outbox_message *msg, struct outbox_error *err)
{
    const struct {
        const char *name, *text;
    } fields[] = {
        {"topic", msg->topic},           {"content_type", msg->content_type},
        {"namespace", msg->name_space},  {"key", msg->key},
        {"dedupe_key", msg->dedupe_key}, {"subject", msg->subject},
        {"recipient", msg->recipient},   {"headers", msg->headers},
        {"tenant_id", msg->tenant_id},   {"correlation_id", msg->correlation_id},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ob_code code = ob_sqlite_check_utf8(fields[i].name, fields[i].text, err);
        if (code)
            return code;
    }
    if (msg->deliver_after_us < 0 || msg->expires_at_us < 0)
        return ob_error_set(err, OUTBOX_INVALID, "%s is before 1970",
                            msg->deliver_after_us < 0 ? "deliver_after" : "expires_at");
    return check_payload(msg, err);
}

/* In the order of sql/sqlite/stmt/enqueue.sql. frame holds the payload when there is an encoding. */
static void fill(struct ob_sqlite_arg args[ARGS], const struct outbox_message *msg, const char *encoding,
                 const struct ob_buf *frame)
{
    const struct ob_sqlite_arg all[ARGS] = {
        OB_TEXT(msg->topic),
        encoding            ? OB_BYTES(frame->data, frame->len)
        : msg->content_type ? OB_BYTES(msg->payload, msg->payload_len)
                            : OB_TEXT_N(msg->payload, msg->payload_len),
        OB_TEXT(msg->key),
        OB_TEXT(msg->dedupe_key),
        OB_TEXT(msg->tenant_id),
        OB_TEXT(msg->name_space),
        OB_TEXT(msg->subject),
        OB_TEXT(msg->recipient),
        OB_TEXT(msg->headers),
        msg->priority == -1 ? OB_NULL : OB_NUM(msg->priority),
        OB_NUM_OR_NULL(msg->deliver_after_us),
        OB_NUM_OR_NULL(msg->expires_at_us),
        OB_NUM_OR_NULL(msg->max_attempts),
        OB_TEXT(msg->correlation_id),
        OB_TEXT(msg->content_type),
        OB_TEXT(encoding),
    };
    memcpy(args, all, sizeof all);
}

/* Writes the message and reads the receipt, in the transaction that is open. */
static ob_code put(struct ob_sqlite_store *store, const struct outbox_message *msg, struct outbox_receipt *receipt,
                   struct outbox_error *err)
{
    struct ob_sqlite_arg args[ARGS];
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = check(msg, err);
    if (code)
        return code;
    struct ob_buf frame = OB_BUF_INIT;
    const char *encoding = ob_codec_pack(msg, &frame);
    fill(args, msg, encoding, &frame);
    code = ob_sqlite_run(store, OB_SQLITE_enqueue, args, ARGS, NULL, err);
    ob_buf_fini(&frame);
    if (code || !receipt)
        return code;
    code = ob_sqlite_start(store, OB_SQLITE_receipt, OB_NO_ARGS, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code)
        return code;
    bool read = row && outbox_uuid_parse(ob_sqlite_column(stmt, 0), &receipt->id);
    receipt->seq = read ? sqlite3_column_int64(stmt, 1) : 0;
    receipt->created = read && sqlite3_column_int(stmt, 2) != 0;
    ob_sqlite_done(stmt);
    return read ? OUTBOX_OK : ob_error_set(err, OUTBOX_CORRUPT, "outbox_last has no receipt");
}

ob_code ob_sqlite_enqueue(struct ob_store *base, const struct outbox_message *msg, struct outbox_receipt *receipt,
                          struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    if (store->open_tx && sqlite3_get_autocommit(store->db))
        return ob_error_set(err, OUTBOX_FAILED_TRANSACTION,
                            "the transaction has failed already; roll back, then begin again");
    if (store->open_tx)
        return put(store, msg, receipt, err);
    ob_code code = check(msg, err);
    if (!code)
        code = ob_sqlite_begin(store, err);
    if (code)
        return code;
    return ob_sqlite_end(store, put(store, msg, receipt, err), err);
}

/* One bad message takes the whole call back, but not what the caller's transaction did before. */
static ob_code put_many(struct ob_sqlite_store *store, const struct outbox_message *msgs, size_t count,
                        struct outbox_receipt *receipts, struct outbox_error *err)
{
    struct outbox_receipt ignored;
    for (size_t i = 0; i < count; i++) {
        struct outbox_error cause;
        ob_code code = put(store, &msgs[i], receipts ? &receipts[i] : &ignored, &cause);
        if (code)
            return ob_error_set_sqlstate(err, code, cause.sqlstate, "message %zu: %s", i + 1, cause.text);
    }
    return OUTBOX_OK;
}

ob_code ob_sqlite_enqueue_many(struct ob_store *base, const struct outbox_message *msgs, size_t count,
                               struct outbox_receipt *receipts, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    ob_code code;
    if (count == 0)
        return OUTBOX_OK;
    if (!store->open_tx) {
        code = ob_sqlite_begin(store, err);
        return code ? code : ob_sqlite_end(store, put_many(store, msgs, count, receipts, err), err);
    }
    code = ob_sqlite_run(store, OB_SQLITE_savepoint, OB_NO_ARGS, NULL, err);
    if (code)
        return code;
    code = put_many(store, msgs, count, receipts, err);
    if (code && !sqlite3_get_autocommit(store->db))
        ob_sqlite_try(store, OB_SQLITE_savepoint_undo);
    if (!sqlite3_get_autocommit(store->db)) {
        ob_code released = ob_sqlite_run(store, OB_SQLITE_savepoint_release, OB_NO_ARGS, NULL, code ? NULL : err);
        code = code ? code : released;
    }
    return code;
}

/* ---- on a connection of somebody else's -------------------------------------------------------------------------- */

/* A missing table means a missing outbox: say so. */
static ob_code name_missing(sqlite3 *db, ob_code code, struct outbox_error *err)
{
    if (code == OUTBOX_DATABASE && strstr(sqlite3_errmsg(db), "no such table: outbox"))
        return ob_error_set(err, OUTBOX_SCHEMA, "the database has no outbox; run: outbox init");
    return code;
}

ob_code ob_sqlite_enqueue_on(sqlite3 *db, const struct outbox_message *msg, struct outbox_receipt *receipt,
                             struct outbox_error *err)
{
    /* A store for the time of the call. Its statements are finalized again: one left behind would keep the owner from
     * closing the connection. */
    struct ob_sqlite_store store = {.db = db};
    bool alone = sqlite3_get_autocommit(db) != 0;
    ob_code code = check(msg, err);
    if (code)
        return code;
    if (alone)
        code = ob_sqlite_run(&store, OB_SQLITE_begin, OB_NO_ARGS, NULL, err);
    if (!code)
        code = name_missing(db, put(&store, msg, receipt, err), err);
    if (alone && !code)
        code = ob_sqlite_run(&store, OB_SQLITE_commit, OB_NO_ARGS, NULL, err);
    if (alone && !sqlite3_get_autocommit(db))
        ob_sqlite_try(&store, OB_SQLITE_rollback);
    for (size_t i = 0; i < OB_SQLITE_STMT_COUNT; i++)
        sqlite3_finalize(store.stmts[i]);
    return code;
}
