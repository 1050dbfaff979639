/* pq.h - enqueue on your own PostgreSQL connection, inside your own transaction.
 *
 *     PQexec(conn, "BEGIN");
 *     PQexec(conn, "UPDATE orders SET state = 'paid' WHERE id = 42");
 *     struct outbox_message msg = OUTBOX_MESSAGE_INIT;
 *     msg.topic = "orders.paid";
 *     msg.payload = "{\"id\":42}";
 *     msg.payload_len = 9;
 *     if (outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err)) { PQexec(conn, "ROLLBACK"); ... }
 *     PQexec(conn, "COMMIT");
 *
 * The connection is borrowed: the library never begins, commits, rolls back or closes. Outside of a transaction the
 * enqueue is a transaction of its own. After any error inside a transaction PostgreSQL has failed that transaction:
 * roll it back. OUTBOX_CONFLICT (40001, 40P01) means: run the whole transaction again. */
#ifndef OUTBOX_PQ_H
#define OUTBOX_PQ_H

#include <libpq-fe.h>
#include <outbox/outbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/* schema: NULL for "outbox". receipt and err may be NULL. */
OUTBOX_API enum outbox_code outbox_pq_enqueue(PGconn *conn, const char *schema, const struct outbox_message *msg,
                                              struct outbox_receipt *receipt,
                                              struct outbox_error *err) OUTBOX_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
