/* relay_action.c - what to do next: cancel, renew, deliver, settle, claim; in that order of urgency.
 *
 * No timers for batches: a settle goes as soon as the last one is answered, with all that is ready by then. What can be
 * handed over goes first, since a sink may answer at once: a settle of the first few would make the rest wait for it. But
 * a sink that takes its time about being handed messages must not hold back outcomes for long. */
#include "core/mutant.h"
#include "core/relay_int.h"

#include <assert.h>

enum { SETTLE_WAIT_US = 5000, PROBES_US = 50000 /* between two claims of probes */ };

static bool next_cancel(struct ob_relay *relay, struct ob_action *action)
{
    if (relay->cancel_count == 0)
        return false;
    const struct cancel *cancel = &relay->cancels[--relay->cancel_count];
    *action = (struct ob_action){.kind = OB_ACTION_CANCEL, .dest = cancel->dest, .handle = cancel->handle};
    return true;
}

/* A failure is not reported under a lease that has run out: somebody else may have the message by now. */
static bool must_not_settle(const struct ob_relay *relay, const struct ob_flight *flight)
{
    bool nack =
        flight->outcome == OUTBOX_RETRY || flight->outcome == OUTBOX_UNKNOWN || flight->outcome == OUTBOX_FAILED;
    return nack && relay->now_us >= flight->lease_until_us && !OB_MUTANT(EXPIRED_NACK);
}

static bool next_settle(struct ob_relay *relay, struct ob_action *action)
{
    struct ob_window *settle = &relay->settle;
    if (settle->count > 0 || !ob_schedule_store_ready(&relay->sched, relay->now_us))
        return false;
    while (settle->count < relay->set.settle_limit && !ob_list_empty(&relay->done)) {
        struct ob_flight *flight = OB_CONTAINER(relay->done.next, struct ob_flight, node);
        if (must_not_settle(relay, flight)) {
            relay->stats.lost++;
            ob_relay_forget(relay, flight);
            continue;
        }
        ob_flight_set(&relay->flights, flight, OB_FLIGHT_SETTLING);
        settle->handles[settle->count] = ob_flight_handle(flight);
        settle->items[settle->count++] = (struct outbox_settle){.id = flight->id,
                                                                .token = flight->token,
                                                                .outcome = flight->outcome,
                                                                .code = flight->code,
                                                                .error = flight->error,
                                                                .reference = flight->reference,
                                                                .output = flight->output,
                                                                .delay_us = flight->delay_us,
                                                                .latency_us = flight->latency_us};
    }
    if (settle->count == 0)
        return false;
    settle->asked_us = relay->now_us;
    *action = (struct ob_action){.kind = OB_ACTION_SETTLE, .settles = settle->items, .count = settle->count};
    return true;
}

/* An outcome has waited long enough for others. */
static bool settle_presses(const struct ob_relay *relay)
{
    return !ob_list_empty(&relay->done) && relay->now_us - relay->done_since_us >= SETTLE_WAIT_US;
}

static bool next_extend(struct ob_relay *relay, struct ob_action *action)
{
    struct ob_window *extend = &relay->extend;
    if (extend->count > 0 || !ob_schedule_store_ready(&relay->sched, relay->now_us))
        return false;
    struct ob_list *it;
    while (extend->count < relay->set.settle_limit && (it = ob_list_shift(&relay->renew))) {
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, renew_node);
        flight->renewing = true;
        extend->handles[extend->count] = ob_flight_handle(flight);
        extend->items[extend->count++] = (struct outbox_settle){.id = flight->id, .token = flight->token};
    }
    if (extend->count == 0)
        return false;
    extend->asked_us = relay->now_us;
    *action = (struct ob_action){
        .kind = OB_ACTION_EXTEND, .settles = extend->items, .count = extend->count, .lease_us = relay->set.lease_us};
    return true;
}

/* ---- deliver ---- */

static void hand_over(struct ob_relay *relay, struct ob_flight *flight, int place, bool follows)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    ob_flight_set(&relay->flights, flight, OB_FLIGHT_OUT);
    flight->sent_us = relay->now_us;
    flight->timeout_us = relay->now_us + dest->set.timeout_us;
    int64_t half_time = flight->lease_until_us - relay->set.lease_us / 2;
    assert(relay->now_us < half_time || OB_MUTANT(LEASE_IGNORED));
    ob_flight_timer(&relay->flights, flight, flight->timeout_us < half_time ? flight->timeout_us : half_time);
    dest->out++;
    ob_relay_note(relay, OB_NOTE_SENT, flight);
    if (flight->key)
        flight->key->out++;
    ob_dest_went(dest, relay->now_us - flight->claimed_us, relay->set.lease_us);
    relay->items[place] =
        (struct outbox_sink_item){.handle = ob_flight_handle(flight), .msg = flight->msg, .follows = follows};
}

/* The next of the key, when it may go along with the one just handed over. */
static struct ob_flight *follower(const struct ob_flight *flight)
{
    if (!flight->key || flight->key_node.next == &flight->key->flights)
        return NULL;
    struct ob_flight *next = OB_CONTAINER(flight->key_node.next, struct ob_flight, key_node);
    return next->state == OB_FLIGHT_WAITING && next->dest == flight->dest ? next : NULL;
}

static int fill(struct ob_relay *relay, struct ob_dest *dest, int most)
{
    int count = 0;
    while (count < most && !ob_list_empty(&dest->ready)) {
        struct ob_flight *flight = OB_CONTAINER(dest->ready.next, struct ob_flight, node);
        int run = 0;
        do {
            if (!ob_rate_take(&dest->rate, relay->now_us))
                return count;
            hand_over(relay, flight, count++, run++ > 0);
            flight = follower(flight);
        } while (flight && run < dest->set.run && count < most);
    }
    return count;
}

/* The planted bug: settled as delivered while it is only on its way. */
static void ack_before_send(struct ob_relay *relay, int count)
{
    for (int i = 0; i < count; i++) {
        struct ob_flight *flight = ob_flight_find(&relay->flights, relay->items[i].handle);
        if (ob_relay_random(relay) % 4 == 0)
            ob_relay_end(relay, flight, OUTBOX_DELIVERED, 0);
    }
}

/* The message that goes alone, while that holds; NULL: none does. */
static struct ob_flight *alone(struct ob_relay *relay)
{
    struct ob_flight *flight = relay->alone ? ob_flight_find(&relay->flights, relay->alone) : NULL;
    if (!flight || relay->now_us >= relay->alone_until_us || relay->phase != OB_RELAY_RUNNING)
        relay->alone = 0;
    return relay->alone ? flight : NULL;
}

static bool next_deliver(struct ob_relay *relay, struct ob_action *action)
{
    const struct ob_flight *only = alone(relay);
    if (only && relay->flights.in_state[OB_FLIGHT_OUT] > 0)
        return false;
    for (int i = 0; i < relay->set.dest_count; i++) {
        int index = (relay->next_dest + i) % relay->set.dest_count;
        struct ob_dest *dest = &relay->dests[index];
        int most = ob_dest_free(dest), process = relay->set.concurrency - relay->flights.in_state[OB_FLIGHT_OUT];
        most = most < dest->set.batch ? most : dest->set.batch;
        most = most < process ? most : process;
        if (relay->now_us < dest->limited_until_us || (only && only->dest != index))
            continue;
        most = only && most > 1 ? 1 : most;
        int count = fill(relay, dest, most);
        if (count == 0)
            continue;
        if (OB_MUTANT(ACK_BEFORE_SEND))
            ack_before_send(relay, count);
        relay->next_dest = (index + 1) % relay->set.dest_count;
        *action = (struct ob_action){.kind = OB_ACTION_DELIVER, .dest = index, .items = relay->items, .count = count};
        return true;
    }
    return false;
}

/* ---- claim ---- */

/* How many messages may be claimed, and how many bytes of them. A batch is there twice while it is copied from what the store
 * handed out: so no claim is for more than a quarter of all. */
static int claim_room(const struct ob_relay *relay, size_t *bytes)
{
    int room = relay->set.window - relay->flights.held;
    size_t left = relay->set.max_bytes > relay->flights.bytes ? relay->set.max_bytes - relay->flights.bytes : 0;
    size_t most = relay->set.max_bytes / 4;
    if (left < most / 2 && relay->flights.held > 0)
        return 0; /* soon there is room for more than one; and one giant at a time still goes */
    *bytes = left < most && left > 0 ? left : most;
    return room < relay->set.claim_limit ? room : relay->set.claim_limit;
}

/* Whether it is worth to claim now. A small claim for the few entries that are free would make all later ones small too,
 * unless somebody has nothing to do. */
static bool worth(const struct ob_relay *relay, int room)
{
    int full = relay->set.claim_limit < relay->set.window ? relay->set.claim_limit : relay->set.window;
    bool any = false, idle = false;
    for (int i = 0; i < relay->set.dest_count; i++) {
        const struct ob_dest *dest = &relay->dests[i];
        any = any || !relay->shut[i];
        idle = idle || (!relay->shut[i] && ob_list_empty(&dest->ready) && ob_dest_free(dest) > 0);
    }
    return any && (idle || room >= (full + 1) / 2);
}

static bool ask(struct ob_relay *relay, int limit, size_t bytes, bool probes, struct ob_action *action)
{
    int shrink = relay->sched.shrink;
    limit = probes ? limit : limit >> shrink > 0 ? limit >> shrink : 1;
    bytes = bytes >> shrink > 0 ? bytes >> shrink : 1;
    ob_schedule_asked(&relay->sched, limit, probes, relay->now_us);
    relay->probed = probes;
    *action = (struct ob_action){.kind = OB_ACTION_CLAIM,
                                 .limit = limit,
                                 .max_bytes = bytes,
                                 .run = probes ? 1 : relay->set.run,
                                 .lease_us = relay->set.lease_us,
                                 .prefetch = relay->set.prefetch && !probes,
                                 .incarnation = relay->sched.incarnation,
                                 .only = probes,
                                 .shut = relay->shut};
    return true;
}

/* How many probes more may be held: destinations that are down leave most of the room to those that are not. */
static int probe_room(const struct ob_relay *relay)
{
    int least = relay->set.window < relay->set.concurrency ? relay->set.window : relay->set.concurrency;
    int room = least / 4 > 0 ? least / 4 : 1;
    for (int i = 0; i < relay->set.dest_count; i++)
        room -= relay->dests[i].probe != 0;
    return room < relay->probe_width ? room : relay->probe_width;
}

/* Probes of many destinations by one claim, so that any number of them that are down costs a claim now and then. */
static bool next_probes(struct ob_relay *relay, int room, size_t bytes, struct ob_action *action)
{
    int most = probe_room(relay), named = 0, last = relay->next_probe;
    if (relay->now_us < relay->probes_us && !OB_MUTANT(PROBES_RUSH))
        return false;
    most = most < room ? most : room;
    for (int i = 0; i < relay->set.dest_count && named < most; i++) {
        int index = (relay->next_probe + i) % relay->set.dest_count;
        struct ob_dest *dest = &relay->dests[index];
        dest->asked = ob_dest_wants_probe(dest, relay->now_us);
        named += dest->asked;
        last = dest->asked ? index + 1 : last;
    }
    if (named == 0)
        return false;
    for (int i = 0; i < relay->set.dest_count; i++)
        relay->shut[i] = !relay->dests[i].asked;
    relay->next_probe = last % relay->set.dest_count;
    relay->probes_us = relay->now_us + PROBES_US;
    return ask(relay, named, bytes, true, action);
}

void ob_relay_probes_came(struct ob_relay *relay, bool full)
{
    int named = 0, served = 0;
    for (int i = 0; i < relay->set.dest_count; i++) {
        struct ob_dest *dest = &relay->dests[i];
        bool waits = dest->asked && dest->breaker.state == OB_BREAKER_HALF_OPEN && !dest->probe;
        named += dest->asked;
        served += dest->asked && !waits;
        dest->idle = dest->idle || (waits && !full);
        dest->asked = false;
    }
    if (full && 2 * served < named)
        relay->probe_width = named > 1 ? named / 2 : 1;
    else if (relay->probe_width < OB_PROBE_WIDTH)
        relay->probe_width *= 2;
}

static bool next_claim(struct ob_relay *relay, struct ob_action *action)
{
    struct ob_schedule *sched = &relay->sched;
    if (sched->out || relay->phase != OB_RELAY_RUNNING || !ob_schedule_store_ready(sched, relay->now_us))
        return false;
    size_t bytes;
    int room = claim_room(relay, &bytes);
    if (room < 1 || alone(relay))
        return false;
    for (int i = 0; i < relay->set.dest_count; i++)
        relay->shut[i] = ob_dest_shut(&relay->dests[i], relay->now_us);
    bool wanted = ob_schedule_wants(sched, relay->now_us) && worth(relay, room);
    if (!(wanted && relay->probed) && next_probes(relay, room, bytes, action)) /* no two of them in a row */
        return true;
    return wanted && ask(relay, room, bytes, false, action);
}

/* ---- all of it ---- */

static bool next_stopped(struct ob_relay *relay, struct ob_action *action)
{
    if (relay->phase != OB_RELAY_STOPPING)
        return false;
    bool empty = relay->flights.held == 0 && !relay->sched.out;
    if (!empty && relay->now_us < relay->flush_until_us)
        return false;
    relay->phase = OB_RELAY_STOPPED;
    *action = (struct ob_action){.kind = OB_ACTION_STOPPED};
    return true;
}

bool ob_relay_next(struct ob_relay *relay, int64_t now_us, struct ob_action *action)
{
    *action = (struct ob_action){.kind = OB_ACTION_NONE};
    if (relay->phase == OB_RELAY_STOPPED)
        return false;
    ob_relay_advance(relay, now_us);
    return next_cancel(relay, action) || (settle_presses(relay) && next_settle(relay, action)) ||
           next_extend(relay, action) || next_deliver(relay, action) || next_settle(relay, action) ||
           next_claim(relay, action) || next_stopped(relay, action);
}

static int64_t sooner(int64_t a, int64_t b, int64_t now_us)
{
    return b > now_us && b < a ? b : a;
}

int64_t ob_relay_deadline_us(const struct ob_relay *relay)
{
    int64_t now = relay->now_us, due = INT64_MAX;
    if (relay->phase == OB_RELAY_STOPPED)
        return due;
    const struct ob_heap_node *first = ob_heap_peek(&relay->flights.timers);
    if (first)
        due = sooner(due, OB_CONTAINER(first, struct ob_flight, timer)->timer_us, now);
    due = sooner(due, relay->sched.ready_us, now);
    if (relay->alone)
        due = sooner(due, relay->alone_until_us, now);
    if (relay->phase == OB_RELAY_STOPPING) {
        due = sooner(due, relay->grace_until_us, now);
        return sooner(due, relay->flush_until_us, now);
    }
    if (!relay->sched.out && relay->set.poll_us > 0)
        due = sooner(due, relay->sched.next_poll_us, now);
    for (int i = 0; i < relay->set.dest_count; i++) {
        int64_t at = ob_dest_due_us(&relay->dests[i], now);
        due = at < due ? at : due;
        if (ob_dest_wants_probe(&relay->dests[i], now))
            due = sooner(due, relay->probes_us, now);
    }
    return due;
}
