/* flight.h - the messages that a machine holds: a table of fixed size, one entry from the claim to the settle.
 *
 *              ┌────────────── released, unrouted ─────────────┐
 *     FREE ──▶ WAITING ◀─▶ READY ──▶ SENT ─────── verdict ────▶ DONE ◀──▶ SETTLING ──▶ FREE
 *       └───────────────────▲         └── lease lost ──▶ FREE ◀──┘ lease ran out
 *
 *   WAITING   behind another message of its key
 *   READY     in the queue of its sink
 *   SENT      at the sink, in flight
 *   DONE      its outcome is known and waits to be settled
 *   SETTLING  part of the settle that is out; back to DONE when that failed
 *
 * A handle names an entry and its reuse count: an answer for an entry used again since is no answer. */
#ifndef OB_CORE_FLIGHT_H
#define OB_CORE_FLIGHT_H

#include <outbox/sink.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/retry.h"

enum ob_flight_state {
    OB_FLIGHT_FREE,
    OB_FLIGHT_WAITING,
    OB_FLIGHT_READY,
    OB_FLIGHT_SENT,
    OB_FLIGHT_DONE,
    OB_FLIGHT_SETTLING,
    OB_FLIGHT_STATE_COUNT
};

struct ob_key;

struct ob_flight {
    enum ob_flight_state state;
    uint32_t index, reuse;
    int sink;              /* -1: none */
    struct outbox_uuid id; /* id and token stand here too: a message that found no memory is still given back */
    int64_t token, seq;
    int spent;
    struct outbox_delivery *msg; /* owned, one block; NULL when there was no memory */
    size_t bytes;
    struct ob_key *key;        /* NULL without a key */
    struct ob_list key_node;   /* in the key's list while WAITING, READY or SENT */
    struct ob_list node;       /* READY: the sink's queue; DONE: the settle batch */
    struct ob_list renew_node; /* wants its lease renewed */
    struct ob_heap_node timer;
    int64_t timer_us;
    int64_t claimed_us, lease_until_us; /* by our own clock, from before the claim was asked */
    bool expired;                       /* the lease has run out by our own clock */
    bool renewing;                      /* part of the extend that is out */
    bool out_of_turn;                   /* out in a run, and one before it was not accepted */
    bool starved;                       /* its sink could not try */
    int64_t sent_us, timeout_us;
    struct ob_retry retry; /* as it was when the message was claimed; likewise how many it may spend */
    int max_attempts;
    /* the outcome, once DONE */
    enum outbox_outcome outcome;
    int64_t delay_us, latency_us;
    char *texts; /* owned: code, error, reference, output; NULL when there are none */
    const char *code, *error, *reference, *output;
};

struct ob_flights {
    struct ob_flight *all;
    int count; /* the size of the table */
    int held;  /* entries that are not FREE */
    int in_state[OB_FLIGHT_STATE_COUNT];
    size_t bytes; /* of the messages held */
    struct ob_list free;
    struct ob_heap timers; /* room for all from the beginning: a push never fails */
};

enum { OB_TEXT_CODE = 100, OB_TEXT_ERROR = 4000, OB_TEXT_REFERENCE = 500, OB_TEXT_OUTPUT = 65536 };

/* False when memory ran out; fini is due all the same. */
bool ob_flights_init(struct ob_flights *flights, int count) __attribute__((warn_unused_result));
void ob_flights_fini(struct ob_flights *flights);

/* A free entry for this message, still FREE; NULL when the table is full. Copies the message; where there is no memory
 * for that, flight->msg is NULL. */
struct ob_flight *ob_flight_take(struct ob_flights *flights, const struct outbox_delivery *msg);
/* The one setter. Leaving READY and DONE takes the entry out of its queue; FREE gives everything back. */
void ob_flight_set(struct ob_flights *flights, struct ob_flight *flight, enum ob_flight_state state);
void ob_flight_timer(struct ob_flights *flights, struct ob_flight *flight, int64_t at_us); /* INT64_MAX: none */

uint64_t ob_flight_handle(const struct ob_flight *flight);
/* NULL when that delivery is over. */
struct ob_flight *ob_flight_find(const struct ob_flights *flights, uint64_t handle);

/* Keeps copies of the texts; without memory they are left out, for the outcome must not wait for them. Texts too long
 * are cut between characters, an output too long is left out. */
void ob_flight_texts(struct ob_flight *flight, const char *code, const char *error, const char *reference,
                     const char *output);

/* NULL, or the invariant that does not hold. */
const char *ob_flights_check(const struct ob_flights *flights);
const char *ob_flight_state_name(enum ob_flight_state state);

#endif
