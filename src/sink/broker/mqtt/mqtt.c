/* mqtt.c - the MQTT sink: version 5, QoS 1; a PUBACK with a reason below 0x80 is the proof.
 *
 * The protocol is implemented here (packet.c), over our own socket (link.c): a client library that asserts on a broker's
 * bytes would crash the relay, and one that resends by itself would do so without the relay's knowledge. When a connection
 * breaks, the messages in flight are unknown, and the relay tries again. Sessions are not resumed: QoS 2 is exact only
 * within one connection. There are never more messages in flight than the broker allows.
 *
 * Thread: the broker thread's, except for mqtt_check and open. */
#include "sink/broker/mqtt/mqtt_int.h"

#include "base/clock.h"
#include "base/error.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

extern const struct outbox_sink_ops ob_sink_mqtt;

enum { STAGE_SENT, STAGE_RECEIVED }; /* of QoS 2: the broker has it, and was sent a PUBREL */

/* ---- writing ---- */

static void write_out(struct ob_mqtt *mqtt)
{
    const char *why = ob_mqtt_link_write(&mqtt->link);
    mqtt->sent_us = ob_clock_mono_us();
    if (why)
        ob_broker_lost(mqtt->broker, "lost", "%s", why);
}

static void mqtt_send(void *self, struct ob_broker_job *job)
{
    struct ob_mqtt *mqtt = self;
    job->stage = STAGE_SENT;
    if (ob_mqtt_publish(mqtt, job))
        write_out(mqtt);
    else
        ob_broker_job_end(mqtt->broker, job);
}

/* ---- reading ---- */

static struct ob_broker_job *find(struct ob_mqtt *mqtt, uint16_t id)
{
    OB_LIST_EACH (it, &mqtt->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        if (job->tag == id)
            return job;
    }
    return NULL;
}

static void job_end(struct ob_mqtt *mqtt, struct ob_broker_job *job, int reason, const char *said)
{
    enum { NO_SUBSCRIBERS = 0x10 };
    if (reason < 0x80) {
        ob_broker_job_accepted(mqtt->broker, job, NULL, reason == NO_SUBSCRIBERS ? "nobody subscribes to it" : NULL);
        return;
    }
    ob_mqtt_verdict(&job->verdict, reason, said, mqtt->broker->one_address);
    ob_broker_job_end(mqtt->broker, job);
}

/* QoS 1: PUBACK. QoS 2: PUBREC, then our PUBREL, then PUBCOMP. */
static bool answered(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    struct ob_broker_job *job = find(mqtt, packet->id);
    if (!job)
        return false;
    int stage = packet->type == OB_MQTT_PUBCOMP ? STAGE_RECEIVED : STAGE_SENT;
    if ((packet->type == OB_MQTT_PUBACK) != (mqtt->qos == 1) || job->stage != stage)
        return false;
    if (packet->type != OB_MQTT_PUBREC || packet->reason >= 0x80) {
        job_end(mqtt, job, packet->reason, packet->said);
        return true;
    }
    job->stage = STAGE_RECEIVED;
    ob_mqtt_put_pubrel(&mqtt->link.out, packet->id);
    if (ob_buf_ok(&mqtt->link.out))
        write_out(mqtt);
    else
        ob_broker_lost(mqtt->broker, "memory", "out of memory");
    return true;
}

static void job_ended(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    char name[16];
    snprintf(name, sizeof name, "0x%02x", (unsigned)packet->reason);
    ob_broker_lost(mqtt->broker, packet->reason ? name : "lost", "the broker ended the connection%s%s%s%s",
                   packet->reason ? ": " : "", ob_mqtt_reason(packet->reason), *packet->said ? ": " : "", packet->said);
}

static void handle_packet(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *packet)
{
    bool asked = true;
    switch (packet->type) {
    case OB_MQTT_PUBACK:
    case OB_MQTT_PUBREC:
    case OB_MQTT_PUBCOMP: asked = answered(mqtt, packet); break;
    case OB_MQTT_DISCONNECT: job_ended(mqtt, packet); break;
    case OB_MQTT_PINGRESP:
        asked = mqtt->asked_us != 0;
        mqtt->asked_us = 0;
        break;
    default: asked = false;
    }
    if (!asked)
        ob_broker_lost(mqtt->broker, "protocol", "the broker acknowledged a message that was not sent");
}

static void read_in(struct ob_mqtt *mqtt)
{
    const char *data, *wrong = NULL;
    struct ob_mqtt_packet packet;
    bool more;
    const char *why = ob_mqtt_link_read(&mqtt->link, &more);
    while (!mqtt->broker->lost) {
        size_t unread = ob_mqtt_link_unread(&mqtt->link, &data);
        ssize_t len = ob_mqtt_decode(data, unread, &packet, &wrong);
        if (len < 0)
            ob_broker_lost(mqtt->broker, "protocol", "malformed packet from the broker: %s", wrong);
        if (len <= 0)
            break;
        ob_mqtt_link_used(&mqtt->link, (size_t)len);
        handle_packet(mqtt, &packet);
    }
    if (why)
        ob_broker_lost(mqtt->broker, "lost", "%s", why);
    if (more)
        ob_broker_kick(mqtt->broker);
}

/* Sends a PINGREQ after the connection was idle for keepalive, and expects the answer in time. */
static void keep_alive(struct ob_mqtt *mqtt)
{
    int64_t now = ob_clock_mono_us();
    if (mqtt->asked_us && now - mqtt->asked_us >= mqtt->broker->ack_timeout_us) {
        ob_broker_lost(mqtt->broker, "keepalive", "the broker did not answer a ping");
    } else if (!mqtt->asked_us && now - mqtt->sent_us >= mqtt->keepalive_us) {
        ob_mqtt_put_ping(&mqtt->link.out);
        mqtt->asked_us = now;
        if (ob_buf_ok(&mqtt->link.out))
            write_out(mqtt);
        else
            ob_broker_lost(mqtt->broker, "memory", "out of memory");
    }
}

static void mqtt_serve(void *self, short revents)
{
    struct ob_mqtt *mqtt = self;
    if (ob_mqtt_link_wants_write(&mqtt->link))
        write_out(mqtt);
    if (revents & (POLLIN | POLLHUP | POLLERR) || mqtt->link.ssl)
        read_in(mqtt);
    if (!mqtt->broker->lost)
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

static bool mqtt_check(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict)
{
    (void)self;
    if (!is_topic(ob_buf_text(&job->address), job->address.len)) {
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "mqtt", "address",
                       "cannot publish to this topic: wildcards, control characters and the broker's own topics "
                       "($...) are not allowed");
        return false;
    }
    bool good = is_text(job->content_type, strlen(job->content_type));
    for (size_t i = 0; good && i < job->headers.count; i++)
        good = is_text(job->headers.at[i].value, strlen(job->headers.at[i].value));
    if (!good)
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "mqtt", "header",
                       "a header is longer than 65535 bytes or has characters that MQTT does not allow");
    return good;
}

static void mqtt_ping(void *self, struct ob_verdict *verdict)
{
    const struct ob_mqtt *mqtt = self;
    snprintf(verdict->text, sizeof verdict->text, "connected to %s", mqtt->url.host);
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .required = true, .doc = "broker URL: `mqtt://host:port`, or `mqtts://` for TLS"},
    {"username", OUTBOX_OPTION_TEXT, .doc = "user name"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "password"},
    {"client_id", OUTBOX_OPTION_TEXT,
     .doc = "client id (default: assigned by the broker); of two connections with the same id the broker closes the "
            "older, so give each relay its own"},
    OB_TLS_SETTINGS,
    {"topic", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}", .doc = "where messages go: a text or a template"},
    {"qos", OUTBOX_OPTION_INT, .fallback = "1", .least = 1, .most = 2,
     .doc = "quality of service: 1, or 2 (exactly once within one connection)"},
    {"retain", OUTBOX_OPTION_BOOL, .fallback = "false", .doc = "the broker keeps the last message of each topic"},
    {"keepalive", OUTBOX_OPTION_DURATION, .fallback = "30s", .least = 5000000, .most = 3600000000,
     .doc = "ping interval on an idle connection"},
    OB_BROKER_SETTINGS,
    OB_RENDER_SETTINGS,
    {NULL},
};

static bool login_ok(const char *text)
{
    return !text || ob_mqtt_text_ok(text, strlen(text));
}

static enum outbox_code read_settings(void *self, struct ob_broker *broker, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct ob_mqtt *mqtt = self;
    bool failed = false;
    mqtt->broker = broker;
    mqtt->in_flight_max = broker->in_flight_max;
    const char *url = ob_option_string(options, "url");
    ob_mqtt_link_init(&mqtt->link);
    mqtt->login.username = ob_broker_keep(broker, options, "username", &failed);
    mqtt->login.password = ob_broker_keep(broker, options, "password", &failed);
    mqtt->login.client_id = ob_broker_keep(broker, options, "client_id", &failed);
    mqtt->qos = (int)ob_option_int(options, "qos");
    mqtt->retain = ob_option_bool(options, "retain");
    mqtt->login.keepalive = (uint16_t)(ob_option_int(options, "keepalive") / 1000000);
    mqtt->secure = strncmp(url, "mqtts:", 6) == 0;
    enum outbox_code code = ob_broker_url_parse(&mqtt->url, url, "mqtt mqtts", mqtt->secure ? 8883 : 1883, err);
    if (!code)
        code = ob_tls_read(&mqtt->tls, options, &broker->arena, err);
    if (!code && mqtt->url.has_path)
        code = ob_error_set(err, OUTBOX_INVALID, "url has a path, which MQTT does not use: set topic instead");
    if (!code && mqtt->login.password && !mqtt->login.username)
        code = ob_error_set(err, OUTBOX_INVALID, "password needs a username");
    if (!code && !(login_ok(mqtt->login.username) && login_ok(mqtt->login.password) && login_ok(mqtt->login.client_id)))
        code = ob_error_set(err, OUTBOX_INVALID,
                            "username, password and client_id have at most %d bytes and no control characters",
                            OB_MQTT_TEXT_MOST);
    return !code && failed ? ob_error_nomem(err) : code;
}

static const struct ob_broker_driver driver = {
    .size = sizeof(struct ob_mqtt),
    .settings = settings,
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
    .ping = mqtt_ping,
    .tick_us = 500000,
};

static enum outbox_code mqtt_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_broker_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_mqtt = {
    OB_BROKER_OPS,      .kind = "mqtt",       .also = "mosquitto mqtts",
    .open = mqtt_open,  .settings = settings, .summary = "publishes to an MQTT 5 broker",
    .protocol = "mqtt", .peer = "url",        .destination = "topic",
};
