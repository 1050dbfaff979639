/* sqlite.h - enqueue on your own SQLite connection, inside your own transaction.
 *
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", 0, 0, 0);
 *     sqlite3_exec(db, "UPDATE orders SET state = 'paid' WHERE id = 42", 0, 0, 0);
 *     struct outbox_message msg = OUTBOX_MESSAGE_INIT;
 *     msg.topic = "orders.paid";
 *     msg.payload = "{\"id\":42}";
 *     msg.payload_len = 9;
 *     if (outbox_sqlite_enqueue(db, &msg, &receipt, &err)) { sqlite3_exec(db, "ROLLBACK", 0, 0, 0); ... }
 *     sqlite3_exec(db, "COMMIT", 0, 0, 0);
 *
 * The database must have an outbox in it: `outbox init --store sqlite:PATH`, once. The connection is borrowed: it is
 * never closed and none of its settings is changed; inside a transaction the library never begins, commits or rolls
 * back. Outside of one the enqueue is a transaction of its own. After an error inside a transaction nothing of the
 * message is left and the transaction is as it was before; roll it back, or go on without the message. OUTBOX_BUSY
 * means that another process writes: give the connection a busy timeout (sqlite3_busy_timeout), and begin with BEGIN
 * IMMEDIATE, so that waiting happens there.
 *
 * The same can be done in plain SQL from any language: INSERT INTO outbox (topic, payload) VALUES (...); see
 * docs/sqlite.md. That is also the faster way for many messages, since you can keep the statement prepared. */
#ifndef OUTBOX_SQLITE_H
#define OUTBOX_SQLITE_H

#include <outbox/outbox.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* receipt and err may be NULL. */
OUTBOX_API enum outbox_code outbox_sqlite_enqueue(sqlite3 *db, const struct outbox_message *msg,
                                                  struct outbox_receipt *receipt,
                                                  struct outbox_error *err) OUTBOX_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
