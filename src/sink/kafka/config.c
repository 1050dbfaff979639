/* config.c - the settings of the Kafka sink, and librdkafka's configuration made from them.
 *
 * Everything below `kafka.` is passed to librdkafka unchanged, except for settings that the sink's guarantees depend on. */
#include "sink/kafka/kafka_int.h"

#include "base/error.h"
#include "base/value.h"
#include "sink/common/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct outbox_sink_setting ob_kafka_settings[] = {
    {"brokers", OUTBOX_OPTION_TEXT, .required = true, .also = "bootstrap_servers bootstrap hosts servers",
     .doc = "bootstrap servers: host:9092,host:9092"},
    {"topic", OUTBOX_OPTION_TEXT, .doc = "Kafka topic for all messages (default: the message's topic)"},
    {"topic_prefix", OUTBOX_OPTION_TEXT, .doc = "prefix of the Kafka topic, before the message's topic"},
    {"partitioner", OUTBOX_OPTION_ENUM, "murmur2_random",
     "murmur2_random murmur2 consistent_random consistent fnv1a_random fnv1a random",
     .doc = "partitioner for keys; the default agrees with Java clients"},
    {"delivery_timeout", OUTBOX_OPTION_DURATION, "8s", .least = 2000000, .most = 3600000000,
     .doc = "time limit for an acknowledgement, after which a message is given back; at least 2s below `timeout`"},
    {"queue", OUTBOX_OPTION_SIZE, "16MiB", .least = 65536, .most = 2147483648LL,
     .doc = "most bytes queued in the client; messages that do not fit wait without costing an attempt"},
    {"tombstones", OUTBOX_OPTION_BOOL, "true",
     .doc = "a payload that is the JSON null becomes a record without a value"},
    {"tombstone_header", OUTBOX_OPTION_TEXT,
     .doc = "a message whose header of this name is `true` becomes a record without a value"},
    OB_RENDER_SETTINGS,
    {"kafka", OUTBOX_OPTION_MAP, .secret = true,
     .doc = "librdkafka settings by their own names: kafka.security.protocol, kafka.sasl.username, kafka.linger.ms"},
    {NULL},
};

/* When the host's time limit came first, an outage would end every message in flight without an answer. */
void ob_kafka_config_check(const struct outbox_sink_check *check)
{
    const struct ob_options options = {check->options, check->count, ob_kafka_settings};
    const int64_t own_us = ob_option_int(&options, "delivery_timeout");
    char own[OB_VALUE_TEXT], timeout[OB_VALUE_TEXT];
    if (own_us + OB_KAFKA_MARGIN_US <= check->timeout_us)
        return;
    ob_value_duration_text(own_us, own);
    ob_value_duration_text(check->timeout_us, timeout);
    ob_check_problem(
        check, true, "delivery_timeout",
        "is %s, but must be at least 2s below timeout (%s): otherwise an outage spends attempts and leaves outcomes "
        "unknown",
        own, timeout);
}

static const struct {
    const char *name;
    ob_kafka_partitioner *pick;
    bool by_key;
} partitioners[] = {
    {"murmur2_random", rd_kafka_msg_partitioner_murmur2_random, true},
    {"murmur2", rd_kafka_msg_partitioner_murmur2, true},
    {"consistent_random", rd_kafka_msg_partitioner_consistent_random, true},
    {"consistent", rd_kafka_msg_partitioner_consistent, true},
    {"fnv1a_random", rd_kafka_msg_partitioner_fnv1a_random, true},
    {"fnv1a", rd_kafka_msg_partitioner_fnv1a, true},
    {"random", rd_kafka_msg_partitioner_random, false},
    {NULL, NULL, false},
};

/* What order, the absence of loss and the verdicts rest on. */
static const char *const ours[] = {
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "retries",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "message.send.max.retries",
    "partitioner",
    "queuing.strategy",
    "transactional.id",
    "log.queue",
    "bootstrap.servers",
    "metadata.broker.list",
    "queue.buffering.max.kbytes",
    "delivery.report.only.error",
    "enabled_events",
    "test.mock.num.brokers", /* accepts all and keeps nothing */
    "ut_handle_ProduceResponse",
    "internal.termination.signal", /* goes to the whole process */
    NULL,
};

/* Delays that use up the time limit of a message: it would never be sent in time, or a missing topic would look like an
 * outage. */
static const char *const delays[] = {"linger.ms", "retry.backoff.ms", "topic.metadata.propagation.max.ms", NULL};

/* Notes where a message with a key goes, so that the next of its key may follow it. Any thread. */
int32_t ob_kafka_partition(const rd_kafka_topic_t *topic, const void *key, size_t key_len, int32_t count,
                           void *topic_opaque, void *msg_opaque)
{
    const struct ob_kafka_config *config = topic_opaque;
    struct ob_kafka_entry *entry = msg_opaque;
    int32_t partition = config->partitioner(topic, key, key_len, count, topic_opaque, msg_opaque);
    atomic_store(&entry->partition, partition);
    return partition;
}

static enum outbox_code set(rd_kafka_conf_t *conf, const char *name, const char *value, struct outbox_error *err)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return OUTBOX_OK;
    /* librdkafka's own words may hold the value, which may be a secret */
    return ob_error_set(err, OUTBOX_INVALID, "kafka.%s: unknown librdkafka setting or invalid value", name);
}

static enum outbox_code set_int(rd_kafka_conf_t *conf, const char *name, int64_t value, struct outbox_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return set(conf, name, text, err);
}

static enum outbox_code set_all(rd_kafka_conf_t *conf, const struct ob_kafka_config *config,
                                const struct ob_options *options, struct outbox_error *err)
{
    int64_t queue = ob_option_int(options, "queue"), timeout_ms = config->timeout_us / 1000;
    enum outbox_code code = set(conf, "bootstrap.servers", ob_option_string(options, "brokers"), err);
#define SET(name, value) code = code ? code : set(conf, name, value, err)
#define SET_INT(name, value) code = code ? code : set_int(conf, name, value, err)
    SET("client.id", "outbox");
    SET("log.connection.close", "false");
    SET_INT("topic.metadata.refresh.interval.ms", 10000); /* a topic that was missing is seen soon */
    SET_INT("topic.metadata.propagation.max.ms", timeout_ms / 2);
    SET_INT("socket.timeout.ms", timeout_ms < 10000 ? 10000 : timeout_ms);
    SET_INT("reconnect.backoff.max.ms", 2000);
    SET_INT("receive.message.max.bytes", 16 << 20); /* it makes room for whatever length a broker announces */
    const char *key, *value;
    for (size_t i = 0; !code && (value = ob_option_below(options, "kafka", &i, &key));) {
        for (const char *const *own = ours; *own && !code; own++)
            if (strcmp(*own, key) == 0)
                code = ob_error_set(err, OUTBOX_INVALID, "kafka.%s is managed by the sink and cannot be set", key);
        SET(key, value);
    }
    SET("enable.idempotence", "true"); /* acks=all, in order, without end */
    SET("enable.gapless.guarantee", "true");
    SET("message.timeout.ms", "0");
    SET("log.queue", "true");
    SET_INT("queue.buffering.max.kbytes", queue / 1024);
#undef SET
#undef SET_INT
    return code;
}

/* 0 for what has no number. */
static int64_t number_of(const rd_kafka_conf_t *conf, const char *name)
{
    char text[32] = "";
    size_t len = sizeof text;
    return rd_kafka_conf_get(conf, name, text, &len) == RD_KAFKA_CONF_OK ? strtoll(text, NULL, 10) : 0;
}

/* A message that does not fit into the queue would wait forever. */
static enum outbox_code check_sizes(rd_kafka_conf_t *conf, struct outbox_error *err)
{
    int64_t message = number_of(conf, "message.max.bytes");
    if (number_of(conf, "queue.buffering.max.kbytes") * 1024 >= message)
        return OUTBOX_OK;
    return set_int(conf, "queue.buffering.max.kbytes", message / 1024 + 1, err);
}

static enum outbox_code check_delays(const rd_kafka_conf_t *conf, int64_t timeout_ms, struct outbox_error *err)
{
    for (const char *const *name = delays; *name; name++)
        if (number_of(conf, *name) > timeout_ms / 2)
            return ob_error_set(err, OUTBOX_INVALID,
                                "kafka.%s is %" PRId64 " ms, more than half of delivery_timeout (%" PRId64
                                " ms): messages would not get there in time",
                                *name, number_of(conf, *name), timeout_ms);
    return OUTBOX_OK;
}

static void choose_partitioner(struct ob_kafka_config *config, const char *name)
{
    int i = 0;
    while (partitioners[i + 1].name && strcmp(partitioners[i].name, name) != 0)
        i++;
    config->partitioner = partitioners[i].pick;
    config->by_key = partitioners[i].by_key;
    rd_kafka_topic_conf_t *topic = rd_kafka_conf_get_default_topic_conf(config->base);
    if (!topic) {
        rd_kafka_conf_set_default_topic_conf(config->base, rd_kafka_topic_conf_new());
        topic = rd_kafka_conf_get_default_topic_conf(config->base);
    }
    rd_kafka_topic_conf_set_partitioner_cb(topic, ob_kafka_partition);
    rd_kafka_topic_conf_set_opaque(topic, config);
}

static bool keep(struct ob_kafka_config *config, const struct ob_options *options, const char *name, const char **text)
{
    return ob_option_keep(options, name, &config->arena, text, NULL) == OUTBOX_OK;
}

enum outbox_code ob_kafka_config_read(struct ob_kafka_config *config, const struct ob_options *options,
                                      struct outbox_error *err)
{
    memset(config, 0, sizeof *config);
    ob_arena_init(&config->arena, 0);
    config->base = rd_kafka_conf_new();
    config->timeout_us = ob_option_int(options, "delivery_timeout");
    config->tombstones = ob_option_bool(options, "tombstones");
    if (!keep(config, options, "topic", &config->topic) ||
        !keep(config, options, "topic_prefix", &config->topic_prefix) ||
        !keep(config, options, "tombstone_header", &config->tombstone_header))
        return ob_error_nomem(err);
    enum outbox_code code = ob_render_read(&config->render, options, &config->arena, err);
    if (code)
        return code;
    if (config->topic && !ob_kafka_topic_ok(config->topic))
        return ob_error_set(err, OUTBOX_INVALID, "topic is \"%.80s\", which is not a valid Kafka topic name",
                            config->topic);
    if (config->topic_prefix && !ob_kafka_topic_ok(config->topic_prefix))
        return ob_error_set(err, OUTBOX_INVALID, "topic_prefix is \"%.80s\", which is not a valid Kafka topic name",
                            config->topic_prefix);
    code = set_all(config->base, config, options, err);
    if (!code)
        code = check_sizes(config->base, err);
    if (!code)
        code = check_delays(config->base, config->timeout_us / 1000, err);
    if (!code)
        choose_partitioner(config, ob_option_string(options, "partitioner"));
    return code;
}

void ob_kafka_config_fini(struct ob_kafka_config *config)
{
    if (config->base)
        rd_kafka_conf_destroy(config->base);
    ob_arena_fini(&config->arena);
}
