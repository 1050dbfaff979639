/* sink_state.h - a sink as the machine sees it: its breaker, rate, limits, and the queue of messages ready for it.
 *
 * Invariants: in_flight <= concurrency; nothing more is handed over while in_flight + taken >= concurrency; while the breaker
 * is open nothing is queued or handed over; while it is half open one message at a time is handed over, the probe. The probe
 * comes from a claim of probes or, if that found none, from any claim.
 *
 * Room: how many messages may be held for a sink. It adapts to what the sink can take: it grows while messages leave the
 * queue quickly, and is halved when they become stale in the queue. So a slow sink does not fill the machine. */
#ifndef OB_CORE_SINK_STATE_H
#define OB_CORE_SINK_STATE_H

#include "core/breaker.h"
#include "core/flight.h"
#include "core/rate.h"

struct ob_sink_settings {
    int concurrency;        /* maximum number of messages in flight. 16 */
    int batch;              /* maximum number handed over in one call. 16 */
    int run;                /* the same for one key; above 1 only for a sink that keeps order. 1 */
    int64_t rate_count;     /* maximum number of messages per period; 0: no limit */
    int64_t rate_period_us; /* the period. 1 s */
    int64_t rate_burst;     /* maximum number at once. 1 */
    int64_t timeout_us;     /* of a delivery. 10 s */
    int max_attempts;       /* for messages without a value of their own; 0: the namespace's value */
    struct ob_retry retry;  /* base_us or cap_us 0: likewise */
    struct ob_breaker_settings breaker;
    int64_t limited_base_us,
        limited_cap_us; /* how long to wait when the sink limits us without giving a time. 1 s, 60 s */
};

struct ob_sink_state {
    struct ob_sink_settings set;
    struct ob_breaker breaker;
    struct ob_rate rate;
    struct ob_list ready; /* flights, oldest first */
    int held, in_flight;  /* number of flights WAITING, READY or SENT; and number SENT */
    int taken;            /* places at the sink that a draining generation still uses */
    int room, room_most;
    int64_t shrunk_us;
    int64_t limited_until_us, limited_step_us;
    uint64_t probe;      /* half open: the handle of the probe; 0: none */
    bool idle;           /* half open: no message was found for a probe; the next one claimed is the probe */
    bool asked;          /* the claim under way is to return its probe */
    int64_t accepted_us; /* when it last accepted a message; -1: not yet */
    int refusals;        /* refusals since then that may be the sink's fault */
    char code[32];       /* why its breaker is open, truncated */
    bool paused;
    enum ob_breaker_state told; /* the state of the breaker in the last OB_NOTE_BREAKER */
    bool was_shut;              /* at the last check, nothing was to be claimed for it */
};

/* Zeroed fields become the defaults above. */
struct ob_sink_settings ob_sink_settings(const struct ob_sink_settings *given);
bool ob_sink_state_valid(const struct ob_sink_settings *set);
void ob_sink_state_init(struct ob_sink_state *sink, const struct ob_sink_settings *settings, int room_most);
/* Changes the settings; messages already held keep the retry policy they were claimed with. */
void ob_sink_state_tune(struct ob_sink_state *sink, const struct ob_sink_settings *settings);

/* Takes over the state of another: its breaker, its rate, and the wait that the receiver requested. */
void ob_sink_state_inherit(struct ob_sink_state *sink, const struct ob_sink_state *from);

/* 0: messages for it may be held; otherwise how long to put them off. */
int64_t ob_sink_state_put_off_us(const struct ob_sink_state *sink, int64_t now_us);
/* Whether claims must exclude it. */
bool ob_sink_state_shut(const struct ob_sink_state *sink, int64_t now_us);
/* Whether to claim a probe for it. */
bool ob_sink_state_wants_probe(const struct ob_sink_state *sink, int64_t now_us);
/* How many messages could be handed over now, ignoring the rate. */
int ob_sink_state_free(const struct ob_sink_state *sink);

/* A message was handed to the sink after waited_us in the queue. */
void ob_sink_state_went(struct ob_sink_state *sink, int64_t waited_us, int64_t lease_us);
/* Messages became stale in the queue. */
void ob_sink_state_stale(struct ob_sink_state *sink, int64_t lease_us, int64_t now_us);
/* The sink asked us to slow down. wait_us: for how long, or -1 if it did not say. Returns the wait. */
int64_t ob_sink_state_limited(struct ob_sink_state *sink, int64_t wait_us, int64_t now_us);
void ob_sink_state_unlimited(struct ob_sink_state *sink); /* it accepted something */

/* When any of the above changes with time alone; INT64_MAX: never. */
int64_t ob_sink_state_due_us(const struct ob_sink_state *sink, int64_t now_us);

#endif
