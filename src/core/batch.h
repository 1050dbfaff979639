/* batch.h - the messages that a claim returned. Every store fills in this struct and sets how it is freed; the public
 * accessors (outbox_batch_size, outbox_batch_at, outbox_batch_free in src/lib) use nothing else of it.
 *
 * A store allocates a larger struct of its own with this one as the first member, so that `free` can find what the messages
 * borrow from: an arena, or the client library's result. Messages stay valid until `free`, whatever happens to the store. */
#ifndef OB_CORE_BATCH_H
#define OB_CORE_BATCH_H

#include <outbox/outbox.h>

struct outbox_batch {
    size_t size;
    struct outbox_delivery *items; /* `size` of them, each with its own .size set; NULL when there are none */
    bool more;                     /* the store has more messages, although the batch has fewer than requested */
    void (*free)(struct outbox_batch *batch);
};

#endif
