/* machine.c - creation and inspection of a machine: settings, tables, stats, notes, invariants. */
#include "core/machine_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"

#include <assert.h>

static const int64_t second = 1000000;
enum { MOST = 100000 }; /* maximum of every count: keeps all products far from overflow */

static const char *const event_names[] = {"tick",          "wake",    "claimed",       "claim failed",
                                          "delivered",     "settled", "settle failed", "extended",
                                          "extend failed", "pause",   "resume",        "stop"};
static const char *const action_names[] = {"none", "claim", "deliver", "cancel", "settle", "extend", "stopped"};
_Static_assert(sizeof event_names / sizeof event_names[0] == OB_EVENT_COUNT, "an event without a name");
_Static_assert(sizeof action_names / sizeof action_names[0] == OB_ACTION_COUNT, "an action without a name");

const char *ob_event_name(enum ob_event_kind kind)
{
    return event_names[kind];
}

const char *ob_action_name(enum ob_action_kind kind)
{
    return action_names[kind];
}

static int or_int(int value, int fallback)
{
    return value ? value : fallback;
}

static int64_t or_time(int64_t value, int64_t fallback)
{
    return value ? value : fallback;
}

static struct ob_machine_settings with_defaults(const struct ob_machine_settings *given)
{
    struct ob_machine_settings set = *given;
    set.max_messages = or_int(set.max_messages, 1000);
    set.max_bytes = set.max_bytes ? set.max_bytes : (size_t)16 * 1024 * 1024;
    set.claim_limit = or_int(set.claim_limit, 500);
    set.settle_limit = or_int(set.settle_limit, 1000);
    set.concurrency = or_int(set.concurrency, 1000);
    set.run = or_int(set.run, 16);
    set.lease_us = or_time(set.lease_us, 30 * second);
    set.poll_us = or_time(set.poll_us, second / 2);
    set.store_backoff_base_us = or_time(set.store_backoff_base_us, second / 10);
    set.store_backoff_cap_us = or_time(set.store_backoff_cap_us, 5 * second);
    set.unrouted_delay_us = or_time(set.unrouted_delay_us, 60 * second);
    set.flush_us = or_time(set.flush_us, 5 * second);
    return set;
}

static bool counts(int value)
{
    return value > 0 && value <= MOST;
}

static const char *wrong_with(const struct ob_machine_settings *set)
{
    if (!counts(set->max_messages) || !counts(set->claim_limit) || !counts(set->settle_limit) ||
        !counts(set->concurrency) || !counts(set->run))
        return "max_messages, claim_limit, settle_limit, concurrency and run are 1 to 100000";
    if (set->claim_limit > OB_MOST(claim) || set->settle_limit > OB_MOST(settle) || set->run > OB_MOST(run))
        return "a store takes at most 10000 messages at once";
    if (!ob_limit_allows(OB_LIMIT_lease, set->lease_us))
        return "a lease must be 0.1 s to 24 h";
    if (set->poll_us < 0 || set->store_backoff_base_us < 1 || set->store_backoff_cap_us < set->store_backoff_base_us ||
        set->unrouted_delay_us < 0 || set->flush_us < 0)
        return "times must not be negative, and a cap must not be below its base";
    if (set->sink_count < 1 || set->sink_count > MOST || !set->sinks || !set->route)
        return "at least one sink and one route to it are required";
    for (int i = 0; i < set->sink_count; i++) {
        struct ob_sink_settings sink = ob_sink_settings(&set->sinks[i]);
        if (!ob_sink_state_valid(&sink))
            return "the settings of a sink are out of range";
    }
    return NULL;
}

static bool store_batch_init(struct ob_store_batch *batch, int count)
{
    batch->items = ob_calloc((size_t)count, sizeof *batch->items);
    batch->handles = ob_calloc((size_t)count, sizeof *batch->handles);
    return batch->items && batch->handles;
}

static void store_batch_fini(struct ob_store_batch *batch)
{
    ob_free(batch->items);
    ob_free(batch->handles);
}

static bool tables_init(struct ob_machine *machine)
{
    size_t max_messages = (size_t)machine->set.max_messages, sinks = (size_t)machine->set.sink_count;
    machine->sinks = ob_calloc(sinks, sizeof *machine->sinks);
    machine->shut = ob_calloc(sinks, sizeof *machine->shut);
    machine->items = ob_calloc(max_messages, sizeof *machine->items);
    machine->cancels = ob_calloc(max_messages, sizeof *machine->cancels);
    bool ok = machine->sinks && machine->shut && machine->items && machine->cancels;
    ok = ob_flights_init(&machine->flights, machine->set.max_messages) && ok;
    ok = ob_keys_init(&machine->keys, machine->set.max_messages) && ok;
    ok = store_batch_init(&machine->settle, machine->set.settle_limit) && ok;
    return store_batch_init(&machine->extend, machine->set.settle_limit) && ok;
}

enum outbox_code ob_machine_new(const struct ob_machine_settings *settings, int64_t now_us, struct ob_machine **machine,
                                struct outbox_error *err)
{
    struct ob_machine_settings set = with_defaults(settings);
    const char *wrong = wrong_with(&set);
    *machine = NULL;
    if (wrong)
        return ob_error_set(err, OUTBOX_INVALID, "invalid relay settings: %s", wrong);
    struct ob_machine *made = ob_calloc(1, sizeof *made);
    if (!made)
        return ob_error_nomem(err);
    made->set = set;
    made->now_us = now_us;
    made->random = set.seed;
    made->probe_width = OB_PROBE_WIDTH;
    ob_list_init(&made->done);
    ob_list_init(&made->renew);
    if (!tables_init(made)) {
        ob_machine_free(made);
        return ob_error_nomem(err);
    }
    for (int i = 0; i < set.sink_count; i++)
        ob_sink_state_init(&made->sinks[i], &set.sinks[i], set.max_messages);
    made->set.sinks = NULL; /* borrowed by the settings; we have copied it */
    ob_schedule_init(&made->sched, set.poll_us, set.store_backoff_base_us, set.store_backoff_cap_us, now_us);
    *machine = made;
    return OUTBOX_OK;
}

void ob_machine_free(struct ob_machine *machine)
{
    if (!machine)
        return;
    ob_flights_fini(&machine->flights);
    ob_keys_fini(&machine->keys);
    store_batch_fini(&machine->settle);
    store_batch_fini(&machine->extend);
    ob_free(machine->sinks);
    ob_free(machine->shut);
    ob_free(machine->items);
    ob_free(machine->cancels);
    ob_free(machine);
}

void ob_machine_stats(const struct ob_machine *machine, struct ob_machine_stats *stats)
{
    const int *in_state = machine->flights.in_state;
    *stats = machine->stats;
    stats->held = machine->flights.held;
    stats->in_flight = in_state[OB_FLIGHT_SENT];
    stats->queued = in_state[OB_FLIGHT_WAITING] + in_state[OB_FLIGHT_READY];
    stats->settling = in_state[OB_FLIGHT_DONE] + in_state[OB_FLIGHT_SETTLING];
    stats->bytes = machine->flights.bytes;
    stats->incarnation = machine->sched.incarnation;
    stats->stopping = machine->phase != OB_MACHINE_RUNNING;
    stats->asking = machine->sched.claiming || machine->sched.hungry;
}

static void tell(struct ob_machine *machine, const struct ob_note *note)
{
    if (machine->set.note)
        machine->set.note(machine->set.note_ctx, note);
}

void ob_machine_note(struct ob_machine *machine, enum ob_note_kind kind, const struct ob_flight *flight)
{
    if (!machine->set.note)
        return;
    bool sent = flight->sent_us > 0;
    tell(machine, &(struct ob_note){.kind = kind,
                                    .sink = flight->sink,
                                    .msg = flight->msg,
                                    .id = flight->id,
                                    .outcome = flight->outcome,
                                    .code = flight->code,
                                    .error = flight->error,
                                    .delay_us = flight->delay_us,
                                    .queued_us = (sent ? flight->sent_us : machine->now_us) - flight->claimed_us,
                                    .latency_us = flight->latency_us,
                                    .status = flight->status,
                                    .starved = flight->starved});
}

void ob_machine_note_breakers(struct ob_machine *machine)
{
    for (int i = 0; i < machine->set.sink_count; i++) {
        struct ob_sink_state *sink = &machine->sinks[i];
        if (sink->breaker.state == sink->told)
            continue;
        sink->told = sink->breaker.state;
        tell(machine, &(struct ob_note){.kind = OB_NOTE_BREAKER,
                                        .sink = i,
                                        .breaker = sink->breaker.state,
                                        .cause = sink->breaker.cause,
                                        .delay_us = ob_sink_state_put_off_us(sink, machine->now_us)});
    }
}

void ob_machine_note_settled(struct ob_machine *machine, const struct ob_flight *flight,
                             const struct outbox_settle *item)
{
    bool ours = item->result == OUTBOX_SETTLED;
    tell(machine, &(struct ob_note){.kind = ours ? OB_NOTE_SETTLED : OB_NOTE_LOST,
                                    .sink = flight->sink,
                                    .msg = flight->msg,
                                    .id = flight->id,
                                    .outcome = flight->outcome,
                                    .code = flight->code,
                                    .error = flight->error,
                                    .latency_us = flight->latency_us,
                                    .dead = item->dead});
}

void ob_machine_pace(struct ob_machine *machine, int claim_limit, int64_t poll_us)
{
    if (claim_limit > 0 && claim_limit <= OB_MOST(claim))
        machine->set.claim_limit = claim_limit;
    if (poll_us > 0) {
        machine->set.poll_us = machine->sched.poll_us = poll_us;
        if (machine->sched.next_poll_us > machine->now_us + poll_us)
            machine->sched.next_poll_us = machine->now_us + poll_us;
    }
}

enum ob_breaker_state ob_machine_breaker(const struct ob_machine *machine, int sink)
{
    return machine->sinks[sink].breaker.state;
}

enum outbox_code ob_machine_tune(struct ob_machine *machine, int sink, const struct ob_sink_settings *settings,
                                 struct outbox_error *err)
{
    struct ob_sink_settings set = ob_sink_settings(settings);
    if (sink < 0 || sink >= machine->set.sink_count)
        return ob_error_set(err, OUTBOX_INVALID, "there is no sink %d", sink);
    if (!ob_sink_state_valid(&set))
        return ob_error_set(err, OUTBOX_INVALID,
                            "the settings of sink %d are out of range: the old ones stay in "
                            "effect",
                            sink);
    ob_sink_state_tune(&machine->sinks[sink], &set);
    return OUTBOX_OK;
}

const struct ob_sink_state *ob_machine_sink(const struct ob_machine *machine, int sink)
{
    return &machine->sinks[sink];
}

void ob_machine_inherit(struct ob_machine *machine, int sink, const struct ob_machine *from, int from_sink)
{
    ob_sink_state_inherit(&machine->sinks[sink], &from->sinks[from_sink]);
}

int ob_machine_out(const struct ob_machine *machine, int sink)
{
    return machine->sinks[sink].in_flight;
}

bool ob_machine_set_taken(struct ob_machine *machine, int sink, int count)
{
    bool changed = machine->sinks[sink].taken != count;
    machine->sinks[sink].taken = count;
    return changed;
}

/* ---- invariants ---- */

static const char *check_sink(const struct ob_machine *machine, int index)
{
    const struct ob_sink_state *sink = &machine->sinks[index];
    int held = 0, out = 0, ready = 0, listed = 0;
    for (int i = 0; i < machine->flights.count; i++) {
        const struct ob_flight *flight = &machine->flights.all[i];
        if (flight->sink != index)
            continue;
        out += flight->state == OB_FLIGHT_SENT;
        ready += flight->state == OB_FLIGHT_READY;
        held +=
            flight->state == OB_FLIGHT_SENT || flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING;
    }
    OB_LIST_EACH (it, &sink->ready)
        listed++;
    if (held != sink->held || out != sink->in_flight || ready != listed)
        return "what a sink holds is miscounted";
    if (out > sink->set.concurrency)
        return "more messages are out than the sink may have";
    if (sink->breaker.state == OB_BREAKER_OPEN && held > out)
        return "messages are queued for an open breaker";
    if (sink->probe && sink->breaker.state != OB_BREAKER_HALF_OPEN)
        return "there is a probe, but the breaker is not half open";
    if (sink->probe && !ob_flight_find(&machine->flights, sink->probe))
        return "the probe is gone";
    return NULL;
}

const char *ob_machine_check(const struct ob_machine *machine)
{
    const char *wrong = ob_flights_check(&machine->flights);
    if (!wrong)
        wrong = ob_keys_check(&machine->keys, machine->set.max_messages);
    for (int i = 0; i < machine->set.sink_count && !wrong; i++)
        wrong = check_sink(machine, i);
    if (wrong)
        return wrong;
    if (machine->flights.in_state[OB_FLIGHT_SENT] > machine->set.concurrency)
        return "more messages are out than the process may have";
    if (machine->flights.in_state[OB_FLIGHT_SETTLING] > machine->settle.count)
        return "a message is settling, but in no settle";
    if (machine->cancel_count > machine->set.max_messages)
        return "there are more cancels than messages";
    if (machine->phase != OB_MACHINE_RUNNING &&
        machine->flights.in_state[OB_FLIGHT_READY] + machine->flights.in_state[OB_FLIGHT_WAITING] > 0)
        return "messages are queued while the relay stops";
    return NULL;
}
