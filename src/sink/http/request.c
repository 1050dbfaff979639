/* request.c - see request.h.
 *
 * libcurl takes header lines as a list of texts and copies nothing: so the list is laid out here, over one buffer, with
 * the lines of the configuration as its tail. */
#include "sink/http/request.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/uuid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Headers of a message that are not sent: those of this hop only, and those that claim an identity. */
static bool withheld(const struct ob_http_config *config, const char *name)
{
    static const char *const names[] = {"accept-encoding",     "cookie", "host", "keep-alive", "proxy-connection",
                                        "proxy-authorization", NULL};
    if (ob_http_name_reserved(name) || (config->url_header && strcasecmp(config->url_header, name) == 0))
        return true;
    for (int i = 0; names[i]; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    size_t len = strlen(name);
    for (const struct curl_slist *line = config->fixed; line; line = line->next)
        if (strncasecmp(line->data, name, len) == 0 && line->data[len] == ':')
            return true;
    return false;
}

/* Lines end with their NUL. */
static void put_line(struct ob_buf *lines, const char *name, const char *value)
{
    ob_buf_puts(lines, name);
    /* For libcurl a name with nothing behind the colon is one to leave out; with a semicolon it is an empty one. */
    ob_buf_put(lines, *value ? ": " : ";", *value ? 2 : 1);
    ob_buf_put(lines, value, strlen(value) + 1);
}

/* A string of structured fields (RFC 8941); the quotes belong to it. False when the text does not fit into one. */
static bool put_quoted(struct ob_buf *buf, const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at < 0x20 || *at > 0x7e)
            return false;
    ob_buf_putc(buf, '"');
    while (*text) {
        size_t plain = strcspn(text, "\"\\");
        ob_buf_put(buf, text, plain);
        text += plain;
        if (*text) {
            ob_buf_putc(buf, '\\');
            ob_buf_putc(buf, *text++);
        }
    }
    ob_buf_putc(buf, '"');
    return true;
}

static void put_key(struct ob_http_request *request, const struct ob_http_config *config,
                    const struct outbox_delivery *msg, const char *id)
{
    request->keyed = config->idempotency != OB_HTTP_KEY_NONE;
    if (!request->keyed)
        return;
    ob_buf_puts(&request->lines, "Idempotency-Key: ");
    if (config->idempotency != OB_HTTP_KEY_DEDUPE || !msg->dedupe_key || !put_quoted(&request->lines, msg->dedupe_key))
        put_quoted(&request->lines, id);
    ob_buf_putc(&request->lines, '\0');
}

static bool put_signature(struct ob_http_request *request, const struct ob_http_config *config, const char *id,
                          int64_t now_s)
{
    char timestamp[24];
    snprintf(timestamp, sizeof timestamp, "%" PRId64, now_s);
    put_line(&request->lines, "webhook-id", id);
    put_line(&request->lines, "webhook-timestamp", timestamp);
    for (size_t i = 0; i < config->key_count; i++) {
        ob_buf_puts(&request->lines, i ? " " : "webhook-signature: ");
        if (!ob_webhook_sign(config->keys[i], id, timestamp, request->body, request->body_len, &request->lines))
            return false;
    }
    if (config->key_count)
        ob_buf_putc(&request->lines, '\0');
    return true;
}

static void put_headers(struct ob_http_request *request, const struct ob_http_config *config,
                        const struct outbox_delivery *msg)
{
    put_line(&request->lines, "Content-Type", ob_render_content_type(&config->render, msg));
    for (size_t i = 0; i < request->headers.count; i++) {
        const struct ob_header *header = &request->headers.at[i];
        /* The message's own cannot begin so. */
        bool ours = strncmp(header->name, "outbox-", 7) == 0;
        if (ours || !withheld(config, header->name))
            put_line(&request->lines, header->name, header->value);
    }
}

/* The list over the lines, which must not move any more. */
static bool link_lines(struct ob_http_request *request, struct curl_slist *tail)
{
    size_t count = 0;
    char *end = request->lines.data + request->lines.len;
    for (char *line = request->lines.data; line < end; line += strlen(line) + 1)
        count++;
    if (count > request->node_room) {
        size_t size = request->node_room * sizeof *request->nodes;
        struct curl_slist *grown = ob_realloc(request->nodes, size, count * sizeof *grown);
        if (!grown)
            return false;
        request->nodes = grown;
        request->node_room = count;
    }
    char *line = request->lines.data;
    for (size_t i = 0; i < count; i++, line += strlen(line) + 1)
        request->nodes[i] = (struct curl_slist){line, i + 1 < count ? &request->nodes[i + 1] : tail};
    request->head = count ? request->nodes : tail;
    return true;
}

static enum outbox_code find_url(struct ob_http_request *request, const struct ob_http_config *config,
                                 struct outbox_error *err)
{
    const char *text = config->url_header ? ob_headers_get(&request->headers, config->url_header) : NULL;
    if (text)
        return ob_http_url_admit(&config->places, text, &request->url, err);
    if (!config->url)
        return ob_error_set(err, OUTBOX_INVALID, "the message has no header %s with its URL", config->url_header);
    return OUTBOX_OK;
}

enum outbox_code ob_http_request_build(struct ob_http_request *request, const struct ob_http_config *config,
                                       const struct outbox_delivery *msg, int64_t now_s, struct outbox_error *err)
{
    struct outbox_verdict verdict;
    char id[OB_UUID_TEXT];
    ob_free(request->url);
    request->url = NULL;
    ob_buf_reset(&request->lines);
    ob_headers_reset(&request->headers);
    ob_render_headers(&config->render, &ob_wire_http, msg, &request->headers);
    request->problem = request->headers.code;
    if (request->headers.code) {
        ob_headers_verdict(&request->headers, &verdict);
        return ob_error_set(err, verdict.outcome == OUTBOX_SINK_TERMINAL ? OUTBOX_INVALID : OUTBOX_NOMEM, "%s",
                            request->headers.problem);
    }
    enum outbox_code code = find_url(request, config, err);
    if (code) {
        request->problem = "http_url_refused";
        return code;
    }
    if (!ob_render_body(&config->render, msg, &request->text, &request->body, &request->body_len))
        return ob_error_nomem(err);
    outbox_uuid_format(&msg->id, id);
    put_key(request, config, msg, id);
    if (!put_signature(request, config, id, now_s))
        return ob_error_nomem(err);
    put_headers(request, config, msg);
    if (!ob_buf_ok(&request->lines) || !link_lines(request, config->fixed))
        return ob_error_nomem(err);
    return OUTBOX_OK;
}

void ob_http_request_init(struct ob_http_request *request)
{
    memset(request, 0, sizeof *request);
    ob_headers_init(&request->headers);
}

void ob_http_request_fini(struct ob_http_request *request)
{
    ob_free(request->url);
    ob_free(request->nodes);
    ob_buf_fini(&request->lines);
    ob_buf_fini(&request->text);
    ob_headers_fini(&request->headers);
}
