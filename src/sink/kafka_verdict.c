/* kafka_verdict.c - the one table of what an error of Kafka means for a message that was certainly not persisted. What
 * was perhaps persisted is unknown, whatever the error. Codes that are not listed are tried again. */
#include "sink/kafka_int.h"

#include <ctype.h>
#include <stdio.h>

#define ERR(name) RD_KAFKA_RESP_ERR_##name

static const struct {
    rd_kafka_resp_err_t err;
    struct ob_kafka_meaning meaning;
} table[] = {
    /* the message is wrong; the broker says it of a whole batch */
    {ERR(MSG_SIZE_TOO_LARGE), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(INVALID_MSG_SIZE), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(RECORD_LIST_TOO_LARGE), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(INVALID_RECORD), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(INVALID_MSG), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(INVALID_TIMESTAMP), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(POLICY_VIOLATION), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(UNSUPPORTED_FOR_MESSAGE_FORMAT), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(TOPIC_EXCEPTION), {OUTBOX_SINK_TERMINAL}},
    {ERR(_INVALID_ARG), {OUTBOX_SINK_TERMINAL}},
    /* this topic is wrong */
    {ERR(_UNKNOWN_TOPIC), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT}},
    {ERR(_UNKNOWN_PARTITION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT}},
    {ERR(UNKNOWN_TOPIC_OR_PART), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT}},
    {ERR(TOPIC_AUTHORIZATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT}},
    /* nothing will be taken from us */
    {ERR(CLUSTER_AUTHORIZATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(TRANSACTIONAL_ID_AUTHORIZATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(SASL_AUTHENTICATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(UNSUPPORTED_SASL_MECHANISM), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(ILLEGAL_SASL_STATE), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(SECURITY_DISABLED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(UNSUPPORTED_VERSION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(_AUTHENTICATION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(_SSL), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(_UNSUPPORTED_FEATURE), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_DESTINATION}},
    {ERR(THROTTLING_QUOTA_EXCEEDED), {OUTBOX_SINK_LIMITED, OUTBOX_SCOPE_DESTINATION}},
    /* nobody there */
    {ERR(_TRANSPORT), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(_TIMED_OUT), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(_TIMED_OUT_QUEUE), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(_MSG_TIMED_OUT), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(_RESOLVE), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(_ALL_BROKERS_DOWN), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(BROKER_NOT_AVAILABLE), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(LEADER_NOT_AVAILABLE), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(REQUEST_TIMED_OUT), {OUTBOX_SINK_RETRY, .unreachable = true}},
    {ERR(NOT_ENOUGH_REPLICAS), {OUTBOX_SINK_RETRY, .unreachable = true}},
    /* its producer was taken away */
    {ERR(_PURGE_QUEUE), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(_PURGE_INFLIGHT), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(_FATAL), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(_GAPLESS_GUARANTEE), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(_DESTROY), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(_RETRY), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(OUT_OF_ORDER_SEQUENCE_NUMBER), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(UNKNOWN_PRODUCER_ID), {OUTBOX_SINK_RETRY, .of_cut = true}},
    {ERR(INVALID_PRODUCER_EPOCH), {OUTBOX_SINK_RETRY, .of_cut = true}},
};

struct ob_kafka_meaning ob_kafka_mean(rd_kafka_resp_err_t err)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].err == err)
            return table[i].meaning;
    return (struct ob_kafka_meaning){OUTBOX_SINK_RETRY};
}

const char *ob_kafka_code(rd_kafka_resp_err_t err, char *buf, size_t size)
{
    const char *name = rd_kafka_err2name(err);
    int len = snprintf(buf, size, "kafka_%s", *name == '_' ? name + 1 : name);
    for (int i = 0; i < len && (size_t)i < size; i++)
        buf[i] = (char)tolower((unsigned char)buf[i]);
    return buf;
}
