/* verdict.c - what the reason codes of MQTT 5 mean. */
#include "sink/broker/mqtt/mqtt_int.h"

#include <stdio.h>

enum {
    UNSPECIFIED = 0x80,
    IMPLEMENTATION_SPECIFIC = 0x83,
    NOT_AUTHORIZED = 0x87,
    SERVER_UNAVAILABLE = 0x88,
    SERVER_BUSY = 0x89,
    SERVER_SHUTTING_DOWN = 0x8b,
    TOPIC_NAME_INVALID = 0x90,
    PACKET_TOO_LARGE = 0x95,
    QUOTA_EXCEEDED = 0x97,
    PAYLOAD_FORMAT_INVALID = 0x99,
    USE_ANOTHER_SERVER = 0x9c,
    CONNECTION_RATE_EXCEEDED = 0x9f,
};

static const struct {
    int reason;
    enum outbox_sink_outcome outcome;
} table[] = {
    {NOT_AUTHORIZED, OUTBOX_SINK_BLOCKED},        {TOPIC_NAME_INVALID, OUTBOX_SINK_BLOCKED},
    {PACKET_TOO_LARGE, OUTBOX_SINK_TERMINAL},     {PAYLOAD_FORMAT_INVALID, OUTBOX_SINK_TERMINAL},
    {QUOTA_EXCEEDED, OUTBOX_SINK_LIMITED},        {UNSPECIFIED, OUTBOX_SINK_RETRY},
    {IMPLEMENTATION_SPECIFIC, OUTBOX_SINK_RETRY},
};

void ob_mqtt_verdict(struct ob_verdict *verdict, int reason, const char *said, bool one_address)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)reason);
    ob_verdict_set(verdict, OUTBOX_SINK_RETRY, "mqtt", name, "%s%s%s", ob_mqtt_reason(reason), *said ? ": " : "", said);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].reason == reason)
            verdict->outcome = table[i].outcome;
    /* Rights differ from topic to topic. */
    if (!one_address && verdict->outcome == OUTBOX_SINK_BLOCKED)
        verdict->scope = OUTBOX_SCOPE_MESSAGE;
}

void ob_mqtt_verdict_of_connect(struct ob_verdict *verdict, int reason, const char *said)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)reason);
    ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "mqtt", name, "the broker refused the connection: %s%s%s",
                   ob_mqtt_reason(reason), *said ? ": " : "", said);
    switch (reason) {
    case 3: /* of MQTT 3: unavailable */
    case UNSPECIFIED:
    case IMPLEMENTATION_SPECIFIC:
    case SERVER_UNAVAILABLE:
    case SERVER_BUSY:
    case SERVER_SHUTTING_DOWN:
    case QUOTA_EXCEEDED:
    case CONNECTION_RATE_EXCEEDED:
    case USE_ANOTHER_SERVER:
        verdict->outcome = OUTBOX_SINK_RETRY;
        verdict->unreachable = true;
        break;
    default: break;
    }
}
