/* sink_state.h - a sink as the machine sees it: its breaker, rate, caps, and the queue of what may go there.
 *
 * Invariants: out <= concurrency; nothing more goes there while out + taken >= concurrency; while the breaker is open nothing
 * is queued and nothing is handed over; while it is half open one message at a time goes there, the probe. It comes with a
 * claim of probes, or where that found none, with any.
 *
 * Room. How many messages may be held for a sink follows what it can take: it grows while they leave quickly, and
 * halves when they grew stale in the queue. So a slow sink does not fill the machine. */
#ifndef OB_CORE_SINK_STATE_H
#define OB_CORE_SINK_STATE_H

#include "core/breaker.h"
#include "core/flight.h"
#include "core/rate.h"

struct ob_sink_settings {
    int concurrency;        /* messages at the sink at once. 16 */
    int batch;              /* handed over at once. 16 */
    int run;                /* of one key at once; above 1 only for a sink that keeps order. 1 */
    int64_t rate_count;     /* so many... 0: no limit */
    int64_t rate_period_us; /* ...in so much time. 1 s */
    int64_t rate_burst;     /* at once. 1 */
    int64_t timeout_us;     /* of a delivery. 10 s */
    int max_attempts;       /* of messages that did not ask for their own; 0: as their namespace says */
    struct ob_retry retry;  /* base_us and cap_us of 0: likewise */
    struct ob_breaker_settings breaker;
    int64_t limited_base_us, limited_cap_us; /* how long to keep off when a limit came without a time. 1 s, 60 s */
};

struct ob_sink_state {
    struct ob_sink_settings set;
    struct ob_breaker breaker;
    struct ob_rate rate;
    struct ob_list ready; /* flights, oldest first */
    int held, in_flight;  /* of the flights: WAITING, READY, SENT; and SENT */
    int taken;            /* places at the sink that somebody else uses */
    int room, room_most;
    int64_t shrunk_us;
    int64_t limited_until_us, limited_step_us;
    uint64_t probe;      /* half open: the handle of the probe; 0 while there is none */
    bool idle;           /* half open: there was nothing to probe it with; the next that comes is the probe */
    bool asked;          /* the claim that is out is to bring its probe */
    int64_t accepted_us; /* when it accepted something last; -1: it has not yet */
    int refusals;        /* of the kind that may be the sink's, since then */
    char code[32];       /* why its breaker is open, cut */
    bool paused;
    enum ob_breaker_state told; /* the state of the breaker that was last told to whoever listens */
    bool was_shut;              /* as of the last look: nothing is to be claimed for it */
};

/* Zeroed fields become the defaults above. */
struct ob_sink_settings ob_sink_settings(const struct ob_sink_settings *given);
bool ob_sink_state_valid(const struct ob_sink_settings *set);
void ob_sink_state_init(struct ob_sink_state *sink, const struct ob_sink_settings *settings, int room_most);
/* New settings; what is held keeps the retry policy it was claimed with. */
void ob_sink_state_tune(struct ob_sink_state *sink, const struct ob_sink_settings *settings);

/* Goes on where another was: with its breaker, its rate, and the patience it was asked for. */
void ob_sink_state_inherit(struct ob_sink_state *sink, const struct ob_sink_state *from);

/* Whether messages for it are to be kept at all: 0, or how long to put them off. */
int64_t ob_sink_state_put_off_us(const struct ob_sink_state *sink, int64_t now_us);
/* Whether a claim must leave it out. */
bool ob_sink_state_shut(const struct ob_sink_state *sink, int64_t now_us);
/* Whether the store is to be asked for its probe. */
bool ob_sink_state_wants_probe(const struct ob_sink_state *sink, int64_t now_us);
/* How many messages could be handed over now, rate aside. */
int ob_sink_state_free(const struct ob_sink_state *sink);

/* A message went to the sink after so long in the queue. */
void ob_sink_state_went(struct ob_sink_state *sink, int64_t waited_us, int64_t lease_us);
/* Messages grew stale in the queue. */
void ob_sink_state_stale(struct ob_sink_state *sink, int64_t lease_us, int64_t now_us);
/* The sink said: slow down. wait_us: for how long, or -1. Returns for how long. */
int64_t ob_sink_state_limited(struct ob_sink_state *sink, int64_t wait_us, int64_t now_us);
void ob_sink_state_unlimited(struct ob_sink_state *sink); /* it accepted something */

/* When something of the above changes by itself; INT64_MAX: never. */
int64_t ob_sink_state_due_us(const struct ob_sink_state *sink, int64_t now_us);

#endif
