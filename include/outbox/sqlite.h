/* sqlite.h - enqueue on your own SQLite connection, inside your own transaction.
 *
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", 0, 0, 0);
 *     sqlite3_exec(db, "UPDATE orders SET state = 'paid' WHERE id = 42", 0, 0, 0);
 *     struct outbox_message msg = OUTBOX_MESSAGE_INIT;
 *     msg.topic = "orders.paid";
 *     msg.payload = "{\"id\":42}";
 *     msg.payload_len = 9;
 *     struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
 *     if (outbox_sqlite_enqueue(db, &msg, &receipt, &err)) { sqlite3_exec(db, "ROLLBACK", 0, 0, 0); ... }
 *     sqlite3_exec(db, "COMMIT", 0, 0, 0);
 *
 * The database must contain an outbox: run `outbox init sqlite:PATH` once. The connection is borrowed: the library never
 * closes it and changes none of its settings; inside a transaction it never begins, commits or rolls back. Outside of one the
 * enqueue is a transaction of its own. After an error inside a transaction the transaction is as it was before the call: roll
 * it back, or continue without the message. OUTBOX_BUSY means that another process is writing: set a busy timeout
 * (sqlite3_busy_timeout) and begin with BEGIN IMMEDIATE, so that the wait happens there.
 *
 * You can also use plain SQL, from any language: INSERT INTO outbox (topic, payload) VALUES (...); see docs/sqlite.md. For
 * many messages that is faster, because you can keep the statement prepared. */
#ifndef OUTBOX_SQLITE_H
#define OUTBOX_SQLITE_H

#include <outbox/outbox.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues one message. receipt and err may be NULL. Fails with OUTBOX_INVALID, OUTBOX_DEDUPE, OUTBOX_TOO_LARGE and what the
 * database can answer (see outbox.h). */
OUTBOX_API enum outbox_code outbox_sqlite_enqueue(sqlite3 *db, const struct outbox_message *msg,
                                                  struct outbox_receipt *receipt,
                                                  struct outbox_error *err) OUTBOX_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
