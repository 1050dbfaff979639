/* relay.c - the life of a relay: settings, tables, a look inside. */
#include "core/relay_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"

#include <assert.h>

static const int64_t second = 1000000;
enum { MOST = 100000 }; /* of anything that is counted: keeps every product far from overflow */

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

static struct ob_relay_settings with_defaults(const struct ob_relay_settings *given)
{
    struct ob_relay_settings set = *given;
    set.window = or_int(set.window, 1000);
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

static const char *wrong_with(const struct ob_relay_settings *set)
{
    if (!counts(set->window) || !counts(set->claim_limit) || !counts(set->settle_limit) || !counts(set->concurrency) ||
        !counts(set->run))
        return "window, claim_limit, settle_limit, concurrency and run are 1 to 100000";
    if (set->claim_limit > OB_MOST(claim) || set->settle_limit > OB_MOST(settle) || set->run > OB_MOST(run))
        return "a store takes no more than 10000 messages at once";
    if (!ob_limit_allows(OB_LIMIT_lease, set->lease_us))
        return "a lease is 0.1 s to 24 h";
    if (set->poll_us < 0 || set->store_backoff_base_us < 1 || set->store_backoff_cap_us < set->store_backoff_base_us ||
        set->unrouted_delay_us < 0 || set->flush_us < 0)
        return "times are not negative, and a cap is not below its base";
    if (set->dest_count < 1 || set->dest_count > MOST || !set->dests || !set->route)
        return "there must be a destination, and a route to it";
    for (int i = 0; i < set->dest_count; i++) {
        struct ob_dest_settings dest = ob_dest_settings(&set->dests[i]);
        if (!ob_dest_valid(&dest))
            return "the settings of a destination are out of range";
    }
    return NULL;
}

static bool window_init(struct ob_window *window, int count)
{
    window->items = ob_calloc((size_t)count, sizeof *window->items);
    window->handles = ob_calloc((size_t)count, sizeof *window->handles);
    return window->items && window->handles;
}

static void window_fini(struct ob_window *window)
{
    ob_free(window->items);
    ob_free(window->handles);
}

static bool tables_init(struct ob_relay *relay)
{
    size_t window = (size_t)relay->set.window, dests = (size_t)relay->set.dest_count;
    relay->dests = ob_calloc(dests, sizeof *relay->dests);
    relay->shut = ob_calloc(dests, sizeof *relay->shut);
    relay->items = ob_calloc(window, sizeof *relay->items);
    relay->cancels = ob_calloc(window, sizeof *relay->cancels);
    bool ok = relay->dests && relay->shut && relay->items && relay->cancels;
    ok = ob_flights_init(&relay->flights, relay->set.window) && ok;
    ok = ob_keys_init(&relay->keys, relay->set.window) && ok;
    ok = window_init(&relay->settle, relay->set.settle_limit) && ok;
    return window_init(&relay->extend, relay->set.settle_limit) && ok;
}

enum outbox_code ob_relay_new(const struct ob_relay_settings *settings, int64_t now_us, struct ob_relay **relay,
                              struct outbox_error *err)
{
    struct ob_relay_settings set = with_defaults(settings);
    const char *wrong = wrong_with(&set);
    *relay = NULL;
    if (wrong)
        return ob_error_set(err, OUTBOX_INVALID, "the relay cannot work like this: %s", wrong);
    struct ob_relay *made = ob_calloc(1, sizeof *made);
    if (!made)
        return ob_error_nomem(err);
    made->set = set;
    made->now_us = now_us;
    made->random = set.seed;
    made->probe_width = OB_PROBE_WIDTH;
    ob_list_init(&made->done);
    ob_list_init(&made->renew);
    if (!tables_init(made)) {
        ob_relay_free(made);
        return ob_error_nomem(err);
    }
    for (int i = 0; i < set.dest_count; i++)
        ob_dest_init(&made->dests[i], &set.dests[i], set.window);
    made->set.dests = NULL; /* not ours: copied */
    ob_schedule_init(&made->sched, set.poll_us, set.store_backoff_base_us, set.store_backoff_cap_us, now_us);
    *relay = made;
    return OUTBOX_OK;
}

void ob_relay_free(struct ob_relay *relay)
{
    if (!relay)
        return;
    ob_flights_fini(&relay->flights);
    ob_keys_fini(&relay->keys);
    window_fini(&relay->settle);
    window_fini(&relay->extend);
    ob_free(relay->dests);
    ob_free(relay->shut);
    ob_free(relay->items);
    ob_free(relay->cancels);
    ob_free(relay);
}

void ob_relay_stats(const struct ob_relay *relay, struct ob_relay_stats *stats)
{
    const int *in_state = relay->flights.in_state;
    *stats = relay->stats;
    stats->held = relay->flights.held;
    stats->out = in_state[OB_FLIGHT_OUT];
    stats->queued = in_state[OB_FLIGHT_WAITING] + in_state[OB_FLIGHT_READY];
    stats->settling = in_state[OB_FLIGHT_DONE] + in_state[OB_FLIGHT_SETTLING];
    stats->bytes = relay->flights.bytes;
    stats->incarnation = relay->sched.incarnation;
    stats->stopping = relay->phase != OB_RELAY_RUNNING;
}

static void tell(struct ob_relay *relay, const struct ob_note *note)
{
    if (relay->set.note)
        relay->set.note(relay->set.note_ctx, note);
}

void ob_relay_note(struct ob_relay *relay, enum ob_note_kind kind, const struct ob_flight *flight)
{
    if (!relay->set.note)
        return;
    bool sent = flight->sent_us > 0;
    tell(relay, &(struct ob_note){.kind = kind,
                                  .dest = flight->dest,
                                  .msg = flight->msg,
                                  .id = flight->id,
                                  .outcome = flight->outcome,
                                  .code = flight->code,
                                  .error = flight->error,
                                  .delay_us = flight->delay_us,
                                  .queued_us = (sent ? flight->sent_us : relay->now_us) - flight->claimed_us,
                                  .latency_us = flight->latency_us,
                                  .starved = flight->starved});
}

void ob_relay_note_breakers(struct ob_relay *relay)
{
    for (int i = 0; i < relay->set.dest_count; i++) {
        struct ob_dest *dest = &relay->dests[i];
        if (dest->breaker.state == dest->told)
            continue;
        dest->told = dest->breaker.state;
        tell(relay, &(struct ob_note){.kind = OB_NOTE_BREAKER,
                                      .dest = i,
                                      .breaker = dest->breaker.state,
                                      .cause = dest->breaker.cause,
                                      .delay_us = ob_dest_put_off_us(dest, relay->now_us)});
    }
}

void ob_relay_note_settled(struct ob_relay *relay, const struct ob_flight *flight, const struct outbox_settle *item)
{
    bool ours = item->result == OUTBOX_SETTLED;
    tell(relay, &(struct ob_note){.kind = ours ? OB_NOTE_SETTLED : OB_NOTE_LOST,
                                  .dest = flight->dest,
                                  .msg = flight->msg,
                                  .id = flight->id,
                                  .outcome = flight->outcome,
                                  .code = flight->code,
                                  .error = flight->error,
                                  .latency_us = flight->latency_us,
                                  .dead = item->dead});
}

void ob_relay_pace(struct ob_relay *relay, int claim_limit, int64_t poll_us)
{
    if (claim_limit > 0 && claim_limit <= OB_MOST(claim))
        relay->set.claim_limit = claim_limit;
    if (poll_us > 0) {
        relay->set.poll_us = relay->sched.poll_us = poll_us;
        if (relay->sched.next_poll_us > relay->now_us + poll_us)
            relay->sched.next_poll_us = relay->now_us + poll_us;
    }
}

enum ob_breaker_state ob_relay_breaker(const struct ob_relay *relay, int dest)
{
    return relay->dests[dest].breaker.state;
}

enum outbox_code ob_relay_tune(struct ob_relay *relay, int dest, const struct ob_dest_settings *settings,
                               struct outbox_error *err)
{
    struct ob_dest_settings set = ob_dest_settings(settings);
    if (dest < 0 || dest >= relay->set.dest_count)
        return ob_error_set(err, OUTBOX_INVALID, "there is no destination %d", dest);
    if (!ob_dest_valid(&set))
        return ob_error_set(err, OUTBOX_INVALID, "the settings of destination %d are out of range: it keeps the old",
                            dest);
    ob_dest_tune(&relay->dests[dest], &set);
    return OUTBOX_OK;
}

void ob_relay_inherit(struct ob_relay *relay, int dest, const struct ob_relay *from, int from_dest)
{
    ob_dest_inherit(&relay->dests[dest], &from->dests[from_dest]);
}

int ob_relay_out(const struct ob_relay *relay, int dest)
{
    return relay->dests[dest].out;
}

bool ob_relay_set_taken(struct ob_relay *relay, int dest, int count)
{
    bool changed = relay->dests[dest].taken != count;
    relay->dests[dest].taken = count;
    return changed;
}

/* ---- invariants ---- */

static const char *check_dest(const struct ob_relay *relay, int index)
{
    const struct ob_dest *dest = &relay->dests[index];
    int held = 0, out = 0, ready = 0, listed = 0;
    for (int i = 0; i < relay->flights.count; i++) {
        const struct ob_flight *flight = &relay->flights.all[i];
        if (flight->dest != index)
            continue;
        out += flight->state == OB_FLIGHT_OUT;
        ready += flight->state == OB_FLIGHT_READY;
        held +=
            flight->state == OB_FLIGHT_OUT || flight->state == OB_FLIGHT_READY || flight->state == OB_FLIGHT_WAITING;
    }
    OB_LIST_EACH (it, &dest->ready)
        listed++;
    if (held != dest->held || out != dest->out || ready != listed)
        return "what a destination holds is miscounted";
    if (out > dest->set.concurrency)
        return "more messages are out than the destination may have";
    if (dest->breaker.state == OB_BREAKER_OPEN && held > out)
        return "messages are queued for an open breaker";
    if (dest->probe && dest->breaker.state != OB_BREAKER_HALF_OPEN)
        return "there is a probe, but the breaker is not half open";
    if (dest->probe && !ob_flight_find(&relay->flights, dest->probe))
        return "the probe is gone";
    return NULL;
}

const char *ob_relay_check(const struct ob_relay *relay)
{
    const char *wrong = ob_flights_check(&relay->flights);
    if (!wrong)
        wrong = ob_keys_check(&relay->keys, relay->set.window);
    for (int i = 0; i < relay->set.dest_count && !wrong; i++)
        wrong = check_dest(relay, i);
    if (wrong)
        return wrong;
    if (relay->flights.in_state[OB_FLIGHT_OUT] > relay->set.concurrency)
        return "more messages are out than the process may have";
    if (relay->flights.in_state[OB_FLIGHT_SETTLING] > relay->settle.count)
        return "a message is settling, but in no settle";
    if (relay->cancel_count > relay->set.window)
        return "there are more cancels than messages";
    if (relay->phase != OB_RELAY_RUNNING &&
        relay->flights.in_state[OB_FLIGHT_READY] + relay->flights.in_state[OB_FLIGHT_WAITING] > 0)
        return "messages are queued while the relay stops";
    return NULL;
}
