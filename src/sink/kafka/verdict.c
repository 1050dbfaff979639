/* verdict.c - the table of what an error of Kafka means for a message that was certainly not persisted. A message that may
 * have been persisted is unknown, whatever the error. Codes that are not listed are retried. Also the texts for operators:
 * what happened, where, and what can be done. */
#include "sink/kafka/kafka_int.h"

#include "base/value.h"

#include <ctype.h>
#include <stdio.h>

#define ERR(name) RD_KAFKA_RESP_ERR_##name
#define SIZE_HINT "it exceeds kafka.message.max.bytes of the sink or max.message.bytes of the topic"
#define TOPIC_HINT "create it, or correct `topic`, `topic_prefix` or the route"
#define LOGIN_HINT "check kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism"
#define TLS_HINT "check kafka.ssl.ca.location, the broker's certificate and kafka.security.protocol"
#define VERSION_HINT "an idempotent producer needs brokers of 0.11 or newer"

static const struct {
    rd_kafka_resp_err_t err;
    struct ob_kafka_meaning meaning;
} table[] = {
    /* the message is wrong; the broker says it of a whole batch */
    {ERR(MSG_SIZE_TOO_LARGE), {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = SIZE_HINT}},
    {ERR(INVALID_MSG_SIZE), {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = SIZE_HINT}},
    {ERR(RECORD_LIST_TOO_LARGE), {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = SIZE_HINT}},
    {ERR(INVALID_RECORD),
     {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = "a compacted topic takes no record without a key"}},
    {ERR(INVALID_MSG), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(INVALID_TIMESTAMP),
     {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = "the clocks of this machine and of the broker differ"}},
    {ERR(POLICY_VIOLATION), {OUTBOX_SINK_TERMINAL, .of_batch = true, .hint = "a policy of the cluster forbids it"}},
    {ERR(UNSUPPORTED_FOR_MESSAGE_FORMAT), {OUTBOX_SINK_TERMINAL, .of_batch = true}},
    {ERR(TOPIC_EXCEPTION), {OUTBOX_SINK_TERMINAL}},
    {ERR(_INVALID_ARG), {OUTBOX_SINK_TERMINAL}},
    /* this topic is wrong */
    {ERR(_UNKNOWN_TOPIC), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT, .hint = TOPIC_HINT}},
    {ERR(_UNKNOWN_PARTITION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT, .hint = TOPIC_HINT}},
    {ERR(UNKNOWN_TOPIC_OR_PART), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT, .hint = TOPIC_HINT}},
    {ERR(TOPIC_AUTHORIZATION_FAILED),
     {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_RECIPIENT, .hint = "grant WRITE on it to the user of this sink"}},
    /* nothing will be taken from us */
    {ERR(CLUSTER_AUTHORIZATION_FAILED),
     {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK,
      .hint = "grant IDEMPOTENT_WRITE on the cluster to the user of this sink"}},
    {ERR(TRANSACTIONAL_ID_AUTHORIZATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK}},
    {ERR(SASL_AUTHENTICATION_FAILED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = LOGIN_HINT}},
    {ERR(UNSUPPORTED_SASL_MECHANISM), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = LOGIN_HINT}},
    {ERR(ILLEGAL_SASL_STATE), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = LOGIN_HINT}},
    {ERR(SECURITY_DISABLED), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = TLS_HINT}},
    {ERR(UNSUPPORTED_VERSION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = VERSION_HINT}},
    {ERR(_AUTHENTICATION), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = LOGIN_HINT}},
    {ERR(_SSL), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = TLS_HINT}},
    {ERR(_UNSUPPORTED_FEATURE), {OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, .hint = VERSION_HINT}},
    {ERR(THROTTLING_QUOTA_EXCEEDED), {OUTBOX_SINK_LIMITED, OUTBOX_SCOPE_SINK}},
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
    {ERR(NOT_ENOUGH_REPLICAS),
     {OUTBOX_SINK_RETRY, .unreachable = true, .hint = "fewer in-sync replicas than the topic's min.insync.replicas"}},
    /* its producer was taken away */
    {ERR(_PURGE_QUEUE), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(_PURGE_INFLIGHT), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(_FATAL), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(_GAPLESS_GUARANTEE), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(_DESTROY), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(_RETRY), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(OUT_OF_ORDER_SEQUENCE_NUMBER), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(UNKNOWN_PRODUCER_ID), {OUTBOX_SINK_RETRY, .of_replace = true}},
    {ERR(INVALID_PRODUCER_EPOCH), {OUTBOX_SINK_RETRY, .of_replace = true}},
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

/* ---- for people -------------------------------------------------------------------------------------------------- */

static const char *last_error(const outbox_sink *sink)
{
    return sink->last_error[0] ? sink->last_error : "none";
}

const char *ob_kafka_text_refused(const outbox_sink *sink, rd_kafka_resp_err_t err, const char *topic,
                                  struct ob_kafka_text *text)
{
    struct ob_kafka_meaning meaning = ob_kafka_mean(err);
    bool all = meaning.scope == OUTBOX_SCOPE_SINK || !topic;
    const char *more = all || meaning.unreachable ? sink->last_error : "";
    snprintf(text->text, sizeof text->text, "%s%s%.249s%s%s%s%s%s", rd_kafka_err2str(err), all ? "" : ": topic \"",
             all ? "" : topic, all ? "" : "\"", meaning.hint ? "; " : "", meaning.hint ? meaning.hint : "",
             *more ? "; last error: " : "", more);
    return text->text;
}

const char *ob_kafka_text_late(const outbox_sink *sink, const char *topic, struct ob_kafka_text *text)
{
    char limit[OB_VALUE_TEXT];
    ob_value_duration_text(sink->config.timeout_us, limit);
    snprintf(
        text->text, sizeof text->text,
        "not written to topic \"%.249s\" within %s; check the brokers and the partition leaders of the topic; last "
        "error: %s",
        topic, limit, last_error(sink));
    return text->text;
}

const char *ob_kafka_text_doubt(const outbox_sink *sink, const char *topic, struct ob_kafka_text *text)
{
    char limit[OB_VALUE_TEXT], how[OB_VALUE_TEXT + 16] = "";
    ob_value_duration_text(sink->config.timeout_us, limit);
    if (sink->replacing == OB_KAFKA_OVERDUE)
        snprintf(how, sizeof how, " within %s", limit);
    snprintf(text->text, sizeof text->text,
             "sent to topic \"%.249s\", but no acknowledgement arrived%s: it may have been written; last error: %s",
             topic, how, last_error(sink));
    return text->text;
}

const char *ob_kafka_text_full(const outbox_sink *sink, struct ob_kafka_text *text)
{
    char limit[OB_VALUE_TEXT];
    ob_value_duration_text(sink->config.timeout_us, limit);
    snprintf(text->text, sizeof text->text,
             "the client's queue was full for %s; the brokers are slow or unreachable, or `queue` is too small; last "
             "error: %s",
             limit, last_error(sink));
    return text->text;
}
