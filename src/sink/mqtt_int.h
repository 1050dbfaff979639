/* mqtt_int.h - between the files of the MQTT sink; mqtt.c tells the story. */
#ifndef OB_SINK_MQTT_INT_H
#define OB_SINK_MQTT_INT_H

#include "sink/broker_url.h"
#include "sink/courier.h"

#include <mosquitto.h>
#include <mqtt_protocol.h>

struct ob_mqtt {
    struct ob_courier *courier;
    struct ob_broker_url url;
    const char *username, *password, *client_id, *ca, *cert, *key;
    bool tls, retain;
    int qos, keepalive;
    size_t window;
    /* the connection */
    struct mosquitto *mosq;
    int reason;     /* of the broker's answer to our CONNECT; -1: none yet */
    int end;        /* why the broker ended it; -1: it did not say */
    char said[160]; /* with that */
    bool rejected;  /* a certificate was, in the handshake */
    size_t allows;  /* so many may be out, says the broker */
};

bool ob_mqtt_connect(void *self, struct ob_ruling *ruling);
void ob_mqtt_disconnect(void *self);
/* Hands it to the library, which gives it a number. An error of the library, 0 for none. */
int ob_mqtt_publish(struct ob_mqtt *mqtt, struct ob_parcel *parcel);

/* What the broker's reason for a message means; *reason is not below 0x80. */
void ob_mqtt_rule(struct ob_ruling *ruling, int reason, const char *said, bool one_address);
/* And its reason to refuse us; also the codes of MQTT 3. */
void ob_mqtt_rule_connect(struct ob_ruling *ruling, int reason, const char *said);
/* What the library itself says about a message that it does not take. */
void ob_mqtt_rule_library(struct ob_ruling *ruling, int error);

#endif
