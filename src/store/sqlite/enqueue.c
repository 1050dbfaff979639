/* enqueue.c - enqueues one message, many, or one on the caller's connection.
 *
 * The view `outbox` does the work, for us as for any other producer. It checks its input too; the check in C runs first,
 * because it is the same for every store. */
#include "store/sqlite/sqlite.h"

#include "core/codec.h"
#include "core/message_check.h"
#include "store/sqlite/borrow.h"

#include <string.h>

enum { ARGS = 16, TENANT = 4 };

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

/* Writes a checked message and reads its receipt, in the open transaction. */
static ob_code put(struct ob_sqlite_store *store, const struct outbox_message *msg, struct outbox_receipt *receipt,
                   struct outbox_error *err)
{
    struct ob_sqlite_arg args[ARGS];
    sqlite3_stmt *stmt;
    bool row = false;
    struct ob_buf frame = OB_BUF_INIT;
    const char *encoding = ob_codec_pack(msg, &frame);
    fill(args, msg, encoding, &frame);
    const char *tenant = msg->tenant_id;
    ob_code code = ob_sqlite_own_tenant(store, &tenant, err);
    args[TENANT] = OB_TEXT(tenant);
    if (!code)
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
                            "the transaction has already failed; roll back, then begin again");
    ob_code code = ob_message_check(msg, err);
    if (!code && store->open_tx)
        return put(store, msg, receipt, err);
    if (!code)
        code = ob_sqlite_begin(store, err);
    if (code)
        return code;
    return ob_sqlite_end(store, put(store, msg, receipt, err), err);
}

/* One bad message undoes the whole call, but not what the caller's transaction did before. */
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
    if (count == 0)
        return OUTBOX_OK;
    ob_code code = ob_messages_check(msgs, count, err);
    if (code)
        return code;
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

/* ---- on the caller's connection ---------------------------------------------------------------------------------- */

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
    /* A store for the duration of the call. Its statements are finalized: one left behind would keep the owner from closing
     * the connection. */
    struct ob_sqlite_store store = {.db = db};
    bool alone = sqlite3_get_autocommit(db) != 0;
    ob_code code = ob_message_check(msg, err);
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
