/* relay_event.c - what happened: time, claims, verdicts, answers of the store, the wish to stop.
 *
 * Leases are measured from before the claim was asked, by our own clock: they end here no later than at the store. While a
 * message is queued, half of its lease is for the delivery: at half time it goes back. While it is out the lease is
 * renewed from half time on. */
#include "core/codec.h"
#include "core/mutant.h"
#include "core/relay_int.h"

#include <assert.h>

/* ---- time ---- */

static int64_t half_time(const struct ob_relay *relay, const struct ob_flight *flight)
{
    return flight->lease_until_us - relay->set.lease_us / 2;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arm(struct ob_relay *relay, struct ob_flight *flight)
{
    int64_t at = INT64_MAX;
    if (flight->state == OB_FLIGHT_OUT) {
        at = flight->timeout_us;
        if (!flight->expired)
            at = earlier(at, flight->lease_until_us);
        if (!flight->renewing && ob_list_empty(&flight->renew_node) && !OB_MUTANT(NO_RENEWAL))
            at = earlier(at, half_time(relay, flight));
    } else if (!OB_MUTANT(LEASE_IGNORED)) {
        at = half_time(relay, flight);
    }
    ob_flight_timer(&relay->flights, flight, at);
}

/* Handed over in a run, and perhaps not begun: the one before it in its key is still out. */
static bool may_be_unsent(const struct ob_flight *flight)
{
    return flight->key && flight->key_node.prev != &flight->key->flights &&
           OB_CONTAINER(flight->key_node.prev, struct ob_flight, key_node)->state == OB_FLIGHT_OUT;
}

static void expire(struct ob_relay *relay, struct ob_flight *flight)
{
    flight->expired = true;
    relay->stats.expired++;
}

static void on_timer(struct ob_relay *relay, struct ob_flight *flight)
{
    if (flight->state != OB_FLIGHT_OUT) {
        relay->stats.stale++;
        ob_dest_stale(&relay->dests[flight->dest], relay->set.lease_us, relay->now_us);
        ob_relay_release(relay, flight, 0);
        return;
    }
    if (relay->now_us >= flight->lease_until_us && !flight->expired) {
        expire(relay, flight);
        if (may_be_unsent(flight) && !OB_MUTANT(LEASE_IGNORED)) {
            /* It must not be sent any more. What surely has begun may finish: a success still counts. */
            relay->cancels[relay->cancel_count++] = (struct cancel){flight->dest, ob_flight_handle(flight)};
            ob_relay_forget(relay, flight);
            return;
        }
    }
    if (relay->now_us >= flight->timeout_us) {
        ob_relay_time_out(relay, flight);
        return;
    }
    if (relay->now_us >= half_time(relay, flight) && !flight->renewing && !OB_MUTANT(NO_RENEWAL) &&
        ob_list_empty(&flight->renew_node))
        ob_list_push(&relay->renew, &flight->renew_node);
    arm(relay, flight);
}

static void run_timers(struct ob_relay *relay)
{
    struct ob_heap_node *node;
    while ((node = ob_heap_peek(&relay->flights.timers))) {
        struct ob_flight *flight = OB_CONTAINER(node, struct ob_flight, timer);
        if (flight->timer_us > relay->now_us)
            return;
        ob_heap_remove(&relay->flights.timers, node);
        on_timer(relay, flight);
    }
}

static void end_grace(struct ob_relay *relay)
{
    for (int i = 0; i < relay->flights.count; i++) {
        if (relay->flights.all[i].state == OB_FLIGHT_OUT)
            ob_relay_interrupt(relay, &relay->flights.all[i]);
    }
}

void ob_relay_advance(struct ob_relay *relay, int64_t now_us)
{
    if (now_us > relay->now_us)
        relay->now_us = now_us;
    run_timers(relay);
    for (int i = 0; i < relay->set.dest_count; i++) {
        struct ob_dest *dest = &relay->dests[i];
        if (ob_breaker_tick(&dest->breaker, relay->now_us))
            dest->idle = false;
        bool closed = ob_dest_shut(dest, relay->now_us);
        if (dest->closed && !closed)
            relay->sched.hungry = true; /* the last claims left it out */
        dest->closed = closed;
    }
    if (relay->phase == OB_RELAY_STOPPING && relay->now_us >= relay->grace_until_us)
        end_grace(relay);
    ob_relay_note_breakers(relay);
}

/* ---- the claim ---- */

void ob_relay_refresh_key(struct ob_relay *relay, struct ob_key *key)
{
    if (!key)
        return;
    struct ob_flight *head = ob_key_head(key);
    OB_LIST_EACH (it, &key->flights) {
        /* An older message can come back in front: attempt 2 of one whose lease the store took for lost. */
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, key_node);
        if (flight->state == OB_FLIGHT_READY && flight != head) {
            ob_flight_set(&relay->flights, flight, OB_FLIGHT_WAITING);
            arm(relay, flight);
        }
    }
    if (!head || head->state != OB_FLIGHT_WAITING)
        return;
    ob_flight_set(&relay->flights, head, OB_FLIGHT_READY);
    ob_list_push(&relay->dests[head->dest].ready, &head->node);
    arm(relay, head);
}

static void unrouted(struct ob_relay *relay, struct ob_flight *flight)
{
    relay->stats.unrouted++;
    ob_relay_note(relay, OB_NOTE_UNROUTED, flight);
    ob_flight_texts(flight, "unrouted", "no route matches this message", NULL, NULL);
    if (relay->set.unrouted_dead)
        ob_relay_end(relay, flight, OUTBOX_FAILED, -1);
    else
        ob_relay_end(relay, flight, OUTBOX_BLOCKED, relay->set.unrouted_delay_us);
}

/* Its payload cannot be had: no destination is to blame. */
static void unreadable(struct ob_relay *relay, struct ob_flight *flight, enum outbox_fault fault)
{
    if (fault == OUTBOX_FAULT_MEMORY) {
        relay->stats.no_memory++;
        ob_relay_release(relay, flight, relay->set.store_backoff_base_us);
        return;
    }
    bool not_json = fault == OUTBOX_FAULT_NOT_JSON;
    ob_flight_texts(flight, not_json ? "not_json" : "encoding", ob_codec_fault_text(fault), NULL, NULL);
    if (fault == OUTBOX_FAULT_DAMAGED || not_json)
        ob_relay_end(relay, flight, OUTBOX_FAILED, -1);
    else
        ob_relay_end(relay, flight, OUTBOX_BLOCKED, relay->set.unrouted_delay_us); /* another build may read it */
}

/* The message is to be sent: it takes its place. */
static void queue(struct ob_relay *relay, struct ob_flight *flight)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    flight->retry = dest->set.retry; /* M21 */
    if (dest->breaker.state == OB_BREAKER_HALF_OPEN && !dest->probe)
        dest->probe = ob_flight_handle(flight);
    dest->held++;
    if (flight->key) {
        ob_flight_set(&relay->flights, flight, OB_FLIGHT_WAITING);
        arm(relay, flight);
        ob_relay_refresh_key(relay, flight->key);
    } else {
        ob_flight_set(&relay->flights, flight, OB_FLIGHT_READY);
        ob_list_push(&dest->ready, &flight->node);
        arm(relay, flight);
    }
}

static void take(struct ob_relay *relay, const struct outbox_delivery *msg)
{
    struct ob_flight *flight = ob_flight_take(&relay->flights, msg);
    assert(flight); /* nobody gives more than was asked for */
    if (!flight)
        return;
    flight->claimed_us = relay->now_us;
    flight->lease_until_us = relay->sched.asked_us + relay->set.lease_us;
    if (msg->lost > 0 && msg->lost >= msg->spent - 1 && msg->spent >= msg->max_attempts) {
        relay->alone = ob_flight_handle(flight);
        relay->alone_until_us = relay->now_us + OB_ALONE_US;
    }
    if (msg->stream && !OB_MUTANT(NO_ORDER))
        ob_keys_join(&relay->keys, flight, msg->stream);
    int dest = relay->set.route(relay->set.route_ctx, msg);
    ob_relay_note(relay, OB_NOTE_CLAIMED, flight);
    if (!flight->msg) {
        relay->stats.no_memory++;
        ob_relay_release(relay, flight, relay->set.store_backoff_base_us);
    } else if (flight->key && ob_key_blocked(flight->key, flight->seq)) {
        ob_relay_release(relay, flight, 0);
    } else if (relay->phase != OB_RELAY_RUNNING) {
        ob_relay_release(relay, flight, 0);
    } else if (msg->fault) {
        unreadable(relay, flight, msg->fault);
    } else if (dest < 0 || dest >= relay->set.dest_count) {
        unrouted(relay, flight);
    } else if (relay->now_us >= half_time(relay, flight) && !OB_MUTANT(LEASE_IGNORED)) {
        relay->stats.stale++;
        ob_relay_release(relay, flight, 0);
    } else {
        flight->dest = dest;
        int64_t put_off = ob_dest_put_off_us(&relay->dests[dest], relay->now_us);
        if (put_off > 0)
            ob_relay_release(relay, flight, put_off);
        else
            queue(relay, flight);
    }
}

/* The answer to the claim is in, or will never come. */
static void clear_tombs(struct ob_relay *relay)
{
    struct ob_key *key;
    while ((key = ob_keys_bury(&relay->keys)))
        ob_relay_refresh_key(relay, key);
}

static void claimed(struct ob_relay *relay, const struct ob_event *event)
{
    assert(relay->sched.out);
    relay->stats.claims++;
    relay->stats.claimed += (uint64_t)event->count;
    ob_schedule_store_ok(&relay->sched);
    for (int i = 0; i < event->count; i++) {
        if (OB_MUTANT(DROPPED_ROW) && ob_relay_random(relay) % 16 == 0)
            continue;
        take(relay, &event->msgs[i]);
    }
    if (relay->sched.probes)
        ob_relay_probes_came(relay, event->count >= relay->sched.limit || event->more);
    ob_schedule_answered(&relay->sched, event->count, event->more, relay->now_us);
    clear_tombs(relay);
}

static void store_failed(struct ob_relay *relay)
{
    relay->stats.store_failures++;
    ob_schedule_store_failed(&relay->sched, ob_relay_random(relay), relay->now_us);
}

static void claim_failed(struct ob_relay *relay)
{
    assert(relay->sched.out);
    store_failed(relay);
    if (OB_MUTANT(WAKE_LOST))
        return;
    if (!OB_MUTANT(ONE_WORKER_NAME))
        relay->sched.incarnation++; /* messages may be out under our name that we never saw */
    ob_schedule_claim_failed(&relay->sched, relay->now_us);
    for (int i = 0; i < relay->set.dest_count; i++)
        relay->dests[i].asked = false;
    clear_tombs(relay);
}

/* ---- settle and extend ---- */

static void settled(struct ob_relay *relay)
{
    struct ob_window *settle = &relay->settle;
    ob_schedule_store_ok(&relay->sched);
    for (int i = 0; i < settle->count; i++) {
        struct ob_flight *flight = ob_flight_find(&relay->flights, settle->handles[i]);
        assert(flight && flight->state == OB_FLIGHT_SETTLING);
        if (settle->items[i].result != OUTBOX_SETTLED)
            relay->stats.lost++;
        ob_relay_note_settled(relay, flight, &settle->items[i]);
        bool gone = flight->outcome == OUTBOX_DELIVERED;
        if ((flight->key && flight->outcome != OUTBOX_RELEASED) || (flight->delay_us == 0 && !gone))
            relay->sched.hungry = true; /* a successor may be due, or the message itself */
        ob_relay_drop(relay, flight);
    }
    settle->count = 0;
}

static void settle_failed(struct ob_relay *relay)
{
    struct ob_window *settle = &relay->settle;
    store_failed(relay);
    for (int i = settle->count - 1; i >= 0; i--) {
        struct ob_flight *flight = ob_flight_find(&relay->flights, settle->handles[i]);
        assert(flight && flight->state == OB_FLIGHT_SETTLING);
        if (OB_MUTANT(SETTLE_FORGOTTEN)) {
            ob_relay_drop(relay, flight);
            continue;
        }
        ob_flight_set(&relay->flights, flight, OB_FLIGHT_DONE);
        ob_list_push_front(&relay->done, &flight->node); /* again: the token makes it harmless */
    }
    settle->count = 0;
}

static void extended(struct ob_relay *relay, bool ok)
{
    struct ob_window *extend = &relay->extend;
    if (ok)
        ob_schedule_store_ok(&relay->sched);
    else
        store_failed(relay);
    for (int i = 0; i < extend->count; i++) {
        struct ob_flight *flight = ob_flight_find(&relay->flights, extend->handles[i]);
        if (!flight || flight->state != OB_FLIGHT_OUT)
            continue; /* over meanwhile: its settle will tell */
        flight->renewing = false;
        if (!ok) {
            ob_list_push(&relay->renew, &flight->renew_node);
        } else if (extend->items[i].result == OUTBOX_SETTLED) {
            relay->stats.renewed++;
            flight->lease_until_us = extend->asked_us + relay->set.lease_us;
            flight->expired = false;
        } else {
            relay->stats.lost++;
            relay->cancels[relay->cancel_count++] = (struct cancel){flight->dest, extend->handles[i]};
            ob_relay_forget(relay, flight);
            continue;
        }
        arm(relay, flight);
    }
    extend->count = 0;
}

/* ---- the rest ---- */

static void stop(struct ob_relay *relay, int64_t grace_us)
{
    if (relay->phase == OB_RELAY_STOPPED)
        return;
    int64_t until = relay->now_us + grace_us;
    if (relay->phase == OB_RELAY_RUNNING || until < relay->grace_until_us)
        relay->grace_until_us = until;
    relay->flush_until_us = relay->grace_until_us + relay->set.flush_us;
    if (OB_MUTANT(STOP_HOLDS))
        relay->grace_until_us = INT64_MAX;
    relay->phase = OB_RELAY_STOPPING;
    for (int i = 0; i < relay->flights.count; i++) {
        struct ob_flight *flight = &relay->flights.all[i];
        if (flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING)
            ob_relay_release(relay, flight, 0);
    }
}

static void verdict(struct ob_relay *relay, const struct ob_event *event)
{
    struct ob_flight *flight = ob_flight_find(&relay->flights, event->handle);
    if (flight && (flight->state == OB_FLIGHT_OUT || (OB_MUTANT(LATE_REPLY) && flight->state == OB_FLIGHT_READY)))
        ob_relay_verdict(relay, flight, event->verdict);
}

/* Whether the time may take its effect at once. What a sink or an operator says may come from within a sink: while it is
 * handed messages, or between two of its callbacks. A message that were given up here would be freed under its eyes, for
 * its cancel waits for ob_relay_next; so the time waits for that, too. */
static bool advances(enum ob_event_kind kind)
{
    return kind != OB_EVENT_DELIVERED && kind != OB_EVENT_WAKE && kind != OB_EVENT_PAUSE && kind != OB_EVENT_RESUME &&
           kind != OB_EVENT_STOP;
}

void ob_relay_event(struct ob_relay *relay, int64_t now_us, const struct ob_event *event)
{
    /* First what happened, then the time: a verdict that came in time must not be overtaken by its timeout. */
    if (now_us > relay->now_us)
        relay->now_us = now_us;
    switch (event->kind) {
    case OB_EVENT_WAKE: relay->sched.hungry = true; break;
    case OB_EVENT_CLAIMED: claimed(relay, event); break;
    case OB_EVENT_CLAIM_FAILED: claim_failed(relay); break;
    case OB_EVENT_DELIVERED: verdict(relay, event); break;
    case OB_EVENT_SETTLED: settled(relay); break;
    case OB_EVENT_SETTLE_FAILED: settle_failed(relay); break;
    case OB_EVENT_EXTENDED: extended(relay, true); break;
    case OB_EVENT_EXTEND_FAILED: extended(relay, false); break;
    case OB_EVENT_PAUSE:
        relay->dests[event->dest].paused = true;
        ob_relay_release_dest(relay, event->dest);
        break;
    case OB_EVENT_RESUME: relay->dests[event->dest].paused = false; break;
    case OB_EVENT_STOP: stop(relay, event->grace_us); break;
    default: break;
    }
    if (advances(event->kind))
        ob_relay_advance(relay, now_us);
}
