/* message_check.h - whether a message can be enqueued, as far as that can be told without a store. */
#ifndef OB_CORE_MESSAGE_CHECK_H
#define OB_CORE_MESSAGE_CHECK_H

#include <outbox/outbox.h>

/* Called by every store before it writes: in PostgreSQL an error from the server fails the whole transaction, and a caller
 * who only forgot a topic should not lose it. The stores' SQL checks the same for producers that do not come through C, with
 * the limits of the same table (def/limits.def), and what needs the database: settings, tenants, payloads that are JSON. */
enum outbox_code ob_message_check(const struct outbox_message *msg, struct outbox_error *err);

/* How many messages one call may bring, and each of them; the error names the first that is wrong. */
enum outbox_code ob_messages_check(const struct outbox_message *msgs, size_t count, struct outbox_error *err);

#endif
