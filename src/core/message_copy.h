/* message_copy.h - copies a claimed message into one block of memory. A relay copies what it keeps: otherwise one slow
 * message would keep the memory of its whole batch in use. */
#ifndef OB_CORE_MESSAGE_COPY_H
#define OB_CORE_MESSAGE_COPY_H

#include <outbox/outbox.h>

/* Free the copy with ob_free; *bytes is the size of the block. Returns NULL, and sets *bytes to 0, when out of memory. */
struct outbox_delivery *ob_message_copy(const struct outbox_delivery *msg, size_t *bytes)
    __attribute__((warn_unused_result));

#endif
