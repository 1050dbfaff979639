/* batch.h - what a claim hands out. Every store fills one and says how it is freed; the public accessors
 * (outbox_batch_size, outbox_batch_at, outbox_batch_free in src/lib) know nothing else of it.
 *
 * A store allocates its own larger struct with this one first, so that `free` can find what the messages borrow from:
 * one arena, or the client library's result. Messages stay valid until then, whatever happens to the store. */
#ifndef OB_CORE_BATCH_H
#define OB_CORE_BATCH_H

#include <outbox/outbox.h>

struct outbox_batch {
    size_t size;
    struct outbox_delivery *items; /* `size` of them, each with its own .size set; NULL when there are none */
    bool more;                     /* there was more than was taken, though there are fewer than asked for */
    void (*free)(struct outbox_batch *batch);
};

#endif
