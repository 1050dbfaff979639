/* message_check.h - whether a message can be enqueued, as far as this can be checked without a store. */
#ifndef OB_CORE_MESSAGE_CHECK_H
#define OB_CORE_MESSAGE_CHECK_H

#include <outbox/outbox.h>

/* Called by every store before it writes: in PostgreSQL an error from the server fails the whole transaction, and a caller
 * that only forgot a topic should not lose its transaction. For producers that do not use the C library, the stores' SQL
 * makes the same checks, with limits from the same table (def/limits.def). The SQL also checks what needs the database:
 * settings, tenants, payloads that are JSON. */
enum outbox_code ob_message_check(const struct outbox_message *msg, struct outbox_error *err);

/* Checks the number of messages in one call, and each of them; the error names the first invalid one. */
enum outbox_code ob_messages_check(const struct outbox_message *msgs, size_t count, struct outbox_error *err);

#endif
