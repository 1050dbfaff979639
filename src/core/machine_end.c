/* machine_end.c - how a message ends: settled or released; and how a failure affects the messages behind it.
 *
 * What must hold:
 *   1 A success is settled even if its lease has run out: the store decides by the token.
 *   2 A failure is settled only under a lease that is valid by our own clock (must_not_settle in machine_action.c checks
 *     again); otherwise the store records the attempt as lost.
 *   3 A message that was never handed over is always released unspent.
 *   4 No message of a key stays queued behind one that was not accepted.
 *   5 No message becomes a dead letter before its turn: the store hands out the next message once the one before it is gone.
 *     A message of a run whose predecessor was not accepted is released instead, or left until its lease runs out. */
#include "core/machine_int.h"
#include "core/mutant.h"

/* Removes the entry from the counts of its sink. */
static void leave_sink(struct ob_machine *machine, struct ob_flight *flight)
{
    if (flight->sink < 0)
        return;
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    if (flight->state == OB_FLIGHT_SENT) {
        sink->in_flight--;
        if (flight->key)
            flight->key->in_flight--;
    }
    if (flight->state == OB_FLIGHT_SENT || flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING)
        sink->held--;
    if (sink->probe == ob_flight_handle(flight)) {
        sink->probe = 0;
        ob_breaker_probe_gone(&sink->breaker,
                              machine->now_us); /* no verdict came, otherwise it would no longer be the probe */
    }
}

/* Moves the message to the list of outcomes to be settled, and updates its key. */
static void to_done(struct ob_machine *machine, struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    leave_sink(machine, flight);
    if (outcome == OUTBOX_DELIVERED)
        ob_key_accepted(flight);
    else
        ob_key_blocks(flight);
    ob_flight_set(&machine->flights, flight, OB_FLIGHT_DONE);
    flight->outcome = outcome;
    flight->delay_us = delay_us;
    machine->stats.released += outcome == OUTBOX_RELEASED;
    if (ob_list_empty(&machine->done))
        machine->done_since_us = machine->now_us;
    ob_list_push(&machine->done, &flight->node);
    ob_machine_note(machine, OB_NOTE_ENDED, flight);
}

/* Rule 4. Messages already in flight are marked, for rule 5. */
static void release_behind(struct ob_machine *machine, struct ob_key *key, int64_t seq)
{
    if (!key || OB_MUTANT(RUN_GOES_ON))
        return;
    OB_LIST_EACH_SAFE (it, &key->flights) {
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        if (flight->seq <= seq)
            continue;
        if (flight->state == OB_FLIGHT_SENT)
            flight->out_of_turn = true;
        else
            to_done(machine, flight, OUTBOX_RELEASED, 0);
    }
}

/* Rule 5: the outcome to record for a failure out of turn. LOST: do not settle it. */
static enum outbox_outcome in_turn(const struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    bool nack = outcome == OUTBOX_RETRY || outcome == OUTBOX_UNKNOWN || outcome == OUTBOX_FAILED;
    if (!nack || OB_MUTANT(DIES_OUT_OF_TURN) || !(flight->out_of_turn || ob_key_uncertain(flight)))
        return outcome;
    if (outcome != OUTBOX_UNKNOWN)
        return OUTBOX_RELEASED; /* the sink did not accept it, so it can be tried again in its turn */
    bool last = delay_us == OUTBOX_NEVER || flight->spent >= flight->max_attempts;
    return last ? OUTBOX_LOST : OUTBOX_UNKNOWN;
}

void ob_machine_end(struct ob_machine *machine, struct ob_flight *flight, enum outbox_outcome outcome, int64_t delay_us)
{
    struct ob_key *key = flight->key;
    int64_t seq = flight->seq;
    outcome = in_turn(flight, outcome, delay_us);
    if (outcome == OUTBOX_LOST) {
        ob_machine_forget(machine, flight);
        return;
    }
    to_done(machine, flight, outcome, delay_us);
    if (outcome != OUTBOX_DELIVERED)
        release_behind(machine, key, seq);
    ob_machine_refresh_key(machine, key);
}

void ob_machine_release(struct ob_machine *machine, struct ob_flight *flight, int64_t delay_us)
{
    if (OB_MUTANT(BREAKER_SPENDS) && flight->sink >= 0 &&
        machine->sinks[flight->sink].breaker.state == OB_BREAKER_OPEN) {
        ob_machine_end(machine, flight, OUTBOX_RETRY, delay_us);
        return;
    }
    ob_machine_end(machine, flight, OB_MUTANT(RELEASE_SPENDS) ? OUTBOX_RETRY : OUTBOX_RELEASED, delay_us);
}

void ob_machine_release_sink(struct ob_machine *machine, int index)
{
    for (int i = 0; i < machine->flights.count; i++) {
        struct ob_flight *flight = &machine->flights.all[i];
        if (flight->sink == index && (flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING))
            ob_machine_release(machine, flight, ob_sink_state_put_off_us(&machine->sinks[index], machine->now_us));
    }
}

void ob_machine_drop(struct ob_machine *machine, struct ob_flight *flight)
{
    leave_sink(machine, flight);
    ob_keys_leave(&machine->keys, flight, machine->sched.claiming);
    ob_flight_set(&machine->flights, flight, OB_FLIGHT_FREE);
}

void ob_machine_forget(struct ob_machine *machine, struct ob_flight *flight)
{
    ob_machine_note(machine, OB_NOTE_LOST, flight);
    if (flight->key) {
        release_behind(machine, flight->key, flight->seq);
        if (!OB_MUTANT(ONE_WORKER_NAME))
            machine->sched.incarnation++; /* the store may still hold it under our name: see schedule.h */
    }
    ob_machine_drop(machine, flight);
}
