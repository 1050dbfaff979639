/* mqtt.c - the MQTT sink: version 5, QoS 1; a PUBACK with a reason below 0x80 is the proof.
 *
 * The library keeps what it has not delivered and sends it again by itself after a reconnect, also what was published
 * while there was no connection. That would be behind the relay's back, which tries again itself. So a client is used for
 * one connection, nothing is published before the broker has answered, and never more than it allows to be out; a broken
 * connection ends the client, and what was out is unknown. There is no session to come back to: QoS 2 is exact only within
 * one connection.
 *
 * Thread: the courier's, but for mqtt_check and open; the library has no thread of its own here. */
#include "sink/mqtt_int.h"

#include "base/error.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

extern const struct outbox_sink_ops ob_sink_mqtt;

enum { TEXT_MOST = 65535 };

static void check_end(struct ob_mqtt *mqtt, int rc)
{
    char name[16];
    if (mqtt->end >= 0) {
        snprintf(name, sizeof name, "0x%02x", (unsigned)mqtt->end);
        ob_courier_lost(mqtt->courier, name, "the broker ended the connection: %s%s%s",
                        mosquitto_reason_string(mqtt->end), mqtt->said[0] ? ": " : "", mqtt->said);
    } else if (rc) {
        ob_courier_lost(mqtt->courier, rc == MOSQ_ERR_KEEPALIVE ? "keepalive" : "lost", "%s", mosquitto_strerror(rc));
    }
}

static void mqtt_send(void *self, struct ob_parcel *parcel)
{
    struct ob_mqtt *mqtt = self;
    int rc = ob_mqtt_publish(mqtt, parcel);
    if (!rc)
        return;
    if (rc == MOSQ_ERR_CONN_LOST || rc == MOSQ_ERR_ERRNO || rc == MOSQ_ERR_TLS) { /* some of it may have left */
        check_end(mqtt, rc);
        return;
    }
    ob_mqtt_rule_library(&parcel->ruling, rc);
    ob_parcel_end(mqtt->courier, parcel);
    if (rc == MOSQ_ERR_NO_CONN)
        check_end(mqtt, rc);
}

static void mqtt_serve(void *self, short revents)
{
    struct ob_mqtt *mqtt = self;
    int rc = MOSQ_ERR_SUCCESS;
    if (revents & (POLLIN | POLLHUP | POLLERR))
        rc = mosquitto_loop_read(mqtt->mosq, 1);
    if (!rc && mosquitto_want_write(mqtt->mosq))
        rc = mosquitto_loop_write(mqtt->mosq, 1);
    if (!rc)
        rc = mosquitto_loop_misc(mqtt->mosq);
    check_end(mqtt, rc);
}

static int mqtt_fd(void *self, short *events)
{
    const struct ob_mqtt *mqtt = self;
    *events = POLLIN;
    if (mosquitto_want_write(mqtt->mosq))
        *events |= POLLOUT;
    return mosquitto_socket(mqtt->mosq);
}

/* A text of MQTT has at most 65535 bytes and no control characters, not even the rarer ones. The library cuts what is
 * longer without a word, and a broker ends the connection over the others. */
static bool is_text(const char *text, size_t len)
{
    return len <= TEXT_MOST && strlen(text) == len && mosquitto_validate_utf8(text, (int)len) == MOSQ_ERR_SUCCESS;
}

/* Topics that begin with a '$' are the broker's own. */
static bool is_topic(const char *topic, size_t len)
{
    return len && topic[0] != '$' && is_text(topic, len) && mosquitto_pub_topic_check(topic) == MOSQ_ERR_SUCCESS;
}

static bool mqtt_check(void *self, const struct ob_parcel *parcel, struct ob_ruling *ruling)
{
    (void)self;
    if (!is_topic(ob_buf_text(&parcel->address), parcel->address.len)) {
        ob_ruling_set(ruling, OUTBOX_SINK_TERMINAL, "mqtt", "address",
                      "not a topic to publish to: no wildcards or control characters, and none of the broker's own");
        return false;
    }
    bool good = is_text(parcel->content_type, strlen(parcel->content_type));
    for (size_t i = 0; good && i < parcel->headers.count; i++)
        good = is_text(parcel->headers.at[i].value, strlen(parcel->headers.at[i].value));
    if (!good)
        ob_ruling_set(ruling, OUTBOX_SINK_TERMINAL, "mqtt", "header",
                      "a header is longer than 65535 bytes or has characters that MQTT does not carry");
    return good;
}

static void mqtt_probe(void *self, struct ob_ruling *ruling)
{
    const struct ob_mqtt *mqtt = self;
    snprintf(ruling->text, sizeof ruling->text, "connected to %s", mqtt->url.host);
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .required = true, .doc = "`mqtt://host:port`, or `mqtts://` for TLS"},
    {"username", OUTBOX_OPTION_TEXT, .doc = "who we are"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "and the password"},
    {"client_id", OUTBOX_OPTION_TEXT,
     .doc =
         "without it one is made up; a broker ends the older of two connections with the same id, so give each relay "
         "its own"},
    {"tls.ca", OUTBOX_OPTION_FILE, .doc = "file with the authorities to trust instead of the system's"},
    {"tls.cert", OUTBOX_OPTION_FILE, .doc = "file with our certificate"},
    {"tls.key", OUTBOX_OPTION_FILE, .doc = "file with its key"},
    {"topic", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}",
     .doc = "where messages go: a text, or a template of the message"},
    {"qos", OUTBOX_OPTION_INT, .fallback = "1", .least = 1, .most = 2,
     .doc = "1, or 2: exactly once in one connection"},
    {"retain", OUTBOX_OPTION_BOOL, .fallback = "false", .doc = "the broker keeps the last message of each topic"},
    {"keepalive", OUTBOX_OPTION_DURATION, .fallback = "30s", .least = 5000000, .most = 3600000000,
     .doc = "a sign of life when there is nothing to send"},
    OB_COURIER_SETTINGS,
    OB_RENDER_SETTINGS,
    {NULL},
};

static enum outbox_code read_settings(void *self, struct ob_courier *courier, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct ob_mqtt *mqtt = self;
    bool failed = false;
    mqtt->courier = courier;
    mqtt->window = courier->window;
    const char *url = ob_option_text_or(options, "url", "");
    mqtt->username = ob_courier_keep(courier, options, "username", &failed);
    mqtt->password = ob_courier_keep(courier, options, "password", &failed);
    mqtt->client_id = ob_courier_keep(courier, options, "client_id", &failed);
    mqtt->ca = ob_courier_keep(courier, options, "tls.ca", &failed);
    mqtt->cert = ob_courier_keep(courier, options, "tls.cert", &failed);
    mqtt->key = ob_courier_keep(courier, options, "tls.key", &failed);
    mqtt->qos = (int)ob_option_int(options, "qos", 1);
    mqtt->retain = ob_option_bool(options, "retain", false);
    mqtt->keepalive = (int)(ob_option_int(options, "keepalive", 30000000) / 1000000);
    mqtt->tls = strncmp(url, "mqtts:", 6) == 0;
    enum outbox_code code = ob_broker_url_parse(&mqtt->url, url, "mqtt mqtts", mqtt->tls ? 8883 : 1883, err);
    if (!code && mqtt->url.has_path)
        code = ob_error_set(err, OUTBOX_INVALID, "url has a path, which means nothing here: topic says where to");
    if (!code && mqtt->password && !mqtt->username)
        code = ob_error_set(err, OUTBOX_INVALID, "password needs a username");
    return !code && failed ? ob_error_nomem(err) : code;
}

static const struct ob_courier_driver driver = {
    .size = sizeof(struct ob_mqtt),
    .open = read_settings,
    .prefix = "mqtt",
    .wire = &ob_wire_mqtt,
    .address = "topic",
    .check = mqtt_check,
    .connect = ob_mqtt_connect,
    .disconnect = ob_mqtt_disconnect,
    .fd = mqtt_fd,
    .send = mqtt_send,
    .serve = mqtt_serve,
    .probe = mqtt_probe,
    .tick_us = 500000,
};

static enum outbox_code mqtt_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_courier_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_mqtt = {
    OB_COURIER_OPS, .kind = "mqtt", .open = mqtt_open, .settings = settings, .summary = "publishes to an MQTT 5 broker",
};
