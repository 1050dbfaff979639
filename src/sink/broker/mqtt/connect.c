/* connect.c - makes and ends the connection to an MQTT broker, and turns a job into a PUBLISH. */
#include "sink/broker/mqtt/mqtt_int.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

static bool fail(struct ob_mqtt *mqtt, struct ob_verdict *verdict, const char *why)
{
    char place[OB_PLACE];
    ob_broker_url_place(&mqtt->url, place);
    ob_verdict_unreachable(verdict, "mqtt", place, why);
    return false;
}

/* The broker's first packet, within what is left of the time. */
static bool hear_first(struct ob_mqtt *mqtt, struct ob_mqtt_packet *packet, struct ob_verdict *verdict)
{
    struct ob_mqtt_link *link = &mqtt->link;
    const char *why = NULL, *data;
    char place[OB_PLACE];
    ssize_t len = 0;
    bool more;
    while (len == 0 && !why) {
        if (!ob_broker_wait(mqtt->broker, link->fd, ob_mqtt_link_wants_write(link) ? POLLIN | POLLOUT : POLLIN)) {
            ob_broker_url_place(&mqtt->url, place);
            ob_verdict_silent(mqtt->broker, verdict, place);
            return false;
        }
        const char *unwritten = ob_mqtt_link_write(link);
        why = ob_mqtt_link_read(link, &more); /* packets received before the broker closed the connection count */
        why = why ? why : unwritten;
        size_t unread = ob_mqtt_link_unread(link, &data);
        len = ob_mqtt_decode(data, unread, packet, &why);
    }
    if (len <= 0)
        return fail(mqtt, verdict, why);
    ob_mqtt_link_used(link, (size_t)len);
    return packet->type == OB_MQTT_CONNACK || fail(mqtt, verdict, "the server does not speak MQTT");
}

static bool allows(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *said, struct ob_verdict *verdict)
{
    if (said->reason) {
        ob_mqtt_verdict_of_connect(verdict, said->reason, said->said);
        return false;
    }
    if (mqtt->qos > said->qos_maximum || (mqtt->retain && !said->retains)) {
        ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "mqtt", "not_supported", "%s",
                       mqtt->qos > said->qos_maximum ? "the broker does not support this qos"
                                                     : "the broker does not retain messages");
        return false;
    }
    mqtt->packet_maximum = said->packet_maximum;
    mqtt->keepalive_us = (int64_t)(said->keepalive ? said->keepalive : mqtt->login.keepalive) * 1000000;
    mqtt->broker->in_flight_max =
        said->receive_maximum < mqtt->in_flight_max ? said->receive_maximum : mqtt->in_flight_max;
    return true;
}

bool ob_mqtt_connect(void *self, struct ob_verdict *verdict)
{
    struct ob_mqtt *mqtt = self;
    struct ob_mqtt_packet said;
    if (!ob_mqtt_link_open(&mqtt->link, mqtt->broker, &mqtt->url, mqtt->secure ? &mqtt->tls : NULL, verdict))
        return false;
    ob_mqtt_put_connect(&mqtt->link.out, &mqtt->login);
    bool whole = ob_buf_ok(&mqtt->link.out);
    if (!whole)
        ob_verdict_shortage(verdict);
    mqtt->sent_us = ob_clock_mono_us();
    mqtt->asked_us = 0;
    mqtt->last_id = 0;
    if (whole && hear_first(mqtt, &said, verdict) && allows(mqtt, &said, verdict))
        return true;
    ob_mqtt_link_close(&mqtt->link);
    return false;
}

/* Sends DISCONNECT if it can be written at once. It must not follow a partly written packet. */
void ob_mqtt_disconnect(void *self)
{
    struct ob_mqtt *mqtt = self;
    if (mqtt->link.fd >= 0 && !ob_mqtt_link_wants_write(&mqtt->link)) {
        ob_mqtt_put_disconnect(&mqtt->link.out);
        if (ob_buf_ok(&mqtt->link.out))
            (void)ob_mqtt_link_write(&mqtt->link);
    }
    ob_mqtt_link_close(&mqtt->link);
}

/* ---- messages ---- */

/* Packet ids in flight are not reused. */
static uint16_t next_id(struct ob_mqtt *mqtt)
{
    for (;;) {
        uint16_t id = ++mqtt->last_id;
        bool taken = id == 0;
        OB_LIST_EACH (it, &mqtt->broker->out)
            taken |= OB_CONTAINER(it, struct ob_broker_job, node)->tag == id;
        if (!taken)
            return id;
    }
}

static void put_job(struct ob_mqtt *mqtt, struct ob_broker_job *job, const struct ob_mqtt_property *properties)
{
    int64_t left = job->expires_at_us > 0 ? (job->expires_at_us - ob_clock_wall_us() + 999999) / 1000000 : -1;
    struct ob_mqtt_publish publish = {
        .topic = ob_buf_text(&job->address),
        .topic_len = job->address.len,
        .content_type = job->content_type,
        .body = ob_buf_text(&job->body),
        .body_len = job->body.len,
        .qos = mqtt->qos,
        .retain = mqtt->retain,
        .expires_s = job->expires_at_us > 0 && left < 0 ? 0 : left,
        .properties = properties,
        .property_count = job->headers.count,
    };
    size_t size = ob_mqtt_publish_size(&publish);
    if (size > mqtt->packet_maximum || size > OB_MQTT_MOST) {
        ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, "mqtt", "too_large",
                       "larger than the broker's maximum packet size");
    } else if (!ob_buf_reserve(&mqtt->link.out, size)) {
        mqtt->link.out.failed = false; /* what is in it is whole */
        ob_verdict_shortage(&job->verdict);
    } else {
        job->tag = publish.id = next_id(mqtt);
        ob_mqtt_put_publish(&mqtt->link.out, &publish);
    }
}

bool ob_mqtt_publish(struct ob_mqtt *mqtt, struct ob_broker_job *job)
{
    size_t count = job->headers.count;
    struct ob_mqtt_property *properties = ob_calloc(count + 1, sizeof *properties);
    job->tag = 0;
    if (!properties)
        ob_verdict_shortage(&job->verdict);
    for (size_t i = 0; properties && i < count; i++)
        properties[i] = (struct ob_mqtt_property){job->headers.at[i].name, job->headers.at[i].value};
    if (properties)
        put_job(mqtt, job, properties);
    ob_free(properties);
    return job->tag != 0;
}
