/* tail.h - what happened to messages, as it happens: how far a reader has come, and which of it a filter selects.
 *
 * A store tells every transition once, in the order of commits or nearly so, and also one whose transaction committed late. See the
 * function tail in core/store.h. */
#ifndef OB_CORE_TAIL_H
#define OB_CORE_TAIL_H

#include "base/buf.h"
#include "core/store.h"

/* The kinds of records that a store reads one after the other. */
enum { OB_TAIL_LOG, OB_TAIL_QUEUE, OB_TAIL_ATTEMPTS, OB_TAIL_DEAD, OB_TAIL_ACTS, OB_TAIL_SOURCES };

/* A reader's place. Belongs to no connection: any store handle of the same outbox can go on with it. */
struct ob_tail {
    int64_t since_us;           /* nothing older is told */
    struct ob_buf before, upto; /* of PostgreSQL: the snapshots that it is between; upto is empty between two rounds */
    struct ob_tail_place {
        bool done;             /* this round told all of it */
        uint64_t number;       /* after this one: a transaction, a time or a number, */
        int64_t second;        /* and of these after this, */
        struct outbox_uuid id; /* or this */
    } places[OB_TAIL_SOURCES];
};

void ob_tail_free(struct ob_tail *tail);

/* The name of a transition: enqueued, dead, the outcome of an attempt such as delivered or retry, or the act of an operator. */
const char *ob_transition_event(const struct ob_transition_row *row);

/* True if the filter selects it. Status is the one that the message got by it; code, error and attempts are the transition's. */
bool ob_transition_matches(const struct ob_transition_row *row, const struct ob_filter *filter);

/* The status that a message got by it, + 1; 0: none, or the same as before. */
int ob_transition_status(const struct ob_transition_row *row);

#endif
