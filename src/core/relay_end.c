/* relay_end.c - how a message ends: to the settle window, or back; and what a failure takes with it.
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
