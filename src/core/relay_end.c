/* relay_end.c - how a message ends: verdicts, releases, and what a failure takes with it.
 *
 * What must hold, and who sees to it:
 *   1 A success is settled whatever became of the lease: the store decides by the token.
 *   2 A failure is settled only under a lease that holds by our own clock (build in relay_action.c checks once more); the
 *     store writes down by itself what vanished.
 *   3 What was never handed over goes back unspent, always.
 *   4 Nothing of a key stays queued behind a message that was not accepted.
 *   5 No message dies before its turn: the store lets the next one go when the one before it is gone. A message of a run
 *     whose predecessor was not accepted goes back instead, or is left to its lease. */
#include "core/mutant.h"
#include "core/relay_int.h"

#include <assert.h>

/* The entry leaves the counts of its destination. */
static void leave_dest(struct ob_relay *relay, struct ob_flight *flight)
{
    if (flight->dest < 0)
        return;
    struct ob_dest *dest = &relay->dests[flight->dest];
    if (flight->state == OB_FLIGHT_OUT) {
        dest->out--;
        if (flight->key)
            flight->key->out--;
    }
    if (flight->state == OB_FLIGHT_OUT || flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING)
        dest->held--;
    if (dest->probe == ob_flight_handle(flight)) {
        dest->probe = 0;
        ob_breaker_probe_gone(&dest->breaker,
                              relay->now_us); /* no verdict came, or it would not be the probe any more */
    }
}

/* To the settle window; the key keeps it in mind. */
static void to_done(struct ob_relay *relay, struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    leave_dest(relay, flight);
    if (outcome == OUTBOX_DELIVERED)
        ob_key_accepted(flight);
    else
        ob_key_blocks(flight);
    ob_flight_set(&relay->flights, flight, OB_FLIGHT_DONE);
    flight->outcome = outcome;
    flight->delay_us = delay_us;
    relay->stats.released += outcome == OUTBOX_RELEASED;
    if (ob_list_empty(&relay->done))
        relay->done_since_us = relay->now_us;
    ob_list_push(&relay->done, &flight->node);
    ob_relay_note(relay, OB_NOTE_ENDED, flight);
}

/* Rule 4. What is out already is marked, for rule 5. */
static void release_behind(struct ob_relay *relay, struct ob_key *key, int64_t seq)
{
    if (!key || OB_MUTANT(RUN_GOES_ON))
        return;
    OB_LIST_EACH_SAFE (it, &key->flights) {
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        if (flight->seq <= seq)
            continue;
        if (flight->state == OB_FLIGHT_OUT)
            flight->out_of_turn = true;
        else
            to_done(relay, flight, OUTBOX_RELEASED, 0);
    }
}

/* Rule 5: what becomes of a failure out of turn. LOST: to be left to its lease. */
static enum outbox_outcome in_turn(const struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    bool nack = outcome == OUTBOX_RETRY || outcome == OUTBOX_UNKNOWN || outcome == OUTBOX_FAILED;
    if (!nack || OB_MUTANT(DIES_OUT_OF_TURN) || !(flight->out_of_turn || ob_key_uncertain(flight)))
        return outcome;
    if (outcome != OUTBOX_UNKNOWN)
        return OUTBOX_RELEASED; /* it was not taken, so it can be tried again in its turn */
    bool last = delay_us == OUTBOX_NEVER || flight->spent >= flight->msg->max_attempts;
    return last ? OUTBOX_LOST : OUTBOX_UNKNOWN;
}

void ob_relay_end(struct ob_relay *relay, struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    struct ob_key *key = flight->key;
    int64_t seq = flight->seq;
    outcome = in_turn(flight, outcome, delay_us);
    if (outcome == OUTBOX_LOST) {
        ob_relay_forget(relay, flight);
        return;
    }
    to_done(relay, flight, outcome, delay_us);
    if (outcome != OUTBOX_DELIVERED)
        release_behind(relay, key, seq);
    ob_relay_refresh_key(relay, key);
}

void ob_relay_release(struct ob_relay *relay, struct ob_flight *flight, int64_t delay_us)
{
    if (OB_MUTANT(BREAKER_SPENDS) && flight->dest >= 0 && relay->dests[flight->dest].breaker.state == OB_BREAKER_OPEN) {
        ob_relay_end(relay, flight, OUTBOX_RETRY, delay_us);
        return;
    }
    ob_relay_end(relay, flight, OB_MUTANT(RELEASE_SPENDS) ? OUTBOX_RETRY : OUTBOX_RELEASED, delay_us);
}

void ob_relay_release_dest(struct ob_relay *relay, int index)
{
    for (int i = 0; i < relay->flights.count; i++) {
        struct ob_flight *flight = &relay->flights.all[i];
        if (flight->dest == index && (flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING))
            ob_relay_release(relay, flight, ob_dest_put_off_us(&relay->dests[index], relay->now_us));
    }
}

void ob_relay_drop(struct ob_relay *relay, struct ob_flight *flight)
{
    leave_dest(relay, flight);
    ob_keys_leave(&relay->keys, flight, relay->sched.out);
    ob_flight_set(&relay->flights, flight, OB_FLIGHT_FREE);
}

void ob_relay_forget(struct ob_relay *relay, struct ob_flight *flight)
{
    ob_relay_note(relay, OB_NOTE_LOST, flight);
    if (flight->key) {
        release_behind(relay, flight->key, flight->seq);
        if (!OB_MUTANT(ONE_WORKER_NAME))
            relay->sched.incarnation++; /* it may still be out under our name: see schedule.h */
    }
    ob_relay_drop(relay, flight);
}

/* The destination showed that it lives; but what was decided on our side shows nothing, and is no probe (N5). */
static void answered(struct ob_relay *relay, int index, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[index];
    if (verdict->local && !OB_MUTANT(LOCAL_ANSWERS))
        return;
    if (ob_breaker_answered(&dest->breaker)) {
        dest->probe = 0;
        relay->sched.hungry = true;
    }
}

/* True when the breaker is open now. */
static bool unreachable(struct ob_relay *relay, int index, bool probe)
{
    struct ob_dest *dest = &relay->dests[index];
    if (probe)
        dest->probe = 0;
    if (ob_breaker_unreachable(&dest->breaker, probe, relay->now_us)) {
        relay->stats.breaker_opened++;
        ob_relay_release_dest(relay, index);
    }
    return dest->breaker.state != OB_BREAKER_CLOSED;
}

static int64_t backoff(struct ob_relay *relay, const struct ob_flight *flight, int64_t after_us)
{
    return ob_retry_delay_us(&flight->retry, flight->spent, after_us, ob_relay_random(relay));
}

/* The destination allows fewer attempts than the message does. */
static bool worn_out(const struct ob_relay *relay, const struct ob_flight *flight)
{
    int most = relay->dests[flight->dest].set.max_attempts;
    return most > 0 && flight->spent >= most;
}

static void failed(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict, bool probe)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    bool open = false;
    if (verdict->unreachable)
        open = unreachable(relay, flight->dest, probe);
    else if (verdict->outcome == OUTBOX_SINK_RETRY)
        answered(relay, flight->dest, verdict);
    if (worn_out(relay, flight) && !(open && verdict->outcome == OUTBOX_SINK_RETRY)) {
        relay->stats.failed++;
        ob_relay_end(relay, flight, verdict->outcome == OUTBOX_SINK_UNKNOWN ? OUTBOX_UNKNOWN : OUTBOX_RETRY,
                     OUTBOX_NEVER);
    } else if (verdict->outcome == OUTBOX_SINK_UNKNOWN) {
        relay->stats.unknown++;
        ob_relay_end(relay, flight, OB_MUTANT(UNKNOWN_RELEASED) ? OUTBOX_RELEASED : OUTBOX_UNKNOWN,
                     backoff(relay, flight, verdict->not_before_us));
    } else if (open && !OB_MUTANT(BREAKER_SPENDS)) {
        /* The outage is the destination's: it costs the message nothing (N5). */
        relay->stats.blocked++;
        ob_relay_end(relay, flight, OUTBOX_BLOCKED, ob_dest_put_off_us(dest, relay->now_us));
    } else {
        relay->stats.retried++;
        ob_relay_end(relay, flight, OUTBOX_RETRY, backoff(relay, flight, verdict->not_before_us));
    }
}

static void limited(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    int index = flight->dest;
    relay->stats.limited++;
    answered(relay, index, verdict);
    if (verdict->scope != OUTBOX_SCOPE_DESTINATION) {
        ob_relay_end(relay, flight, OUTBOX_LIMITED, backoff(relay, flight, verdict->not_before_us));
        return;
    }
    ob_relay_end(relay, flight, OUTBOX_LIMITED, ob_dest_limited(dest, verdict->not_before_us, relay->now_us));
    ob_relay_release_dest(relay, index);
}

static void blocked(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict, bool probe)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    int index = flight->dest;
    relay->stats.blocked++;
    if (verdict->scope != OUTBOX_SCOPE_DESTINATION) {
        answered(relay, index, verdict);
        ob_relay_end(relay, flight, OUTBOX_BLOCKED, backoff(relay, flight, verdict->not_before_us));
        return;
    }
    int64_t wait = verdict->not_before_us;
    if (wait > dest->set.retry.after_cap_us)
        wait = dest->set.retry.after_cap_us;
    if (probe)
        dest->probe = 0;
    if (dest->breaker.state == OB_BREAKER_CLOSED)
        relay->stats.breaker_opened++;
    ob_breaker_blocked(&dest->breaker, probe, wait, relay->now_us);
    ob_relay_end(relay, flight, OUTBOX_BLOCKED, ob_dest_put_off_us(dest, relay->now_us));
    ob_relay_release_dest(relay, index);
}

/* The patience of a sink has the limit that a receiver's has. */
static void not_sent(struct ob_relay *relay, struct ob_flight *flight, int64_t wait)
{
    int64_t most = relay->dests[flight->dest].set.retry.after_cap_us;
    ob_relay_release(relay, flight, wait < 0 ? 0 : wait < most ? wait : most);
}

static void accepted(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    relay->stats.delivered++;
    if (flight->key && ob_key_blocked(flight->key, flight->seq))
        relay->stats.misordered++; /* the sink went on behind a failure: it promised not to */
    answered(relay, flight->dest, verdict);
    ob_dest_unlimited(&relay->dests[flight->dest]);
    ob_relay_end(relay, flight, OUTBOX_DELIVERED, 0);
}

void ob_relay_verdict(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    assert(flight->state == OB_FLIGHT_OUT || OB_MUTANT(LATE_REPLY));
    bool probe = relay->dests[flight->dest].probe == ob_flight_handle(flight);
    flight->latency_us = relay->now_us - flight->sent_us;
    ob_flight_texts(flight, verdict->code, verdict->text, verdict->reference, verdict->output);
    switch (verdict->outcome) {
    case OUTBOX_SINK_ACCEPTED: accepted(relay, flight, verdict); break;
    case OUTBOX_SINK_LIMITED: limited(relay, flight, verdict); break;
    case OUTBOX_SINK_BLOCKED: blocked(relay, flight, verdict, probe); break;
    case OUTBOX_SINK_TERMINAL:
        relay->stats.failed++;
        answered(relay, flight->dest, verdict);
        ob_relay_end(relay, flight, OUTBOX_FAILED, -1);
        break;
    case OUTBOX_SINK_NOT_SENT: not_sent(relay, flight, verdict->not_before_us); break;
    default: failed(relay, flight, verdict, probe); break;
    }
}

static void cancel(struct ob_relay *relay, const struct ob_flight *flight)
{
    relay->cancels[relay->cancel_count++] = (struct cancel){flight->dest, ob_flight_handle(flight)};
}

void ob_relay_time_out(struct ob_relay *relay, struct ob_flight *flight)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OB_MUTANT(TIMEOUT_IS_SUCCESS) ? OUTBOX_SINK_ACCEPTED : OUTBOX_SINK_UNKNOWN;
    verdict.unreachable = true;
    verdict.code = "timeout";
    verdict.text = "no verdict within the timeout of the destination";
    relay->stats.timeouts++;
    cancel(relay, flight);
    ob_relay_verdict(relay, flight, &verdict);
}

void ob_relay_interrupt(struct ob_relay *relay, struct ob_flight *flight)
{
    cancel(relay, flight);
    flight->latency_us = relay->now_us - flight->sent_us;
    ob_flight_texts(flight, "shutdown", "the relay stopped before a verdict came", NULL, NULL);
    relay->stats.interrupted++;
    ob_relay_end(relay, flight, OB_MUTANT(INTERRUPTED_SPENDS) ? OUTBOX_UNKNOWN : OUTBOX_INTERRUPTED, 0);
}
