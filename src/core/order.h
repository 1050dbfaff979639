/* order.h - per-key order inside one machine: which message of a key may go, and what a failure takes with it.
 *
 * Messages of a key are handed over in the order of their seq, a run at a time, the next run when all of the last one was
 * accepted. A message that was not accepted blocks all behind it: what is held goes back to the store unspent, and so does
 * what comes in later, until the store has settled the blocker, or another attempt of it was accepted.
 *
 * A key is known by its stream, as the store calls it, not by its name: the same name in another topic or tenant counts its
 * seqs by itself, and what was accepted there says nothing about what was accepted here.
 *
 * Tombs. With prefetch the store hands out a message while its predecessor is out at this very relay. Such a claim may
 * be on its way when the predecessor fails, is settled and forgotten; its answer must still be refused. So a blocker that
 * is settled while a claim is out is remembered until that claim was answered. */
#ifndef OB_CORE_ORDER_H
#define OB_CORE_ORDER_H

#include "core/flight.h"

struct ob_key {
    int64_t stream;
    struct ob_key *next;         /* in its bucket, or in the list of free ones */
    struct ob_list flights;      /* WAITING, READY and SENT, by seq */
    struct ob_list blockers;     /* DONE and SETTLING, not accepted */
    struct ob_list tomb;         /* among the tombs */
    int64_t tomb_low, tomb_high; /* the blockers settled since the claim was asked lie between; high 0: none */
    int64_t accepted_seq;        /* the highest accepted here; 0: none */
    int live;                    /* entries that name this key */
    int in_flight;               /* at a sink */
};

struct ob_keys {
    struct ob_key *all, *free;
    struct ob_key **buckets;
    size_t mask;
    int used;
    struct ob_list tombs;
};

/* Room for twice `max_messages` keys: those held, and the tombs of one claim. False when memory ran out. */
bool ob_keys_init(struct ob_keys *keys, int max_messages) __attribute__((warn_unused_result));
void ob_keys_fini(struct ob_keys *keys);

/* The entry joins its key, in its place by seq. */
void ob_keys_join(struct ob_keys *keys, struct ob_flight *flight, int64_t stream);
/* The entry was accepted, or was not and blocks what is behind it. It still counts as live. */
void ob_key_accepted(struct ob_flight *flight);
void ob_key_blocks(struct ob_flight *flight);
/* Whether a message of this seq must not go, for one before it was not accepted. */
bool ob_key_blocked(const struct ob_key *key, int64_t seq);
/* Whether one before it may still turn out not to be accepted: it is out, or blocks. */
bool ob_key_uncertain(const struct ob_flight *flight);
/* The entry is over: settled, or forgotten. claim_out: whether a claim is on its way. */
void ob_keys_leave(struct ob_keys *keys, struct ob_flight *flight, bool claim_out);
/* A claim was answered, and its messages have joined: the tombs are cleared one by one. Returns a key that still has
 * messages, and may let one go now; NULL when all is cleared. */
struct ob_key *ob_keys_bury(struct ob_keys *keys);

/* The first that may be handed over now: a WAITING or READY one with none of its key out; NULL when there is none. */
struct ob_flight *ob_key_head(const struct ob_key *key);

const char *ob_keys_check(const struct ob_keys *keys, int max_messages);

#endif
