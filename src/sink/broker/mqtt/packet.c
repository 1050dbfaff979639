/* packet.c - see packet.h. The numbers are those of the standard, MQTT 5.0. */
#include "sink/broker/mqtt/packet.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum {
    CONNECT = 1,
    PUBLISH = 3,
    PUBREL = 6,
    PINGREQ = 12,
    MESSAGE_EXPIRY = 0x02,
    CONTENT_TYPE = 0x03,
    SESSION_EXPIRY = 0x11,
    ASSIGNED_CLIENT_ID = 0x12,
    SERVER_KEEPALIVE = 0x13,
    AUTH_METHOD = 0x15,
    AUTH_DATA = 0x16,
    RESPONSE_INFORMATION = 0x1a,
    SERVER_REFERENCE = 0x1c,
    REASON_STRING = 0x1f,
    RECEIVE_MAXIMUM = 0x21,
    TOPIC_ALIAS_MAXIMUM = 0x22,
    MAXIMUM_QOS = 0x24,
    RETAIN_AVAILABLE = 0x25,
    USER_PROPERTY = 0x26,
    MAXIMUM_PACKET_SIZE = 0x27,
    WILDCARDS_AVAILABLE = 0x28,
    SUBSCRIPTION_IDS_AVAILABLE = 0x29,
    SHARED_AVAILABLE = 0x2a,
};

/* ---- reading ---- */

/* The rest of a packet. After a read beyond its end it is bad, and all further reads give 0. */
struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static uint32_t take_number(struct reader *reader, int bytes)
{
    uint32_t number = 0;
    if (reader->end - reader->at < bytes)
        reader->bad = true;
    for (int i = 0; !reader->bad && i < bytes; i++)
        number = number << 8 | *reader->at++;
    return number;
}

/* 7 bits a byte, at most 4 bytes. */
static uint32_t take_length(struct reader *reader)
{
    uint32_t number = 0;
    for (int shift = 0; shift < 28; shift += 7) {
        uint32_t byte = take_number(reader, 1);
        number |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    reader->bad = true;
    return 0;
}

/* Bytes preceded by their length. */
static const char *take_text(struct reader *reader, size_t *len)
{
    *len = take_number(reader, 2);
    const char *text = (const char *)reader->at;
    if ((size_t)(reader->end - reader->at) < *len)
        reader->bad = true;
    if (reader->bad)
        *len = 0;
    reader->at += *len;
    return text;
}

static void take_property(struct reader *reader, struct ob_mqtt_packet *packet)
{
    size_t len;
    const char *text;
    switch (take_number(reader, 1)) {
    case MAXIMUM_QOS: packet->qos_maximum = (int)take_number(reader, 1); break;
    case RETAIN_AVAILABLE: packet->retains = take_number(reader, 1) != 0; break;
    case SERVER_KEEPALIVE: packet->keepalive = (uint16_t)take_number(reader, 2); break;
    case RECEIVE_MAXIMUM:
        packet->receive_maximum = (uint16_t)take_number(reader, 2);
        reader->bad |= !packet->receive_maximum;
        break;
    case MAXIMUM_PACKET_SIZE:
        packet->packet_maximum = take_number(reader, 4);
        reader->bad |= !packet->packet_maximum;
        break;
    case REASON_STRING:
        text = take_text(reader, &len);
        if (ob_mqtt_text_ok(text, len))
            snprintf(packet->said, sizeof packet->said, "%.*s", (int)len, text);
        break;
    case WILDCARDS_AVAILABLE:
    case SUBSCRIPTION_IDS_AVAILABLE:
    case SHARED_AVAILABLE: take_number(reader, 1); break;
    case TOPIC_ALIAS_MAXIMUM: take_number(reader, 2); break;
    case SESSION_EXPIRY: take_number(reader, 4); break;
    case USER_PROPERTY: take_text(reader, &len); /* fall through */
    case ASSIGNED_CLIENT_ID:
    case AUTH_METHOD:
    case AUTH_DATA:
    case RESPONSE_INFORMATION:
    case SERVER_REFERENCE: take_text(reader, &len); break;
    default: reader->bad = true;
    }
}

static void take_properties(struct reader *reader, struct ob_mqtt_packet *packet)
{
    if (reader->at == reader->end)
        return; /* they may be left out */
    uint32_t len = take_length(reader);
    if (reader->bad || len != (size_t)(reader->end - reader->at))
        reader->bad = true;
    while (!reader->bad && reader->at < reader->end)
        take_property(reader, packet);
}

static void take_body(struct reader *reader, struct ob_mqtt_packet *packet)
{
    switch (packet->type) {
    case OB_MQTT_CONNACK:
        take_number(reader, 1); /* whether there was a session: we never ask for one */
        packet->reason = (int)take_number(reader, 1);
        break;
    case OB_MQTT_PUBACK:
    case OB_MQTT_PUBREC:
    case OB_MQTT_PUBCOMP:
        packet->id = (uint16_t)take_number(reader, 2);
        packet->reason = reader->at < reader->end ? (int)take_number(reader, 1) : 0;
        reader->bad |= !packet->id;
        break;
    case OB_MQTT_DISCONNECT: packet->reason = reader->at < reader->end ? (int)take_number(reader, 1) : 0; break;
    default: reader->bad |= reader->at != reader->end;
    }
    take_properties(reader, packet);
}

static bool is_for_us(int type)
{
    return type == OB_MQTT_CONNACK || type == OB_MQTT_PUBACK || type == OB_MQTT_PUBREC || type == OB_MQTT_PUBCOMP ||
           type == OB_MQTT_PINGRESP || type == OB_MQTT_DISCONNECT;
}

ssize_t ob_mqtt_decode(const void *data, size_t len, struct ob_mqtt_packet *packet, const char **why)
{
    const unsigned char *bytes = data;
    struct reader head = {bytes + (len > 0), bytes + len, false};
    memset(packet, 0, sizeof *packet);
    packet->receive_maximum = UINT16_MAX;
    packet->packet_maximum = UINT32_MAX;
    packet->qos_maximum = 2;
    packet->retains = true;
    if (!len)
        return 0;
    packet->type = (enum ob_mqtt_type)(bytes[0] >> 4);
    if (!is_for_us((int)packet->type) || bytes[0] & 0x0f) {
        *why = "unexpected packet type";
        return -1;
    }
    uint32_t size = take_length(&head);
    if (head.bad && len < 5)
        return 0;
    if (head.bad || size > OB_MQTT_IN_MOST) {
        *why = "packet larger than the client accepts";
        return -1;
    }
    if ((size_t)(head.end - head.at) < size)
        return 0;
    struct reader body = {head.at, head.at + size, false};
    take_body(&body, packet);
    if (body.bad) {
        *why = "packet cannot be parsed";
        return -1;
    }
    return body.end - bytes;
}

/* ---- writing ---- */

static void put_number(struct ob_buf *buf, uint32_t number, int bytes)
{
    while (bytes--)
        ob_buf_putc(buf, (char)(number >> 8 * bytes & 0xff));
}

static void put_length(struct ob_buf *buf, size_t number)
{
    for (; number > 0x7f; number >>= 7)
        ob_buf_putc(buf, (char)((number & 0x7f) | 0x80));
    ob_buf_putc(buf, (char)number);
}

static size_t length_size(size_t number)
{
    return number < 128 ? 1 : number < 16384 ? 2 : number < 2097152 ? 3 : 4;
}

static void put_text(struct ob_buf *buf, const char *text, size_t len)
{
    put_number(buf, (uint32_t)len, 2);
    ob_buf_put(buf, text, len);
}

static size_t text_size(const char *text)
{
    return text ? 2 + strlen(text) : 0;
}

void ob_mqtt_put_connect(struct ob_buf *buf, const struct ob_mqtt_login *login)
{
    static const char protocol[] = {0, 4, 'M', 'Q', 'T', 'T', 5};
    const char *id = login->client_id ? login->client_id : "";
    enum { CLEAN = 0x02, PASSWORD = 0x40, USERNAME = 0x80, PROPERTIES = 5 };
    size_t size = sizeof protocol + 1 + 2 + 1 + PROPERTIES + text_size(id) + text_size(login->username) +
                  text_size(login->password);
    put_number(buf, CONNECT << 4, 1);
    put_length(buf, size);
    ob_buf_put(buf, protocol, sizeof protocol);
    put_number(buf, CLEAN | (login->username ? USERNAME : 0) | (login->password ? PASSWORD : 0), 1);
    put_number(buf, login->keepalive, 2);
    put_length(buf, PROPERTIES);
    put_number(buf, MAXIMUM_PACKET_SIZE, 1);
    put_number(buf, OB_MQTT_IN_MOST, 4);
    put_text(buf, id, strlen(id));
    if (login->username)
        put_text(buf, login->username, strlen(login->username));
    if (login->password)
        put_text(buf, login->password, strlen(login->password));
}

void ob_mqtt_put_pubrel(struct ob_buf *buf, uint16_t id)
{
    put_number(buf, PUBREL << 4 | 2, 1);
    put_length(buf, 2);
    put_number(buf, id, 2);
}

void ob_mqtt_put_ping(struct ob_buf *buf)
{
    put_number(buf, PINGREQ << 4, 1);
    put_length(buf, 0);
}

void ob_mqtt_put_disconnect(struct ob_buf *buf)
{
    put_number(buf, OB_MQTT_DISCONNECT << 4, 1);
    put_length(buf, 0);
}

static size_t properties_size(const struct ob_mqtt_publish *publish)
{
    size_t size =
        (*publish->content_type ? 1 + text_size(publish->content_type) : 0) + (publish->expires_s >= 0 ? 5 : 0);
    for (size_t i = 0; i < publish->property_count; i++)
        size += 1 + text_size(publish->properties[i].name) + text_size(publish->properties[i].value);
    return size;
}

/* Behind the length. */
static size_t publish_body(const struct ob_mqtt_publish *publish)
{
    size_t properties = properties_size(publish);
    return 2 + publish->topic_len + 2 + length_size(properties) + properties + publish->body_len;
}

size_t ob_mqtt_publish_size(const struct ob_mqtt_publish *publish)
{
    size_t size = publish_body(publish);
    return 1 + length_size(size) + size;
}

void ob_mqtt_put_publish(struct ob_buf *buf, const struct ob_mqtt_publish *publish)
{
    put_number(buf, (uint32_t)(PUBLISH << 4 | publish->qos << 1 | publish->retain), 1);
    put_length(buf, publish_body(publish));
    put_text(buf, publish->topic, publish->topic_len);
    put_number(buf, publish->id, 2);
    put_length(buf, properties_size(publish));
    if (*publish->content_type) {
        put_number(buf, CONTENT_TYPE, 1);
        put_text(buf, publish->content_type, strlen(publish->content_type));
    }
    if (publish->expires_s >= 0) {
        put_number(buf, MESSAGE_EXPIRY, 1);
        put_number(buf, publish->expires_s > UINT32_MAX ? UINT32_MAX : (uint32_t)publish->expires_s, 4);
    }
    for (size_t i = 0; i < publish->property_count; i++) {
        const struct ob_mqtt_property *property = &publish->properties[i];
        put_number(buf, USER_PROPERTY, 1);
        put_text(buf, property->name, strlen(property->name));
        put_text(buf, property->value, strlen(property->value));
    }
    ob_buf_put(buf, publish->body, publish->body_len);
}

/* ---- texts ---- */

static uint32_t character(const char *text, size_t width)
{
    const unsigned char *byte = (const unsigned char *)text;
    uint32_t code = width == 1 ? byte[0] : byte[0] & (0x7fu >> width);
    for (size_t i = 1; i < width; i++)
        code = code << 6 | (byte[i] & 0x3f);
    return code;
}

bool ob_mqtt_text_ok(const char *text, size_t len)
{
    if (len > OB_MQTT_TEXT_MOST)
        return false;
    for (size_t i = 0, width; i < len; i += width) {
        if (!(width = ob_utf8_width(text + i, len - i)))
            return false;
        uint32_t code = character(text + i, width);
        if (code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0xfdd0 && code <= 0xfdef) ||
            (code & 0xfffe) == 0xfffe)
            return false;
    }
    return true;
}

static const struct {
    int code;
    const char *name;
} reasons[] = {
    /* of MQTT 3, to a client of a version it does not speak */
    {1, "the broker does not speak MQTT 5"},
    {2, "client_id rejected"},
    {3, "broker unavailable"},
    {4, "wrong user name or password"},
    {5, "not authorized"},
    /* of MQTT 5 */
    {0x80, "unspecified error"},
    {0x81, "malformed packet"},
    {0x82, "protocol error"},
    {0x83, "implementation specific error"},
    {0x84, "the broker does not speak MQTT 5"},
    {0x85, "client_id rejected"},
    {0x86, "wrong user name or password"},
    {0x87, "not authorized"},
    {0x88, "broker unavailable"},
    {0x89, "broker busy"},
    {0x8a, "banned"},
    {0x8b, "broker shutting down"},
    {0x8c, "bad authentication method"},
    {0x8d, "keep-alive timeout"},
    {0x8e, "another client connected with the same client_id"},
    {0x90, "topic name invalid"},
    {0x91, "packet identifier in use"},
    {0x93, "receive maximum exceeded"},
    {0x95, "packet too large"},
    {0x96, "message rate too high"},
    {0x97, "quota exceeded"},
    {0x98, "closed by an administrator"},
    {0x99, "payload format invalid"},
    {0x9a, "retained messages not supported"},
    {0x9b, "QoS not supported"},
    {0x9c, "use another server"},
    {0x9d, "the server moved"},
    {0x9f, "too many connections in a short time"},
};

const char *ob_mqtt_reason(int reason)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].code == reason)
            return reasons[i].name;
    return "";
}
