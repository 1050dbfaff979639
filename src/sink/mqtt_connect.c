/* mqtt_connect.c - makes and ends the connection to an MQTT broker, and turns a parcel into a PUBLISH. */
#include "sink/mqtt_int.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

static bool fail(struct ob_mqtt *mqtt, struct ob_ruling *ruling, const char *why)
{
    char place[OB_PLACE];
    ob_broker_url_place(&mqtt->url, place);
    ob_ruling_unreachable(ruling, "mqtt", place, why);
    return false;
}

/* The broker's first packet, within what is left of the time. */
static bool hear_first(struct ob_mqtt *mqtt, struct ob_mqtt_packet *packet, struct ob_ruling *ruling)
{
    struct ob_mqtt_link *link = &mqtt->link;
    const char *why = NULL, *data;
    char place[OB_PLACE];
    ssize_t len = 0;
    bool more;
    while (len == 0 && !why) {
        if (!ob_courier_wait(mqtt->courier, link->fd, ob_mqtt_link_wants_write(link) ? POLLIN | POLLOUT : POLLIN)) {
            ob_broker_url_place(&mqtt->url, place);
            ob_ruling_silent(mqtt->courier, ruling, place);
            return false;
        }
        const char *unwritten = ob_mqtt_link_write(link);
        why = ob_mqtt_link_read(link, &more); /* what it said before it hung up counts */
        why = why ? why : unwritten;
        size_t unread = ob_mqtt_link_unread(link, &data);
        len = ob_mqtt_decode(data, unread, packet, &why);
    }
    if (len <= 0)
        return fail(mqtt, ruling, why);
    ob_mqtt_link_used(link, (size_t)len);
    return packet->type == OB_MQTT_CONNACK || fail(mqtt, ruling, "it does not answer as an MQTT broker does");
}

static bool allows(struct ob_mqtt *mqtt, const struct ob_mqtt_packet *said, struct ob_ruling *ruling)
{
    if (said->reason) {
        ob_mqtt_rule_connect(ruling, said->reason, said->said);
        return false;
    }
    if (mqtt->qos > said->qos_maximum || (mqtt->retain && !said->retains)) {
        ob_ruling_set(ruling, OUTBOX_SINK_BLOCKED, "mqtt", "not_supported", "%s",
                      mqtt->qos > said->qos_maximum ? "the broker does not take messages with this qos"
                                                    : "the broker does not retain messages");
        return false;
    }
    mqtt->packet_maximum = said->packet_maximum;
    mqtt->keepalive_us = (int64_t)(said->keepalive ? said->keepalive : mqtt->login.keepalive) * 1000000;
    mqtt->courier->window = said->receive_maximum < mqtt->window ? said->receive_maximum : mqtt->window;
    return true;
}

bool ob_mqtt_connect(void *self, struct ob_ruling *ruling)
{
    struct ob_mqtt *mqtt = self;
    struct ob_mqtt_packet said;
    if (!ob_mqtt_link_open(&mqtt->link, mqtt->courier, &mqtt->url, &mqtt->tls, ruling))
        return false;
    ob_mqtt_put_connect(&mqtt->link.out, &mqtt->login);
    bool whole = ob_buf_ok(&mqtt->link.out);
    if (!whole)
        ob_ruling_shortage(ruling);
    mqtt->sent_us = ob_clock_mono_us();
    mqtt->asked_us = 0;
    mqtt->last_id = 0;
    if (whole && hear_first(mqtt, &said, ruling) && allows(mqtt, &said, ruling))
        return true;
    ob_mqtt_link_close(&mqtt->link);
    return false;
}

/* With a farewell if it can go out at once. It must not follow half a packet. */
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

/* Numbers that are out are not given again. */
static uint16_t next_id(struct ob_mqtt *mqtt)
{
    for (;;) {
        uint16_t id = ++mqtt->last_id;
        bool taken = id == 0;
        OB_LIST_EACH (it, &mqtt->courier->out)
            taken |= OB_CONTAINER(it, struct ob_parcel, node)->tag == id;
        if (!taken)
            return id;
    }
}

static void put_parcel(struct ob_mqtt *mqtt, struct ob_parcel *parcel, const struct ob_mqtt_property *properties)
{
    int64_t left = parcel->expires_at_us > 0 ? (parcel->expires_at_us - ob_clock_wall_us() + 999999) / 1000000 : -1;
    struct ob_mqtt_publish publish = {
        .topic = ob_buf_text(&parcel->address),
        .topic_len = parcel->address.len,
        .content_type = parcel->content_type,
        .body = ob_buf_text(&parcel->body),
        .body_len = parcel->body.len,
        .qos = mqtt->qos,
        .retain = mqtt->retain,
        .expires_s = parcel->expires_at_us > 0 && left < 0 ? 0 : left,
        .properties = properties,
        .property_count = parcel->headers.count,
    };
    size_t size = ob_mqtt_publish_size(&publish);
    if (size > mqtt->packet_maximum || size > OB_MQTT_MOST) {
        ob_ruling_set(&parcel->ruling, OUTBOX_SINK_TERMINAL, "mqtt", "too_large",
                      "larger than the broker's maximum packet size");
    } else if (!ob_buf_reserve(&mqtt->link.out, size)) {
        mqtt->link.out.failed = false; /* what is in it is whole */
        ob_ruling_shortage(&parcel->ruling);
    } else {
        parcel->tag = publish.id = next_id(mqtt);
        ob_mqtt_put_publish(&mqtt->link.out, &publish);
    }
}

bool ob_mqtt_publish(struct ob_mqtt *mqtt, struct ob_parcel *parcel)
{
    size_t count = parcel->headers.count;
    struct ob_mqtt_property *properties = ob_calloc(count + 1, sizeof *properties);
    parcel->tag = 0;
    if (!properties)
        ob_ruling_shortage(&parcel->ruling);
    for (size_t i = 0; properties && i < count; i++)
        properties[i] = (struct ob_mqtt_property){parcel->headers.at[i].name, parcel->headers.at[i].value};
    if (properties)
        put_parcel(mqtt, parcel, properties);
    ob_free(properties);
    return parcel->tag != 0;
}
