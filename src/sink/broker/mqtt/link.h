/* link.h - the byte stream to and from an MQTT broker: a socket, optionally with TLS. Only opening it blocks. */
#ifndef OB_SINK_BROKER_MQTT_LINK_H
#define OB_SINK_BROKER_MQTT_LINK_H

#include "sink/broker/broker.h"

#include <openssl/ssl.h>

struct ob_mqtt_link {
    int fd; /* -1: closed */
    SSL_CTX *context;
    SSL *ssl; /* NULL: no TLS */
    struct ob_buf in, out;
    size_t in_at, out_at; /* bytes used so far, bytes sent so far */
    bool blocked;         /* TLS wants to write before it can read, or the socket is full */
};

void ob_mqtt_link_init(struct ob_mqtt_link *link);
/* Takes at most what is left of connect_timeout; tls NULL: unencrypted. On failure it fills the verdict and returns false. */
bool ob_mqtt_link_open(struct ob_mqtt_link *link, struct ob_broker *broker, const struct ob_broker_url *url,
                       const struct ob_tls *tls, struct ob_verdict *verdict);
void ob_mqtt_link_close(struct ob_mqtt_link *link);
/* Both do what can be done without blocking. They return NULL, or why the connection ended. */
const char *ob_mqtt_link_read(struct ob_mqtt_link *link, bool *more);
const char *ob_mqtt_link_write(struct ob_mqtt_link *link);
/* The bytes of `in` that were not used yet. */
size_t ob_mqtt_link_unread(const struct ob_mqtt_link *link, const char **data);
/* Marks len bytes of it as used. */
void ob_mqtt_link_used(struct ob_mqtt_link *link, size_t len);
bool ob_mqtt_link_wants_write(const struct ob_mqtt_link *link);

#endif
