/* record.c - what a message becomes on its way to Kafka: a topic, a value or none, and headers. */
#include "sink/kafka/kafka_int.h"
#include "sink/shortage.h"

#include <string.h>
#include <strings.h>

enum { TOPIC_MOST = 249 };

static bool is_of_topic(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool ob_kafka_topic_ok(const char *name)
{
    size_t len = 0;
    while (is_of_topic(name[len]))
        len++;
    return !name[len] && len >= 1 && len <= TOPIC_MOST && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

void ob_kafka_record_init(struct ob_kafka_record *record)
{
    memset(record, 0, sizeof *record);
    ob_buf_init(&record->topic);
    ob_buf_init(&record->body);
    ob_headers_init(&record->headers);
}

void ob_kafka_record_fini(struct ob_kafka_record *record)
{
    ob_buf_fini(&record->topic);
    ob_buf_fini(&record->body);
    ob_headers_fini(&record->headers);
}

static bool refuse(struct outbox_verdict *verdict, enum outbox_sink_outcome outcome, const char *code, const char *text)
{
    verdict->outcome = outcome;
    verdict->not_before_us = outcome == OUTBOX_SINK_NOT_SENT ? OB_SHORTAGE_US : -1;
    verdict->local = true;
    verdict->code = code;
    verdict->text = text;
    return false;
}

const char *ob_kafka_record_topic(struct ob_kafka_record *record, const struct ob_kafka_config *config,
                                  const struct outbox_delivery *msg)
{
    record->name = config->topic ? config->topic : msg->topic;
    if (config->topic || !config->topic_prefix)
        return record->name;
    ob_buf_reset(&record->topic);
    ob_buf_puts(&record->topic, config->topic_prefix);
    ob_buf_puts(&record->topic, msg->topic);
    return record->name = ob_buf_ok(&record->topic) ? ob_buf_text(&record->topic) : NULL;
}

/* The JSON null, or a header that says so. */
static bool is_tombstone(const struct ob_kafka_record *record, const struct ob_kafka_config *config,
                         const struct outbox_delivery *msg)
{
    const char *text = msg->payload, *end = text + msg->payload_len;
    const char *header = config->tombstone_header ? ob_headers_get(&record->headers, config->tombstone_header) : NULL;
    if (header && (strcmp(header, "true") == 0 || strcmp(header, "1") == 0))
        return true;
    if (!config->tombstones || msg->payload_len < 4 || msg->payload_len > 64)
        return false;
    while (text < end && strchr(" \t\r\n", *text) && *text)
        text++;
    while (end > text && strchr(" \t\r\n", end[-1]) && end[-1])
        end--;
    return end - text == 4 && memcmp(text, "null", 4) == 0 && ob_render_is_json(msg);
}

bool ob_kafka_record_make(struct ob_kafka_record *record, const struct ob_kafka_config *config,
                          const struct outbox_delivery *msg, struct outbox_verdict *verdict)
{
    if (!ob_kafka_record_topic(record, config, msg))
        return refuse(verdict, OUTBOX_SINK_NOT_SENT, "out_of_memory", "out of memory");
    if (!ob_kafka_topic_ok(record->name))
        return refuse(verdict, OUTBOX_SINK_TERMINAL, "kafka_topic_name",
                      "not a valid Kafka topic name: 1 to 249 letters, digits, '.', '_' or '-'");
    ob_headers_reset(&record->headers);
    ob_render_headers(&config->render, &ob_wire_kafka, msg, &record->headers);
    if (record->headers.code) {
        ob_headers_verdict(&record->headers, verdict);
        return false;
    }
    record->value = NULL;
    record->len = 0;
    if (is_tombstone(record, config, msg))
        return true;
    if (!ob_render_body(&config->render, msg, &record->body, &record->value, &record->len))
        return refuse(verdict, OUTBOX_SINK_NOT_SENT, "out_of_memory", "out of memory");
    if (!record->value)
        record->value = ""; /* an empty value is not a tombstone */
    return true;
}
