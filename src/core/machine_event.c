/* machine_event.c - what happened: time, claims, verdicts, answers of the store, requests to stop.
 *
 * Leases are measured from before the claim was sent, by our own clock: they end here no later than at the store. Half of a
 * lease is reserved for the delivery: a message that is still queued when half of its lease has passed is released. The
 * lease of a message in flight is renewed from that time on. */
#include "core/codec.h"
#include "core/machine_int.h"
#include "core/mutant.h"

#include <assert.h>

/* ---- time ---- */

static int64_t half_time(const struct ob_machine *machine, const struct ob_flight *flight)
{
    return flight->lease_until_us - machine->set.lease_us / 2;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arm(struct ob_machine *machine, struct ob_flight *flight)
{
    int64_t at = INT64_MAX;
    if (flight->state == OB_FLIGHT_SENT) {
        at = flight->timeout_us;
        if (!flight->expired)
            at = earlier(at, flight->lease_until_us);
        if (!flight->renewing && ob_list_empty(&flight->renew_node) && !OB_MUTANT(NO_RENEWAL))
            at = earlier(at, half_time(machine, flight));
    } else if (!OB_MUTANT(LEASE_IGNORED)) {
        at = half_time(machine, flight);
    }
    ob_flight_timer(&machine->flights, flight, at);
}

/* Handed over in a run, but perhaps not sent yet: the message before it in its key is still in flight. */
static bool may_be_unsent(const struct ob_flight *flight)
{
    return flight->key && flight->key_node.prev != &flight->key->flights &&
           OB_CONTAINER(flight->key_node.prev, struct ob_flight, key_node)->state == OB_FLIGHT_SENT;
}

static void expire(struct ob_machine *machine, struct ob_flight *flight)
{
    flight->expired = true;
    machine->stats.expired++;
}

static void on_timer(struct ob_machine *machine, struct ob_flight *flight)
{
    if (flight->state != OB_FLIGHT_SENT) {
        machine->stats.stale++;
        ob_sink_state_stale(&machine->sinks[flight->sink], machine->set.lease_us, machine->now_us);
        ob_machine_release(machine, flight, 0);
        return;
    }
    if (machine->now_us >= flight->lease_until_us && !flight->expired) {
        expire(machine, flight);
        if (may_be_unsent(flight) && !OB_MUTANT(LEASE_IGNORED)) {
            /* It must not be sent any more. A delivery that has certainly begun may finish: a success still counts. */
            machine->cancels[machine->cancel_count++] = (struct cancel){flight->sink, ob_flight_handle(flight)};
            ob_machine_forget(machine, flight);
            return;
        }
    }
    if (machine->now_us >= flight->timeout_us) {
        ob_machine_time_out(machine, flight);
        return;
    }
    if (machine->now_us >= half_time(machine, flight) && !flight->renewing && !OB_MUTANT(NO_RENEWAL) &&
        ob_list_empty(&flight->renew_node))
        ob_list_push(&machine->renew, &flight->renew_node);
    arm(machine, flight);
}

static void run_timers(struct ob_machine *machine)
{
    struct ob_heap_node *node;
    while ((node = ob_heap_peek(&machine->flights.timers))) {
        struct ob_flight *flight = OB_CONTAINER(node, struct ob_flight, timer);
        if (flight->timer_us > machine->now_us)
            return;
        ob_heap_remove(&machine->flights.timers, node);
        on_timer(machine, flight);
    }
}

static void end_grace(struct ob_machine *machine)
{
    for (int i = 0; i < machine->flights.count; i++) {
        if (machine->flights.all[i].state == OB_FLIGHT_SENT)
            ob_machine_interrupt(machine, &machine->flights.all[i]);
    }
}

void ob_machine_advance(struct ob_machine *machine, int64_t now_us)
{
    if (now_us > machine->now_us)
        machine->now_us = now_us;
    run_timers(machine);
    for (int i = 0; i < machine->set.sink_count; i++) {
        struct ob_sink_state *sink = &machine->sinks[i];
        if (ob_breaker_tick(&sink->breaker, machine->now_us))
            sink->idle = false;
        bool shut = ob_sink_state_shut(sink, machine->now_us);
        if (sink->was_shut && !shut)
            machine->sched.hungry = true; /* the last claims excluded it */
        sink->was_shut = shut;
    }
    if (machine->phase == OB_MACHINE_STOPPING && machine->now_us >= machine->grace_until_us)
        end_grace(machine);
    ob_machine_note_breakers(machine);
}

/* ---- the claim ---- */

void ob_machine_refresh_key(struct ob_machine *machine, struct ob_key *key)
{
    if (!key)
        return;
    struct ob_flight *head = ob_key_head(key);
    OB_LIST_EACH (it, &key->flights) {
        /* An older message can be claimed later: attempt 2 of one whose lease had run out at the store. */
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        if (flight->state == OB_FLIGHT_READY && flight != head) {
            ob_flight_set(&machine->flights, flight, OB_FLIGHT_WAITING);
            arm(machine, flight);
        }
    }
    if (!head || head->state != OB_FLIGHT_WAITING)
        return;
    ob_flight_set(&machine->flights, head, OB_FLIGHT_READY);
    ob_list_push(&machine->sinks[head->sink].ready, &head->node);
    arm(machine, head);
}

static void unrouted(struct ob_machine *machine, struct ob_flight *flight)
{
    machine->stats.unrouted++;
    ob_machine_note(machine, OB_NOTE_UNROUTED, flight);
    ob_flight_texts(flight, "unrouted", "no route matches this message", NULL, NULL);
    if (machine->set.unrouted_dead)
        ob_machine_end(machine, flight, OUTBOX_FAILED, -1);
    else
        ob_machine_end(machine, flight, OUTBOX_BLOCKED, machine->set.unrouted_delay_us);
}

/* Its payload cannot be read: not the fault of any sink. */
static void unreadable(struct ob_machine *machine, struct ob_flight *flight, enum outbox_fault fault)
{
    if (fault == OUTBOX_FAULT_MEMORY) {
        machine->stats.no_memory++;
        ob_machine_release(machine, flight, machine->set.store_backoff_base_us);
        return;
    }
    bool not_json = fault == OUTBOX_FAULT_NOT_JSON;
    ob_flight_texts(flight, not_json ? "not_json" : "encoding", ob_codec_fault_text(fault), NULL, NULL);
    if (fault == OUTBOX_FAULT_DAMAGED || not_json)
        ob_machine_end(machine, flight, OUTBOX_FAILED, -1);
    else
        ob_machine_end(machine, flight, OUTBOX_BLOCKED, machine->set.unrouted_delay_us); /* another build may read it */
}

/* Fixes the message's patience, whatever changes later (M21): its own, or its route's, its sink's, its namespace's. */
static void take_patience(const struct ob_machine *machine, struct ob_flight *flight, const struct ob_patience *routed)
{
    const struct ob_sink_settings *set = &machine->sinks[flight->sink].set;
    const struct outbox_delivery *msg = flight->msg;
    int most = routed ? routed->max_attempts : set->max_attempts;
    if (OB_MUTANT(LIMIT_LOWERS_ONLY) && most > msg->max_attempts)
        most = 0;
    flight->max_attempts = most > 0 && (!msg->own_attempts || OB_MUTANT(LIMIT_OVERRULES)) ? most : msg->max_attempts;
    flight->retry = ob_retry_within(routed ? &routed->retry : &set->retry, msg->retry_base_us, msg->retry_cap_us);
}

/* Queues the message for its sink. */
static void queue(struct ob_machine *machine, struct ob_flight *flight)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    if (sink->breaker.state == OB_BREAKER_HALF_OPEN && !sink->probe)
        sink->probe = ob_flight_handle(flight);
    sink->held++;
    if (flight->key) {
        ob_flight_set(&machine->flights, flight, OB_FLIGHT_WAITING);
        arm(machine, flight);
        ob_machine_refresh_key(machine, flight->key);
    } else {
        ob_flight_set(&machine->flights, flight, OB_FLIGHT_READY);
        ob_list_push(&sink->ready, &flight->node);
        arm(machine, flight);
    }
}

static void take(struct ob_machine *machine, const struct outbox_delivery *msg)
{
    struct ob_flight *flight = ob_flight_take(&machine->flights, msg);
    assert(flight); /* a store never returns more than was requested */
    if (!flight)
        return;
    flight->claimed_us = machine->now_us;
    flight->lease_until_us = machine->sched.asked_us + machine->set.lease_us;
    if (msg->lost > 0 && msg->lost >= msg->spent - 1 && msg->spent >= msg->max_attempts) {
        machine->alone = ob_flight_handle(flight);
        machine->alone_until_us = machine->now_us + OB_ALONE_US;
    }
    if (msg->stream && !OB_MUTANT(NO_ORDER))
        ob_keys_join(&machine->keys, flight, msg->stream);
    const struct ob_patience *patience = NULL;
    int sink = machine->set.route(machine->set.route_ctx, msg, &patience);
    ob_machine_note(machine, OB_NOTE_CLAIMED, flight);
    if (!flight->msg) {
        machine->stats.no_memory++;
        ob_machine_release(machine, flight, machine->set.store_backoff_base_us);
    } else if (flight->key && ob_key_blocked(flight->key, flight->seq)) {
        ob_machine_release(machine, flight, 0);
    } else if (machine->phase != OB_MACHINE_RUNNING) {
        ob_machine_release(machine, flight, 0);
    } else if (msg->fault) {
        unreadable(machine, flight, msg->fault);
    } else if (sink < 0 || sink >= machine->set.sink_count) {
        unrouted(machine, flight);
    } else if (machine->now_us >= half_time(machine, flight) && !OB_MUTANT(LEASE_IGNORED)) {
        machine->stats.stale++;
        ob_machine_release(machine, flight, 0);
    } else {
        flight->sink = sink;
        take_patience(machine, flight, patience);
        int64_t put_off = ob_sink_state_put_off_us(&machine->sinks[sink], machine->now_us);
        if (put_off > 0)
            ob_machine_release(machine, flight, put_off);
        else
            queue(machine, flight);
    }
}

/* The claim was answered, or never will be. */
static void clear_tombs(struct ob_machine *machine)
{
    struct ob_key *key;
    while ((key = ob_keys_bury(&machine->keys)))
        ob_machine_refresh_key(machine, key);
}

static void claimed(struct ob_machine *machine, const struct ob_event *event)
{
    assert(machine->sched.claiming);
    machine->stats.claims++;
    machine->stats.claimed += (uint64_t)event->count;
    ob_schedule_store_ok(&machine->sched);
    for (int i = 0; i < event->count; i++) {
        if (OB_MUTANT(DROPPED_ROW) && ob_machine_random(machine) % 16 == 0)
            continue;
        take(machine, &event->msgs[i]);
    }
    if (machine->sched.probes)
        ob_machine_probes_came(machine, event->count >= machine->sched.limit || event->more);
    ob_schedule_answered(&machine->sched, event->count, event->more, machine->now_us);
    clear_tombs(machine);
}

static void store_failed(struct ob_machine *machine)
{
    machine->stats.store_failures++;
    ob_schedule_store_failed(&machine->sched, ob_machine_random(machine), machine->now_us);
}

static void claim_failed(struct ob_machine *machine)
{
    assert(machine->sched.claiming);
    store_failed(machine);
    if (OB_MUTANT(WAKE_LOST))
        return;
    if (!OB_MUTANT(ONE_WORKER_NAME))
        machine->sched.incarnation++; /* the store may hold messages under our name that we do not know */
    ob_schedule_claim_failed(&machine->sched, machine->now_us);
    for (int i = 0; i < machine->set.sink_count; i++)
        machine->sinks[i].asked = false;
    clear_tombs(machine);
}

/* ---- settle and extend ---- */

static void settled(struct ob_machine *machine)
{
    struct ob_store_batch *settle = &machine->settle;
    ob_schedule_store_ok(&machine->sched);
    for (int i = 0; i < settle->count; i++) {
        struct ob_flight *flight = ob_flight_find(&machine->flights, settle->handles[i]);
        assert(flight && flight->state == OB_FLIGHT_SETTLING);
        if (settle->items[i].result != OUTBOX_SETTLED)
            machine->stats.lost++;
        ob_machine_note_settled(machine, flight, &settle->items[i]);
        bool gone = flight->outcome == OUTBOX_DELIVERED;
        if ((flight->key && flight->outcome != OUTBOX_RELEASED) || (flight->delay_us == 0 && !gone))
            machine->sched.hungry = true; /* a successor may be due, or the message itself */
        ob_machine_drop(machine, flight);
    }
    settle->count = 0;
}

static void settle_failed(struct ob_machine *machine)
{
    struct ob_store_batch *settle = &machine->settle;
    store_failed(machine);
    for (int i = settle->count - 1; i >= 0; i--) {
        struct ob_flight *flight = ob_flight_find(&machine->flights, settle->handles[i]);
        assert(flight && flight->state == OB_FLIGHT_SETTLING);
        if (OB_MUTANT(SETTLE_FORGOTTEN)) {
            ob_machine_drop(machine, flight);
            continue;
        }
        ob_flight_set(&machine->flights, flight, OB_FLIGHT_DONE);
        ob_list_push_front(&machine->done, &flight->node); /* settle it again: the token makes that harmless */
    }
    settle->count = 0;
}

static void extended(struct ob_machine *machine, bool ok)
{
    struct ob_store_batch *extend = &machine->extend;
    if (ok)
        ob_schedule_store_ok(&machine->sched);
    else
        store_failed(machine);
    for (int i = 0; i < extend->count; i++) {
        struct ob_flight *flight = ob_flight_find(&machine->flights, extend->handles[i]);
        if (!flight || flight->state != OB_FLIGHT_SENT)
            continue; /* it ended meanwhile: its settle will show the result */
        flight->renewing = false;
        if (!ok) {
            ob_list_push(&machine->renew, &flight->renew_node);
        } else if (extend->items[i].result == OUTBOX_SETTLED) {
            machine->stats.renewed++;
            flight->lease_until_us = extend->asked_us + machine->set.lease_us;
            flight->expired = false;
        } else {
            machine->stats.lost++;
            machine->cancels[machine->cancel_count++] = (struct cancel){flight->sink, extend->handles[i]};
            ob_machine_forget(machine, flight);
            continue;
        }
        arm(machine, flight);
    }
    extend->count = 0;
}

/* ---- the rest ---- */

static void stop(struct ob_machine *machine, int64_t grace_us)
{
    if (machine->phase == OB_MACHINE_STOPPED)
        return;
    int64_t until = machine->now_us + grace_us;
    if (machine->phase == OB_MACHINE_RUNNING || until < machine->grace_until_us)
        machine->grace_until_us = until;
    machine->flush_until_us = machine->grace_until_us + machine->set.flush_us;
    if (OB_MUTANT(STOP_HOLDS))
        machine->grace_until_us = INT64_MAX;
    machine->phase = OB_MACHINE_STOPPING;
    for (int i = 0; i < machine->flights.count; i++) {
        struct ob_flight *flight = &machine->flights.all[i];
        if (flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING)
            ob_machine_release(machine, flight, 0);
    }
}

static void verdict(struct ob_machine *machine, const struct ob_event *event)
{
    struct ob_flight *flight = ob_flight_find(&machine->flights, event->handle);
    if (flight && (flight->state == OB_FLIGHT_SENT || (OB_MUTANT(LATE_REPLY) && flight->state == OB_FLIGHT_READY)))
        ob_machine_verdict(machine, flight, event->verdict);
}

/* Whether timers may fire with this event. Events of sinks and operators may come from within a sink: while it is handed
 * messages, or between two of its callbacks. If a message were given up here, it would be freed while the sink still uses it,
 * because its cancel is not sent before ob_machine_next; so timers wait for ob_machine_next, too. */
static bool advances(enum ob_event_kind kind)
{
    return kind != OB_EVENT_DELIVERED && kind != OB_EVENT_WAKE && kind != OB_EVENT_PAUSE && kind != OB_EVENT_RESUME &&
           kind != OB_EVENT_STOP;
}

void ob_machine_event(struct ob_machine *machine, int64_t now_us, const struct ob_event *event)
{
    /* First the event, then the timers: a verdict that came in time must not lose to its timeout. */
    if (now_us > machine->now_us)
        machine->now_us = now_us;
    switch (event->kind) {
    case OB_EVENT_WAKE: machine->sched.hungry = true; break;
    case OB_EVENT_CLAIMED: claimed(machine, event); break;
    case OB_EVENT_CLAIM_FAILED: claim_failed(machine); break;
    case OB_EVENT_DELIVERED: verdict(machine, event); break;
    case OB_EVENT_SETTLED: settled(machine); break;
    case OB_EVENT_SETTLE_FAILED: settle_failed(machine); break;
    case OB_EVENT_EXTENDED: extended(machine, true); break;
    case OB_EVENT_EXTEND_FAILED: extended(machine, false); break;
    case OB_EVENT_PAUSE:
        machine->sinks[event->sink].paused = true;
        ob_machine_release_sink(machine, event->sink);
        break;
    case OB_EVENT_RESUME: machine->sinks[event->sink].paused = false; break;
    case OB_EVENT_STOP: stop(machine, event->grace_us); break;
    default: break;
    }
    if (advances(event->kind))
        ob_machine_advance(machine, now_us);
}
