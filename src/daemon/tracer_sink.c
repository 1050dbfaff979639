/* tracer_sink.c - what the configuration of a sink says about the spans of its attempts. URLs may hold secrets: only scheme, host
 * and port are shown. */
#include "daemon/tracer_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind {
    const char *kind;
    enum ob_span_kind span;
    bool http;
    const char *system;  /* messaging.system; NULL: no broker */
    const char *address; /* the option that holds a URL, or host and port */
    const char *place;   /* of a broker: the option that names the destination */
} kinds[] = {
    {"http", OB_SPAN_CLIENT, true, NULL, "url", NULL},
    {"slack", OB_SPAN_CLIENT, true, NULL, "url", NULL},
    {"telegram", OB_SPAN_CLIENT, true, NULL, "url", NULL},
    {"whatsapp", OB_SPAN_CLIENT, true, NULL, "url", NULL},
    {"smtp", OB_SPAN_CLIENT, false, NULL, "url", NULL},
    {"kafka", OB_SPAN_PRODUCER, false, "kafka", "brokers", "topic"},
    {"amqp", OB_SPAN_PRODUCER, false, "rabbitmq", "url", "routing_key"},
    {"nats", OB_SPAN_PRODUCER, false, "nats", "servers", "subject"},
    {"redis", OB_SPAN_PRODUCER, false, "redis", "url", "stream"},
    {"mqtt", OB_SPAN_PRODUCER, false, "mqtt", "url", "topic"},
    {"exec", OB_SPAN_INTERNAL, false, NULL, NULL, NULL},
    {"file", OB_SPAN_INTERNAL, false, NULL, NULL, NULL},
    {"null", OB_SPAN_INTERNAL, false, NULL, NULL, NULL},
    {"stdout", OB_SPAN_INTERNAL, false, NULL, NULL, NULL},
    {"stub", OB_SPAN_INTERNAL, false, NULL, NULL, NULL},
};
/* A plugin's. */
static const struct kind other = {NULL, OB_SPAN_CLIENT, false, NULL, NULL, NULL};

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].kind, name) == 0)
            return &kinds[i];
    return &other;
}

/* The option's value; NULL: not given, or given several times. */
static const char *option_of(const struct ob_config_sink *config, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; name && i < config->option_count; i++)
        if (strcmp(config->options[i].name, name) == 0) {
            if (value)
                return NULL;
            value = config->options[i].value;
        }
    return value;
}

/* ---- the address ---- */

struct place {
    char scheme[16], host[OB_TRACER_TEXT];
    int port; /* 0: not given */
    bool path;
};

/* "scheme://user@host:port/path", or "host:port". False for a list, and for what is not understood. */
static bool read_place(const char *text, struct place *place)
{
    const char *host = strstr(text, "://");
    *place = (struct place){.port = 0};
    if (strchr(text, ',') || (host && (size_t)(host - text) >= sizeof place->scheme))
        return false;
    if (host)
        memcpy(place->scheme, text, (size_t)(host - text));
    host = host ? host + 3 : text;
    size_t len = strcspn(host, "/?#");
    place->path = host[len] && strcmp(host + len, "/") != 0;
    for (size_t i = len; i-- > 0;)
        if (host[i] == '@') {
            len -= i + 1;
            host += i + 1;
            break;
        }
    const char *close = *host == '[' ? memchr(host, ']', len) : NULL;
    const char *colon = memchr(close ? close : host, ':', len - (close ? (size_t)(close - host) : 0));
    size_t name = colon ? (size_t)(colon - host) : len;
    if (colon)
        place->port = (int)strtol(colon + 1, NULL, 10);
    if (close) {
        host++;
        name = (size_t)(close - host);
    }
    if (name == 0 || name >= sizeof place->host)
        return false;
    memcpy(place->host, host, name);
    return true;
}

static void put_address(struct ob_pb *pb, const struct kind *kind, const char *text)
{
    struct place place;
    char full[OB_TRACER_TEXT * 2], port[16] = "";
    if (!text || !read_place(text, &place))
        return;
    int standard = strcmp(place.scheme, "https") == 0 ? 443 : strcmp(place.scheme, "http") == 0 ? 80 : 0;
    if (place.port)
        snprintf(port, sizeof port, ":%d", place.port);
    bool six = strchr(place.host, ':') != NULL;
    snprintf(full, sizeof full, "%s://%s%s%s%s/%s", place.scheme, six ? "[" : "", place.host, six ? "]" : "", port,
             place.path ? "REDACTED" : "");
    if (kind->http)
        ob_otlp_text(pb, "url.full", full);
    ob_otlp_text(pb, "server.address", place.host);
    if (place.port || standard)
        ob_otlp_int(pb, "server.port", place.port ? place.port : standard);
}

/* ---- the destination ---- */

/* Kafka's topic may have a prefix, RabbitMQ's routing key an exchange before it. */
static void name_destination(struct ob_tracer_sink *sink, const struct kind *kind, const struct ob_config_sink *config)
{
    const char *place = option_of(config, kind->place), *prefix = option_of(config, "topic_prefix");
    const char *exchange = option_of(config, "exchange");
    bool topic = !place || strcmp(place, "{{@topic}}") == 0, fixed = !topic && !strstr(place, "{{");
    sink->by_topic = !fixed; /* of another template the topic is all that is known */
    snprintf(sink->name, sizeof sink->name, "%s%s%s%s", exchange ? exchange : "", exchange && *exchange ? ":" : "",
             topic && prefix ? prefix : "", fixed ? place : "");
}

void ob_tracer_sink_init(struct ob_tracer_sink *sink, const struct ob_config_sink *config, const char *store)
{
    const struct kind *kind = kind_of(config->kind);
    const char *method = option_of(config, "method");
    struct ob_pb pb;
    *sink = (struct ob_tracer_sink){.kind = kind->span, .http = kind->http, .broker = kind->system != NULL};
    ob_pb_init(&pb, sink->at, sizeof sink->at);
    ob_otlp_text(&pb, "outbox.sink", config->name);
    ob_otlp_text(&pb, "outbox.store", store);
    if (kind->http) {
        snprintf(sink->name, sizeof sink->name, "%s", method ? method : "POST");
        ob_otlp_text(&pb, "http.request.method", sink->name);
    } else if (kind->system) {
        name_destination(sink, kind, config);
        ob_otlp_text(&pb, "messaging.system", kind->system);
        ob_otlp_text(&pb, "messaging.operation.name", "send");
        ob_otlp_text(&pb, "messaging.operation.type", "send");
    } else {
        snprintf(sink->name, sizeof sink->name, "deliver %s", config->name);
    }
    sink->at_len = pb.full ? 0 : pb.len;
    put_address(&pb, kind, option_of(config, kind->address));
    sink->at_len = pb.full ? sink->at_len : pb.len;
}
