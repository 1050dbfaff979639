/* relays.c - the relays and their sinks, as they report themselves with their heartbeats (daemon/relay_info.h).
 *
 * What a relay wrote is not trusted: anything may be missing or of another type, and texts may come from receivers. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/glob.h"

#include <jansson.h>
#include <string.h>

enum { SINKS_ALL = 50 }; /* with more of them, status lists only those that have a problem */

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

/* ---- as text ---- */

static bool is_well(const struct ob_relay_sink *sink)
{
    return strcmp(sink->breaker, "closed") == 0 && !sink->paused && sink->failed == 0 && !sink->limited_until;
}

struct listing {
    struct ob_cli *cli;
    bool all;
    size_t count, shown;
};

static void count_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct listing *listing = ctx;
    (void)sink;
    listing->count++;
}

static void say_sink(void *ctx, const struct ob_relay_sink *sink)
{
    struct listing *listing = ctx;
    struct ob_cli *cli = listing->cli;
    bool open = strcmp(sink->breaker, "closed") != 0;
    if (!listing->all && is_well(sink))
        return;
    if (listing->shown++ == 0)
        printf("\n%-20s %-10s %9s %9s  %s\n", "SINK", "BREAKER", "IN FLIGHT", "RATE", "RELAY, LAST ERROR");
    ob_say_text(cli, sink->name, 20, OB_COLOR_NONE);
    putchar(' ');
    ob_say_text(cli, sink->breaker, 10, open ? OB_COLOR_RED : OB_COLOR_GREEN);
    printf(" %9lld %7.1f/s  ", (long long)sink->in_flight, sink->rate);
    ob_say_text(cli, sink->relay, 0, OB_COLOR_DIM);
    struct ob_buf more = OB_BUF_INIT;
    if (sink->paused)
        ob_buf_puts(&more, ", paused");
    if (sink->since)
        ob_buf_printf(&more, ", %s since %.19sZ", sink->cause ? sink->cause : "open", sink->since);
    if (sink->next_probe)
        ob_buf_printf(&more, ", next probe %.19sZ", sink->next_probe);
    if (sink->limited_until)
        ob_buf_printf(&more, ", limited by the receiver until %.19sZ", sink->limited_until);
    if (sink->rate_limit)
        ob_buf_printf(&more, ", at most %s", sink->rate_limit);
    if (sink->failed > 0)
        ob_buf_printf(&more, ", failed %lld times since the last delivery: %s%s%s", (long long)sink->failed,
                      sink->code ? sink->code : "", sink->code && sink->error ? ": " : "",
                      sink->error ? sink->error : "");
    ob_say_text(cli, ob_buf_text(&more), 0, OB_COLOR_NONE);
    putchar('\n');
    ob_buf_fini(&more);
}

static void say_relay(struct ob_cli *cli, const json_t *relay, bool first)
{
    const json_t *info = json_object_get(relay, "info");
    const char *state = text_of(relay, "state");
    bool off = info && json_is_false(json_object_get(info, "enabled"));
    char age[32];
    if (first)
        printf("\n%-32s %-10s %-10s %s\n", "RELAY", "STATE", "VERSION", "SEEN");
    ob_say_text(cli, text_of(relay, "worker"), 32, OB_COLOR_NONE);
    putchar(' ');
    ob_say_text(cli,
                !is_alive(relay) ? "gone"
                : off            ? "disabled"
                                 : state,
                10, is_alive(relay) && !off ? OB_COLOR_GREEN : OB_COLOR_RED);
    putchar(' ');
    ob_say_text(cli, text_of(relay, "version"), 10, OB_COLOR_NONE);
    ob_age_text((double)(ob_clock_wall_us() - int_of(relay, "seen_at")) / 1e6, age);
    printf(" %s ago\n", age);
}

void ob_relays_say(struct ob_cli *cli, const struct ob_relays *relays)
{
    struct listing listing = {.cli = cli};
    size_t i;
    json_t *relay;
    json_array_foreach (relays->rows, i, relay) {
        say_relay(cli, relay, i == 0);
    }
    ob_relays_sinks(relays, count_sink, &listing);
    listing.all = listing.count <= SINKS_ALL;
    ob_relays_sinks(relays, say_sink, &listing);
    if (!listing.all)
        printf("%zu more sinks deliver without errors\n", listing.count - listing.shown);
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

void ob_relays_json(struct ob_json *json, const struct ob_relays *relays)
{
    size_t i;
    json_t *relay;
    ob_json_key(json, "relays");
    ob_json_array(json);
    json_array_foreach (relays->rows, i, relay) {
        const json_t *info = json_object_get(relay, "info");
        ob_json_object(json);
        ob_json_text(json, "worker", text_of(relay, "worker"));
        ob_json_text(json, "host", text_of(relay, "host"));
        ob_json_count(json, "pid", int_of(relay, "pid"));
        ob_json_text(json, "version", text_of(relay, "version"));
        ob_json_text(json, "state", text_of(relay, "state"));
        ob_json_time(json, "started_at", int_of(relay, "started_at"));
        ob_json_time(json, "seen_at", int_of(relay, "seen_at"));
        ob_json_key(json, "alive"), ob_json_bool(json, is_alive(relay));
        ob_json_key(json, "enabled"), ob_json_bool(json, !json_is_false(json_object_get(info, "enabled")));
        ob_json_text(json, "routes_digest", text_of(info, "digest"));
        ob_json_end(json);
    }
    ob_json_end(json);
    ob_json_key(json, "sinks");
    ob_json_array(json);
    ob_relays_sinks(relays, json_sink, json);
    ob_json_end(json);
}
