/* tracer_sink.c - what the configuration of a sink says about the spans of its attempts. URLs may hold secrets: only scheme, host
 * and port are shown. */
#include "daemon/tracer_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void put_address(struct ob_pb *pb, bool http, const char *text)
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
    if (http)
        ob_otlp_text(pb, "url.full", full);
    ob_otlp_text(pb, "server.address", place.host);
    if (place.port || standard)
        ob_otlp_int(pb, "server.port", place.port ? place.port : standard);
}

/* ---- the destination ---- */

/* What stands before the last setting of ops->destination, as it appears in the name. */
static void put_before(struct ob_tracer_sink *sink, const struct ob_config_sink *config, const char *names, size_t len)
{
    char name[64];
    if (len == 0 || len >= sizeof name)
        return;
    memcpy(name, names, len - 1);
    name[len - 1] = '\0';
    const char *before = option_of(config, name), *joint = names + len - 1;
    if (before && *before)
        snprintf(sink->name, sizeof sink->name, "%s%.*s", before, *joint != '+', joint);
}

static void name_destination(struct ob_tracer_sink *sink, const struct ob_config_sink *config)
{
    const char *names = config->ops->destination ? config->ops->destination : "";
    const char *last = names + strlen(names);
    while (last > names && last[-1] != ':' && last[-1] != '+')
        last--;
    const char *value = option_of(config, last);
    bool fixed = value && !strstr(value, "{{");     /* of a template the topic is all that is known */
    if (!fixed || last == names || last[-1] != '+') /* a prefix is one of topics only */
        put_before(sink, config, names, (size_t)(last - names));
    size_t len = strlen(sink->name);
    if (fixed)
        snprintf(sink->name + len, sizeof sink->name - len, "%s", value);
    sink->by_topic = !fixed;
}

void ob_tracer_sink_init(struct ob_tracer_sink *sink, const struct ob_config_sink *config, const char *store)
{
    static const struct outbox_sink_ops unknown = {.size = 0};
    const struct outbox_sink_ops *ops = config->ops ? config->ops : &unknown;
    const char *method = option_of(config, "method");
    bool http = ops->protocol && strcmp(ops->protocol, "http") == 0;
    bool local = ops->protocol && strcmp(ops->protocol, "local") == 0, broker = ops->protocol && !http && !local;
    struct ob_pb pb;
    *sink = (struct ob_tracer_sink){.http = http, .broker = broker};
    sink->kind = broker ? OB_SPAN_PRODUCER : local ? OB_SPAN_INTERNAL : OB_SPAN_CLIENT;
    ob_pb_init(&pb, sink->at, sizeof sink->at);
    ob_otlp_text(&pb, "outbox.sink", config->name);
    ob_otlp_text(&pb, "outbox.store", store);
    if (http) {
        snprintf(sink->name, sizeof sink->name, "%s", method ? method : "POST");
        ob_otlp_text(&pb, "http.request.method", sink->name);
    } else if (broker) {
        name_destination(sink, config);
        ob_otlp_text(&pb, "messaging.system", ops->protocol);
        ob_otlp_text(&pb, "messaging.operation.name", "send");
        ob_otlp_text(&pb, "messaging.operation.type", "send");
    } else {
        snprintf(sink->name, sizeof sink->name, "deliver %s", config->name);
    }
    sink->at_len = pb.full ? 0 : pb.len;
    put_address(&pb, http, option_of(config, ops->peer));
    sink->at_len = pb.full ? sink->at_len : pb.len;
}
