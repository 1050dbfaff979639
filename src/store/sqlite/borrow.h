/* borrow.h - enqueue on a connection that the caller owns; see include/outbox/sqlite.h. */
#ifndef OB_STORE_SQLITE_BORROW_H
#define OB_STORE_SQLITE_BORROW_H

#include <outbox/outbox.h>
#include <sqlite3.h>

/* Runs in the caller's transaction, or in its own if none is open. receipt may be NULL. */
enum outbox_code ob_sqlite_enqueue_on(sqlite3 *db, const struct outbox_message *msg, struct outbox_receipt *receipt,
                                      struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
