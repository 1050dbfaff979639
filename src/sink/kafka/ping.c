/* ping.c - checks whether the cluster, and the topic if there is only one, would take messages: requests metadata.
 * librdkafka's call blocks, so it is made on libuv's pool. It lists all topics: a request for one by its name could create
 * it. */
#include "sink/kafka/kafka_int.h"

#include "base/alloc.h"
#include "sink/shortage.h"

#include <stdio.h>
#include <string.h>

enum { PING_MS = 5000 };

struct ping {
    struct ob_list node;
    uv_work_t work;
    outbox_sink *sink;
    struct ob_kafka_producer *producer;
    uint64_t handle;
    bool cancelled;
    int timeout_ms;
    rd_kafka_resp_err_t err;
    int brokers;
    char topic[256]; /* "": any */
};

static void ping_run(uv_work_t *work)
{
    struct ping *ping = work->data;
    const struct rd_kafka_metadata *found = NULL;
    ping->err = rd_kafka_metadata(ping->producer->rk, 1, NULL, &found, ping->timeout_ms);
    if (ping->err || !found)
        return;
    ping->brokers = found->broker_cnt;
    if (ping->topic[0])
        ping->err = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
    for (int i = 0; ping->topic[0] && i < found->topic_cnt; i++)
        if (strcmp(found->topics[i].topic, ping->topic) == 0)
            ping->err = found->topics[i].err;
    rd_kafka_metadata_destroy(found);
}

static void ping_report(const struct ping *ping)
{
    outbox_sink *sink = ping->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_meaning meaning = ob_kafka_mean(ping->err);
    struct ob_kafka_text text;
    char code[64];
    if (!ping->err) {
        verdict.outcome = OUTBOX_SINK_ACCEPTED;
        snprintf(text.text, sizeof text.text, "%d brokers", ping->brokers);
    } else if (meaning.unreachable && sink->refused_code[0]) {
        verdict.outcome = OUTBOX_SINK_BLOCKED;
        verdict.scope = OUTBOX_SCOPE_SINK;
        verdict.code = sink->refused_code;
        ob_kafka_text_refused(sink, sink->refused, NULL, &text);
    } else {
        verdict.outcome = meaning.outcome;
        verdict.scope = meaning.scope;
        verdict.unreachable = meaning.unreachable;
        verdict.code = ob_kafka_code(ping->err, code, sizeof code);
        ob_kafka_text_refused(sink, ping->err, ping->topic[0] ? ping->topic : NULL, &text);
    }
    verdict.text = text.text;
    ob_kafka_answer(sink, ping->handle, &verdict);
}

static void ping_done(uv_work_t *work, int status)
{
    struct ping *ping = work->data;
    outbox_sink *sink = ping->sink;
    if (status < 0)
        ping->err = RD_KAFKA_RESP_ERR__FAIL;
    ob_list_remove(&ping->node);
    if (!ping->cancelled)
        ping_report(ping);
    ob_kafka_producer_unuse(ping->producer);
    ob_free(ping);
    ob_kafka_unref(sink);
}

void ob_kafka_ping(outbox_sink *sink, uint64_t handle)
{
    struct ping *ping = ob_calloc(1, sizeof *ping);
    struct outbox_error why = {0};
    if (!sink->producers[OB_KAFKA_BATCHED])
        sink->producers[OB_KAFKA_BATCHED] = ob_kafka_producer_new(sink, OB_KAFKA_BATCHED, &why);
    if (!ping || !sink->producers[OB_KAFKA_BATCHED]) {
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        verdict.outcome = OUTBOX_SINK_NOT_SENT;
        verdict.not_before_us = OB_SHORTAGE_US;
        verdict.code = "out_of_memory";
        verdict.text = why.text[0] ? why.text : "out of memory";
        ob_free(ping);
        ob_kafka_answer(sink, handle, &verdict);
        return;
    }
    sink->refused_code[0] = '\0';
    ping->work.data = ping;
    ping->sink = sink;
    ping->producer = sink->producers[OB_KAFKA_BATCHED];
    ping->handle = handle;
    ping->timeout_ms = sink->config.timeout_us / 1000 < PING_MS ? (int)(sink->config.timeout_us / 1000) : PING_MS;
    snprintf(ping->topic, sizeof ping->topic, "%s", sink->config.topic ? sink->config.topic : "");
    ob_kafka_producer_use(ping->producer);
    ob_list_push(&sink->pings, &ping->node);
    sink->refs++;
    if (uv_queue_work(sink->host->loop, &ping->work, ping_run, ping_done) != 0)
        ping_done(&ping->work, UV_ENOMEM);
}

bool ob_kafka_ping_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH (it, &sink->pings) {
        struct ping *ping = OB_CONTAINER(it, struct ping, node);
        if (ping->handle == handle)
            return ping->cancelled = true;
    }
    return false;
}
