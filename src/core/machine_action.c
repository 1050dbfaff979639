/* machine_action.c - what to do next: cancel, renew, deliver, settle, claim; in that order of urgency.
 *
 * Batches have no timers: a settle is sent as soon as the last one is answered, with all outcomes that are ready by then.
 * Deliveries come first, because a sink may answer at once: a settle of the first few outcomes would make the others wait
 * for its answer. But a sink that is slow to take messages must not delay outcomes for long. */
#include "core/machine_int.h"
#include "core/mutant.h"

#include <assert.h>

enum { SETTLE_WAIT_US = 5000, PROBES_US = 50000 /* between two claims of probes */ };

static bool next_cancel(struct ob_machine *machine, struct ob_action *action)
{
    if (machine->cancel_count == 0)
        return false;
    const struct cancel *cancel = &machine->cancels[--machine->cancel_count];
    *action = (struct ob_action){.kind = OB_ACTION_CANCEL, .sink = cancel->sink, .handle = cancel->handle};
    return true;
}

/* A failure must not be settled under a lease that has run out: another worker may have the message by now. */
static bool must_not_settle(const struct ob_machine *machine, const struct ob_flight *flight)
{
    bool nack =
        flight->outcome == OUTBOX_RETRY || flight->outcome == OUTBOX_UNKNOWN || flight->outcome == OUTBOX_FAILED;
    return nack && machine->now_us >= flight->lease_until_us && !OB_MUTANT(EXPIRED_NACK);
}

/* The message's max_attempts, if the store does not know it yet; otherwise 0. */
static int new_limit(const struct ob_flight *flight)
{
    bool news = flight->sink >= 0 && flight->msg && flight->max_attempts != flight->msg->max_attempts;
    return news && flight->outcome != OUTBOX_DELIVERED ? flight->max_attempts : 0;
}

static bool next_settle(struct ob_machine *machine, struct ob_action *action)
{
    struct ob_store_batch *settle = &machine->settle;
    if (settle->count > 0 || !ob_schedule_store_ready(&machine->sched, machine->now_us))
        return false;
    while (settle->count < machine->set.settle_limit && !ob_list_empty(&machine->done)) {
        struct ob_flight *flight = OB_CONTAINER(machine->done.next, struct ob_flight, node);
        if (must_not_settle(machine, flight)) {
            machine->stats.lost++;
            ob_machine_forget(machine, flight);
            continue;
        }
        ob_flight_set(&machine->flights, flight, OB_FLIGHT_SETTLING);
        settle->handles[settle->count] = ob_flight_handle(flight);
        settle->items[settle->count++] = (struct outbox_settle){.id = flight->id,
                                                                .token = flight->token,
                                                                .outcome = flight->outcome,
                                                                .code = flight->code,
                                                                .error = flight->error,
                                                                .reference = flight->reference,
                                                                .output = flight->output,
                                                                .delay_us = flight->delay_us,
                                                                .latency_us = flight->latency_us,
                                                                .max_attempts = new_limit(flight)};
    }
    if (settle->count == 0)
        return false;
    settle->asked_us = machine->now_us;
    *action = (struct ob_action){.kind = OB_ACTION_SETTLE, .settles = settle->items, .count = settle->count};
    return true;
}

/* Whether an outcome has waited long enough for others to join its settle. */
static bool settle_presses(const struct ob_machine *machine)
{
    return !ob_list_empty(&machine->done) && machine->now_us - machine->done_since_us >= SETTLE_WAIT_US;
}

static bool next_extend(struct ob_machine *machine, struct ob_action *action)
{
    struct ob_store_batch *extend = &machine->extend;
    if (extend->count > 0 || !ob_schedule_store_ready(&machine->sched, machine->now_us))
        return false;
    struct ob_list *it;
    while (extend->count < machine->set.settle_limit && (it = ob_list_shift(&machine->renew))) {
        struct ob_flight *flight = OB_CONTAINER(it, struct ob_flight, renew_node);
        flight->renewing = true;
        extend->handles[extend->count] = ob_flight_handle(flight);
        extend->items[extend->count++] = (struct outbox_settle){.id = flight->id, .token = flight->token};
    }
    if (extend->count == 0)
        return false;
    extend->asked_us = machine->now_us;
    *action = (struct ob_action){
        .kind = OB_ACTION_EXTEND, .settles = extend->items, .count = extend->count, .lease_us = machine->set.lease_us};
    return true;
}

/* ---- deliver ---- */

static void hand_over(struct ob_machine *machine, struct ob_flight *flight, int place, bool follows)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    ob_flight_set(&machine->flights, flight, OB_FLIGHT_SENT);
    flight->sent_us = machine->now_us;
    flight->timeout_us = machine->now_us + sink->set.timeout_us;
    int64_t half_time = flight->lease_until_us - machine->set.lease_us / 2;
    assert(machine->now_us < half_time || OB_MUTANT(LEASE_IGNORED));
    ob_flight_timer(&machine->flights, flight, flight->timeout_us < half_time ? flight->timeout_us : half_time);
    sink->in_flight++;
    if (machine->set.trace && flight->msg)
        machine->set.trace(machine->set.trace_ctx, flight->msg);
    ob_machine_note(machine, OB_NOTE_SENT, flight);
    if (flight->key)
        flight->key->in_flight++;
    ob_sink_state_went(sink, machine->now_us - flight->claimed_us, machine->set.lease_us);
    machine->items[place] =
        (struct outbox_sink_item){.handle = ob_flight_handle(flight), .msg = flight->msg, .follows = follows};
}

/* The next message of the key, if it may be handed over in the same run. */
static struct ob_flight *follower(const struct ob_flight *flight)
{
    if (!flight->key || flight->key_node.next == &flight->key->flights)
        return NULL;
    struct ob_flight *next = OB_CONTAINER(flight->key_node.next, struct ob_flight, key_node);
    return next->state == OB_FLIGHT_WAITING && next->sink == flight->sink ? next : NULL;
}

static int fill(struct ob_machine *machine, struct ob_sink_state *sink, int most)
{
    int count = 0;
    while (count < most && !ob_list_empty(&sink->ready)) {
        struct ob_flight *flight = OB_CONTAINER(sink->ready.next, struct ob_flight, node);
        int run = 0;
        do {
            if (!ob_rate_take(&sink->rate, machine->now_us))
                return count;
            hand_over(machine, flight, count++, run++ > 0);
            flight = follower(flight);
        } while (flight && run < sink->set.run && count < most);
    }
    return count;
}

/* A mutant: settles a message as delivered that was only just handed over. */
static void ack_before_send(struct ob_machine *machine, int count)
{
    for (int i = 0; i < count; i++) {
        struct ob_flight *flight = ob_flight_find(&machine->flights, machine->items[i].handle);
        if (ob_machine_random(machine) % 4 == 0)
            ob_machine_end(machine, flight, OUTBOX_DELIVERED, 0);
    }
}

/* The message that is being delivered alone; NULL: none. */
static struct ob_flight *alone(struct ob_machine *machine)
{
    struct ob_flight *flight = machine->alone ? ob_flight_find(&machine->flights, machine->alone) : NULL;
    if (!flight || machine->now_us >= machine->alone_until_us || machine->phase != OB_MACHINE_RUNNING)
        machine->alone = 0;
    return machine->alone ? flight : NULL;
}

static bool next_deliver(struct ob_machine *machine, struct ob_action *action)
{
    const struct ob_flight *only = alone(machine);
    if (only && machine->flights.in_state[OB_FLIGHT_SENT] > 0)
        return false;
    for (int i = 0; i < machine->set.sink_count; i++) {
        int index = (machine->next_sink + i) % machine->set.sink_count;
        struct ob_sink_state *sink = &machine->sinks[index];
        int most = ob_sink_state_free(sink),
            process = machine->set.concurrency - machine->flights.in_state[OB_FLIGHT_SENT];
        most = most < sink->set.batch ? most : sink->set.batch;
        most = most < process ? most : process;
        if (machine->now_us < sink->limited_until_us || (only && only->sink != index))
            continue;
        most = only && most > 1 ? 1 : most;
        int count = fill(machine, sink, most);
        if (count == 0)
            continue;
        if (OB_MUTANT(ACK_BEFORE_SEND))
            ack_before_send(machine, count);
        machine->next_sink = (index + 1) % machine->set.sink_count;
        *action = (struct ob_action){.kind = OB_ACTION_DELIVER, .sink = index, .items = machine->items, .count = count};
        return true;
    }
    return false;
}

/* ---- claim ---- */

/* How many messages may be claimed, and how many bytes. While a batch is copied from the store's memory there are two copies
 * of it, so a claim is for at most a quarter of max_bytes. */
static int claim_room(const struct ob_machine *machine, size_t *bytes)
{
    int room = machine->set.max_messages - machine->flights.held;
    size_t left = machine->set.max_bytes > machine->flights.bytes ? machine->set.max_bytes - machine->flights.bytes : 0;
    size_t most = machine->set.max_bytes / 4;
    if (left < most / 2 && machine->flights.held > 0)
        return 0; /* wait until there is room for more than one; a giant message is still claimed when nothing is held */
    *bytes = left < most && left > 0 ? left : most;
    return room < machine->set.claim_limit ? room : machine->set.claim_limit;
}

/* Whether it is worth claiming now. A small claim, for the few entries that are free, would make all later claims small too;
 * it is made only if a sink has nothing to do. */
static bool worth(const struct ob_machine *machine, int room)
{
    int full =
        machine->set.claim_limit < machine->set.max_messages ? machine->set.claim_limit : machine->set.max_messages;
    bool any = false, idle = false;
    for (int i = 0; i < machine->set.sink_count; i++) {
        const struct ob_sink_state *sink = &machine->sinks[i];
        any = any || !machine->shut[i];
        idle = idle || (!machine->shut[i] && ob_list_empty(&sink->ready) && ob_sink_state_free(sink) > 0);
    }
    return any && (idle || room >= (full + 1) / 2);
}

static bool ask(struct ob_machine *machine, int limit, size_t bytes, bool probes, struct ob_action *action)
{
    int shrink = machine->sched.shrink;
    limit = probes ? limit : limit >> shrink > 0 ? limit >> shrink : 1;
    bytes = bytes >> shrink > 0 ? bytes >> shrink : 1;
    ob_schedule_asked(&machine->sched, limit, probes, machine->now_us);
    machine->probed = probes;
    *action = (struct ob_action){.kind = OB_ACTION_CLAIM,
                                 .limit = limit,
                                 .max_bytes = bytes,
                                 .run = probes ? 1 : machine->set.run,
                                 .lease_us = machine->set.lease_us,
                                 .prefetch = machine->set.prefetch && !probes,
                                 .incarnation = machine->sched.incarnation,
                                 .only = probes,
                                 .shut = machine->shut};
    return true;
}

/* How many more probes may be held: sinks that are down must leave most of the room to those that are not. */
static int probe_room(const struct ob_machine *machine)
{
    int least =
        machine->set.max_messages < machine->set.concurrency ? machine->set.max_messages : machine->set.concurrency;
    int room = least / 4 > 0 ? least / 4 : 1;
    for (int i = 0; i < machine->set.sink_count; i++)
        room -= machine->sinks[i].probe != 0;
    return room < machine->probe_width ? room : machine->probe_width;
}

/* Claims probes for many sinks at once, so that even many sinks that are down cost only an occasional claim. */
static bool next_probes(struct ob_machine *machine, int room, size_t bytes, struct ob_action *action)
{
    int most = probe_room(machine), named = 0, last = machine->next_probe;
    if (machine->now_us < machine->probes_us && !OB_MUTANT(PROBES_RUSH))
        return false;
    most = most < room ? most : room;
    for (int i = 0; i < machine->set.sink_count && named < most; i++) {
        int index = (machine->next_probe + i) % machine->set.sink_count;
        struct ob_sink_state *sink = &machine->sinks[index];
        sink->asked = ob_sink_state_wants_probe(sink, machine->now_us);
        named += sink->asked;
        last = sink->asked ? index + 1 : last;
    }
    if (named == 0)
        return false;
    for (int i = 0; i < machine->set.sink_count; i++)
        machine->shut[i] = !machine->sinks[i].asked;
    machine->next_probe = last % machine->set.sink_count;
    machine->probes_us = machine->now_us + PROBES_US;
    return ask(machine, named, bytes, true, action);
}

void ob_machine_probes_came(struct ob_machine *machine, bool full)
{
    int named = 0, served = 0;
    for (int i = 0; i < machine->set.sink_count; i++) {
        struct ob_sink_state *sink = &machine->sinks[i];
        bool waits = sink->asked && sink->breaker.state == OB_BREAKER_HALF_OPEN && !sink->probe;
        named += sink->asked;
        served += sink->asked && !waits;
        sink->idle = sink->idle || (waits && !full);
        sink->asked = false;
    }
    if (full && 2 * served < named)
        machine->probe_width = named > 1 ? named / 2 : 1;
    else if (machine->probe_width < OB_PROBE_WIDTH)
        machine->probe_width *= 2;
}

static bool next_claim(struct ob_machine *machine, struct ob_action *action)
{
    struct ob_schedule *sched = &machine->sched;
    if (sched->claiming || machine->phase != OB_MACHINE_RUNNING || !ob_schedule_store_ready(sched, machine->now_us))
        return false;
    size_t bytes;
    int room = claim_room(machine, &bytes);
    if (room < 1 || alone(machine))
        return false;
    for (int i = 0; i < machine->set.sink_count; i++)
        machine->shut[i] = ob_sink_state_shut(&machine->sinks[i], machine->now_us);
    bool wanted = ob_schedule_wants(sched, machine->now_us) && worth(machine, room);
    if (!(wanted && machine->probed) && next_probes(machine, room, bytes, action)) /* not twice in a row */
        return true;
    return wanted && ask(machine, room, bytes, false, action);
}

/* ---- all actions ---- */

static bool next_stopped(struct ob_machine *machine, struct ob_action *action)
{
    if (machine->phase != OB_MACHINE_STOPPING)
        return false;
    bool empty = machine->flights.held == 0 && !machine->sched.claiming;
    if (!empty && machine->now_us < machine->flush_until_us)
        return false;
    machine->phase = OB_MACHINE_STOPPED;
    *action = (struct ob_action){.kind = OB_ACTION_STOPPED};
    return true;
}

bool ob_machine_next(struct ob_machine *machine, int64_t now_us, struct ob_action *action)
{
    *action = (struct ob_action){.kind = OB_ACTION_NONE};
    if (machine->phase == OB_MACHINE_STOPPED)
        return false;
    ob_machine_advance(machine, now_us);
    return next_cancel(machine, action) || (settle_presses(machine) && next_settle(machine, action)) ||
           next_extend(machine, action) || next_deliver(machine, action) || next_settle(machine, action) ||
           next_claim(machine, action) || next_stopped(machine, action);
}

static int64_t sooner(int64_t a, int64_t b, int64_t now_us)
{
    return b > now_us && b < a ? b : a;
}

int64_t ob_machine_deadline_us(const struct ob_machine *machine)
{
    int64_t now = machine->now_us, due = INT64_MAX;
    if (machine->phase == OB_MACHINE_STOPPED)
        return due;
    const struct ob_heap_node *first = ob_heap_peek(&machine->flights.timers);
    if (first)
        due = sooner(due, OB_CONTAINER(first, struct ob_flight, timer)->timer_us, now);
    due = sooner(due, machine->sched.ready_us, now);
    if (machine->alone)
        due = sooner(due, machine->alone_until_us, now);
    if (machine->phase == OB_MACHINE_STOPPING) {
        due = sooner(due, machine->grace_until_us, now);
        return sooner(due, machine->flush_until_us, now);
    }
    if (!machine->sched.claiming && machine->set.poll_us > 0)
        due = sooner(due, machine->sched.next_poll_us, now);
    for (int i = 0; i < machine->set.sink_count; i++) {
        int64_t at = ob_sink_state_due_us(&machine->sinks[i], now);
        due = at < due ? at : due;
        if (ob_sink_state_wants_probe(&machine->sinks[i], now))
            due = sooner(due, machine->probes_us, now);
    }
    return due;
}
