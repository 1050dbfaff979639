/* pq.h - enqueue on your own PostgreSQL connection, inside your own transaction.
 *
 *     PQexec(conn, "BEGIN");
 *     PQexec(conn, "UPDATE orders SET state = 'paid' WHERE id = 42");
 *     struct outbox_message msg = OUTBOX_MESSAGE_INIT;
 *     msg.topic = "orders.paid";
 *     msg.payload = "{\"id\":42}";
 *     msg.payload_len = 9;
 *     struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
 *     if (outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err)) { PQexec(conn, "ROLLBACK"); ... }
 *     PQexec(conn, "COMMIT");
 *
 * The connection is borrowed: the library never begins, commits, rolls back or closes. Outside of a transaction the
 * enqueue is a transaction of its own. After an error inside a transaction PostgreSQL refuses everything but a rollback:
 * roll back. After OUTBOX_CONFLICT (40001, 40P01) run the whole transaction again. */
#ifndef OUTBOX_PQ_H
#define OUTBOX_PQ_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues one message. schema: where the outbox is; NULL for "outbox". receipt and err may be NULL. Fails with OUTBOX_INVALID,
 * OUTBOX_TENANT, OUTBOX_DEDUPE, OUTBOX_TOO_LARGE, OUTBOX_FAILED_TRANSACTION, OUTBOX_CONFLICT, and what the database can
 * answer (see outbox.h). */
OUTBOX_API enum outbox_code outbox_pq_enqueue(PGconn *conn, const char *schema, const struct outbox_message *msg,
                                              struct outbox_receipt *receipt,
                                              struct outbox_error *err) OUTBOX_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
