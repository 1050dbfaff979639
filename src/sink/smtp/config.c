/* config.c - see config.h. */
#include "sink/smtp/config.h"

#include "base/error.h"
#include "base/value.h"
#include "sink/common/check.h"
#include "sink/common/header.h"
#include "sink/smtp/mime.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const struct outbox_sink_setting ob_smtp_settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .required = true,
     .doc = "server URL: smtp://host:587 (STARTTLS), or smtps://host:465 (implicit TLS)"},
    {"tls.mode", OUTBOX_OPTION_ENUM, "required", "required none",
     .doc = "`none`: unencrypted, passwords too; only for a server on the same machine"},
    OB_TLS_SETTINGS,
    OB_TLS_MORE_SETTINGS,
    {"user", OUTBOX_OPTION_TEXT, .doc = "user name; without it, no login"},
    {"password", OUTBOX_OPTION_TEXT, .secret = true, .doc = "password"},
    {"oauth_token", OUTBOX_OPTION_TEXT, .secret = true,
     .doc = "OAuth token, instead of a password (OAUTHBEARER or "
            "XOAUTH2)"},
    {"auth", OUTBOX_OPTION_ENUM, "auto", "auto plain login cram-md5 oauthbearer xoauth2",
     .doc = "login method; `auto` takes the strongest that the server offers"},
    {"ehlo", OUTBOX_OPTION_TEXT, .doc = "host name in EHLO (default: the machine's)"},
    {"from", OUTBOX_OPTION_TEXT, .required = true, .also = "sender",
     .doc = "sender: shop@example.org, or Shop <shop@example.org>"},
    {"envelope_from", OUTBOX_OPTION_TEXT,
     .doc = "envelope sender, which receives bounces (default: the address in "
            "`from`)"},
    {"to", OUTBOX_OPTION_TEXT, .doc = "default recipient"},
    {"reply_to", OUTBOX_OPTION_TEXT, .doc = "Reply-To address; `reply_to` of the payload takes precedence"},
    {"domain", OUTBOX_OPTION_TEXT, .doc = "domain in Message-ID (default: the domain of `from`)"},
    {"subject", OUTBOX_OPTION_TEXT, .doc = "template of the subject (default: `subject` of the payload)"},
    {"text", OUTBOX_OPTION_TEXT, .doc = "template of the plain text (default: `text` of the payload)"},
    {"html", OUTBOX_OPTION_TEXT, .doc = "template of the HTML, with values escaped (default: `html` of the payload)"},
    {"headers", OUTBOX_OPTION_MAP, .hidden = true, .doc = "extra header fields of every mail"},
    {"pass_headers", OUTBOX_OPTION_LIST,
     .doc = "message headers that become mail header fields, such as List-Unsubscribe"},
    {"attachments_dir", OUTBOX_OPTION_TEXT,
     .doc = "directory from which `attachments` of a payload are read (default: attachments are refused)"},
    {"attachments_max", OUTBOX_OPTION_SIZE, "10MiB", .least = 0, .most = 1073741824,
     .doc = "total size of the attachments of one mail"},
    {"connections", OUTBOX_OPTION_INT, "4", .least = 1, .most = 256,
     .doc = "most open connections, each sending one mail at a time; keep the sink's concurrency close to it"},
    {"messages_per_connection", OUTBOX_OPTION_INT, "0", .least = 0, .most = 1000000000,
     .doc = "mails per connection; 0: until the server closes it"},
    {"idle", OUTBOX_OPTION_DURATION, "30s", .least = 1000, .most = 3600000000,
     .doc = "idle time after which a connection is closed"},
    {"connect_timeout", OUTBOX_OPTION_DURATION, "10s", .least = 1000, .most = 3600000000,
     .doc = "time limit for name resolution, connect, TLS handshake and login"},
    {"response_timeout", OUTBOX_OPTION_DURATION, "5m", .least = 1000000, .most = 3600000000,
     .doc = "for one mail, with all replies; keep it below `timeout`"},
    {"greylist_wait", OUTBOX_OPTION_DURATION, "5m", .least = 0, .most = 86400000000,
     .doc = "delay after a server asks to come back later (450, 451, 421 4.7.x)"},
    {NULL},
};

/* A server may take long to answer. If the host gives up first, the outcome is unknown and the mail is sent again. */
void ob_smtp_config_check(const struct outbox_sink_check *check)
{
    const struct ob_options options = {check->options, check->count, ob_smtp_settings};
    const int64_t own_us = ob_option_int(&options, "response_timeout");
    char own[OB_VALUE_TEXT], timeout[OB_VALUE_TEXT];
    if (check->timeout_us > own_us)
        return;
    ob_value_duration_text(own_us, own);
    ob_value_duration_text(check->timeout_us, timeout);
    ob_check_problem(
        check, false, "timeout",
        "is %s, not above response_timeout (%s): a mail that takes longer has an unknown outcome and is sent "
        "again",
        timeout, own);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static enum outbox_code keep(struct ob_smtp_config *config, const struct ob_options *options, const char *name,
                             const char **text, struct outbox_error *err)
{
    if (strpbrk(ob_option_string(options, name), "\r\n"))
        return ob_error_set(err, OUTBOX_INVALID, "%s has line breaks", name);
    return ob_option_keep(options, name, &config->arena, text, err);
}

static enum outbox_code keep_address(struct ob_smtp_config *config, const struct ob_options *options, const char *name,
                                     const char **text, struct outbox_error *err)
{
    enum outbox_code code = keep(config, options, name, text, err);
    if (!code && *text && !ob_mime_address_ok(*text))
        code = ob_error_set(err, OUTBOX_INVALID, "%s: %s is not an email address", name, *text);
    return code;
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

static enum outbox_code write_url(struct ob_smtp_config *config, CURLU *url, const char *ehlo, struct outbox_error *err)
{
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL, *path = NULL, text[600];
    enum outbox_code code = OUTBOX_OK;
    curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    curl_url_get(url, CURLUPART_HOST, &host, 0);
    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    curl_url_get(url, CURLUPART_USER, &user, 0);
    curl_url_get(url, CURLUPART_PATH, &path, 0);
    if (user)
        code = ob_error_set(err, OUTBOX_INVALID, "url contains a user: set user and password instead");
    else if (!scheme || (strcmp(scheme, "smtp") != 0 && strcmp(scheme, "smtps") != 0) || !host || !port)
        code = ob_error_set(err, OUTBOX_INVALID, "url must be smtp://host:port or smtps://host:port");
    else if (path && strcmp(path, "/") != 0)
        code = ob_error_set(err, OUTBOX_INVALID, "url has a path; set ehlo for the EHLO host name");
    else if (strcmp(scheme, "smtps") == 0 && !config->tls_required)
        code = ob_error_set(err, OUTBOX_INVALID, "smtps is TLS: tls.mode cannot be none");
    else if ((size_t)snprintf(text, sizeof text, "%s://%s:%s/%s", scheme, host, port, ehlo ? ehlo : "") >= sizeof text)
        code = ob_error_set(err, OUTBOX_INVALID, "url is too long");
    else if (!(config->url = ob_arena_strdup(&config->arena, text)))
        code = ob_error_nomem(err);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_free(path);
    return code;
}

static enum outbox_code read_server(struct ob_smtp_config *config, const struct ob_options *options,
                                    struct outbox_error *err)
{
    const char *ehlo = ob_option_text(options, "ehlo"), *given = ob_option_string(options, "url");
    config->tls_required = !ob_option_is(options, "tls.mode", "none");
    if (ehlo && !*ehlo)
        ehlo = NULL;
    if (ehlo && !ob_mime_domain_ok(ehlo))
        return ob_error_set(err, OUTBOX_INVALID, "ehlo: %s is not a host name", ehlo);
    CURLU *url = curl_url();
    if (!url)
        return ob_error_nomem(err);
    enum outbox_code code =
        curl_url_set(url, CURLUPART_URL, given, 0) == CURLUE_OK
            ? write_url(config, url, ehlo, err)
            : ob_error_set(err, OUTBOX_INVALID, "url must be smtp://host:port or smtps://host:port");
    curl_url_cleanup(url);
    return code;
}

static enum outbox_code read_login(struct ob_smtp_config *config, const struct ob_options *options,
                                   struct outbox_error *err)
{
    static const struct {
        const char *name, *options;
    } ways[] = {{"plain", "AUTH=PLAIN"},
                {"login", "AUTH=LOGIN"},
                {"cram-md5", "AUTH=CRAM-MD5"},
                {"oauthbearer", "AUTH=OAUTHBEARER"},
                {"xoauth2", "AUTH=XOAUTH2"}};
    const char *auth = ob_option_string(options, "auth");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, auth) == 0)
            config->login_options = ways[i].options;
    enum outbox_code code = keep(config, options, "user", &config->user, err);
    if (!code)
        code = keep(config, options, "password", &config->password, err);
    if (!code)
        code = keep(config, options, "oauth_token", &config->token, err);
    if (!code && !config->user != !(config->password || config->token))
        code = ob_error_set(err, OUTBOX_INVALID, "set both user and password (or oauth_token), or neither");
    return code;
}

/* ---- the mail ---------------------------------------------------------------------------------------------------- */

/* "Shop <shop@example.org>", or the address alone. */
static enum outbox_code read_from(struct ob_smtp_config *config, const struct ob_options *options,
                                  struct outbox_error *err)
{
    const char *given = ob_option_string(options, "from");
    const char *open = strrchr(given, '<');
    size_t len = strlen(given);
    if (open) {
        size_t name_len = (size_t)(open - given);
        while (name_len && given[name_len - 1] == ' ')
            name_len--;
        if (name_len > 1 && given[0] == '"' && given[name_len - 1] == '"') {
            given++;
            name_len -= 2;
        }
        if (given[strlen(given) - 1] != '>' || !ob_header_value_ok(given, name_len))
            return ob_error_set(err, OUTBOX_INVALID, "from must be ADDRESS, or NAME <ADDRESS>");
        config->from_name = ob_arena_memdup(&config->arena, given, name_len);
        if (!config->from_name)
            return ob_error_nomem(err);
        given = open + 1;
        len = strlen(given) - 1;
    }
    config->from = ob_arena_memdup(&config->arena, given, len);
    if (!config->from)
        return ob_error_nomem(err);
    if (!ob_mime_address_ok(config->from))
        return ob_error_set(err, OUTBOX_INVALID, "from: %s is not an email address", config->from);
    return OUTBOX_OK;
}

static enum outbox_code read_addresses(struct ob_smtp_config *config, const struct ob_options *options,
                                       struct outbox_error *err)
{
    enum outbox_code code = read_from(config, options, err);
    if (!code)
        code = keep_address(config, options, "envelope_from", &config->envelope_from, err);
    if (!code)
        code = keep_address(config, options, "to", &config->to, err);
    if (!code)
        code = keep_address(config, options, "reply_to", &config->reply_to, err);
    if (!code)
        code = keep(config, options, "domain", &config->domain, err);
    if (code)
        return code;
    if (!config->envelope_from)
        config->envelope_from = config->from;
    if (!config->domain && strchr(config->from, '[')) /* of an address literal */
        return ob_error_set(err, OUTBOX_INVALID, "set domain: %s has no domain usable in Message-ID", config->from);
    if (!config->domain)
        config->domain = strchr(config->from, '@') + 1;
    if (!ob_mime_domain_ok(config->domain))
        return ob_error_set(err, OUTBOX_INVALID, "domain: %s is not a domain name", config->domain);
    return OUTBOX_OK;
}

static enum outbox_code read_template(const struct ob_options *options, const char *name, enum ob_escape escape,
                                      ob_template **tpl, struct outbox_error *err)
{
    const char *text = ob_option_text(options, name);
    struct outbox_error why;
    if (!text || !*text)
        return OUTBOX_OK;
    enum outbox_code code = ob_template_new(text, escape, tpl, &why);
    return code ? ob_error_set(err, code, "%s: %s", name, why.text) : OUTBOX_OK;
}

/* Fields that the sink writes itself, that would forge a sender or a path, or that would break the structure of a mail. */
static bool field_reserved(const char *name)
{
    static const char *const names[] = {"from",        "sender",   "to",   "cc",         "bcc",
                                        "reply-to",    "subject",  "date", "message-id", "mime-version",
                                        "return-path", "received", NULL};
    if (strncasecmp(name, "content-", 8) == 0 || strncasecmp(name, "x-outbox-", 9) == 0 ||
        strncasecmp(name, "resent-", 7) == 0)
        return true;
    for (int i = 0; names[i]; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static enum outbox_code check_name(const char *setting, const char *name, struct outbox_error *err)
{
    if (!ob_header_name_ok(name) || field_reserved(name) || strlen(name) > 64)
        return ob_error_set(err, OUTBOX_INVALID, "%s: %s is not a header field that can be set here", setting, name);
    return OUTBOX_OK;
}

static enum outbox_code read_fields(struct ob_smtp_config *config, const struct ob_options *options,
                                    struct outbox_error *err)
{
    const char *name, *value;
    enum outbox_code code = OUTBOX_OK;
    config->fixed = ob_arena_calloc(&config->arena, options->count + 1, sizeof *config->fixed);
    config->pass = ob_arena_calloc(&config->arena, options->count + 1, sizeof *config->pass);
    if (!config->fixed || !config->pass)
        return ob_error_nomem(err);
    for (size_t i = 0; !code && (value = ob_option_below(options, "headers", &i, &name));) {
        struct ob_smtp_field *field = &config->fixed[config->fixed_count++];
        code = check_name("headers", name, err);
        if (!code && !ob_header_value_ok(value, strlen(value)))
            code = ob_error_set(err, OUTBOX_INVALID, "headers.%s has control characters", name);
        field->name = ob_arena_strdup(&config->arena, name);
        field->value = ob_arena_strdup(&config->arena, value);
        if (!code && (!field->name || !field->value))
            code = ob_error_nomem(err);
    }
    for (size_t i = 0; !code && (name = ob_option_next(options, "pass_headers", &i));) {
        code = check_name("pass_headers", name, err);
        if (!code && !(config->pass[config->pass_count++] = ob_arena_strdup(&config->arena, name)))
            code = ob_error_nomem(err);
    }
    return code;
}

static enum outbox_code read_attachments(struct ob_smtp_config *config, const struct ob_options *options,
                                         struct outbox_error *err)
{
    enum outbox_code code = keep(config, options, "attachments_dir", &config->attachments_dir, err);
    config->attachments_most = (size_t)ob_option_int(options, "attachments_max");
    if (code || !config->attachments_dir)
        return code;
    int fd = open(config->attachments_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ob_error_set(err, OUTBOX_INVALID, "attachments_dir: cannot read the directory %s",
                            config->attachments_dir);
    close(fd);
    return OUTBOX_OK;
}

enum outbox_code ob_smtp_config_init(struct ob_smtp_config *config, const struct outbox_sink_option *given,
                                     size_t count, struct outbox_error *err)
{
    struct ob_options options = {given, count, ob_smtp_settings};
    memset(config, 0, sizeof *config);
    ob_arena_init(&config->arena, 1024);
    config->connections = (int)ob_option_int(&options, "connections");
    config->per_connection = ob_option_int(&options, "messages_per_connection");
    config->idle_us = ob_option_int(&options, "idle");
    config->connect_us = ob_option_int(&options, "connect_timeout");
    config->response_us = ob_option_int(&options, "response_timeout");
    config->greylist_us = ob_option_int(&options, "greylist_wait");
    enum outbox_code code = read_server(config, &options, err);
    if (!code)
        code = ob_tls_read(&config->tls, &options, &config->arena, err);
    if (!code)
        code = read_login(config, &options, err);
    if (!code)
        code = read_addresses(config, &options, err);
    if (!code)
        code = read_template(&options, "subject", OB_ESCAPE_NONE, &config->subject, err);
    if (!code)
        code = read_template(&options, "text", OB_ESCAPE_NONE, &config->text, err);
    if (!code)
        code = read_template(&options, "html", OB_ESCAPE_HTML, &config->html, err);
    if (!code)
        code = read_fields(config, &options, err);
    if (!code)
        code = read_attachments(config, &options, err);
    return code;
}

void ob_smtp_config_fini(struct ob_smtp_config *config)
{
    ob_template_free(config->subject);
    ob_template_free(config->text);
    ob_template_free(config->html);
    ob_arena_fini(&config->arena);
}
