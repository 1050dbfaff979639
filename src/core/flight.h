/* flight.h - the messages that a machine holds, in a table of fixed size; a message has an entry from claim to settle.
 *
 *              ┌────────────── released, unrouted ─────────────┐
 *     FREE ──▶ WAITING ◀─▶ READY ──▶ SENT ─────── verdict ────▶ DONE ◀──▶ SETTLING ──▶ FREE
 *       └───────────────────▲         └── lease lost ──▶ FREE ◀──┘ lease ran out
 *
 *   WAITING   behind another message of its key
 *   READY     in the queue of its sink
 *   SENT      at the sink, in flight
 *   DONE      its outcome is known and waits to be settled
 *   SETTLING  part of the settle under way; back to DONE if that fails
 *
 * A handle consists of an entry's index and its reuse count: an answer for an entry that has since been reused is ignored. */
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
    struct outbox_uuid id; /* id and token are copied: a message for which there was no memory must still be released */
    int64_t token, seq;
    int spent;
    struct outbox_delivery *msg; /* owned, one block; NULL when there was no memory */
    size_t bytes;
    struct ob_key *key;        /* NULL without a key */
    struct ob_list key_node;   /* in the key's list while WAITING, READY or SENT */
    struct ob_list node;       /* READY: the sink's queue; DONE: the settle batch */
    struct ob_list renew_node; /* in the list of leases to renew */
    struct ob_heap_node timer;
    int64_t timer_us;
    int64_t claimed_us, lease_until_us; /* by our own clock, counted from before the claim was sent */
    bool expired;                       /* the lease has run out by our own clock */
    bool renewing;                      /* part of the extend under way */
    bool out_of_turn;                   /* sent in a run, and a message before it was not accepted */
    bool starved;                       /* its sink could not try, because of a shortage */
    int64_t sent_us, timeout_us;
    struct ob_retry retry; /* retry and max_attempts: as they were when the message was claimed */
    int max_attempts;
    /* the outcome, once DONE */
    enum outbox_outcome outcome;
    int64_t delay_us, latency_us;
    int status;  /* the sink's number for it; 0: none */
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
    struct ob_heap timers; /* has room for all entries from the start: a push never fails */
};

enum { OB_TEXT_CODE = 100, OB_TEXT_ERROR = 4000, OB_TEXT_REFERENCE = 500, OB_TEXT_OUTPUT = 65536 };

/* Returns false when out of memory; fini must be called in any case. */
bool ob_flights_init(struct ob_flights *flights, int count) __attribute__((warn_unused_result));
void ob_flights_fini(struct ob_flights *flights);

/* Returns an entry for this message, still FREE; NULL when the table is full. Copies the message; if there is no memory
 * for the copy, flight->msg is NULL. */
struct ob_flight *ob_flight_take(struct ob_flights *flights, const struct outbox_delivery *msg);
/* The only setter. Leaving READY or DONE removes the entry from its queue; entering FREE frees all it owns. */
void ob_flight_set(struct ob_flights *flights, struct ob_flight *flight, enum ob_flight_state state);
void ob_flight_timer(struct ob_flights *flights, struct ob_flight *flight, int64_t at_us); /* INT64_MAX: none */

uint64_t ob_flight_handle(const struct ob_flight *flight);
/* NULL when that delivery is over. */
struct ob_flight *ob_flight_find(const struct ob_flights *flights, uint64_t handle);

/* Keeps copies of the texts. If there is no memory they are omitted, because the outcome must not wait for them. Texts that
 * are too long are truncated at a character boundary; an output that is too long is omitted. */
void ob_flight_texts(struct ob_flight *flight, const char *code, const char *error, const char *reference,
                     const char *output);

/* NULL, or the invariant that does not hold. */
const char *ob_flights_check(const struct ob_flights *flights);

#endif
