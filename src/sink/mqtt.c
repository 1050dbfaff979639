/* mqtt.c - the MQTT sink: version 5, QoS 1; a PUBACK with a reason below 0x80 is the proof.
 *
 * The protocol is spoken here (mqtt_packet.c), over a socket of ours (mqtt_link.c): a client library that asserts on a
 * broker's bytes would take the relay with it, and one that sends again by itself would do so behind the relay's back. A
 * connection that breaks is gone, what was out is unknown, and the relay tries again. There is no session to come back
 * to: QoS 2 is exact only within one connection. Never more is out than the broker allows.
 *
 * Thread: the courier's, but for mqtt_check and open. */
#include "sink/mqtt_int.h"

#include "base/clock.h"
#include "base/error.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

extern const struct outbox_sink_ops ob_sink_mqtt;

enum { STAGE_SENT, STAGE_RECEIVED }; /* of QoS 2: the broker has it, and is told to let it go */

/* ---- writing ---- */

static void write_out(struct ob_mqtt *mqtt)
{
    const char *why = ob_mqtt_link_write(&mqtt->link);
    mqtt->sent_us = ob_clock_mono_us();
    if (why)
        ob_courier_lost(mqtt->courier, "lost", "%s", why);
}

static void mqtt_send(void *self, struct ob_parcel *parcel)
{
    struct ob_mqtt *mqtt = self;
    parcel->stage = STAGE_SENT;
    if (ob_mqtt_publish(mqtt, parcel))
        write_out(mqtt);
    else
        ob_parcel_end(mqtt->courier, parcel);
}

/* ---- reading ---- */

static struct ob_parcel *find(struct ob_mqtt *mqtt, uint16_t id)
{
    OB_LIST_EACH (it, &mqtt->courier->out) {
        struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, node);
        if (parcel->tag == id)
            return parcel;
    }
    return NULL;
}

static void end(struct ob_mqtt *mqtt, struct ob_parcel *parcel, int reason, const char *said)
{
    enum { NO_SUBSCRIBERS = 0x10 };
    if (reason < 0x80) {
        ob_parcel_accepted(mqtt->courier, parcel, NULL, reason == NO_SUBSCRIBERS ? "nobody subscribes to it" : NULL);
        return;
    }
    ob_mqtt_rule(&parcel->ruling, reason, said, mqtt->courier->one_address);
    ob_parcel_end(mqtt->courier, parcel);
}

/* QoS 1: PUBACK. QoS 2: PUBREC, then our PUBREL, then PUBCOMP. */
static bool answered(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    struct ob_parcel *parcel = find(mqtt, packet->id);
    if (!parcel)
        return false;
    int stage = packet->type == OB_MQTT_PUBCOMP ? STAGE_RECEIVED : STAGE_SENT;
    if ((packet->type == OB_MQTT_PUBACK) != (mqtt->qos == 1) || parcel->stage != stage)
        return false;
    if (packet->type != OB_MQTT_PUBREC || packet->reason >= 0x80) {
        end(mqtt, parcel, packet->reason, packet->said);
        return true;
    }
    parcel->stage = STAGE_RECEIVED;
    ob_mqtt_put_pubrel(&mqtt->link.out, packet->id);
    if (ob_buf_ok(&mqtt->link.out))
        write_out(mqtt);
    else
        ob_courier_lost(mqtt->courier, "memory", "out of memory");
    return true;
}

static void ended(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)packet->reason);
    ob_courier_lost(mqtt->courier, packet->reason ? name : "lost", "the broker ended the connection%s%s%s%s",
                    packet->reason ? ": " : "", ob_mqtt_reason(packet->reason), *packet->said ? ": " : "",
                    packet->said);
}

static void heed(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    bool asked = true;
    switch (packet->type) {
    case OB_MQTT_PUBACK:
    case OB_MQTT_PUBREC:
    case OB_MQTT_PUBCOMP: asked = answered(mqtt, packet); break;
    case OB_MQTT_DISCONNECT: ended(mqtt, packet); break;
    case OB_MQTT_PINGRESP:
        asked = mqtt->asked_us != 0;
        mqtt->asked_us = 0;
        break;
    default: asked = false;
    }
    if (!asked)
        ob_courier_lost(mqtt->courier, "protocol", "the broker answers what nobody asked");
}

static void read_in(struct ob_mqtt *mqtt)
{
    const char *data, *wrong = NULL;
    struct ob_mqtt_packet packet;
    bool more;
    const char *why = ob_mqtt_link_read(&mqtt->link, &more);
    while (!mqtt->courier->lost) {
        size_t unread = ob_mqtt_link_unread(&mqtt->link, &data);
        ssize_t len = ob_mqtt_decode(data, unread, &packet, &wrong);
        if (len < 0)
            ob_courier_lost(mqtt->courier, "protocol", "the broker is not to be understood: %s", wrong);
        if (len <= 0)
            break;
        ob_mqtt_link_used(&mqtt->link, (size_t)len);
        heed(mqtt, &packet);
    }
    if (why)
        ob_courier_lost(mqtt->courier, "lost", "%s", why);
    if (more)
        ob_courier_kick(mqtt->courier);
}

/* A sign of life when nothing was said for so long, and one back in time. */
static void keep_alive(struct ob_mqtt *mqtt)
{
    int64_t now = ob_clock_mono_us();
    if (mqtt->asked_us && now - mqtt->asked_us >= mqtt->courier->ack_timeout_us) {
        ob_courier_lost(mqtt->courier, "keepalive", "the broker gives no sign of life");
    } else if (!mqtt->asked_us && now - mqtt->sent_us >= mqtt->keepalive_us) {
        ob_mqtt_put_ping(&mqtt->link.out);
        mqtt->asked_us = now;
        if (ob_buf_ok(&mqtt->link.out))
            write_out(mqtt);
        else
            ob_courier_lost(mqtt->courier, "memory", "out of memory");
    }
}

static void mqtt_serve(void *self, short revents)
{
    struct ob_mqtt *mqtt = self;
    if (ob_mqtt_link_wants_write(&mqtt->link))
        write_out(mqtt);
    if (revents & (POLLIN | POLLHUP | POLLERR) || mqtt->link.ssl)
        read_in(mqtt);
    if (!mqtt->courier->lost)
        keep_alive(mqtt);
}

static int mqtt_fd(void *self, short *events)
{
    const struct ob_mqtt *mqtt = self;
    *events = POLLIN;
    if (ob_mqtt_link_wants_write(&mqtt->link))
        *events |= POLLOUT;
    return mqtt->link.fd;
}

/* ---- what may go out ---- */

static bool is_text(const char *text, size_t len)
{
    return strlen(text) == len && ob_mqtt_text_ok(text, len);
}

/* Topics that begin with a '$' are the broker's own. */
static bool is_topic(const char *topic, size_t len)
{
    return len && topic[0] != '$' && is_text(topic, len) && !strpbrk(topic, "+#");
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
         "without it the broker makes one up; it ends the older of two connections with the same id, so give each relay "
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

static bool login_ok(const char *text)
{
    return !text || ob_mqtt_text_ok(text, strlen(text));
}

static enum outbox_code read_settings(void *self, struct ob_courier *courier, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct ob_mqtt *mqtt = self;
    bool failed = false;
    mqtt->courier = courier;
    mqtt->window = courier->window;
    const char *url = ob_option_text_or(options, "url", "");
    ob_mqtt_link_init(&mqtt->link);
    mqtt->login.username = ob_courier_keep(courier, options, "username", &failed);
    mqtt->login.password = ob_courier_keep(courier, options, "password", &failed);
    mqtt->login.client_id = ob_courier_keep(courier, options, "client_id", &failed);
    mqtt->tls.ca = ob_courier_keep(courier, options, "tls.ca", &failed);
    mqtt->tls.cert = ob_courier_keep(courier, options, "tls.cert", &failed);
    mqtt->tls.key = ob_courier_keep(courier, options, "tls.key", &failed);
    mqtt->qos = (int)ob_option_int(options, "qos", 1);
    mqtt->retain = ob_option_bool(options, "retain", false);
    mqtt->login.keepalive = (uint16_t)(ob_option_int(options, "keepalive", 30000000) / 1000000);
    mqtt->tls.wanted = strncmp(url, "mqtts:", 6) == 0;
    enum outbox_code code = ob_broker_url_parse(&mqtt->url, url, "mqtt mqtts", mqtt->tls.wanted ? 8883 : 1883, err);
    if (!code && mqtt->url.has_path)
        code = ob_error_set(err, OUTBOX_INVALID, "url has a path, which means nothing here: topic says where to");
    if (!code && mqtt->login.password && !mqtt->login.username)
        code = ob_error_set(err, OUTBOX_INVALID, "password needs a username");
    if (!code && !(login_ok(mqtt->login.username) && login_ok(mqtt->login.password) && login_ok(mqtt->login.client_id)))
        code = ob_error_set(err, OUTBOX_INVALID,
                            "username, password and client_id have at most %d bytes and no control characters",
                            OB_MQTT_TEXT_MOST);
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
