/* config.c - see config.h. */
#include "sink/http/config.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/common/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { EXCERPT = 4096 };

const struct outbox_sink_setting ob_http_settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .secret = true, .also = "webhook webhook_url",
     .doc = "where messages go: https://host/path"},
    {"url_header", OUTBOX_OPTION_TEXT, .doc = "message header that holds the URL of this message; see url_allow"},
    {"url_allow", OUTBOX_OPTION_LIST,
     .doc = "URLs a message may name in url_header: https://host/path (and below), or a host"},
    {"method", OUTBOX_OPTION_ENUM, "POST", "POST PUT PATCH", .doc = "HTTP method"},
    OB_RENDER_SETTINGS,
    {"secret", OUTBOX_OPTION_LIST, .secret = true,
     .doc = "signing secrets (Standard Webhooks): whsec_ and base64; several during a rotation"},
    {"authorization", OUTBOX_OPTION_TEXT, .secret = true,
     .doc = "value of the Authorization header, such as: Bearer "
            "TOKEN"},
    {"headers", OUTBOX_OPTION_MAP, .hidden = true, .doc = "extra headers of every request"},
    {"idempotency", OUTBOX_OPTION_ENUM, "id", "id dedupe none",
     .doc = "value of Idempotency-Key: the message's id, its dedupe key if it has one, or none"},
    {"user_agent", OUTBOX_OPTION_TEXT, "outbox", .doc = "value of the User-Agent header"},
    OB_CURL_SETTINGS,
    {"response_max", OUTBOX_OPTION_SIZE, "64KiB", .least = 0, .most = 16777216, .doc = "most bytes read of a response"},
    {"redirects", OUTBOX_OPTION_ENUM, "no", "no same-origin",
     .doc = "follow a 307 or 308 to the same scheme, host and port"},
    {"on_status", OUTBOX_OPTION_MAP,
     .doc = "outcome by status or class, such as `404: retry` or `4xx: terminal`: accepted, retry, limited, terminal, "
            "blocked or unknown"},
    {"reference", OUTBOX_OPTION_TEXT,
     .doc = "where to find the receiver's id: a response header, or a JSON pointer into the body (/data/id)"},
    {"capture", OUTBOX_OPTION_BOOL, "false", .doc = "pass a JSON response to outcome hooks"},
    {"probe", OUTBOX_OPTION_ENUM, "connect", "connect head options",
     .doc = "what outbox doctor does: connect and TLS handshake only, or a request with that method"},
    {"version", OUTBOX_OPTION_ENUM, "1.1", "auto 1.1 2",
     .doc = "HTTP version; auto: 2 if negotiated by TLS; 2 without TLS means prior knowledge"},
    OB_TLS_SETTINGS,
    OB_TLS_MORE_SETTINGS,
    {NULL},
};

/* ---- before it is opened ----------------------------------------------------------------------------------------- */

/* The address that the URL names in figures, or localhost's; false for any other name. */
static bool names_address(const char *text, char *address, size_t size)
{
    char *host = NULL;
    bool found = false;
    struct in6_addr bytes;
    CURLU *url = curl_url();
    if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
        size_t len = strlen(host);
        bool six = host[0] == '[' && len > 2;
        snprintf(address, size, "%.*s", (int)(six ? len - 2 : len), six ? host + 1 : host);
        if (strcasecmp(address, "localhost") == 0)
            snprintf(address, size, "127.0.0.1");
        found = inet_pton(six ? AF_INET6 : AF_INET, address, &bytes) == 1;
    }
    curl_free(host);
    curl_url_cleanup(url);
    return found;
}

/* The guard refuses such an address at every delivery: it is better said before the first one. Names are judged when they are
 * resolved. */
void ob_http_config_check(const struct outbox_sink_check *check)
{
    const struct ob_options options = {check->options, check->count, ob_http_settings};
    struct ob_net_guard guard;
    const char *place;
    char address[64];
    enum outbox_code code = OUTBOX_OK;
    ob_net_guard_init(&guard);
    for (size_t i = 0; !code && (place = ob_option_next(&options, "allow", &i));)
        code = ob_net_guard_allow(&guard, place, NULL);
    if (!code && !*ob_option_string(&options, "proxy") &&
        names_address(ob_option_string(&options, "url"), address, sizeof address) &&
        !ob_net_guard_passes_text(&guard, address))
        ob_check_problem(check, false, "url",
                         "leads to %s, which is not a public address: every delivery will be refused. To allow it, add "
                         "allow: %s",
                         address, address);
    ob_net_guard_fini(&guard);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static int choice(const struct ob_options *options, const char *name, const char *const words[])
{
    const char *given = ob_option_text(options, name);
    for (int i = 0; given && words[i]; i++)
        if (strcmp(given, words[i]) == 0)
            return i;
    return 0;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

bool ob_http_name_reserved(const char *name)
{
    static const char *const names[] = {
        "authorization",   "connection", "content-length",    "content-type",      "expect",
        "idempotency-key", "te",         "trailer",           "transfer-encoding", "upgrade",
        "user-agent",      "webhook-id", "webhook-signature", "webhook-timestamp", NULL};
    for (int i = 0; names[i]; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static bool value_ok(const char *value)
{
    return ob_header_value_ok(value, strlen(value));
}

static enum outbox_code fixed_add(struct ob_http_config *config, const char *name, const char *value, bool secret,
                                  struct outbox_error *err)
{
    char line[4096];
    int len = snprintf(line, sizeof line, "%s:%s%s", name, *value ? " " : "", value);
    if (len < 0 || (size_t)len >= sizeof line)
        return ob_error_set(err, OUTBOX_INVALID, "headers.%s is too long", name);
    struct curl_slist *grown = curl_slist_append(config->fixed, line);
    if (!grown)
        return ob_error_nomem(err);
    config->fixed = grown;
    return ob_http_mask_value(&config->masks, value, secret) ? OUTBOX_OK : ob_error_nomem(err);
}

static enum outbox_code read_headers(struct ob_http_config *config, const struct ob_options *options,
                                     struct outbox_error *err)
{
    /* Without this line libcurl asks before it sends more than a megabyte. */
    enum outbox_code code = fixed_add(config, "Expect", "", false, err);
    const char *name, *value, *authorization = NULL;
    for (size_t i = 0; !code && (value = ob_option_below(options, "headers", &i, &name));) {
        if (ob_http_name_reserved(name) || !ob_header_name_ok(name))
            code = ob_error_set(err, OUTBOX_INVALID, "headers.%s: that name is %s", name,
                                ob_http_name_reserved(name) ? "set by the sink; see its other settings"
                                                            : "not a header name");
        else if (!*value || !value_ok(value))
            code = ob_error_set(err, OUTBOX_INVALID, "headers.%s: the value is empty or has control characters", name);
        else
            code = fixed_add(config, name, value, false, err);
    }
    if (!code)
        code = ob_option_keep(options, "authorization", &config->arena, &authorization, err);
    if (!code && authorization) {
        if (!value_ok(authorization))
            return ob_error_set(err, OUTBOX_INVALID, "authorization has control characters");
        code = fixed_add(config, "Authorization", authorization, true, err);
    }
    if (!code)
        code = ob_option_keep(options, "user_agent", &config->arena, &config->user_agent, err);
    if (!code && config->user_agent && !value_ok(config->user_agent))
        code = ob_error_set(err, OUTBOX_INVALID, "user_agent has control characters");
    return code;
}

static enum outbox_code read_secrets(struct ob_http_config *config, const struct ob_options *options,
                                     struct outbox_error *err)
{
    size_t count = ob_option_count(options, "secret");
    const char *text;
    config->keys = ob_arena_calloc(&config->arena, count + 1, sizeof *config->keys);
    if (!config->keys)
        return ob_error_nomem(err);
    for (size_t i = 0; (text = ob_option_next(options, "secret", &i));) {
        enum outbox_code code = ob_webhook_key_new(text, &config->keys[config->key_count], err);
        if (code)
            return code;
        config->key_count++;
    }
    return OUTBOX_OK;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static enum outbox_code read_places(struct ob_http_config *config, const struct ob_options *options,
                                    struct outbox_error *err)
{
    const char *text = ob_option_text(options, "url"), *place;
    enum outbox_code code = OUTBOX_OK;
    if (text && *text) {
        char *normal = NULL;
        code = ob_http_url_parse(text, &normal, err);
        if (!code && !(config->url = ob_arena_strdup(&config->arena, normal)))
            code = ob_error_nomem(err);
        ob_free(normal);
        if (!code && !ob_http_mask_url(&config->masks, config->url))
            code = ob_error_nomem(err);
    }
    if (!code)
        code = ob_option_keep(options, "url_header", &config->arena, &config->url_header, err);
    for (size_t i = 0; !code && (place = ob_option_next(options, "url_allow", &i));)
        code = ob_http_urls_allow(&config->places, place, err);
    if (code)
        return code;
    if (!config->url && !config->url_header)
        return ob_error_set(err, OUTBOX_INVALID, "set url, or url_header and url_allow");
    if (config->url_header && !config->places.count)
        return ob_error_set(err, OUTBOX_INVALID, "url_header requires url_allow: list the URLs that messages may name");
    return OUTBOX_OK;
}

static enum outbox_code read_answers(struct ob_http_config *config, const struct ob_options *options,
                                     struct outbox_error *err)
{
    const char *reference, *status, *outcome;
    enum outbox_code code = ob_option_keep(options, "reference", &config->arena, &reference, err);
    if (!code && reference && reference[0] == '/')
        config->reference_pointer = reference;
    else if (!code)
        config->reference_header = reference;
    for (size_t i = 0; !code && (outcome = ob_option_below(options, "on_status", &i, &status));)
        code = ob_http_rules_set(&config->rules, status, outcome, err);
    config->capture = ob_option_bool(options, "capture");
    config->response_most = (size_t)ob_option_int(options, "response_max");
    config->curl.limits.answer_most = ob_curl_answer_most(config->response_most);
    config->keep_most = EXCERPT;
    if (config->capture || config->reference_pointer)
        config->keep_most = config->response_most;
    return code;
}

static enum outbox_code read_choices(struct ob_http_config *config, const struct ob_options *options,
                                     struct outbox_error *err)
{
    static const char *const keys[] = {"id", "dedupe", "none", NULL};
    static const char *const pings[] = {"connect", "head", "options", NULL};
    static const char *const redirects[] = {"no", "same-origin", NULL};
    static const char *const versions[] = {"1.1", "auto", "2", NULL};
    static const char *const methods[] = {"POST", "PUT", "PATCH", NULL};
    static const long numbers[] = {CURL_HTTP_VERSION_1_1, CURL_HTTP_VERSION_2TLS, CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE};
    config->idempotency = (enum ob_http_idempotency)choice(options, "idempotency", keys);
    config->ping = (enum ob_http_ping)choice(options, "probe", pings);
    config->follow = choice(options, "redirects", redirects) == 1;
    config->version = numbers[choice(options, "version", versions)];
    if (config->version == CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE && config->url && strncmp(config->url, "https:", 6) == 0)
        config->version = CURL_HTTP_VERSION_2_0;
    config->method = methods[choice(options, "method", methods)];
    return ob_render_read(&config->render, options, &config->arena, err);
}

enum outbox_code ob_http_config_init(struct ob_http_config *config, const struct outbox_sink_option *given,
                                     size_t count, struct outbox_error *err)
{
    struct ob_options options = {given, count, ob_http_settings};
    memset(config, 0, sizeof *config);
    ob_arena_init(&config->arena, 1024);
    enum outbox_code code = ob_curl_options_read(&config->curl, &options, &config->arena, err);
    if (!code)
        code = read_places(config, &options, err);
    if (!code)
        code = read_choices(config, &options, err);
    if (!code)
        code = read_headers(config, &options, err);
    if (!code)
        code = read_secrets(config, &options, err);
    if (!code)
        code = ob_tls_read(&config->tls, &options, &config->arena, err);
    if (!code)
        code = read_answers(config, &options, err);
    return code;
}

void ob_http_config_fini(struct ob_http_config *config)
{
    for (size_t i = 0; i < config->key_count; i++)
        ob_webhook_key_free(config->keys[i]);
    curl_slist_free_all(config->fixed);
    curl_slist_free_all(config->masks);
    ob_http_urls_fini(&config->places);
    ob_net_guard_fini(&config->curl.guard);
    ob_arena_fini(&config->arena);
}
