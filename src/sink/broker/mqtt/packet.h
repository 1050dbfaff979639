/* packet.h - packets of MQTT 5, the few that a publisher writes and reads. No I/O.
 *
 * The input comes from a broker that may send anything: lengths are checked before they are used, the size of a packet is
 * limited, and what cannot be parsed is refused. */
#ifndef OB_SINK_BROKER_MQTT_PACKET_H
#define OB_SINK_BROKER_MQTT_PACKET_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The largest packet we accept (announced to the broker), the largest that MQTT allows, and the longest text. */
enum { OB_MQTT_IN_MOST = 65536, OB_MQTT_MOST = 268435455, OB_MQTT_TEXT_MOST = 65535 };

enum ob_mqtt_type {
    OB_MQTT_CONNACK = 2,
    OB_MQTT_PUBACK = 4,
    OB_MQTT_PUBREC = 5,
    OB_MQTT_PUBCOMP = 7,
    OB_MQTT_PINGRESP = 13,
    OB_MQTT_DISCONNECT = 14,
};

struct ob_mqtt_packet {
    enum ob_mqtt_type type;
    int reason;
    uint16_t id; /* of the message */
    char said[160];
    /* what a CONNACK allows */
    uint16_t receive_maximum, keepalive; /* keepalive: 0 for the one we requested */
    uint32_t packet_maximum;
    int qos_maximum;
    bool retains;
};

/* Parses the first packet in data. Returns its length; 0: it is incomplete; -1: it is invalid, and *why says why. */
ssize_t ob_mqtt_decode(const void *data, size_t len, struct ob_mqtt_packet *packet, const char **why);

struct ob_mqtt_login {
    const char *client_id, *username, *password; /* NULL: none */
    uint16_t keepalive;
};

/* All append to buf, whose sticky error says whether memory ran out. */
void ob_mqtt_put_connect(struct ob_buf *buf, const struct ob_mqtt_login *login);
void ob_mqtt_put_pubrel(struct ob_buf *buf, uint16_t id);
void ob_mqtt_put_ping(struct ob_buf *buf);
void ob_mqtt_put_disconnect(struct ob_buf *buf);

struct ob_mqtt_property {
    const char *name, *value;
};

struct ob_mqtt_publish {
    const char *topic, *content_type; /* content_type: "" for none */
    const void *body;
    size_t topic_len, body_len;
    uint16_t id;
    int qos;
    bool retain;
    int64_t expires_s; /* -1: never */
    const struct ob_mqtt_property *properties;
    size_t property_count;
};

/* Bytes of the whole packet. */
size_t ob_mqtt_publish_size(const struct ob_mqtt_publish *publish);
void ob_mqtt_put_publish(struct ob_buf *buf, const struct ob_mqtt_publish *publish);

/* The name of a reason code; "" for an unknown one. */
const char *ob_mqtt_reason(int reason);
/* UTF-8 without control characters and non-characters, of at most OB_MQTT_TEXT_MOST bytes. */
bool ob_mqtt_text_ok(const char *text, size_t len);

#endif
