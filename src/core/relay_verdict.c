/* relay_verdict.c - what a verdict means: for the message, and for its destination.
 *
 * Whose fault is it? The question is asked of every failure, because a fault of the destination costs the message nothing.
 *
 *   refused    401, 403, 404 and the like may be about the credentials, the address, or what is in this one message. Refused
 *              for the first time a message is put off, unspent. Refused again, and something was accepted in between: it is
 *              the message's own fault, and spends. REFUSALS in a row without an acceptance between them are about the
 *              destination: its breaker opens. So many, because messages that are wrong come in bulk. Where nothing was
 *              accepted for a minute, one is enough.
 *   no answer  A destination that leaves everybody without an answer is down, whether or not it takes connections. A message
 *              spends at most SILENT_SPENDS of its attempts on that, and never its last.
 *   failing    A 500 may be about this one message: it spends. When the destination fails whatever it is given, its breaker
 *              opens; what comes back while it is open spends nothing.
 *   a probe    spends only when it fails with an answer: a message that is answered so alone, on a destination that has
 *              nothing else to do, must die in the end. Its own delays hold, so nothing dies sooner than without a breaker.
 *              One that finds what is known of the destination already is not written down.
 *
 * What is put off by itself (limited, blocked, silent) waits by the count of that, msg->deferred, since nothing is spent. */
#include "core/mutant.h"
#include "core/relay_int.h"

#include <assert.h>
#include <string.h>

enum { SILENT_SPENDS = 2, REFUSALS = 100 };
static const int64_t second = 1000000;
static const int64_t lately_us = 60 * second;  /* an acceptance tells so long that the destination accepts */
static const int64_t silence_us = 30 * second; /* no message waits longer for a destination that has come back */

/* ---- delays and budgets ---- */

static int64_t backoff(struct ob_relay *relay, const struct ob_flight *flight, int64_t after_us)
{
    return ob_retry_delay_us(&flight->retry, flight->spent, after_us, ob_relay_random(relay));
}

static int64_t deferral(struct ob_relay *relay, const struct ob_flight *flight, int64_t after_us)
{
    int before = OB_MUTANT(DEFERRED_FLAT) ? 0 : flight->msg->deferred;
    return ob_retry_delay_us(&flight->retry, before + 1, after_us, ob_relay_random(relay));
}

/* How many attempts it may spend: the destination may allow fewer than the message does. */
static int budget(const struct ob_relay *relay, const struct ob_flight *flight)
{
    int most = relay->dests[flight->dest].set.max_attempts;
    return most > 0 && most < flight->msg->max_attempts ? most : flight->msg->max_attempts;
}

/* A failure that counts. */
static void spend(struct ob_relay *relay, struct ob_flight *flight, enum outbox_outcome outcome, int64_t after_us)
{
    int most = relay->dests[flight->dest].set.max_attempts;
    if (most > 0 && flight->spent >= most) {
        relay->stats.failed++;
        ob_relay_end(relay, flight, outcome, OUTBOX_NEVER);
        return;
    }
    relay->stats.retried += outcome == OUTBOX_RETRY;
    relay->stats.unknown += outcome == OUTBOX_UNKNOWN;
    ob_relay_end(relay, flight, outcome, backoff(relay, flight, after_us));
}

/* ---- the destination ---- */

/* It showed that it lives; but what was decided on our side shows nothing (N5). A probe that leaves the breaker half open
 * has told nothing: the next message is tried at once. */
static void answered(struct ob_relay *relay, const struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    bool closed = false;
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        closed = ob_breaker_accepted(&dest->breaker, relay->now_us);
    else if (!verdict->local || OB_MUTANT(LOCAL_ANSWERS))
        closed = ob_breaker_answered(&dest->breaker);
    if (closed || dest->probe == ob_flight_handle(flight))
        dest->probe = 0;
    relay->sched.hungry = relay->sched.hungry || closed;
}

/* A failure of the destination. True when the breaker is open now. */
static bool failure(struct ob_relay *relay, int index, bool unreachable, bool probe)
{
    struct ob_dest *dest = &relay->dests[index];
    if (probe)
        dest->probe = 0;
    if (ob_breaker_failed(&dest->breaker, unreachable, probe, relay->now_us)) {
        relay->stats.breaker_opened++;
        ob_relay_release_dest(relay, index);
    }
    return dest->breaker.state != OB_BREAKER_CLOSED;
}

/* The message waits with its destination, unspent. */
static void wait_with(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict,
                      bool probe)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    char code[sizeof dest->code] = "";
    if (verdict->code)
        memcpy(code, verdict->code, strnlen(verdict->code, sizeof code - 1));
    bool known = probe && strcmp(code, dest->code) == 0;
    memcpy(dest->code, code, sizeof code);
    relay->stats.blocked++;
    ob_relay_end(relay, flight, known ? OUTBOX_RELEASED : OUTBOX_BLOCKED, ob_dest_put_off_us(dest, relay->now_us));
}

/* ---- no answer, or one that says nothing of the message ---- */

static bool is_silent(const struct ob_relay *relay, const struct ob_flight *flight,
                      const struct outbox_verdict *verdict, bool probe)
{
    const struct ob_breaker *breaker = &relay->dests[flight->dest].breaker;
    int most = budget(relay, flight) - 1 < SILENT_SPENDS ? budget(relay, flight) - 1 : SILENT_SPENDS;
    if (verdict->outcome != OUTBOX_SINK_UNKNOWN || OB_MUTANT(SILENCE_SPENDS))
        return false;
    /* The first failure after an answer may still be about the message alone. */
    return probe || (verdict->unreachable && breaker->unreachable > 1 && flight->spent > most) ||
           OB_MUTANT(SILENCE_IS_FREE);
}

static void silent(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    int64_t wait = deferral(relay, flight, verdict->not_before_us);
    int64_t put_off = ob_dest_put_off_us(&relay->dests[flight->dest], relay->now_us);
    wait = wait < silence_us ? wait : silence_us;
    relay->stats.unknown++;
    ob_relay_end(relay, flight, OUTBOX_SILENT, wait > put_off ? wait : put_off);
}

static void failed(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict, bool probe)
{
    bool open = false, own = verdict->scope == OUTBOX_SCOPE_RECIPIENT || verdict->local;
    if (!own || OB_MUTANT(RECIPIENT_COUNTS))
        open = failure(relay, flight->dest, verdict->unreachable, probe);
    else if (verdict->outcome == OUTBOX_SINK_RETRY)
        answered(relay, flight, verdict);
    if (is_silent(relay, flight, verdict, probe))
        silent(relay, flight, verdict);
    else if (verdict->outcome == OUTBOX_SINK_UNKNOWN)
        spend(relay, flight, OB_MUTANT(UNKNOWN_RELEASED) ? OUTBOX_RELEASED : OUTBOX_UNKNOWN, verdict->not_before_us);
    else if (open && (!probe || verdict->unreachable || OB_MUTANT(PROBES_FREE)) && !OB_MUTANT(BREAKER_SPENDS))
        wait_with(relay, flight, verdict, probe); /* the outage is the destination's: it costs nothing (N5) */
    else
        spend(relay, flight, OUTBOX_RETRY, verdict->not_before_us);
}

static void limited(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    int index = flight->dest;
    relay->stats.limited++;
    answered(relay, flight, verdict);
    if (verdict->scope != OUTBOX_SCOPE_DESTINATION) {
        ob_relay_end(relay, flight, OUTBOX_LIMITED, deferral(relay, flight, verdict->not_before_us));
        return;
    }
    ob_relay_end(relay, flight, OUTBOX_LIMITED, ob_dest_limited(dest, verdict->not_before_us, relay->now_us));
    ob_relay_release_dest(relay, index);
}

/* ---- refused ---- */

/* The shortest time since its last attempt: the wait that followed it. */
static int64_t waited_us(const struct ob_flight *flight)
{
    int n = flight->msg->deferred > 0 ? flight->msg->deferred : flight->spent - 1;
    return n > 0 ? ob_retry_least_us(&flight->retry, n) : 0;
}

/* It failed before, and since then the destination accepted another message. */
static bool is_own_fault(const struct ob_relay *relay, const struct ob_flight *flight)
{
    const struct ob_dest *dest = &relay->dests[flight->dest];
    bool failed_before = flight->msg->deferred > 0 || flight->spent > 1;
    if (OB_MUTANT(REFUSAL_SPENDS))
        return true;
    if (dest->breaker.state != OB_BREAKER_CLOSED || dest->accepted_us < 0 || !failed_before ||
        OB_MUTANT(REFUSAL_IS_FREE))
        return false;
    return dest->refusals == 0 || dest->accepted_us >= flight->sent_us ||
           relay->now_us - dest->accepted_us < waited_us(flight);
}

/* Whether it is the destination that refuses, after one refusal more. */
static bool refuses_all(struct ob_relay *relay, struct ob_dest *dest)
{
    bool accepts = dest->accepted_us >= 0 && relay->now_us - dest->accepted_us < lately_us;
    dest->refusals++;
    return dest->breaker.state != OB_BREAKER_CLOSED || !accepts || dest->refusals >= REFUSALS ||
           OB_MUTANT(REFUSAL_OPENS);
}

static void blocked(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict, bool probe)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    int index = flight->dest;
    int64_t wait = verdict->not_before_us;
    bool whole = verdict->scope == OUTBOX_SCOPE_DESTINATION;
    if (whole && !verdict->local && is_own_fault(relay, flight)) {
        answered(relay, flight, verdict);
        spend(relay, flight, OUTBOX_RETRY, wait);
        return;
    }
    if (!whole || (!refuses_all(relay, dest) && !verdict->local)) {
        answered(relay, flight, verdict);
        relay->stats.blocked++;
        ob_relay_end(relay, flight, OUTBOX_BLOCKED, deferral(relay, flight, wait));
        return;
    }
    if (wait > dest->set.retry.after_cap_us)
        wait = dest->set.retry.after_cap_us;
    if (probe)
        dest->probe = 0;
    if (dest->breaker.state == OB_BREAKER_CLOSED)
        relay->stats.breaker_opened++;
    ob_breaker_blocked(&dest->breaker, probe, wait, relay->now_us);
    wait_with(relay, flight, verdict, probe);
    ob_relay_release_dest(relay, index);
}

/* ---- the rest ---- */

/* The patience of a sink has the limit that a receiver's has. What this process lacks altogether, descriptors for instance,
 * the next message would lack too: the destination is left alone, longer each time. */
static void not_sent(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    int64_t most = dest->set.retry.after_cap_us, wait = verdict->not_before_us;
    int index = flight->dest;
    flight->starved = wait > 0;
    if (wait > 0 && verdict->scope == OUTBOX_SCOPE_DESTINATION) {
        ob_relay_release(relay, flight, ob_dest_limited(dest, -1, relay->now_us));
        ob_relay_release_dest(relay, index);
        return;
    }
    ob_relay_release(relay, flight, wait < 0 ? 0 : wait < most ? wait : most);
}

static void accepted(struct ob_relay *relay, struct ob_flight *flight, const struct outbox_verdict *verdict)
{
    struct ob_dest *dest = &relay->dests[flight->dest];
    relay->stats.delivered++;
    if (flight->key && ob_key_blocked(flight->key, flight->seq))
        relay->stats.misordered++; /* the sink went on behind a failure: it promised not to */
    answered(relay, flight, verdict);
    ob_dest_unlimited(dest);
    dest->accepted_us = relay->now_us;
    dest->refusals = 0;
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
        answered(relay, flight, verdict);
        ob_relay_end(relay, flight, OUTBOX_FAILED, -1);
        break;
    case OUTBOX_SINK_NOT_SENT: not_sent(relay, flight, verdict); break;
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
