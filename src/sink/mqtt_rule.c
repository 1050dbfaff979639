/* mqtt_rule.c - what the reason codes of MQTT 5 mean, and the errors of the library. */
#include "sink/mqtt_int.h"

#include <stdio.h>

static const struct {
    int reason;
    enum outbox_sink_outcome outcome;
} table[] = {
    {MQTT_RC_NOT_AUTHORIZED, OUTBOX_SINK_BLOCKED},        {MQTT_RC_TOPIC_NAME_INVALID, OUTBOX_SINK_BLOCKED},
    {MQTT_RC_PACKET_TOO_LARGE, OUTBOX_SINK_TERMINAL},     {MQTT_RC_PAYLOAD_FORMAT_INVALID, OUTBOX_SINK_TERMINAL},
    {MQTT_RC_QUOTA_EXCEEDED, OUTBOX_SINK_LIMITED},        {MQTT_RC_UNSPECIFIED, OUTBOX_SINK_RETRY},
    {MQTT_RC_IMPLEMENTATION_SPECIFIC, OUTBOX_SINK_RETRY},
};

void ob_mqtt_rule(struct ob_ruling *ruling, int reason, const char *said, bool one_address)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)reason);
    ob_ruling_set(ruling, OUTBOX_SINK_RETRY, "mqtt", name, "%s%s%s", mosquitto_reason_string(reason), *said ? ": " : "",
                  said);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].reason == reason)
            ruling->outcome = table[i].outcome;
    /* Rights differ from topic to topic. */
    if (!one_address && ruling->outcome == OUTBOX_SINK_BLOCKED)
        ruling->scope = OUTBOX_SCOPE_MESSAGE;
}

void ob_mqtt_rule_connect(struct ob_ruling *ruling, int reason, const char *said)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)reason);
    ob_ruling_set(ruling, OUTBOX_SINK_BLOCKED, "mqtt", name, "the broker refuses us: %s%s%s",
                  reason < 0x80 ? mosquitto_connack_string(reason) : mosquitto_reason_string(reason), *said ? ": " : "",
                  said);
    switch (reason) {
    case 3: /* of MQTT 3: unavailable */
    case MQTT_RC_UNSPECIFIED:
    case MQTT_RC_IMPLEMENTATION_SPECIFIC:
    case MQTT_RC_SERVER_UNAVAILABLE:
    case MQTT_RC_SERVER_BUSY:
    case MQTT_RC_SERVER_SHUTTING_DOWN:
    case MQTT_RC_QUOTA_EXCEEDED:
    case MQTT_RC_CONNECTION_RATE_EXCEEDED:
    case MQTT_RC_USE_ANOTHER_SERVER:
        ruling->outcome = OUTBOX_SINK_RETRY;
        ruling->unreachable = true;
        break;
    default: break;
    }
}

void ob_mqtt_rule_library(struct ob_ruling *ruling, int error)
{
    switch (error) {
    case MOSQ_ERR_OVERSIZE_PACKET:
    case MOSQ_ERR_PAYLOAD_SIZE:
        ob_ruling_set(ruling, OUTBOX_SINK_TERMINAL, "mqtt", "too_large",
                      "larger than the broker's maximum packet size");
        break;
    case MOSQ_ERR_QOS_NOT_SUPPORTED:
    case MOSQ_ERR_RETAIN_NOT_SUPPORTED:
        ob_ruling_set(ruling, OUTBOX_SINK_BLOCKED, "mqtt", "not_supported", "%s", mosquitto_strerror(error));
        break;
    case MOSQ_ERR_NOMEM: ob_ruling_shortage(ruling); break;
    case MOSQ_ERR_NO_CONN: /* it would go out with the next connection, but we give up this client */
        ob_ruling_set(ruling, OUTBOX_SINK_RETRY, "mqtt", "lost", "%s", mosquitto_strerror(error));
        ruling->unreachable = true;
        break;
    default: ob_ruling_set(ruling, OUTBOX_SINK_TERMINAL, "mqtt", "invalid", "%s", mosquitto_strerror(error));
    }
}
