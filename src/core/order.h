/* order.h - per-key order inside one machine: which message of a key may go, and what a failure takes with it.
 *
 * Messages of a key are handed over in the order of their seq, one run at a time; the next run follows when all messages of
 * the last one were accepted. A message that was not accepted blocks all messages behind it: those already held, and those
 * claimed later, are released to the store unspent, until the store has settled the blocker or another attempt of it was
 * accepted.
 *
 * A key is identified by its stream (the store's number for it), not by its name: the same name in another topic or tenant
 * has its own sequence of seqs, and what was accepted there says nothing about what was accepted here.
 *
 * Tombs. With prefetch the store hands out a message while its predecessor is still in flight at this same relay. Such a
 * claim may be under way when the predecessor fails, is settled and forgotten; the messages it returns must still be
 * refused. So a blocker that is settled while a claim is under way is remembered until that claim is answered. */
#ifndef OB_CORE_ORDER_H
#define OB_CORE_ORDER_H

#include "core/flight.h"

struct ob_key {
    int64_t stream;
    struct ob_key *next;         /* in its bucket, or in the list of free keys */
    struct ob_list flights;      /* WAITING, READY and SENT, by seq */
    struct ob_list blockers;     /* DONE and SETTLING, not accepted */
    struct ob_list tomb;         /* in the list of tombs */
    int64_t tomb_low, tomb_high; /* range of the blockers settled since the claim was sent; high 0: none */
    int64_t accepted_seq;        /* the highest seq accepted here; 0: none */
    int live;                    /* entries that refer to this key */
    int in_flight;               /* at a sink */
};

struct ob_keys {
    struct ob_key *all, *free;
    struct ob_key **buckets;
    size_t mask;
    int used;
    struct ob_list tombs;
};

/* Allocates 2 * max_messages keys: for the messages held, and for the tombs of one claim. False when out of memory. */
bool ob_keys_init(struct ob_keys *keys, int max_messages) __attribute__((warn_unused_result));
void ob_keys_fini(struct ob_keys *keys);

/* Adds the entry to its key, sorted by seq. */
void ob_keys_join(struct ob_keys *keys, struct ob_flight *flight, int64_t stream);
/* The entry was accepted, or was not accepted and blocks the messages behind it. It still counts as live. */
void ob_key_accepted(struct ob_flight *flight);
void ob_key_blocks(struct ob_flight *flight);
/* Whether a message with this seq must not be sent because one before it was not accepted. */
bool ob_key_blocked(const struct ob_key *key, int64_t seq);
/* Whether a message before it is blocking, or is in flight and may still not be accepted. */
bool ob_key_uncertain(const struct ob_flight *flight);
/* The entry was settled or forgotten. claim_out: whether a claim is under way. */
void ob_keys_leave(struct ob_keys *keys, struct ob_flight *flight, bool claim_out);
/* To be called repeatedly once a claim was answered and its messages have joined: clears the tombs one by one. Returns a key
 * that still has messages, one of which may now be allowed to go; NULL when all tombs are cleared. */
struct ob_key *ob_keys_bury(struct ob_keys *keys);

/* The first message that may be handed over now: WAITING or READY, with none of its key in flight. NULL: none. */
struct ob_flight *ob_key_head(const struct ob_key *key);

const char *ob_keys_check(const struct ob_keys *keys, int max_messages);

#endif
