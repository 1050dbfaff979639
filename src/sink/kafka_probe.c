/* kafka_probe.c - looks whether the cluster, and the topic where there is but one, would take messages: asks for
 * metadata. librdkafka's call waits, therefore it is made on libuv's pool. It lists all topics: to ask for one by its
 * name could create it. */
#include "sink/kafka_int.h"

#include "base/alloc.h"
#include "sink/shortage.h"

#include <stdio.h>
#include <string.h>

enum { PROBE_MS = 5000 };

struct probe {
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

static void look(uv_work_t *work)
{
    struct probe *probe = work->data;
    const struct rd_kafka_metadata *found = NULL;
    probe->err = rd_kafka_metadata(probe->producer->rk, 1, NULL, &found, probe->timeout_ms);
    if (probe->err || !found)
        return;
    probe->brokers = found->broker_cnt;
    if (probe->topic[0])
        probe->err = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
    for (int i = 0; probe->topic[0] && i < found->topic_cnt; i++)
        if (strcmp(found->topics[i].topic, probe->topic) == 0)
            probe->err = found->topics[i].err;
    rd_kafka_metadata_destroy(found);
}

static void tell(const struct probe *probe)
{
    outbox_sink *sink = probe->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_kafka_meaning meaning = ob_kafka_mean(probe->err);
    struct ob_kafka_text text;
    char code[64];
    if (!probe->err) {
        verdict.outcome = OUTBOX_SINK_ACCEPTED;
        snprintf(text.text, sizeof text.text, "%d brokers", probe->brokers);
    } else if (meaning.unreachable && sink->refused_code[0]) {
        verdict.outcome = OUTBOX_SINK_BLOCKED;
        verdict.scope = OUTBOX_SCOPE_DESTINATION;
        verdict.code = sink->refused_code;
        ob_kafka_text_refused(sink, sink->refused, NULL, &text);
    } else {
        verdict.outcome = meaning.outcome;
        verdict.scope = meaning.scope;
        verdict.unreachable = meaning.unreachable;
        verdict.code = ob_kafka_code(probe->err, code, sizeof code);
        ob_kafka_text_refused(sink, probe->err, probe->topic[0] ? probe->topic : NULL, &text);
    }
    verdict.text = text.text;
    ob_kafka_answer(sink, probe->handle, &verdict);
}

static void looked(uv_work_t *work, int status)
{
    struct probe *probe = work->data;
    outbox_sink *sink = probe->sink;
    ob_kafka_enter(sink);
    if (status < 0)
        probe->err = RD_KAFKA_RESP_ERR__FAIL;
    ob_list_remove(&probe->node);
    if (!probe->cancelled)
        tell(probe);
    ob_kafka_producer_unuse(probe->producer);
    ob_free(probe);
    ob_kafka_leave(sink);
    ob_kafka_unref(sink);
}

void ob_kafka_probe(outbox_sink *sink, uint64_t handle)
{
    struct probe *probe = ob_calloc(1, sizeof *probe);
    struct outbox_error why = {0};
    if (!sink->lanes[OB_KAFKA_POOL])
        sink->lanes[OB_KAFKA_POOL] = ob_kafka_producer_new(sink, OB_KAFKA_POOL, &why);
    if (!probe || !sink->lanes[OB_KAFKA_POOL]) {
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        verdict.outcome = OUTBOX_SINK_NOT_SENT;
        verdict.not_before_us = OB_SHORTAGE_US;
        verdict.code = "out_of_memory";
        verdict.text = why.text[0] ? why.text : "out of memory";
        ob_free(probe);
        ob_kafka_answer(sink, handle, &verdict);
        return;
    }
    sink->refused_code[0] = '\0';
    probe->work.data = probe;
    probe->sink = sink;
    probe->producer = sink->lanes[OB_KAFKA_POOL];
    probe->handle = handle;
    probe->timeout_ms = sink->config.timeout_us / 1000 < PROBE_MS ? (int)(sink->config.timeout_us / 1000) : PROBE_MS;
    snprintf(probe->topic, sizeof probe->topic, "%s", sink->config.topic ? sink->config.topic : "");
    ob_kafka_producer_use(probe->producer);
    ob_list_push(&sink->probes, &probe->node);
    sink->refs++;
    if (uv_queue_work(sink->host->loop, &probe->work, look, looked) != 0)
        looked(&probe->work, UV_ENOMEM);
}

bool ob_kafka_probe_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH (it, &sink->probes) {
        struct probe *probe = OB_CONTAINER(it, struct probe, node);
        if (probe->handle == handle)
            return probe->cancelled = true;
    }
    return false;
}
