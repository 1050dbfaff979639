/* relays.c - the relays and their sinks, as they report themselves with their heartbeats (daemon/relay_info.h).
 *
 * What a relay wrote is not trusted: anything may be missing or of another type, and texts may come from receivers. */
#include "report/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/glob.h"

#include <jansson.h>
#include <string.h>

struct ob_relays {
    json_t *rows; /* an array of {worker, ..., info} */
    bool failed;
};

static bool keep_relay(void *ctx, const struct ob_relay_row *row)
{
    struct ob_relays *relays = ctx;
    json_t *info = row->info ? json_loads(row->info, 0, NULL) : NULL;
    json_t *kept = json_pack("{s:s*, s:s*, s:s*, s:s*, s:i, s:I, s:I, s:b, s:o*}", "worker", row->worker, "host",
                             row->host, "version", row->version, "state", row->state, "pid", row->pid, "started_at",
                             (json_int_t)row->started_at_us, "seen_at", (json_int_t)row->seen_at_us, "alive",
                             (int)row->alive, "info", info);
    relays->failed = relays->failed || !kept || json_array_append_new(relays->rows, kept);
    return !relays->failed;
}

enum outbox_code ob_relays_read(struct ob_store *store, struct ob_relays **out, struct outbox_error *err)
{
    struct ob_relays *relays = ob_calloc(1, sizeof *relays);
    *out = relays;
    if (!relays || !(relays->rows = json_array()))
        return ob_error_nomem(err);
    enum outbox_code code = store->ops->relays(store, keep_relay, relays, err);
    return code || !relays->failed ? code : ob_error_nomem(err);
}

void ob_relays_free(struct ob_relays *relays)
{
    if (!relays)
        return;
    json_decref(relays->rows);
    ob_free(relays);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int64_t int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool is_alive(const json_t *relay)
{
    return json_is_true(json_object_get(relay, "alive"));
}

size_t ob_relays_alive(const struct ob_relays *relays)
{
    size_t i, count = 0;
    json_t *relay;
    json_array_foreach (relays->rows, i, relay)
        count += is_alive(relay);
    return count;
}

bool ob_relays_deliver(const struct ob_relays *relays)
{
    size_t i;
    json_t *relay;
    json_array_foreach (relays->rows, i, relay)
        if (is_alive(relay) && !json_is_false(json_object_get(json_object_get(relay, "info"), "enabled")))
            return true;
    return false;
}

static struct ob_relay_sink sink_of(const json_t *relay, const json_t *sink)
{
    return (struct ob_relay_sink){.relay = text_of(relay, "worker"),
                                  .name = text_of(sink, "name"),
                                  .kind = text_of(sink, "kind"),
                                  .breaker = text_of(sink, "breaker"),
                                  .cause = text_of(sink, "cause"),
                                  .since = text_of(sink, "since"),
                                  .next_probe = text_of(sink, "next_probe"),
                                  .code = text_of(sink, "code"),
                                  .error = text_of(sink, "error"),
                                  .error_at = text_of(sink, "error_at"),
                                  .success_at = text_of(sink, "success_at"),
                                  .rate_limit = text_of(sink, "rate_limit"),
                                  .limited_until = text_of(sink, "limited_until"),
                                  .failed = int_of(sink, "failed"),
                                  .in_flight = int_of(sink, "in_flight"),
                                  .concurrency = int_of(sink, "concurrency"),
                                  .rate = json_number_value(json_object_get(sink, "rate")),
                                  .paused = json_is_true(json_object_get(sink, "paused"))};
}

void ob_relays_sinks(const struct ob_relays *relays, ob_relay_sink_fn *fn, void *ctx)
{
    size_t i, n;
    json_t *relay, *item;
    json_array_foreach (relays->rows, i, relay) {
        json_t *sinks = json_object_get(json_object_get(relay, "info"), "sinks");
        json_array_foreach (is_alive(relay) ? sinks : NULL, n, item) {
            struct ob_relay_sink sink = sink_of(relay, item);
            if (sink.name && sink.breaker)
                fn(ctx, &sink);
        }
    }
}

bool ob_relays_serve(const struct ob_relays *relays, const char *name_space, const char *topic)
{
    size_t i, n;
    json_t *relay, *route;
    json_array_foreach (relays->rows, i, relay) {
        json_t *info = json_object_get(relay, "info"), *routes = json_object_get(info, "routes");
        if (!is_alive(relay))
            continue;
        if (!routes || json_is_true(json_object_get(info, "cut")))
            return true;
        json_array_foreach (routes, n, route) {
            const char *space = text_of(route, "namespace"), *name = text_of(route, "topic");
            if (space && name && ob_glob_match(space, name_space) && ob_glob_match(name, topic))
                return true;
        }
    }
    return false;
}

void ob_relays_each(const struct ob_relays *relays, ob_relay_each_fn *fn, void *ctx)
{
    size_t i;
    json_t *item;
    json_array_foreach (relays->rows, i, item) {
        const json_t *info = json_object_get(item, "info");
        struct ob_relay_info relay = {.worker = text_of(item, "worker"),
                                      .host = text_of(item, "host"),
                                      .version = text_of(item, "version"),
                                      .state = text_of(item, "state"),
                                      .digest = text_of(info, "digest"),
                                      .pid = int_of(item, "pid"),
                                      .started_at_us = int_of(item, "started_at"),
                                      .seen_at_us = int_of(item, "seen_at"),
                                      .alive = is_alive(item),
                                      .enabled = !json_is_false(json_object_get(info, "enabled"))};
        fn(ctx, &relay);
    }
}

/* ---- as JSON ---- */

static void json_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct ob_json *json = ctx;
    ob_json_object(json);
    ob_json_text(json, "relay", sink->relay);
    ob_json_text(json, "name", sink->name);
    ob_json_text(json, "kind", sink->kind);
    ob_json_text(json, "breaker", sink->breaker);
    ob_json_text(json, "cause", sink->cause);
    ob_json_text(json, "since", sink->since);
    ob_json_text(json, "next_probe", sink->next_probe);
    ob_json_text(json, "code", sink->code);
    ob_json_text(json, "error", sink->error);
    ob_json_text(json, "error_at", sink->error_at);
    ob_json_text(json, "success_at", sink->success_at);
    ob_json_count(json, "failed", sink->failed);
    ob_json_count(json, "in_flight", sink->in_flight);
    ob_json_key(json, "rate"), ob_json_double(json, sink->rate);
    ob_json_count(json, "concurrency", sink->concurrency);
    ob_json_text(json, "rate_limit", sink->rate_limit);
    ob_json_text(json, "limited_until", sink->limited_until);
    ob_json_key(json, "paused"), ob_json_bool(json, sink->paused);
    ob_json_end(json);
}

static void json_relay(void *ctx, const struct ob_relay_info *relay)
{
    struct ob_json *json = ctx;
    ob_json_object(json);
    ob_json_text(json, "worker", relay->worker);
    ob_json_text(json, "host", relay->host);
    ob_json_count(json, "pid", relay->pid);
    ob_json_text(json, "version", relay->version);
    ob_json_text(json, "state", relay->state);
    ob_json_time(json, "started_at", relay->started_at_us);
    ob_json_time(json, "seen_at", relay->seen_at_us);
    ob_json_key(json, "alive"), ob_json_bool(json, relay->alive);
    ob_json_key(json, "enabled"), ob_json_bool(json, relay->enabled);
    ob_json_text(json, "routes_digest", relay->digest);
    ob_json_end(json);
}

void ob_relays_json(struct ob_json *json, const struct ob_relays *relays)
{
    ob_json_key(json, "relays");
    ob_json_array(json);
    ob_relays_each(relays, json_relay, json);
    ob_json_end(json);
    ob_json_key(json, "sinks");
    ob_json_array(json);
    ob_relays_sinks(relays, json_sink, json);
    ob_json_end(json);
}
