/* machine_verdict.c - what a verdict means: for the message, and for its sink.
 *
 * Whose fault is a failure? This matters, because a fault of the sink costs the message nothing.
 *
 *   refused    401, 403, 404 and the like may be about the credentials, the address, or the content of this one message.
 *              A message refused for the first time is put off, unspent. If it is refused again, and something was accepted
 *              in between, the message is at fault and spends an attempt. REFUSALS in a row without an acceptance between
 *              them are the sink's fault: its breaker opens. The number is high because bad messages come in bulk. If nothing
 *              was accepted for a minute, one refusal is enough.
 *   no answer  A sink that answers no message is down, whether or not it accepts connections. A message spends at most
 *              SILENT_SPENDS of its attempts on that, and never its last.
 *   failing    A 500 may be about this one message: it spends an attempt. If the sink fails every message, its breaker opens;
 *              failures while it is open spend nothing.
 *   a probe    spends an attempt only when it fails with an answer: a message that always fails, on a sink with no other
 *              messages, must become a dead letter eventually. The message's own delays apply, so none becomes a dead letter
 *              sooner than without a breaker. A probe that shows nothing new about the sink is not recorded.
 *
 * Messages that are put off (limited, blocked, silent) wait according to msg->deferred, because no attempt is spent. */
#include "core/machine_int.h"
#include "core/mutant.h"

#include <assert.h>
#include <string.h>

enum { SILENT_SPENDS = 2, REFUSALS = 100 };
static const int64_t second = 1000000;
static const int64_t lately_us = 60 * second;  /* how long an acceptance counts as evidence that the sink accepts */
static const int64_t silence_us = 30 * second; /* maximum wait, so that messages are tried soon after recovery */

/* ---- delays and budgets ---- */

static int64_t backoff(struct ob_machine *machine, const struct ob_flight *flight, int64_t after_us)
{
    return ob_retry_delay_us(&flight->retry, flight->spent, after_us, ob_machine_random(machine));
}

static int64_t deferral(struct ob_machine *machine, const struct ob_flight *flight, int64_t after_us)
{
    int before = OB_MUTANT(DEFERRED_FLAT) ? 0 : flight->msg->deferred;
    return ob_retry_delay_us(&flight->retry, before + 1, after_us, ob_machine_random(machine));
}

/* A failure that spends an attempt. */
static void spend(struct ob_machine *machine, struct ob_flight *flight, enum outbox_outcome outcome, int64_t after_us)
{
    bool last = flight->spent >= flight->max_attempts;
    machine->stats.failed += last;
    machine->stats.retried += !last && outcome == OUTBOX_RETRY;
    machine->stats.unknown += !last && outcome == OUTBOX_UNKNOWN;
    ob_machine_end(machine, flight, outcome, backoff(machine, flight, after_us));
}

/* ---- the sink ---- */

/* The sink answered, unless the verdict was made on our side, which shows nothing about the sink (N5). After a probe that
 * leaves the breaker half open, and so showed nothing, the next message is tried at once. */
static void answered(struct ob_machine *machine, const struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    bool closed = false;
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        closed = ob_breaker_accepted(&sink->breaker, machine->now_us);
    else if (!verdict->local || OB_MUTANT(LOCAL_ANSWERS))
        closed = ob_breaker_answered(&sink->breaker);
    if (closed || sink->probe == ob_flight_handle(flight)) {
        sink->probe = 0;
        sink->idle = false; /* there may be other messages to probe it with: one is claimed, not a batch */
    }
    machine->sched.hungry = machine->sched.hungry || closed;
}

/* A failure of the sink. True when the breaker is open now. */
static bool failure(struct ob_machine *machine, int index, bool unreachable, bool probe)
{
    struct ob_sink_state *sink = &machine->sinks[index];
    if (probe)
        sink->probe = 0;
    if (ob_breaker_failed(&sink->breaker, unreachable, probe, machine->now_us)) {
        machine->stats.breaker_opened++;
        ob_machine_release_sink(machine, index);
    }
    return sink->breaker.state != OB_BREAKER_CLOSED;
}

/* The message waits until its sink is probed again, unspent. */
static void wait_with(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict,
                      bool probe)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    char code[sizeof sink->code] = "";
    if (verdict->code)
        memcpy(code, verdict->code, strnlen(verdict->code, sizeof code - 1));
    bool known = probe && strcmp(code, sink->code) == 0;
    memcpy(sink->code, code, sizeof code);
    machine->stats.blocked++;
    ob_machine_end(machine, flight, known ? OUTBOX_RELEASED : OUTBOX_BLOCKED,
                   ob_sink_state_put_off_us(sink, machine->now_us));
}

/* ---- no answer, or one that says nothing about the message ---- */

static bool is_silent(const struct ob_machine *machine, const struct ob_flight *flight,
                      const struct outbox_verdict *verdict, bool probe)
{
    const struct ob_breaker *breaker = &machine->sinks[flight->sink].breaker;
    int most = flight->max_attempts - 1 < SILENT_SPENDS ? flight->max_attempts - 1 : SILENT_SPENDS;
    if (verdict->outcome != OUTBOX_SINK_UNKNOWN || OB_MUTANT(SILENCE_SPENDS))
        return false;
    /* The first failure after an answer may still be about the message alone. */
    return probe || (verdict->unreachable && breaker->unreachable > 1 && flight->spent > most) ||
           OB_MUTANT(SILENCE_IS_FREE);
}

static void silent(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    int64_t wait = deferral(machine, flight, verdict->not_before_us);
    int64_t put_off = ob_sink_state_put_off_us(&machine->sinks[flight->sink], machine->now_us);
    wait = wait < silence_us ? wait : silence_us;
    machine->stats.unknown++;
    ob_machine_end(machine, flight, OUTBOX_SILENT, wait > put_off ? wait : put_off);
}

static void failed(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict,
                   bool probe)
{
    bool open = false, own = verdict->scope == OUTBOX_SCOPE_RECIPIENT || verdict->local;
    if (!own || OB_MUTANT(RECIPIENT_COUNTS))
        open = failure(machine, flight->sink, verdict->unreachable, probe);
    else if (verdict->outcome == OUTBOX_SINK_RETRY)
        answered(machine, flight, verdict);
    if (is_silent(machine, flight, verdict, probe))
        silent(machine, flight, verdict);
    else if (verdict->outcome == OUTBOX_SINK_UNKNOWN)
        spend(machine, flight, OB_MUTANT(UNKNOWN_RELEASED) ? OUTBOX_RELEASED : OUTBOX_UNKNOWN, verdict->not_before_us);
    else if (open && (!probe || verdict->unreachable || OB_MUTANT(PROBES_FREE)) && !OB_MUTANT(BREAKER_SPENDS))
        wait_with(machine, flight, verdict, probe); /* an outage of the sink costs nothing (N5) */
    else
        spend(machine, flight, OUTBOX_RETRY, verdict->not_before_us);
}

static void limited(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    int index = flight->sink;
    machine->stats.limited++;
    answered(machine, flight, verdict);
    if (verdict->scope != OUTBOX_SCOPE_SINK) {
        ob_machine_end(machine, flight, OUTBOX_LIMITED, deferral(machine, flight, verdict->not_before_us));
        return;
    }
    ob_machine_end(machine, flight, OUTBOX_LIMITED,
                   ob_sink_state_limited(sink, verdict->not_before_us, machine->now_us));
    ob_machine_release_sink(machine, index);
}

/* ---- refused ---- */

/* The least time since its last attempt, which is the wait that followed it. */
static int64_t waited_us(const struct ob_flight *flight)
{
    int n = flight->msg->deferred > 0 ? flight->msg->deferred : flight->spent - 1;
    return n > 0 ? ob_retry_least_us(&flight->retry, n) : 0;
}

/* It failed before, and since then the sink accepted another message. */
static bool is_own_fault(const struct ob_machine *machine, const struct ob_flight *flight)
{
    const struct ob_sink_state *sink = &machine->sinks[flight->sink];
    bool failed_before = flight->msg->deferred > 0 || flight->spent > 1;
    if (OB_MUTANT(REFUSAL_SPENDS))
        return true;
    if (sink->breaker.state != OB_BREAKER_CLOSED || sink->accepted_us < 0 || !failed_before ||
        OB_MUTANT(REFUSAL_IS_FREE))
        return false;
    return sink->refusals == 0 || sink->accepted_us >= flight->sent_us ||
           machine->now_us - sink->accepted_us < waited_us(flight);
}

/* Counts one more refusal; returns whether the sink, not the message, is at fault. */
static bool refuses_all(struct ob_machine *machine, struct ob_sink_state *sink)
{
    bool accepts = sink->accepted_us >= 0 && machine->now_us - sink->accepted_us < lately_us;
    sink->refusals++;
    return sink->breaker.state != OB_BREAKER_CLOSED || !accepts || sink->refusals >= REFUSALS ||
           OB_MUTANT(REFUSAL_OPENS);
}

static void blocked(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict,
                    bool probe)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    int index = flight->sink;
    int64_t wait = verdict->not_before_us;
    bool whole = verdict->scope == OUTBOX_SCOPE_SINK;
    if (whole && !verdict->local && is_own_fault(machine, flight)) {
        answered(machine, flight, verdict);
        spend(machine, flight, OUTBOX_RETRY, wait);
        return;
    }
    if (!whole || (!refuses_all(machine, sink) && !verdict->local)) {
        answered(machine, flight, verdict);
        machine->stats.blocked++;
        ob_machine_end(machine, flight, OUTBOX_BLOCKED, deferral(machine, flight, wait));
        return;
    }
    if (wait > sink->set.retry.after_cap_us)
        wait = sink->set.retry.after_cap_us;
    if (probe)
        sink->probe = 0;
    if (sink->breaker.state == OB_BREAKER_CLOSED)
        machine->stats.breaker_opened++;
    ob_breaker_blocked(&sink->breaker, probe, wait, machine->now_us);
    wait_with(machine, flight, verdict, probe);
    ob_machine_release_sink(machine, index);
}

/* ---- the rest ---- */

/* A wait that the sink requests has the same maximum as one that a receiver requests. A shortage of the whole process, for
 * instance of descriptors, would affect the next message too: nothing is sent to the sink for a while, longer each time. */
static void not_sent(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    int64_t most = sink->set.retry.after_cap_us, wait = verdict->not_before_us;
    int index = flight->sink;
    flight->starved = wait > 0;
    if (wait > 0 && verdict->scope == OUTBOX_SCOPE_SINK) {
        ob_machine_release(machine, flight, ob_sink_state_limited(sink, -1, machine->now_us));
        ob_machine_release_sink(machine, index);
        return;
    }
    ob_machine_release(machine, flight, wait < 0 ? 0 : wait < most ? wait : most);
}

static void accepted(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_sink_state *sink = &machine->sinks[flight->sink];
    machine->stats.delivered++;
    if (flight->key && ob_key_blocked(flight->key, flight->seq))
        machine->stats.misordered++; /* the sink continued after a failure, although a sink that keeps order must not */
    answered(machine, flight, verdict);
    ob_sink_state_unlimited(sink);
    sink->accepted_us = machine->now_us;
    sink->refusals = 0;
    ob_machine_end(machine, flight, OUTBOX_DELIVERED, 0);
}

void ob_machine_verdict(struct ob_machine *machine, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    assert(flight->state == OB_FLIGHT_SENT || OB_MUTANT(LATE_REPLY));
    bool probe = machine->sinks[flight->sink].probe == ob_flight_handle(flight);
    flight->latency_us = machine->now_us - flight->sent_us;
    flight->status = verdict->status;
    ob_flight_texts(flight, verdict->code, verdict->text, verdict->reference, verdict->output);
    switch (verdict->outcome) {
    case OUTBOX_SINK_ACCEPTED: accepted(machine, flight, verdict); break;
    case OUTBOX_SINK_LIMITED: limited(machine, flight, verdict); break;
    case OUTBOX_SINK_BLOCKED: blocked(machine, flight, verdict, probe); break;
    case OUTBOX_SINK_TERMINAL:
        machine->stats.failed++;
        answered(machine, flight, verdict);
        ob_machine_end(machine, flight, OUTBOX_FAILED, -1);
        break;
    case OUTBOX_SINK_NOT_SENT: not_sent(machine, flight, verdict); break;
    default: failed(machine, flight, verdict, probe); break;
    }
}

static void cancel(struct ob_machine *machine, const struct ob_flight *flight)
{
    machine->cancels[machine->cancel_count++] = (struct cancel){flight->sink, ob_flight_handle(flight)};
}

void ob_machine_time_out(struct ob_machine *machine, struct ob_flight *flight)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OB_MUTANT(TIMEOUT_IS_SUCCESS) ? OUTBOX_SINK_ACCEPTED : OUTBOX_SINK_UNKNOWN;
    verdict.unreachable = true;
    verdict.code = "timeout";
    verdict.text = "no result within the sink's timeout";
    machine->stats.timeouts++;
    cancel(machine, flight);
    ob_machine_verdict(machine, flight, &verdict);
}

void ob_machine_interrupt(struct ob_machine *machine, struct ob_flight *flight)
{
    cancel(machine, flight);
    flight->latency_us = machine->now_us - flight->sent_us;
    ob_flight_texts(flight, "shutdown", "the relay stopped before the delivery finished", NULL, NULL);
    machine->stats.interrupted++;
    ob_machine_end(machine, flight, OB_MUTANT(INTERRUPTED_SPENDS) ? OUTBOX_UNKNOWN : OUTBOX_INTERRUPTED, 0);
}
