/* mqtt_int.h - shared by the files of the MQTT sink; see mqtt.c. */
#ifndef OB_SINK_BROKER_MQTT_MQTT_INT_H
#define OB_SINK_BROKER_MQTT_MQTT_INT_H

#include "sink/broker/mqtt/link.h"
#include "sink/broker/mqtt/packet.h"

struct ob_mqtt {
    struct ob_broker *broker;
    struct ob_broker_url url;
    struct ob_mqtt_login login;
    bool secure; /* over TLS */
    struct ob_tls tls;
    bool retain;
    int qos;
    size_t in_flight_max;
    /* the connection */
    struct ob_mqtt_link link;
    uint32_t packet_maximum;
    int64_t keepalive_us;
    int64_t sent_us;  /* when we last sent anything */
    int64_t asked_us; /* when we sent a PINGREQ that is not answered yet; 0: none */
    uint16_t last_id;
};

bool ob_mqtt_connect(void *self, struct ob_verdict *verdict);
void ob_mqtt_disconnect(void *self);
/* Gives the job a packet id and appends it to the output. On failure it fills the verdict and returns false. */
bool ob_mqtt_publish(struct ob_mqtt *mqtt, struct ob_broker_job *job);

/* The verdict for a reason code that refuses a message: 0x80 or above. */
void ob_mqtt_verdict(struct ob_verdict *verdict, int reason, const char *said, bool one_address);
/* The verdict for a reason code that refuses the connection; also for the codes of MQTT 3. */
void ob_mqtt_verdict_of_connect(struct ob_verdict *verdict, int reason, const char *said);

#endif
