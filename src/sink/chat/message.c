/* message.c - see chat.h: how a message becomes the document that is posted.
 *
 * A payload is untrusted: text and fields are taken from it, but never the URL or the recipient, which is written last. */
#include "sink/chat/chat.h"

#include "base/error.h"
#include "base/utf8.h"
#include "base/uuid.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static enum outbox_code wrong(struct ob_chat_call *call, const char *word, struct outbox_error *err, const char *text)
{
    snprintf(call->code, sizeof call->code, "%s_%s", call->sink->provider->kind, word);
    return ob_error_set(err, OUTBOX_INVALID, "%s", text);
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

static bool is_prose(const struct outbox_delivery *msg)
{
    return msg->content_type && strncasecmp(msg->content_type, "text/", 5) == 0;
}

static enum outbox_code fill(struct ob_chat_call *call, const ob_template *tpl, const struct outbox_delivery *msg,
                             const json_t *payload, struct ob_buf *out, struct outbox_error *err)
{
    enum outbox_code code = ob_template_render(tpl, msg, payload, out, err);
    if (code == OUTBOX_INVALID)
        snprintf(call->code, sizeof call->code, "%s_template", call->sink->provider->kind);
    return code;
}

static enum outbox_code body_of_template(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                         const json_t *payload, struct outbox_error *err)
{
    struct ob_buf text = OB_BUF_INIT;
    enum outbox_code code = fill(call, call->sink->json, msg, payload, &text, err);
    if (!code) {
        call->body = json_loadb(ob_buf_text(&text), text.len, 0, NULL);
        if (!json_is_object(call->body))
            code = wrong(call, "template", err, "json_template does not produce a JSON object for this message");
    }
    ob_buf_fini(&text);
    return code;
}

/* The text of the payload: itself, when it is prose or a JSON string, or its field `text`. NULL when there is none. */
static const char *text_of(const struct outbox_delivery *msg, const json_t *payload, struct ob_buf *buf)
{
    if (is_prose(msg)) {
        ob_buf_put(buf, msg->payload, msg->payload_len);
        return ob_buf_text(buf);
    }
    return json_string_value(json_is_object(payload) ? json_object_get(payload, "text") : payload);
}

static enum outbox_code body_of_text(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                     const json_t *payload, struct outbox_error *err)
{
    const struct ob_chat_provider *provider = call->sink->provider;
    struct ob_buf buf = OB_BUF_INIT;
    const char *text = NULL;
    enum outbox_code code = OUTBOX_OK;
    json_t *more = json_object_get(payload, provider->kind);
    call->body = json_object();
    if (!call->body || (json_is_object(more) && json_object_update(call->body, more) != 0))
        code = ob_error_nomem(err);
    if (!code && call->sink->text) {
        code = fill(call, call->sink->text, msg, payload, &buf, err);
        text = ob_buf_text(&buf);
    } else if (!code) {
        text = text_of(msg, payload, &buf);
        if (!ob_buf_ok(&buf))
            code = ob_error_nomem(err);
    }
    if (!code && text && !*text)
        text = NULL;
    if (!code && text && !ob_utf8_valid(text, strlen(text)))
        code = wrong(call, "payload", err, "the text is not UTF-8");
    if (!code && is_prose(msg) && !call->sink->text && memchr(msg->payload, 0, msg->payload_len))
        code = wrong(call, "payload", err, "the text contains a NUL character");
    if (!code && !provider->wrap(call->sink, call->body, text))
        code = ob_error_nomem(err);
    ob_buf_fini(&buf);
    return code;
}

static enum outbox_code make_body(struct ob_chat_call *call, const struct outbox_delivery *msg, json_t *payload,
                                  struct outbox_error *err)
{
    if (!payload && !is_prose(msg))
        return wrong(call, "payload", err, "the payload is neither JSON nor of content type text/...");
    if (call->sink->json)
        return body_of_template(call, msg, payload, err);
    if (!call->sink->raw)
        return body_of_text(call, msg, payload, err);
    if (!json_is_object(payload))
        return wrong(call, "payload", err, "with raw the payload must be a JSON object");
    call->body = json_incref(payload);
    return OUTBOX_OK;
}

static enum outbox_code make_mark(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                  struct outbox_error *err)
{
    const struct ob_chat_provider *provider = call->sink->provider;
    char id[OB_UUID_TEXT];
    outbox_uuid_format(&msg->id, id);
    return !provider->mark || provider->mark(call->sink, call->body, id) ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- whom it goes to --------------------------------------------------------------------------------------------- */

static enum outbox_code make_address(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                     struct outbox_error *err)
{
    const outbox_sink *sink = call->sink;
    call->own_to = msg->recipient && *msg->recipient && !sink->placed;
    const char *given = call->own_to ? msg->recipient : sink->to;
    call->to[0] = '\0';
    if (sink->placed)
        return OUTBOX_OK;
    if (!given)
        return wrong(call, "recipient", err, "the message has no recipient, and the sink has no default");
    if (!sink->provider->admit(sink, given, call->to))
        return wrong(call, "recipient", err, "the recipient is not valid for this service");
    return sink->provider->address(sink, call->body, call->to) ? OUTBOX_OK : ob_error_nomem(err);
}

enum outbox_code ob_chat_compose(struct ob_chat_call *call, const struct outbox_delivery *msg, struct outbox_error *err)
{
    json_t *payload = is_prose(msg) ? NULL : json_loadb(msg->payload, msg->payload_len, JSON_DECODE_ANY, NULL);
    const char *text = NULL, *word;
    enum outbox_code code = make_body(call, msg, payload, err);
    if (!code)
        code = make_mark(call, msg, err);
    if (!code)
        code = make_address(call, msg, err);
    if (!code && (word = call->sink->provider->check(call->sink, call->body, &text)))
        code = wrong(call, word, err, text);
    json_decref(payload);
    return code;
}
