/* check.c - what no option can tell alone: options against each other, and names that nobody asked for. */
#include "config/config_int.h"

#include "base/nearest.h"
#include "base/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ob_config_value *value_of(const struct ob_config *config, const char *name)
{
    static const struct ob_config_value none = {.place = {.source = OB_CONFIG_DEFAULT}};
    for (size_t i = 0; i < config->value_count; i++)
        if (strcmp(config->values[i].name, name) == 0)
            return &config->values[i];
    return &none;
}

/* A complaint about an option stands where the option stands, or else at `otherwise`. An option that is wrong by itself
 * holds its default now: nothing more is said about it. */
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
             "is %s, more than a third of the lease (%s): what a crashed relay held is taken over late", poll, third);
    }
    if (config->relay.claim_limit > config->relay.max_messages)
        tell(ld, true, "relay.batch", value_of(config, "relay.max_messages")->place.line,
             "is %d, more than relay.max_messages (%d), which is all that can be held at once",
             config->relay.claim_limit, config->relay.max_messages);
    if (config->admin_listen && !strchr(config->admin_listen, ':'))
        tell(ld, true, "admin.listen", 0, "is \"%s\", but must be ADDRESS:PORT, such as 127.0.0.1:9464",
             config->admin_listen);
}

/* An adapter with a clock of its own, and the time it needs to end what is late. When the host's timeout comes first,
 * all that an outage holds up is given up on without an answer, and costs an attempt. */
static void check_times(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    enum { SLACK_US = 2000000 };
    char name[120], own[OB_VALUE_TEXT], timeout[OB_VALUE_TEXT];
    int64_t own_us = 0;
    for (size_t i = 0; sink->ops && sink->ops->settings && i < sink->option_count; i++)
        if (strcmp(sink->options[i].name, "delivery_timeout") == 0)
            own_us = strtoll(sink->options[i].value, NULL, 10);
    if (own_us == 0 || own_us + SLACK_US <= sink->delivery.timeout_us)
        return;
    ob_value_duration_text(own_us, own);
    ob_value_duration_text(sink->delivery.timeout_us, timeout);
    snprintf(name, sizeof name, "sinks.%s.timeout", sink->name);
    int line = value_of(ld->config, name)->place.line;
    snprintf(name, sizeof name, "sinks.%s.delivery_timeout", sink->name);
    tell(ld, true, name, line ? line : sink->line,
         "is %s, but must be 2s below timeout (%s): an outage would spend attempts, and leave open what was sent", own,
         timeout);
}

/* An adapter that knows how long its receivers may think. When the host gives up before, the delivery is made again. */
static void check_timeout(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    const int64_t timeout_us = sink->delivery.timeout_us;
    char name[120], limit[OB_VALUE_TEXT], timeout[OB_VALUE_TEXT];
    snprintf(name, sizeof name, "sinks.%s.timeout", sink->name);
    bool chosen = value_of(ld->config, name)->place.source != OB_CONFIG_DEFAULT;
    if (timeout_us >= ld->config->relay.lease_us && (chosen || !sink->limit_us))
        tell(ld, false, name, sink->line, "is not below relay.lease: such a delivery lives on renewed leases alone");
    if (timeout_us > sink->limit_us)
        return;
    ob_value_duration_text(timeout_us, timeout);
    ob_value_duration_text(sink->limit_us, limit);
    tell(ld, false, name, sink->line,
         "is %s, not above %s (%s): what a receiver takes longer for is unknown, and sent again", timeout,
         sink->ops->limit, limit);
}

static void check_sink(struct ob_loader *ld, const struct ob_config_sink *sink)
{
    const struct ob_retry *retry = &sink->delivery.retry;
    char name[120];
    if (sink->delivery.run > 1 && sink->ops && !sink->ops->keeps_order) {
        snprintf(name, sizeof name, "sinks.%s.run", sink->name);
        tell(ld, true, name, sink->line, "is %d, but a sink of kind %s cannot keep order among several: leave it at 1",
             sink->delivery.run, sink->ops->kind);
    }
    if (retry->jitter_low > retry->jitter_high) {
        snprintf(name, sizeof name, "sinks.%s.retry.jitter_low", sink->name);
        tell(ld, true, name, sink->line, "is %d, more than retry.jitter_high (%d)", retry->jitter_low,
             retry->jitter_high);
    }
    if (retry->cap_us && retry->base_us > retry->cap_us) {
        snprintf(name, sizeof name, "sinks.%s.retry.base", sink->name);
        tell(ld, true, name, sink->line, "is above retry.cap");
    }
    snprintf(name, sizeof name, "sinks.%s.retry.delays", sink->name);
    if (retry->kind == OB_RETRY_LIST && retry->list_count == 0)
        tell(ld, true, name, sink->line, "is missing: retry.policy is list");
    else if (retry->kind != OB_RETRY_LIST && retry->list_count > 0)
        tell(ld, false, name, sink->line, "has no effect: retry.policy is not list");
    if (sink->delivery.breaker.base_us > sink->delivery.breaker.cap_us) {
        snprintf(name, sizeof name, "sinks.%s.breaker.base", sink->name);
        tell(ld, true, name, sink->line, "is above breaker.cap");
    }
    if (sink->delivery.limited_base_us > sink->delivery.limited_cap_us) {
        snprintf(name, sizeof name, "sinks.%s.limited.base", sink->name);
        tell(ld, true, name, sink->line, "is above limited.cap");
    }
}

static void check_routes(struct ob_loader *ld)
{
    const struct ob_config *config = ld->config;
    struct ob_config_place whole = {.source = config->file ? OB_CONFIG_FILE : OB_CONFIG_DEFAULT, .from = config->file};
    if (config->store_count == 0)
        ob_loader_problem(ld, false, &whole, "store", NULL, NULL,
                          "there is none: write `store: URL`, set OUTBOX_STORE or give --store");
    if (config->sink_count == 0)
        ob_loader_problem(ld, ld->in->relay, &whole, "sinks", NULL, NULL,
                          ld->in->relay
                              ? "there are none: write `sinks:` and `routes:`; outbox config --sample shows how"
                              : "there are none: nothing can be delivered");
    else if (config->route_count == 0)
        ob_loader_problem(ld, false, &whole, "routes", NULL, NULL, "there are none: no message goes anywhere");
    for (size_t i = 0; i < config->sink_count && config->route_count; i++) {
        const struct ob_config_sink *sink = &config->sinks[i];
        struct ob_config_place place = OB_PLACE_FILE(ld, sink->line);
        bool used = false;
        for (size_t j = 0; j < config->route_count; j++)
            used = used || config->routes[j].sink == (int)i;
        if (!used)
            ob_loader_problem(ld, false, &place, ob_loader_printf(ld, "sinks.%s", sink->name), NULL, NULL,
                              "no route leads to it");
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
            ob_loader_problem(ld, false, &place, NULL, NULL, near.best, "this variable sets no option");
    }
}

void ob_config_check(struct ob_loader *ld)
{
    check_relay(ld);
    for (size_t i = 0; i < ld->config->sink_count; i++) {
        check_sink(ld, &ld->config->sinks[i]);
        check_times(ld, &ld->config->sinks[i]);
        check_timeout(ld, &ld->config->sinks[i]);
    }
    check_routes(ld);
    check_flags(ld);
    check_env(ld);
}
