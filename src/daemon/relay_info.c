/* relay_info.c - see relay_info.h. */
#include "daemon/relay_info.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t fnv_start = UINT64_C(14695981039346656037);

static uint64_t fnv(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t fnv_text(uint64_t hash, const char *text)
{
    return fnv(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static uint64_t fnv_int(uint64_t hash, int64_t number)
{
    return fnv(hash, &number, sizeof number);
}

/* ---- writing ---- */

static void put_text(struct ob_json *json, const char *key, const char *text)
{
    if (!text || !text[0])
        return;
    ob_json_key(json, key);
    ob_json_string(json, text);
}

static void put_time(struct ob_json *json, const char *key, int64_t unix_us)
{
    char text[OB_CLOCK_TEXT];
    if (!unix_us)
        return;
    ob_clock_format(unix_us, text);
    put_text(json, key, text);
}

/* A time of the machine's clock, as a time of day in whole tenths of a second. */
static int64_t of_day(const struct ob_relay_now *now, int64_t boot_us)
{
    return (now->wall_us + boot_us - now->boot_us + 99999) / 100000 * 100000;
}

static void put_breaker(struct ob_json *json, const struct ob_relay_now *now, const struct ob_sink_state *sink,
                        const struct ob_observer_sink *seen)
{
    const struct ob_breaker *breaker = &sink->breaker;
    put_text(json, "breaker", ob_breaker_state_name(breaker->state));
    if (breaker->state == OB_BREAKER_CLOSED)
        return;
    put_text(json, "cause", ob_breaker_cause_name(breaker->cause));
    put_time(json, "since", seen->open_us);
    if (breaker->state == OB_BREAKER_OPEN)
        put_time(json, "next_probe", of_day(now, breaker->probe_at_us));
}

static void put_sink(struct ob_json *json, const struct ob_relay_now *now, int i)
{
    const struct ob_sink_state *sink = ob_machine_sink(now->machine, i);
    const struct ob_observer_sink *seen = ob_observer_sink(now->observer, i);
    char rate[64];
    ob_json_object(json);
    put_text(json, "name", now->config->sinks[i].name);
    put_text(json, "kind", now->config->sinks[i].kind);
    put_breaker(json, now, sink, seen);
    put_text(json, "code", seen->code);
    put_text(json, "error", seen->error);
    put_time(json, "error_at", seen->error_us);
    put_time(json, "success_at", seen->success_us);
    ob_json_key(json, "failed"), ob_json_int(json, (int64_t)seen->failed);
    ob_json_key(json, "in_flight"), ob_json_int(json, sink->in_flight);
    ob_json_key(json, "rate"), ob_json_double(json, round(seen->rate * 10) / 10);
    ob_json_key(json, "concurrency"), ob_json_int(json, sink->set.concurrency);
    if (sink->set.rate_count > 0) {
        snprintf(rate, sizeof rate, "%" PRId64 "/%gs", sink->set.rate_count, (double)sink->set.rate_period_us / 1e6);
        put_text(json, "rate_limit", rate);
    }
    if (sink->limited_until_us > now->boot_us)
        put_time(json, "limited_until", of_day(now, sink->limited_until_us));
    ob_json_key(json, "paused"), ob_json_bool(json, sink->paused && now->enabled);
    ob_json_end(json);
}

static void put_route(struct ob_json *json, const struct ob_config *config, const struct ob_config_route *route)
{
    ob_json_object(json);
    put_text(json, "namespace", route->name_space ? route->name_space : "*");
    put_text(json, "topic", route->topic ? route->topic : "*");
    put_text(json, "sink", config->sinks[route->sink].name);
    if (route->header_count) {
        ob_json_key(json, "headers");
        ob_json_object(json);
        for (size_t i = 0; i < route->header_count; i++)
            put_text(json, route->headers[i].name, route->headers[i].value);
        ob_json_end(json);
    }
    if (route->schema)
        ob_json_key(json, "schema"), ob_json_bool(json, true);
    ob_json_end(json);
}

static uint64_t digest_of(const struct ob_config *config)
{
    uint64_t hash = fnv_start;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct ob_config_route *route = &config->routes[i];
        hash = fnv_text(fnv_text(hash, route->name_space), route->topic);
        hash = fnv_text(fnv_text(hash, config->sinks[route->sink].name), route->schema);
        for (size_t n = 0; n < route->header_count; n++)
            hash = fnv_text(fnv_text(hash, route->headers[n].name), route->headers[n].value);
    }
    return hash;
}

char *ob_relay_info_text(const struct ob_relay_now *now)
{
    const struct ob_config *config = now->config;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_json json;
    char digest[17];
    size_t sinks = 0, routes = 0;
    ob_json_init(&json, &buf);
    ob_json_object(&json);
    ob_json_key(&json, "enabled"), ob_json_bool(&json, now->enabled);
    ob_json_key(&json, "sinks");
    ob_json_array(&json);
    for (; sinks < config->sink_count && buf.len < OB_RELAY_INFO_BYTES / 2; sinks++)
        put_sink(&json, now, (int)sinks);
    ob_json_end(&json);
    ob_json_key(&json, "routes");
    ob_json_array(&json);
    for (; routes < config->route_count && buf.len < OB_RELAY_INFO_BYTES - 16384; routes++)
        put_route(&json, config, &config->routes[routes]);
    ob_json_end(&json);
    snprintf(digest, sizeof digest, "%016" PRIx64, digest_of(config));
    put_text(&json, "digest", digest);
    ob_json_key(&json, "cut"), ob_json_bool(&json, sinks < config->sink_count || routes < config->route_count);
    ob_json_end(&json);
    return ob_buf_take(&buf);
}

/* ---- news ---- */

/* Of what an operator wants to know at once. */
static uint64_t stamp_of(const struct ob_relay_now *now)
{
    uint64_t hash = fnv_int(fnv_start, now->enabled);
    for (size_t i = 0; i < now->config->sink_count; i++) {
        const struct ob_sink_state *sink = ob_machine_sink(now->machine, (int)i);
        const struct ob_observer_sink *seen = ob_observer_sink(now->observer, (int)i);
        bool down = sink->breaker.state != OB_BREAKER_CLOSED; /* one that is probed again and again is no news */
        hash = fnv_int(fnv_int(hash, down), down ? (int64_t)sink->breaker.cause : 0);
        hash = fnv_int(fnv_text(hash, seen->code), sink->paused);
        hash = fnv_int(fnv_int(hash, sink->set.concurrency), sink->set.rate_count);
        hash = fnv_int(hash, sink->limited_until_us > now->boot_us);
    }
    return hash ? hash : 1;
}

char *ob_relay_info_news(struct ob_relay_told *told, const struct ob_relay_now *now)
{
    uint64_t stamp = stamp_of(now);
    if (stamp == told->stamp && now->boot_us - told->at_us < OB_RELAY_INFO_EVERY_US)
        return NULL;
    char *text = ob_relay_info_text(now), *copy = NULL;
    if (!text)
        return NULL;
    told->at_us = now->boot_us;
    told->stamp = stamp;
    if (!told->text || strcmp(text, told->text) != 0)
        copy = ob_strdup(text);
    ob_free(told->text);
    told->text = text;
    return copy;
}
