/* slip.c - mistakes that edit distance does not find: words that other software uses for the same thing, options in the
 * wrong section, and YAML's reaction to a star, a tab or wrong indentation. */
#include "config/config_int.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A word that other software uses, and ours. A word may have several rows: the first name that is known in its scope is
 * meant. */
static const struct {
    const char *word, *ours;
} words[] = {
    {"attempts", "max_attempts"},
    {"max_retries", "max_attempts"},
    {"max_tries", "max_attempts"},
    {"retries", "max_attempts"},
    {"retry_count", "max_attempts"},
    {"retry_limit", "max_attempts"},
    {"tries", "max_attempts"},
    {"retry.attempts", "max_attempts"},
    {"retry.count", "max_attempts"},
    {"retry.limit", "max_attempts"},
    {"retry.max", "max_attempts"},
    {"retry.max_attempts", "max_attempts"},
    {"retry.max_retries", "max_attempts"},
    {"retry.retries", "max_attempts"},
    {"retry.delay", "retry.base"},
    {"retry.initial", "retry.base"},
    {"retry.interval", "retry.base"},
    {"retry.max_delay", "retry.cap"},
    {"retry.max_interval", "retry.cap"},
    {"retry.backoff", "retry.policy"},
    {"retry.strategy", "retry.policy"},
    {"backoff", "retry.policy"},
    {"retry_delay", "retry.base"},
    {"max_concurrency", "concurrency"},
    {"parallel", "concurrency"},
    {"parallelism", "concurrency"},
    {"threads", "concurrency"},
    {"workers", "concurrency"},
    {"max_in_flight", "concurrency"},
    {"rate_limit", "rate"},
    {"throttle", "rate"},
    {"deadline", "timeout"},
    {"request_timeout", "timeout"},
    {"ttl", "timeout"},
    {"batch_size", "batch"},
    {"window", "max_messages"},
    {"prefetch_count", "max_messages"},
    {"interval", "poll"},
    {"poll_interval", "poll"},
    {"lock_timeout", "lease"},
    {"visibility_timeout", "lease"},
    {"shutdown_timeout", "grace"},
    {"name", "worker"},
    {"worker_id", "worker"},
    {"address", "listen"},
    {"bind", "listen"},
    {"port", "listen"},
    {"loglevel", "level"},
    {"verbosity", "level"},
    {"type", "kind"},
    {"adapter", "kind"},
    {"driver", "kind"},
    {"provider", "kind"},
    {"address", "url"},
    {"endpoint", "url"},
    {"host", "url"},
    {"server", "url"},
    {"target", "url"},
    {"uri", "url"},
    {"path", "file"},
    {"user", "username"},
    {"username", "user"},
    {"pass", "password"},
    {"destination", "sink"},
    {"outlet", "sink"},
    {"output", "sink"},
    {"target", "sink"},
    {"to", "sink"},
    {"url", "endpoint"},
    {"collector", "endpoint"},
    {"service", "service_name"},
    {"ratio", "sample"},
    {"sample_ratio", "sample"},
    {"event", "topic"},
    {"event_type", "topic"},
    {"match", "topic"},
    {"pattern", "topic"},
    {"topics", "topic"},
    {"ns", "namespace"},
    {"header", "headers"},
    {"json_schema", "schema"},
    /* sections */
    {"destination", "sinks"},
    {"destinations", "sinks"},
    {"outlets", "sinks"},
    {"outputs", "sinks"},
    {"targets", "sinks"},
    {"route", "routes"},
    {"routing", "routes"},
    {"rules", "routes"},
    {"database", "store"},
    {"database_url", "store"},
    {"databases", "stores"},
    {"db", "store"},
    {"dsn", "store"},
    {"outbox", "store"},
    {"postgres", "store"},
    {"postgresql", "store"},
    {"sqlite", "store"},
    {"url", "store"},
    {"logger", "log"},
    {"logging", "log"},
    {"logs", "log"},
    {"api", "admin"},
    {"health", "admin"},
    {"http", "admin"},
    {"metrics", "admin"},
    {"opentelemetry", "traces"},
    {"otel", "traces"},
    {"otlp", "traces"},
    {"prometheus", "admin"},
    {"daemon", "relay"},
    {"dispatcher", "relay"},
};

/* Turns maxAttempts and max-attempts into max_attempts; false when it does not fit. */
static bool plain_form(const char *word, char *plain, size_t size)
{
    size_t len = 0;
    for (const char *c = word; *c; c++) {
        if (len + 2 >= size)
            return false;
        if (isupper((unsigned char)*c) && c > word && islower((unsigned char)c[-1]))
            plain[len++] = '_';
        plain[len++] = (char)(*c == '-' ? '_' : tolower((unsigned char)*c));
    }
    plain[len] = '\0';
    return len > 0;
}

static const char *among(const char *word, const char *(*names)(const void *ctx, size_t i), const void *ctx)
{
    const char *name;
    for (size_t i = 0; (name = names(ctx, i)); i++)
        if (strcmp(name, word) == 0)
            return name;
    return NULL;
}

const char *ob_slip_word(const char *word, const char *(*names)(const void *ctx, size_t i), const void *ctx)
{
    char plain[80];
    if (!plain_form(word, plain, sizeof plain))
        return NULL;
    const char *meant = among(plain, names, ctx);
    for (size_t i = 0; !meant && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, plain) == 0)
            meant = among(words[i].ours, names, ctx);
    return meant;
}

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static const char *const tops[] = {"store",  "stores", "relay", "log",      "admin",
                                   "traces", "notify", "sinks", "defaults", "routes"};

const char *ob_config_top(const void *ctx, size_t i)
{
    (void)ctx;
    return i < sizeof tops / sizeof tops[0] ? tops[i] : NULL;
}

const char *ob_slip_place(struct ob_loader *ld, const char *path, const char *key)
{
    static const enum ob_section sections[] = {OB_SECTION_relay,    OB_SECTION_log,   OB_SECTION_admin,
                                               OB_SECTION_delivery, OB_SECTION_sinks, OB_SECTION_routes,
                                               OB_SECTION_traces};
    size_t first = strcspn(key, ".");
    for (size_t i = 0; *path && i < sizeof tops / sizeof tops[0]; i++)
        if (strlen(tops[i]) == first && strncmp(tops[i], key, first) == 0)
            return ob_loader_printf(ld, "`%s` is a top-level section: start it in the first column", tops[i]);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const char *name = ob_section_names[sections[i]];
        if (!ob_section_row(sections[i], key) || strcmp(name, path) == 0)
            continue;
        return sections[i] == OB_SECTION_delivery ? "it belongs under a sink or under `defaults:`"
               : sections[i] == OB_SECTION_sinks  ? "it belongs under a sink: indent it"
                                                  : ob_loader_printf(ld, "it belongs under `%s:`", name);
    }
    return NULL;
}

/* ---- YAML -------------------------------------------------------------------------------------------------------- */

static bool begins_with_tab(const char *line, size_t len)
{
    size_t i = 0;
    while (i < len && line[i] == ' ')
        i++;
    return i < len && line[i] == '\t';
}

/* The first character of the value on a line `key: value` or `- value`; 0: there is none. */
static char value_of(const char *line, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++)
        if ((line[i] == ':' || (line[i] == '-' && (i == 0 || line[i - 1] == ' '))) && line[i + 1] == ' ') {
            while (i + 1 < len && line[i + 1] == ' ')
                i++;
            if (i + 1 < len && line[i + 1] != '-')
                return line[i + 1];
        }
    return '\0';
}

const char *ob_slip_yaml(const char *problem, const char *context, const char *line, size_t len)
{
    static const struct {
        const char *problem, *hint;
    } hints[] = {
        {"found undefined alias", "quote a value that starts with *: topic: \"*.paid\""},
        {"mapping values are not allowed",
         "check the indentation of this line and the one above; quote a value that contains a colon and a space"},
        {"did not find expected key", "check the indentation: the options of one section start in the same column"},
        {"did not find expected '-' indicator",
         "check the indentation: every list item starts with \"- \" in the same column"},
        {"could not find expected ':'", "write a colon and a space between an option and its value: poll: 1s"},
        {"did not find expected ',' or '", "a { or [ is not closed"},
        {"found unexpected end of stream", "a quote is not closed"},
        {"block sequence entries are not allowed", "a list starts on the line after its name"},
        {"found unknown escape character", "double a backslash inside \"...\", or use '...'"},
    };
    if (begins_with_tab(line, len) || strstr(problem, "tab character"))
        return "indent with spaces, not with tabs";
    if (context && (strstr(context, "scanning an alias") || strstr(context, "scanning an anchor")))
        return "quote a value that starts with * or &: topic: \"*\"";
    if (strstr(problem, "cannot start any token") && strchr("@`%", value_of(line, len)) && value_of(line, len))
        return "quote a value that starts with @, ` or %";
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (strncmp(problem, hints[i].problem, strlen(hints[i].problem)) == 0)
            return hints[i].hint;
    return NULL;
}
