/* mqtt_connect.c - makes and ends the connection to an MQTT broker, and turns a parcel into a PUBLISH. */
#include "sink/mqtt_int.h"

#include "base/clock.h"
#include "sink/tls_fault.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void init_library(void)
{
    mosquitto_lib_init();
}

static bool fail(struct ob_mqtt *mqtt, struct ob_ruling *ruling, int error, int number)
{
    char place[OB_PLACE];
    ob_broker_url_place(&mqtt->url, place);
    if (error == MOSQ_ERR_TLS || error == MOSQ_ERR_TLS_HANDSHAKE) {
        ob_ruling_set(ruling, mqtt->rejected ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_RETRY, "mqtt", "tls",
                      "%s: the TLS handshake failed%s%s", place, mqtt->said[0] ? ": " : "", mqtt->said);
        ruling->unreachable = !mqtt->rejected;
    } else if (error == MOSQ_ERR_KEEPALIVE || (error == MOSQ_ERR_ERRNO && number == ETIMEDOUT)) {
        ob_ruling_silent(mqtt->courier, ruling, place);
    } else if (error == MOSQ_ERR_NOMEM) {
        ob_ruling_shortage(ruling);
    } else {
        ob_ruling_unreachable(ruling, "mqtt", place,
                              error == MOSQ_ERR_ERRNO ? strerror(number)
                              : error == MOSQ_ERR_EAI ? gai_strerror(number)
                                                      : mosquitto_strerror(error));
    }
    ob_mqtt_disconnect(mqtt);
    return false;
}

/* The library's own connect waits as long as the kernel does, which is minutes for a host that is switched off. So we
 * knock first. 0, or an error as the library has them: MOSQ_ERR_ERRNO and MOSQ_ERR_EAI with the number behind it. */
static int knock(const struct ob_mqtt *mqtt, int *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char port[8];
    int number = EHOSTUNREACH;
    snprintf(port, sizeof port, "%d", mqtt->url.port);
    if ((*error = getaddrinfo(mqtt->url.host, port, &hints, &list)))
        return MOSQ_ERR_EAI;
    for (const struct addrinfo *at = list; at && number; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        socklen_t len = sizeof number;
        if (fd < 0)
            continue;
        number = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
        if (number == EINPROGRESS && poll(&wait, 1, (int)(ob_courier_left_us(mqtt->courier) / 1000)) == 1)
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len);
        else if (number == EINPROGRESS)
            number = ETIMEDOUT;
        close(fd);
    }
    freeaddrinfo(list);
    *error = number;
    return number ? MOSQ_ERR_ERRNO : MOSQ_ERR_SUCCESS;
}

/* ---- callbacks ---- */

static void note(struct ob_mqtt *mqtt, const mosquitto_property *props)
{
    char *text = NULL;
    mosquitto_property_read_string(props, MQTT_PROP_REASON_STRING, &text, false);
    snprintf(mqtt->said, sizeof mqtt->said, "%s", text ? text : "");
    free(text);
}

static void on_connect(struct mosquitto *mosq, void *self, int reason, int flags, const mosquitto_property *props)
{
    struct ob_mqtt *mqtt = self;
    uint16_t allows = UINT16_MAX;
    (void)mosq;
    (void)flags;
    mosquitto_property_read_int16(props, MQTT_PROP_RECEIVE_MAXIMUM, &allows, false);
    mqtt->allows = allows;
    mqtt->reason = reason;
    note(mqtt, props);
}

static void on_disconnect(struct mosquitto *mosq, void *self, int reason, const mosquitto_property *props)
{
    struct ob_mqtt *mqtt = self;
    (void)mosq;
    if (reason >= MQTT_RC_UNSPECIFIED) {
        mqtt->end = reason;
        note(mqtt, props);
    }
}

static void on_publish(struct mosquitto *mosq, void *self, int mid, int reason, const mosquitto_property *props)
{
    struct ob_mqtt *mqtt = self;
    (void)mosq;
    OB_LIST_EACH_SAFE (it, &mqtt->courier->out) {
        struct ob_parcel *parcel = OB_CONTAINER(it, struct ob_parcel, node);
        if (parcel->tag != (uint64_t)mid)
            continue;
        note(mqtt, props);
        if (reason < MQTT_RC_UNSPECIFIED) {
            ob_parcel_accepted(mqtt->courier, parcel, NULL,
                               reason == MQTT_RC_NO_MATCHING_SUBSCRIBERS ? "nobody subscribes to it" : NULL);
        } else {
            ob_mqtt_rule(&parcel->ruling, reason, mqtt->said, mqtt->courier->one_address);
            ob_parcel_end(mqtt->courier, parcel);
        }
        return;
    }
}

/* Only here the library says what OpenSSL had against a handshake: "OpenSSL Error[0]: error:0A000086:SSL routines::...". */
static void on_log(struct mosquitto *mosq, void *self, int level, const char *text)
{
    struct ob_mqtt *mqtt = self;
    const char *at = strstr(text, "error:"), *why = strrchr(text, ':');
    (void)mosq;
    (void)level;
    if (!at || strncmp(text, "OpenSSL Error", 13) != 0)
        return;
    mqtt->rejected |= ob_tls_rejects(strtoul(at + strlen("error:"), NULL, 16));
    snprintf(mqtt->said, sizeof mqtt->said, "%s", why + 1);
}

/* ---- the connection ---- */

static int set_up(struct ob_mqtt *mqtt)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    mqtt->mosq = mosquitto_new(mqtt->client_id, true, mqtt);
    if (!mqtt->mosq)
        return errno == EINVAL ? MOSQ_ERR_INVAL : MOSQ_ERR_NOMEM;
    int rc = mosquitto_int_option(mqtt->mosq, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
    if (!rc)
        rc = mosquitto_int_option(mqtt->mosq, MOSQ_OPT_SEND_MAXIMUM,
                                  mqtt->window < UINT16_MAX ? (int)mqtt->window : UINT16_MAX);
    if (!rc && mqtt->username)
        rc = mosquitto_username_pw_set(mqtt->mosq, mqtt->username, mqtt->password);
    if (!rc && mqtt->tls && !mqtt->ca)
        rc = mosquitto_int_option(mqtt->mosq, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
    if (!rc && mqtt->tls)
        rc = mosquitto_tls_set(mqtt->mosq, mqtt->ca, mqtt->ca ? NULL : "/etc/ssl/certs", mqtt->cert,
                               mqtt->cert && !mqtt->key ? mqtt->cert : mqtt->key, NULL);
    mosquitto_connect_v5_callback_set(mqtt->mosq, on_connect);
    mosquitto_disconnect_v5_callback_set(mqtt->mosq, on_disconnect);
    mosquitto_publish_v5_callback_set(mqtt->mosq, on_publish);
    mosquitto_log_callback_set(mqtt->mosq, on_log);
    return rc;
}

bool ob_mqtt_connect(void *self, struct ob_ruling *ruling)
{
    struct ob_mqtt *mqtt = self;
    int number = 0;
    mqtt->reason = mqtt->end = -1;
    mqtt->rejected = false;
    mqtt->said[0] = '\0';
    int rc = knock(mqtt, &number);
    if (rc)
        return fail(mqtt, ruling, rc, number);
    rc = set_up(mqtt);
    if (!rc)
        rc = mosquitto_connect_bind_v5(mqtt->mosq, mqtt->url.host, mqtt->url.port, mqtt->keepalive, NULL, NULL);
    if (rc)
        return fail(mqtt, ruling, rc, errno);
    while (!rc && mqtt->reason < 0) {
        rc = ob_clock_mono_us() >= mqtt->courier->connect_until_us ? MOSQ_ERR_KEEPALIVE
                                                                   : mosquitto_loop(mqtt->mosq, 20, 1);
        number = errno;
    }
    if (mqtt->reason > 0) { /* then rc only says that the connection is over */
        ob_mqtt_rule_connect(ruling, mqtt->reason, mqtt->said);
        ob_mqtt_disconnect(mqtt);
        return false;
    }
    if (rc)
        return fail(mqtt, ruling, rc, number);
    mqtt->courier->window = mqtt->allows < mqtt->window ? mqtt->allows : mqtt->window;
    return true;
}

void ob_mqtt_disconnect(void *self)
{
    struct ob_mqtt *mqtt = self;
    if (!mqtt->mosq)
        return;
    mosquitto_disconnect_v5(mqtt->mosq, 0, NULL);
    mosquitto_destroy(mqtt->mosq); /* and with it whatever it would have sent again by itself */
    mqtt->mosq = NULL;
}

/* ---- messages ---- */

static int make_properties(const struct ob_parcel *parcel, mosquitto_property **props)
{
    int rc = MOSQ_ERR_SUCCESS;
    if (parcel->content_type[0])
        rc = mosquitto_property_add_string(props, MQTT_PROP_CONTENT_TYPE, parcel->content_type);
    if (!rc && parcel->expires_at_us > 0) {
        int64_t left = (parcel->expires_at_us - ob_clock_wall_us() + 999999) / 1000000;
        left = left < 0 ? 0 : left > UINT32_MAX ? UINT32_MAX : left;
        rc = mosquitto_property_add_int32(props, MQTT_PROP_MESSAGE_EXPIRY_INTERVAL, (uint32_t)left);
    }
    for (size_t i = 0; !rc && i < parcel->headers.count; i++)
        rc = mosquitto_property_add_string_pair(props, MQTT_PROP_USER_PROPERTY, parcel->headers.at[i].name,
                                                parcel->headers.at[i].value);
    return rc;
}

int ob_mqtt_publish(struct ob_mqtt *mqtt, struct ob_parcel *parcel)
{
    mosquitto_property *props = NULL;
    int mid = 0, rc = make_properties(parcel, &props);
    if (!rc)
        rc = parcel->body.len > MQTT_MAX_PAYLOAD
                 ? MOSQ_ERR_PAYLOAD_SIZE
                 : mosquitto_publish_v5(mqtt->mosq, &mid, ob_buf_text(&parcel->address), (int)parcel->body.len,
                                        ob_buf_text(&parcel->body), mqtt->qos, mqtt->retain, props);
    parcel->tag = (uint64_t)mid;
    mosquitto_property_free_all(&props);
    return rc;
}
