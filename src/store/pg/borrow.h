/* borrow.h - what is done on a connection that the caller owns. */
#ifndef OB_STORE_PG_BORROW_H
#define OB_STORE_PG_BORROW_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

/* Enqueues in the caller's transaction: see include/outbox/pq.h. msg is of this version; receipt and err may be NULL. */
enum outbox_code ob_pg_enqueue_on(PGconn *conn, const char *schema, const struct outbox_message *msg,
                                  struct outbox_receipt *receipt, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
