/* kafka.c - the Kafka sink: an idempotent producer of librdkafka, whose delivery reports are the verdicts.
 *
 * Order. Messages of one key are sent one right after another, without waiting for the acknowledgement of the earlier one,
 * if no message can overtake one that fails:
 *   - nothing expires inside librdkafka (message.timeout.ms=0): it never skips a message and sends the next. Time limits are
 *     kept here, and a late message is taken back together with all behind it (replace.c);
 *   - a batch that the broker refuses for good breaks the producer (enable.gapless.guarantee): it sends nothing more;
 *   - batches in flight at that moment are refused by the broker, because their sequence numbers are too high. Only a broker
 *     that does not know this producer accepts any number as the first. So a run is sent together only to a partition
 *     where the broker has acknowledged this same producer (`warm`); until then, and if the topics differ, each message
 *     waits for the one before.
 * If partitions are added to a topic while messages are in flight, the partition of a key changes: no producer keeps order
 * through that.
 *
 * The refusal of a batch says nothing about its single messages. They are sent again, each in its own request, and then
 * the broker's answer is about that message.
 *
 * Payloads are copied into librdkafka: after a cancel the host takes its message back, librdkafka cannot. The copy goes
 * into the block that is allocated for the message anyway.
 *
 * Thread: the loop's. It must not know where messages come from, nor when they are tried again. */
#include "sink/kafka/kafka_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/shortage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const struct outbox_sink_ops ob_sink_kafka;

int64_t ob_kafka_now_us(const outbox_sink *sink)
{
    return sink->host->now_us(sink->host->ctx);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

void ob_kafka_unref(outbox_sink *sink)
{
    if (--sink->refs > 0)
        return;
    ob_kafka_record_fini(&sink->record);
    ob_kafka_config_fini(&sink->config);
    ob_free(sink);
}

static void timer_closed(uv_handle_t *handle)
{
    ob_kafka_unref(handle->data);
}

/* Messages in flight are not flushed: their reports would be lost, and what was not sent yet is then not sent twice. */
static void kafka_close(outbox_sink *sink)
{
    if (!sink)
        return;
    sink->closing = true;
    OB_LIST_EACH_SAFE (it, &sink->waiting)
        ob_free(OB_CONTAINER(it, struct ob_kafka_entry, node));
    OB_LIST_EACH_SAFE (it, &sink->out) {
        struct ob_kafka_entry *entry = OB_CONTAINER(it, struct ob_kafka_entry, node);
        ob_list_remove(&entry->node);
        ob_list_push(&sink->producers[entry->batching]->orphans, &entry->node);
    }
    for (int i = 0; i < OB_KAFKA_PRODUCERS; i++)
        ob_kafka_producer_retire(sink->producers[i]);
    uv_close((uv_handle_t *)&sink->timer, timer_closed);
}

void ob_kafka_answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict)
{
    if (!sink->closing)
        sink->host->done(sink->host->ctx, handle, verdict);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

enum sent { SENT, NO_ROOM, ENDED, CUT };

static bool may_go(const outbox_sink *sink, const struct ob_kafka_entry *entry, int64_t now)
{
    const struct ob_kafka_entry *ahead = entry->ahead;
    if (!ahead)
        return true;
    return ahead->out && ahead->batching == OB_KAFKA_BATCHED && entry->batching == OB_KAFKA_BATCHED &&
           sink->config.by_key && entry->msg->key && ahead->topic == entry->topic &&
           ob_kafka_producer_is_warm(sink->producers[OB_KAFKA_BATCHED], ahead->topic, atomic_load(&ahead->partition),
                                     now);
}

static struct ob_kafka_producer *producer_of(outbox_sink *sink, enum ob_kafka_batching batching)
{
    struct outbox_error err = {0};
    if (!sink->producers[batching]) {
        sink->producers[batching] = ob_kafka_producer_new(sink, batching, &err);
        if (!sink->producers[batching])
            sink->host->log(sink->host->ctx, OUTBOX_LOG_ERROR, err.text);
    }
    return sink->producers[batching];
}

/* NULL without memory. */
static rd_kafka_headers_t *make_headers(const struct ob_headers *from)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(from->count + 1);
    for (size_t i = 0; headers && i < from->count; i++)
        if (rd_kafka_header_add(headers, from->at[i].name, -1, from->at[i].value, -1)) {
            rd_kafka_headers_destroy(headers);
            return NULL;
        }
    return headers;
}

/* Headers are handed over as a list: built up by librdkafka itself they are freed twice, in this version, when it refuses
 * the topic. What it refuses stays ours. */
static rd_kafka_resp_err_t submit(struct ob_kafka_producer *producer, const struct ob_kafka_record *record,
                                  struct ob_kafka_entry *entry)
{
    rd_kafka_topic_t *topic = ob_kafka_producer_topic(producer, entry->topic, record->name);
    if (!topic)
        return rd_kafka_last_error();
    rd_kafka_headers_t *headers = make_headers(&record->headers);
    const char *key = entry->msg->key;
    if (!headers) {
        entry->sink->starved = true;
        return RD_KAFKA_RESP_ERR__QUEUE_FULL;
    }
    rd_kafka_vu_t args[6];
    args[0].vtype = RD_KAFKA_VTYPE_RKT;
    args[0].u.rkt = topic;
    args[1].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    args[1].u.i = RD_KAFKA_MSG_F_COPY;
    args[2].vtype = RD_KAFKA_VTYPE_OPAQUE;
    args[2].u.ptr = entry;
    args[3].vtype = RD_KAFKA_VTYPE_VALUE;
    args[3].u.mem.ptr = (void *)(uintptr_t)record->value;
    args[3].u.mem.size = record->len;
    args[4].vtype = RD_KAFKA_VTYPE_KEY;
    args[4].u.mem.ptr = (void *)(uintptr_t)key;
    args[4].u.mem.size = key ? strlen(key) : 0;
    args[5].vtype = RD_KAFKA_VTYPE_HEADERS;
    args[5].u.headers = headers;
    rd_kafka_error_t *error = rd_kafka_produceva(producer->rk, args, sizeof args / sizeof args[0]);
    if (!error)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_resp_err_t err = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers);
    return err;
}

/* What produce itself refuses was not sent. */
static enum sent refused(struct ob_kafka_entry *entry, rd_kafka_resp_err_t err)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_meaning meaning = ob_kafka_mean(err);
    struct ob_kafka_text text;
    char code[64];
    if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        return NO_ROOM;
    if (meaning.of_replace) {
        ob_kafka_replace_begin(entry->sink, OB_KAFKA_FATAL);
        return CUT;
    }
    verdict.outcome = meaning.outcome;
    verdict.scope = meaning.scope;
    verdict.unreachable = meaning.unreachable;
    verdict.local = true;
    verdict.code = ob_kafka_code(err, code, sizeof code);
    verdict.text = ob_kafka_text_refused(entry->sink, err, entry->sink->record.name, &text);
    ob_kafka_entry_end(entry, &verdict);
    return ENDED;
}

static enum sent produce(outbox_sink *sink, struct ob_kafka_entry *entry)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_producer *producer = producer_of(sink, entry->batching);
    if (!producer) {
        sink->starved = true;
        return NO_ROOM;
    }
    if (!ob_kafka_record_make(&sink->record, &sink->config, entry->msg, &verdict)) {
        ob_kafka_entry_end(entry, &verdict);
        return ENDED;
    }
    rd_kafka_resp_err_t err = submit(producer, &sink->record, entry);
    if (err)
        return refused(entry, err);
    ob_list_remove(&entry->node);
    ob_list_push(&sink->out, &entry->node);
    entry->out = entry->tried = true;
    sink->out_count++;
    return SENT;
}

static void push_once(outbox_sink *sink, int64_t now)
{
    sink->starved = false;
    OB_LIST_EACH_SAFE (it, &sink->waiting) {
        struct ob_kafka_entry *entry = OB_CONTAINER(it, struct ob_kafka_entry, node);
        if (!may_go(sink, entry, now))
            continue;
        enum sent sent = produce(sink, entry);
        if (sent == ENDED)
            sink->again = true; /* the host may have changed the list */
        if (sent != SENT)
            return;
    }
}

void ob_kafka_push(outbox_sink *sink)
{
    sink->again = true;
    if (sink->producing)
        return;
    sink->producing = true;
    while (sink->again && sink->phase == OB_KAFKA_RUNNING) {
        sink->again = false;
        push_once(sink, ob_kafka_now_us(sink));
    }
    sink->producing = false;
}

/* ---- what librdkafka says ---------------------------------------------------------------------------------------- */

static void report_accepted(struct ob_kafka_entry *entry, const rd_kafka_message_t *report)
{
    outbox_sink *sink = entry->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    char reference[320];
    if (entry->batching == OB_KAFKA_BATCHED && sink->producers[OB_KAFKA_BATCHED] && !report->err)
        ob_kafka_producer_warm(sink->producers[OB_KAFKA_BATCHED], entry->topic, report->partition,
                               ob_kafka_now_us(sink));
    sink->last_error[0] = sink->refused_code[0] = '\0';
    verdict.outcome = OUTBOX_SINK_ACCEPTED;
    if (report->offset >= 0 && entry->msg) {
        snprintf(reference, sizeof reference, "%s/%" PRId32 "/%" PRId64, rd_kafka_topic_name(report->rkt),
                 report->partition, report->offset);
        verdict.reference = reference;
    }
    ob_kafka_entry_end(entry, &verdict);
}

static void report_failed(struct ob_kafka_entry *entry, const rd_kafka_message_t *report,
                          struct ob_kafka_meaning meaning)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    const char *topic = rd_kafka_topic_name(report->rkt);
    struct ob_kafka_text text;
    char code[64];
    verdict.outcome = meaning.outcome;
    verdict.scope = meaning.scope;
    verdict.unreachable = meaning.unreachable;
    verdict.code = ob_kafka_code(report->err, code, sizeof code);
    verdict.text = meaning.outcome == OUTBOX_SINK_UNKNOWN
                       ? ob_kafka_text_doubt(entry->sink, topic, &text)
                       : ob_kafka_text_refused(entry->sink, report->err, topic, &text);
    ob_kafka_entry_end(entry, &verdict);
}

void ob_kafka_reported(struct ob_kafka_entry *entry, const rd_kafka_message_t *report)
{
    outbox_sink *sink = entry->sink;
    rd_kafka_msg_status_t status = rd_kafka_message_status(report);
    struct ob_kafka_meaning meaning = ob_kafka_mean(report->err);
    const struct ob_kafka_producer *producer = sink->producers[entry->batching];
    if (sink->closing)
        return; /* freed with the rest */
    entry->out = false;
    sink->out_count--;
    if (report->err && producer && rd_kafka_fatal_error(producer->rk, NULL, 0))
        ob_kafka_replace_begin(sink, OB_KAFKA_FATAL);
    if (!report->err || status == RD_KAFKA_MSG_STATUS_PERSISTED) {
        report_accepted(entry, report);
    } else if (status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED) {
        meaning.outcome = OUTBOX_SINK_UNKNOWN;
        meaning.unreachable = meaning.unreachable || sink->replacing == OB_KAFKA_OVERDUE;
        report_failed(entry, report, meaning);
    } else if (meaning.of_replace) {
        ob_kafka_entry_again(entry);
    } else if (meaning.of_batch && entry->batching == OB_KAFKA_BATCHED && entry->msg) {
        entry->batching = OB_KAFKA_SINGLE;
        ob_kafka_entry_again(entry);
    } else {
        report_failed(entry, report, meaning);
    }
}

void ob_kafka_troubled(struct ob_kafka_producer *producer, rd_kafka_resp_err_t err, const char *text)
{
    outbox_sink *sink = producer->sink;
    rd_kafka_resp_err_t cause = err;
    if (err == RD_KAFKA_RESP_ERR__FATAL)
        cause = rd_kafka_fatal_error(producer->rk, sink->last_error, sizeof sink->last_error);
    else
        snprintf(sink->last_error, sizeof sink->last_error, "%s", text);
    struct ob_kafka_meaning meaning = ob_kafka_mean(cause);
    if (meaning.outcome == OUTBOX_SINK_BLOCKED && meaning.scope == OUTBOX_SCOPE_SINK) {
        sink->refused = cause;
        ob_kafka_code(cause, sink->refused_code, sizeof sink->refused_code);
        ob_kafka_replace_begin(sink, OB_KAFKA_REFUSED);
    } else if (err == RD_KAFKA_RESP_ERR__FATAL) {
        ob_kafka_replace_begin(sink, OB_KAFKA_FATAL);
    }
}

/* ---- what the host says ------------------------------------------------------------------------------------------ */

static void kafka_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    struct ob_kafka_entry *ahead = NULL;
    struct outbox_verdict unsent = OUTBOX_VERDICT_INIT;
    int64_t now = ob_kafka_now_us(sink);
    bool lost = false; /* no memory for the one before */
    unsent.outcome = OUTBOX_SINK_NOT_SENT;
    unsent.code = "out_of_memory";
    unsent.text = "out of memory";
    unsent.not_before_us = OB_SHORTAGE_US;
    for (size_t i = 0; i < count; i++) {
        struct ob_kafka_entry *entry = items[i].follows && lost ? NULL : ob_kafka_entry_new(sink, &items[i], now);
        lost = !entry;
        if (lost) {
            ob_kafka_answer(sink, items[i].handle, &unsent);
        } else if (items[i].follows && ahead) {
            entry->ahead = ahead;
            ahead->behind = entry;
        }
        ahead = entry;
    }
    ob_kafka_push(sink);
    ob_kafka_arm(sink);
}

static struct ob_kafka_entry *find(const struct ob_list *list, uint64_t handle)
{
    OB_LIST_EACH (it, list) {
        struct ob_kafka_entry *entry = OB_CONTAINER(it, struct ob_kafka_entry, node);
        if (entry->handle == handle && entry->msg)
            return entry;
    }
    return NULL;
}

/* Messages in flight are taken back; otherwise they might be sent an hour later, when a broker comes back. */
static void kafka_cancel(outbox_sink *sink, uint64_t handle)
{
    struct ob_kafka_entry *entry = find(&sink->waiting, handle);
    if (entry) {
        entry->msg = NULL;
        ob_kafka_entry_unsent(entry);
    } else if ((entry = find(&sink->out, handle))) {
        entry->msg = NULL;
        ob_kafka_replace_begin(sink, OB_KAFKA_CANCELLED);
    } else {
        ob_kafka_ping_cancel(sink, handle);
    }
}

static enum outbox_code kafka_open(const struct outbox_sink_option *options, size_t count,
                                   const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    const struct ob_options given = {options, count, ob_kafka_settings};
    outbox_sink *self = ob_calloc(1, sizeof *self);
    *sink = NULL;
    if (!self)
        return ob_error_nomem(err);
    self->host = host;
    self->refs = 1;
    ob_list_init(&self->waiting);
    ob_list_init(&self->out);
    ob_list_init(&self->pings);
    ob_kafka_record_init(&self->record);
    enum outbox_code code = ob_kafka_config_read(&self->config, &given, err);
    struct outbox_error why = {0};
    if (!code && !(self->producers[OB_KAFKA_BATCHED] = ob_kafka_producer_new(self, OB_KAFKA_BATCHED, &why)))
        code = ob_error_set(err, why.code ? why.code : OUTBOX_INVALID, "%s", why.text);
    if (code) {
        ob_kafka_unref(self);
        return code;
    }
    uv_timer_init(host->loop, &self->timer);
    self->timer.data = self;
    *sink = self;
    return OUTBOX_OK;
}

const struct outbox_sink_ops ob_sink_kafka = {
    OUTBOX_SINK_OPS_HEAD,
    .kind = "kafka",
    .also = "redpanda confluent msk",
    .keeps_order = true,
    .open = kafka_open,
    .deliver = kafka_deliver,
    .cancel = kafka_cancel,
    .close = kafka_close,
    .settings = ob_kafka_settings,
    .ping = ob_kafka_ping,
    .limit = "delivery_timeout",
    .limit_margin_us = OB_KAFKA_MARGIN_US,
    .check = ob_kafka_config_check,
    .descriptors = 32,
    .summary = "an idempotent producer to Apache Kafka",
    .protocol = "kafka",
    .peer = "brokers",
    .destination = "topic_prefix+topic",
};
