/* message_copy.h - a claimed message in one block of its own. A relay copies what it keeps: one slow message would
 * otherwise hold the memory of its whole batch. */
#ifndef OB_CORE_MESSAGE_COPY_H
#define OB_CORE_MESSAGE_COPY_H

#include <outbox/outbox.h>

/* To be freed with ob_free; *bytes is the size of the block. NULL, and 0, when there is no memory. */
struct outbox_delivery *ob_message_copy(const struct outbox_delivery *msg, size_t *bytes)
    __attribute__((warn_unused_result));

#endif
