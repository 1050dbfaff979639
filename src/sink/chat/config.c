/* config.c - see chat.h: the settings that all chat services have. Thread: the loop's, at open. */
#include "sink/chat/chat.h"

#include "base/error.h"
#include "sink/curl/http_url.h"

#include "base/alloc.h"

#include <string.h>

const char *ob_chat_join_to_null(outbox_sink *sink, ...)
{
    struct ob_buf buf = OB_BUF_INIT;
    va_list texts;
    va_start(texts, sink);
    for (const char *text; (text = va_arg(texts, const char *));)
        ob_buf_puts(&buf, text);
    va_end(texts);
    const char *joined = ob_buf_ok(&buf) ? ob_arena_strdup(&sink->arena, ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    return joined;
}

enum outbox_code ob_chat_keep(outbox_sink *sink, const struct ob_options *options, const char *name, bool required,
                              const char **text, struct outbox_error *err)
{
    const char *given = ob_option_text(options, name);
    *text = NULL;
    if (given && *given)
        return (*text = ob_arena_strdup(&sink->arena, given)) ? OUTBOX_OK : ob_error_nomem(err);
    return required ? ob_error_set(err, OUTBOX_INVALID, "%s is missing", name) : OUTBOX_OK;
}

enum outbox_code ob_chat_keep_base(outbox_sink *sink, const struct ob_options *options, const char *name,
                                   const char **base, struct outbox_error *err)
{
    const char *given = NULL;
    char *normal = NULL;
    enum outbox_code code = ob_chat_keep(sink, options, name, true, &given, err);
    if (!code)
        code = ob_http_url_parse(given, &normal, err);
    if (code)
        return code;
    size_t len = strlen(normal);
    while (len && normal[len - 1] == '/')
        normal[--len] = '\0';
    if (strncmp(normal, "http:", 5) == 0)
        sink->host->log(sink->host->ctx, OUTBOX_LOG_WARN, "the URL is http: credentials are sent unencrypted");
    *base = ob_arena_strdup(&sink->arena, normal);
    ob_free(normal);
    return *base ? OUTBOX_OK : ob_error_nomem(err);
}

static bool visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static enum outbox_code header_add(outbox_sink *sink, const char *line, struct outbox_error *err)
{
    struct curl_slist *longer = line ? curl_slist_append(sink->headers, line) : NULL;
    if (!longer)
        return ob_error_nomem(err);
    sink->headers = longer;
    return OUTBOX_OK;
}

enum outbox_code ob_chat_keep_token(outbox_sink *sink, const struct ob_options *options, bool bearer,
                                    const char **token, struct outbox_error *err)
{
    enum outbox_code code = ob_chat_keep(sink, options, "token", true, token, err);
    if (!*token)
        return code;
    if (!visible(*token))
        return ob_error_set(err, OUTBOX_INVALID, "token has invalid characters");
    sink->secrets[0] = *token;
    return bearer ? header_add(sink, ob_chat_join(sink, "Authorization: Bearer ", *token), err) : OUTBOX_OK;
}

enum outbox_code ob_chat_keep_templates(outbox_sink *sink, const struct ob_options *options, enum ob_escape escape,
                                        struct outbox_error *err)
{
    const char *text = ob_option_text(options, "template"), *json = ob_option_text(options, "json_template");
    enum outbox_code code = OUTBOX_OK;
    sink->raw = ob_option_bool(options, "raw");
    if ((text && *text) + (json && *json) + sink->raw > 1)
        return ob_error_set(err, OUTBOX_INVALID, "template, json_template and raw exclude each other");
    if (text && *text)
        code = ob_template_new(text, escape, &sink->text, err);
    if (!code && json && *json)
        code = ob_template_new(json, OB_ESCAPE_JSON, &sink->json, err);
    return code;
}

/* What may go at once counts for the second too. It is small, and more than one only to make up for the milliseconds that
 * a timer is late. */
void ob_chat_overall(outbox_sink *sink, int64_t most)
{
    int64_t burst = most >= 40 ? most / 20 : 1;
    ob_rate_init(&sink->overall, most > 0 ? most - burst + 1 : 0, 1000000, burst);
}

size_t ob_chat_characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

bool ob_chat_digits(const char *text, size_t least, size_t most)
{
    size_t len = strspn(text, "0123456789");
    return !text[len] && len >= least && len <= most;
}

enum outbox_code ob_chat_config_read(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    enum outbox_code code = ob_curl_options_read(&sink->curl, options, &sink->arena, err);
    sink->curl.limits.answer_most = ob_curl_answer_most(OB_CHAT_ANSWER_MOST);
    sink->hold_us = ob_option_int(options, "hold");
    if (!code)
        code = ob_tls_read(&sink->tls, options, &sink->arena, err);
    if (!code)
        code = header_add(sink, "Content-Type: application/json; charset=utf-8", err);
    if (!code)
        code = header_add(sink, "Expect:", err);
    return code;
}

void ob_chat_config_fini(outbox_sink *sink)
{
    ob_template_free(sink->text);
    ob_template_free(sink->json);
    curl_slist_free_all(sink->headers);
    ob_net_guard_fini(&sink->curl.guard);
    ob_arena_fini(&sink->arena);
}
