/* packet.h - packets of MQTT 5, the few that a publisher writes and reads. No I/O.
 *
 * What is read comes from a broker that may send anything: lengths are checked before they are believed, a packet has an
 * upper limit, and what is not understood is refused. */
#ifndef OB_SINK_BROKER_MQTT_PACKET_H
#define OB_SINK_BROKER_MQTT_PACKET_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The largest packet we take; the broker is told. And the largest there can be. */
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
    uint16_t receive_maximum, keepalive; /* keepalive: 0 for what we said */
    uint32_t packet_maximum;
    int qos_maximum;
    bool retains;
};

/* Reads the first packet of so many bytes. How long it is; 0: there is more to come; -1: *why says what is wrong. */
ssize_t ob_mqtt_decode(const void *data, size_t len, struct ob_mqtt_packet *packet, const char **why);

struct ob_mqtt_login {
    const char *client_id, *username, *password; /* NULL: none */
    uint16_t keepalive;
};

/* All write to the end of buf; its stickiness says whether there was memory. */
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

/* The name of a reason code; "" for one that there is not. */
const char *ob_mqtt_reason(int reason);
/* UTF-8 without control characters and non-characters, of at most OB_MQTT_TEXT_MOST bytes. */
bool ob_mqtt_text_ok(const char *text, size_t len);

#endif
