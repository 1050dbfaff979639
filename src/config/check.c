/* check.c - checks that need more than one option: options against each other, and environment variables and flags that
 * match no option. */
#include "config/config_int.h"

#include "base/nearest.h"
#include "base/value.h"
#include "sink/plugin.h"

#include <stdio.h>
#include <string.h>

static const struct ob_config_value *value_of(const struct ob_config *config, const char *name)
{
    static const struct ob_config_value none = {.place = {.source = OB_CONFIG_DEFAULT}};
    for (size_t i = 0; i < config->value_count; i++)
        if (strcmp(config->values[i].name, name) == 0)
            return &config->values[i];
    return &none;
}

/* Reports a problem at the position of the option, or else at `otherwise`. An option that was invalid by itself has its
 * default now: nothing more is reported about it. */
static void tell(struct ob_loader *ld, bool error, const char *name, int otherwise, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void tell(struct ob_loader *ld, bool error, const char *name, int otherwise, const char *format, ...)
{
    const struct ob_config_value *value = value_of(ld->config, name);
    struct ob_config_place place = value->place;
    struct ob_buf text = OB_BUF_INIT;
    va_list list;
    for (const struct ob_config_problem *at = ld->report->first; at; at = at->next)
        if (at->error && at->key && strcmp(at->key, name) == 0)
            return;
    if (place.source == OB_CONFIG_DEFAULT && ld->file)
        place = OB_PLACE_FILE(ld, otherwise);
    va_start(list, format);
    ob_buf_vprintf(&text, format, list);
    va_end(list);
    ob_loader_problem(ld, error, &place, name, value->shown, NULL, "%s", ob_buf_text(&text));
    ob_buf_fini(&text);
}

static void check_relay(struct ob_loader *ld)
{
    const struct ob_config *config = ld->config;
    char poll[OB_VALUE_TEXT], third[OB_VALUE_TEXT];
    if (config->relay.poll_us > config->relay.lease_us / 3) {
        ob_value_duration_text(config->relay.poll_us, poll);
        ob_value_duration_text(config->relay.lease_us / 3 / 1000 * 1000, third);
        tell(ld, false, "relay.poll", value_of(config, "relay.lease")->place.line,
             "is %s, more than a third of the lease (%s): messages of a crashed relay are taken over late", poll,
             third);
    }
    if (config->relay.claim_limit > config->relay.max_messages)
        tell(ld, true, "relay.batch", value_of(config, "relay.max_messages")->place.line,
             "is %d, more than relay.max_messages (%d), the most that can be held at once", config->relay.claim_limit,
             config->relay.max_messages);
    if (config->admin_listen && !strchr(config->admin_listen, ':'))
        tell(ld, true, "admin.listen", 0, "is \"%s\", but must be ADDRESS:PORT, such as 127.0.0.1:9464",
             config->admin_listen);
}

/* The name of a delivery setting or option of a sink in problems. */
#define SINK_KEY(key, sink, setting) snprintf(key, sizeof key, "sinks.%s.%s", (sink)->name, setting)

static void check_lease(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    char name[120];
    SINK_KEY(name, sink, "timeout");
    bool chosen = value_of(ld->config, name)->place.source != OB_CONFIG_DEFAULT;
    if (sink->delivery.timeout_us >= ld->config->relay.lease_us && (chosen || !sink->limit_us))
        tell(ld, false, name, sink->line, "is not below relay.lease: such a delivery depends on lease renewals");
}

struct kind_check {
    struct ob_loader *ld;
    const struct ob_config_sink *sink;
};

static void on_problem(void *ctx, bool error, const char *setting, const char *text)
{
    const struct kind_check *it = ctx;
    char name[200];
    SINK_KEY(name, it->sink, setting);
    tell(it->ld, error, name, it->sink->line, "%s", text);
}

/* The kind's own check of its options together with the delivery settings. */
static void check_kind(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    struct kind_check it = {ld, sink};
    struct outbox_sink_check check = {
        .size = sizeof check,
        .options = sink->options,
        .count = sink->option_count,
        .timeout_us = sink->delivery.timeout_us,
        .after_cap_us = sink->delivery.retry.after_cap_us,
        .ctx = &it,
        .problem = on_problem,
    };
    if (sink->ops)
        ob_sink_check(sink->ops, &check);
}

/* For a sink or a route. */
static void check_retry(struct ob_loader *ld, const struct ob_retry *retry, const char *path, int line)
{
    char name[200];
    if (retry->jitter_low > retry->jitter_high) {
        snprintf(name, sizeof name, "%s.retry.jitter_low", path);
        tell(ld, true, name, line, "is %d, more than retry.jitter_high (%d)", retry->jitter_low, retry->jitter_high);
    }
    if (retry->cap_us && retry->base_us > retry->cap_us) {
        snprintf(name, sizeof name, "%s.retry.base", path);
        tell(ld, true, name, line, "is above retry.cap");
    }
    snprintf(name, sizeof name, "%s.retry.delays", path);
    if (retry->kind == OB_RETRY_LIST && retry->list_count == 0)
        tell(ld, true, name, line, "is missing: retry.policy is list");
    else if (retry->kind != OB_RETRY_LIST && retry->list_count > 0)
        tell(ld, false, name, line, "has no effect: retry.policy is not list");
}

static void check_sink(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    char name[120];
    if (sink->delivery.run > 1 && sink->ops && !sink->ops->keeps_order) {
        SINK_KEY(name, sink, "run");
        tell(ld, true, name, sink->line,
             "is %d, but a sink of kind %s does not keep order among several: leave it at "
             "1",
             sink->delivery.run, sink->ops->kind);
    }
    snprintf(name, sizeof name, "sinks.%s", sink->name);
    check_retry(ld, &sink->delivery.retry, name, sink->line);
    if (sink->delivery.breaker.base_us > sink->delivery.breaker.cap_us) {
        SINK_KEY(name, sink, "breaker.base");
        tell(ld, true, name, sink->line, "is above breaker.cap");
    }
    if (sink->delivery.limited_base_us > sink->delivery.limited_cap_us) {
        SINK_KEY(name, sink, "limited.base");
        tell(ld, true, name, sink->line, "is above limited.cap");
    }
}

static bool same_retry(const struct ob_retry *a, const struct ob_retry *b)
{
    return a->kind == b->kind && a->base_us == b->base_us && a->cap_us == b->cap_us && a->jitter_low == b->jitter_low &&
           a->jitter_high == b->jitter_high && a->after_cap_us == b->after_cap_us && a->list_count == b->list_count &&
           memcmp(a->list_us, b->list_us, sizeof a->list_us) == 0;
}

/* Settings that a route has from its sink were checked with the sink. */
static void check_patience(struct ob_loader *ld, size_t i)
{
    const struct ob_config_route *route = &ld->config->routes[i];
    char path[40];
    snprintf(path, sizeof path, "routes[%zu]", i - (ld->config->notify.sink != NULL));
    if (route->sink >= 0 && !same_retry(&route->patience.retry, &ld->config->sinks[route->sink].delivery.retry))
        check_retry(ld, &route->patience.retry, path, route->line);
}

static void check_routes(struct ob_loader *ld)
{
    const struct ob_config *config = ld->config;
    struct ob_config_place whole = {.source = config->file ? OB_CONFIG_FILE : OB_CONFIG_DEFAULT, .from = config->file};
    if (config->store_count == 0)
        ob_loader_problem(ld, false, &whole, "store", NULL, NULL,
                          "missing: write `store: URL`, set OUTBOX_STORE or give --store");
    if (config->sink_count == 0)
        ob_loader_problem(ld, ld->in->relay, &whole, "sinks", NULL, NULL,
                          ld->in->relay ? "missing: write `sinks:` and `routes:`; see outbox config --sample"
                                        : "missing: nothing can be delivered");
    else if (config->route_count == 0)
        ob_loader_problem(ld, false, &whole, "routes", NULL, NULL, "missing: no message can be delivered");
    for (size_t i = 0; i < config->route_count; i++)
        check_patience(ld, i);
    for (size_t i = 0; i < config->sink_count && config->route_count; i++) {
        const struct ob_config_sink *sink = &config->sinks[i];
        struct ob_config_place place = OB_PLACE_FILE(ld, sink->line);
        bool used = false;
        for (size_t j = 0; j < config->route_count; j++)
            used = used || config->routes[j].sink == (int)i;
        if (!used)
            ob_loader_problem(ld, false, &place, ob_loader_printf(ld, "sinks.%s", sink->name), NULL, NULL,
                              "no route uses it");
    }
}

/* ---- names from outside ------------------------------------------------------------------------------------------ */

static void check_flags(struct ob_loader *ld)
{
    struct ob_config_place place = {.source = OB_CONFIG_FLAG, .from = "--set"};
    for (size_t i = 0; i < ld->in->set_count; i++) {
        const char *equals = strchr(ld->in->sets[i], '=');
        struct ob_nearest near;
        bool known = false;
        if (!equals) {
            ob_loader_problem(ld, true, &place, ld->in->sets[i], NULL, NULL, "must be NAME=VALUE");
            continue;
        }
        const char *name = ob_loader_printf(ld, "%.*s", (int)(equals - ld->in->sets[i]), ld->in->sets[i]);
        ob_nearest_init(&near, name);
        for (size_t n = 0; n < ld->asked_count && !known; n++) {
            known = strcmp(ld->asked[n].name, name) == 0;
            ob_nearest_try(&near, ld->asked[n].name);
        }
        if (!known)
            ob_loader_problem(ld, true, &place, name, NULL, near.best, "unknown option");
    }
}

static bool ours(const char *variable)
{
    static const char *const prefixes[] = {"OUTBOX_RELAY_",    "OUTBOX_LOG_",  "OUTBOX_ADMIN_",
                                           "OUTBOX_DEFAULTS_", "OUTBOX_SINK_", "OUTBOX_STORE_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void check_env(struct ob_loader *ld)
{
    for (char *const *at = ld->in->env; at && *at; at++) {
        struct ob_nearest near;
        bool known = false;
        if (!ours(*at))
            continue;
        const char *name = ob_loader_printf(ld, "%.*s", (int)strcspn(*at, "="), *at);
        struct ob_config_place place = {.source = OB_CONFIG_ENV, .from = name};
        ob_nearest_init(&near, name);
        for (size_t n = 0; n < ld->asked_count && !known; n++) {
            if (!ld->asked[n].env)
                continue;
            known = strcmp(ld->asked[n].env, name) == 0;
            ob_nearest_try(&near, ld->asked[n].env);
        }
        if (!known)
            ob_loader_problem(ld, false, &place, NULL, NULL, near.best, "does not match any option");
    }
}

void ob_config_check(struct ob_loader *ld)
{
    check_relay(ld);
    for (size_t i = 0; i < ld->config->sink_count; i++) {
        check_sink(ld, &ld->config->sinks[i]);
        check_lease(ld, &ld->config->sinks[i]);
        check_kind(ld, &ld->config->sinks[i]);
    }
    check_routes(ld);
    check_flags(ld);
    check_env(ld);
}
