/* replace.c - replaces a producer, and runs the timer of the sink.
 *
 * librdkafka cannot take back a single message, and a producer with a fatal error accepts no more. So when a message was in
 * flight for too long, was cancelled, or the producer is broken, all messages in flight are taken back:
 *
 *     RUNNING --begin--> DRAINING --all reported--> RUNNING
 *                           |                          ^
 *                        too slow --> PURGING --new producers
 *
 * While draining, nothing new is sent, so successful messages are reported within milliseconds: only messages that make no
 * progress are purged. Of these, the ones that were certainly not persisted are sent again through a new producer, in the
 * old order and at no cost, unless their time is up; those that may have been persisted are unknown.
 *
 * New producers are created when they are needed. */
#include "sink/kafka/kafka_int.h"

#include "base/alloc.h"

#include <stdio.h>

enum { DRAIN_US = 1000000, DRAIN_FATAL_US = 250000, PURGE_US = 1000000, RETRY_US = 500000 };

static struct ob_kafka_entry *first(const struct ob_list *list)
{
    return ob_list_empty(list) ? NULL : OB_CONTAINER(list->next, struct ob_kafka_entry, node);
}

static void purge(outbox_sink *sink, int flags)
{
    for (int i = 0; i < OB_KAFKA_PRODUCERS; i++)
        if (sink->producers[i])
            rd_kafka_purge(sink->producers[i]->rk, flags | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void ob_kafka_replace_begin(outbox_sink *sink, enum ob_kafka_replace replacing)
{
    int64_t now = ob_kafka_now_us(sink);
    if (replacing <= sink->replacing || sink->phase == OB_KAFKA_PURGING)
        return; /* to purge breaks a producer too */
    sink->replacing = replacing;
    if (sink->phase == OB_KAFKA_RUNNING) {
        sink->phase = OB_KAFKA_DRAINING;
        sink->phase_until_us = now + (sink->config.timeout_us / 4 < DRAIN_US ? sink->config.timeout_us / 4 : DRAIN_US);
    }
    if (sink->phase == OB_KAFKA_DRAINING && replacing >= OB_KAFKA_FATAL) {
        if (sink->phase_until_us > now + DRAIN_FATAL_US)
            sink->phase_until_us = now + DRAIN_FATAL_US; /* what is not under way will never be */
        purge(sink, RD_KAFKA_PURGE_F_QUEUE);
    }
    ob_kafka_arm(sink);
}

/* ---- the end of a replacement -------------------------------------------------------------------------------------------- */

static const char *topic_of(const struct ob_kafka_entry *entry)
{
    outbox_sink *sink = entry->sink;
    const char *topic = entry->msg ? ob_kafka_record_topic(&sink->record, &sink->config, entry->msg) : NULL;
    return topic ? topic : "";
}

/* The reports did not come: all messages in flight end as unknown; the retired producers keep their entries. */
static void give_up(outbox_sink *sink)
{
    struct ob_kafka_entry *entry;
    while ((entry = first(&sink->out))) {
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        struct ob_kafka_text text;
        verdict.outcome = OUTBOX_SINK_UNKNOWN;
        verdict.unreachable = true;
        verdict.code = "kafka_no_report";
        verdict.text = ob_kafka_text_doubt(sink, topic_of(entry), &text);
        ob_kafka_entry_end(entry, &verdict);
    }
}

static bool overdue(const outbox_sink *sink, const struct ob_kafka_entry *entry, int64_t now)
{
    /* half of it: or there would be a replacement for every message of an outage */
    return entry->tried && now - entry->since_us >= sink->config.timeout_us / 2;
}

/* Called in, and certainly not persisted. */
static void end_late(struct ob_kafka_entry *entry)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_text text;
    verdict.outcome = OUTBOX_SINK_RETRY;
    verdict.unreachable = true;
    verdict.code = "kafka_timeout";
    verdict.text = ob_kafka_text_late(entry->sink, topic_of(entry), &text);
    ob_kafka_entry_end(entry, &verdict);
}

static void end_refused(struct ob_kafka_entry *entry)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_text text;
    verdict.outcome = OUTBOX_SINK_BLOCKED;
    verdict.scope = OUTBOX_SCOPE_SINK;
    verdict.code = entry->sink->refused_code;
    verdict.text = ob_kafka_text_refused(entry->sink, entry->sink->refused, NULL, &text);
    ob_kafka_entry_end(entry, &verdict);
}

static void end_full(struct ob_kafka_entry *entry)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_text text;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = RETRY_US;
    verdict.code = "kafka_queue_full";
    verdict.text = ob_kafka_text_full(entry->sink, &text);
    ob_kafka_entry_end(entry, &verdict);
}

static void end_waiting(outbox_sink *sink, enum ob_kafka_replace replacing)
{
    int64_t now = ob_kafka_now_us(sink);
    bool more = true;
    while (more) {
        more = false;
        OB_LIST_EACH (it, &sink->waiting) {
            struct ob_kafka_entry *entry = OB_CONTAINER(it, struct ob_kafka_entry, node);
            if (replacing == OB_KAFKA_REFUSED)
                end_refused(entry);
            else if (replacing == OB_KAFKA_OVERDUE && overdue(sink, entry, now))
                end_late(entry);
            else
                continue;
            /* the host may have changed the list */
            more = true;
            break;
        }
    }
}

/* Ends an entry whose time is up before it could be sent. It is not pushed again: it would be overdue at once and cause
 * another drain, until the host's time limit passes and the host counts a message as unknown that was never sent. */
static void end_stale(outbox_sink *sink, int64_t now)
{
    struct ob_kafka_entry *entry;
    while ((entry = first(&sink->waiting)) && now - entry->since_us >= sink->config.timeout_us) {
        if (entry->tried)
            end_late(entry);
        else
            end_full(entry);
    }
}

static void finish(outbox_sink *sink, bool anew)
{
    enum ob_kafka_replace replacing = sink->replacing;
    sink->phase = OB_KAFKA_RUNNING;
    sink->replacing = OB_KAFKA_NO_REPLACE;
    if (anew) {
        char line[400];
        snprintf(line, sizeof line, "kafka: producer replaced; last error: %s",
                 sink->last_error[0] ? sink->last_error : "none");
        sink->host->log(sink->host->ctx, OUTBOX_LOG_INFO, line);
        for (int i = 0; i < OB_KAFKA_PRODUCERS; i++) {
            ob_kafka_producer_retire(sink->producers[i]);
            sink->producers[i] = NULL;
        }
        end_waiting(sink, replacing);
    }
    end_stale(sink, ob_kafka_now_us(sink));
}

void ob_kafka_replace_step(outbox_sink *sink)
{
    bool late = ob_kafka_now_us(sink) >= sink->phase_until_us;
    if (sink->phase == OB_KAFKA_RUNNING)
        return;
    if (sink->out_count == 0) {
        finish(sink, sink->phase == OB_KAFKA_PURGING || sink->replacing >= OB_KAFKA_FATAL);
    } else if (late && sink->phase == OB_KAFKA_DRAINING) {
        sink->phase = OB_KAFKA_PURGING;
        sink->phase_until_us = ob_kafka_now_us(sink) + PURGE_US;
        purge(sink, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    } else if (late) {
        give_up(sink);
        finish(sink, true);
    }
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void on_time(uv_timer_t *timer)
{
    outbox_sink *sink = timer->data;
    int64_t now = ob_kafka_now_us(sink);
    sink->armed_us = 0;
    if (sink->phase == OB_KAFKA_RUNNING) {
        const struct ob_kafka_entry *oldest = first(&sink->out);
        if (oldest && now - oldest->since_us >= sink->config.timeout_us)
            ob_kafka_replace_begin(sink, OB_KAFKA_OVERDUE);
        else
            end_stale(sink, now);
    } else {
        ob_kafka_replace_step(sink);
    }
    ob_kafka_push(sink);
    ob_kafka_arm(sink);
}

static int64_t due_us(const outbox_sink *sink, int64_t now)
{
    const struct ob_kafka_entry *out = first(&sink->out), *waiting = first(&sink->waiting);
    int64_t due = INT64_MAX;
    if (sink->phase != OB_KAFKA_RUNNING)
        return sink->out_count == 0 ? now : sink->phase_until_us;
    if (out)
        due = out->since_us + sink->config.timeout_us;
    if (waiting && waiting->since_us + sink->config.timeout_us < due)
        due = waiting->since_us + sink->config.timeout_us;
    if (waiting && sink->starved && now + RETRY_US < due)
        due = now + RETRY_US;
    return due;
}

void ob_kafka_arm(outbox_sink *sink)
{
    int64_t now = ob_kafka_now_us(sink), due = due_us(sink, now);
    if (due == INT64_MAX || (sink->armed_us && sink->armed_us <= due))
        return; /* a timer that is too early looks again */
    sink->armed_us = due ? due : 1;
    uv_update_time(sink->host->loop);
    uv_timer_start(&sink->timer, on_time, due > now ? (uint64_t)(due - now) / 1000 + 1 : 0, 0);
}
