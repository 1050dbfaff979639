/* mail.c - see mail.h.
 *
 * multipart/mixed when there are attachments, within it multipart/alternative when there is text and HTML. Boundaries
 * begin with "=_", which neither quoted-printable nor base64 can contain. */
#include "sink/smtp/mail.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "sink/common/header.h"
#include "sink/smtp/attach.h"
#include "sink/smtp/mime.h"

#include <string.h>
#include <strings.h>

enum { ATTACHMENTS_MOST = 100 };

static const char NOT_JSON[] =
    "the payload is not JSON: send an object with subject, and text or html, or the fields that "
    "the sink's templates name; a plain text needs the content type text/plain";

/* What a mail says, before it is written. */
struct parts {
    struct ob_buf subject, text, html;
    bool has_subject, has_text, has_html;
    const char *reply_to;
};

void ob_smtp_mail_init(struct ob_smtp_mail *mail)
{
    memset(mail, 0, sizeof *mail);
    ob_arena_init(&mail->arena, 512);
    ob_buf_init(&mail->data);
}

void ob_smtp_mail_fini(struct ob_smtp_mail *mail)
{
    ob_buf_fini(&mail->data);
    ob_arena_fini(&mail->arena);
}

static enum outbox_code wrong(struct ob_smtp_mail *mail, const char *code)
{
    mail->code = code;
    return OUTBOX_INVALID;
}

/* ---- what it says ------------------------------------------------------------------------------------------------ */

static enum outbox_code take_text(struct ob_smtp_mail *mail, const json_t *payload, const char *name, const char **text,
                                  size_t *len, struct outbox_error *err)
{
    const json_t *value = json_object_get(payload, name);
    *text = NULL;
    *len = 0;
    if (!value || json_is_null(value))
        return OUTBOX_OK;
    if (!json_is_string(value)) {
        ob_error_set(err, OUTBOX_INVALID, "%s of the payload is not text", name);
        return wrong(mail, "smtp_payload_invalid");
    }
    *text = json_string_value(value);
    *len = json_string_length(value);
    return OUTBOX_OK;
}

/* Such a payload is the text of the mail itself. */
static bool is_plain_text(const struct outbox_delivery *msg)
{
    return msg->content_type && strncasecmp(msg->content_type, "text/plain", 10) == 0 &&
           ob_utf8_valid(msg->payload, msg->payload_len);
}

/* From the template where there is one, otherwise from the payload's field. */
static enum outbox_code take_part(struct ob_smtp_mail *mail, const ob_template *tpl, const struct outbox_delivery *msg,
                                  const json_t *payload, const char *name, struct ob_buf *buf, bool *has,
                                  struct outbox_error *err)
{
    const char *text;
    size_t len;
    if (tpl) {
        *has = true;
        enum outbox_code code = ob_template_render(tpl, msg, payload, buf, err);
        if (code != OUTBOX_INVALID)
            return code;
        if (!payload && !is_plain_text(msg))
            ob_error_set(err, OUTBOX_INVALID, "%s", NOT_JSON);
        return wrong(mail, "smtp_template_field");
    }
    enum outbox_code code = take_text(mail, payload, name, &text, &len, err);
    if (code || !text)
        return code;
    *has = true;
    ob_buf_put(buf, text, len);
    return ob_buf_ok(buf) ? OUTBOX_OK : ob_error_nomem(err);
}

static enum outbox_code take_attachment(struct ob_smtp_mail *mail, const json_t *value, struct outbox_error *err)
{
    struct ob_smtp_attachment *file = &mail->attachments[mail->attachment_count++];
    const char *path = json_string_value(json_object_get(value, "path"));
    const char *name = json_string_value(json_object_get(value, "name"));
    const char *type = json_string_value(json_object_get(value, "type")), *slash = type ? strchr(type, '/') : NULL;
    if (!path || !ob_attach_name_ok(path)) {
        ob_error_set(err, OUTBOX_INVALID, "an attachment must be a path below attachments_dir, without ..");
        return wrong(mail, "smtp_attachment_refused");
    }
    if (!name)
        name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!ob_header_value_ok(name, strlen(name)) || strlen(name) > 255 ||
        (type && (!slash || strlen(type) > 127 ||
                  strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789!#$&^_.+-/") != strlen(type)))) {
        ob_error_set(err, OUTBOX_INVALID, "an attachment has an invalid name or type");
        return wrong(mail, "smtp_attachment_refused");
    }
    file->path = ob_arena_strdup(&mail->arena, path);
    file->name = ob_arena_strdup(&mail->arena, name);
    file->type = ob_arena_strdup(&mail->arena, type ? type : "application/octet-stream");
    return file->path && file->name && file->type ? OUTBOX_OK : ob_error_nomem(err);
}

static enum outbox_code take_attachments(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                         const json_t *payload, struct outbox_error *err)
{
    const json_t *list = json_object_get(payload, "attachments");
    size_t count = json_array_size(list);
    enum outbox_code code = OUTBOX_OK;
    if (!list || json_is_null(list) || (json_is_array(list) && !count))
        return OUTBOX_OK;
    if (!config->attachments_dir || !json_is_array(list) || count > ATTACHMENTS_MOST) {
        ob_error_set(err, OUTBOX_INVALID,
                     config->attachments_dir ? "attachments must be a list of at most 100"
                                             : "attachments require attachments_dir in the sink's configuration");
        return wrong(mail, "smtp_attachment_refused");
    }
    mail->attachments = ob_arena_calloc(&mail->arena, count, sizeof *mail->attachments);
    if (!mail->attachments)
        return ob_error_nomem(err);
    for (size_t i = 0; !code && i < count; i++)
        code = take_attachment(mail, json_array_get(list, i), err);
    return code;
}

static void take_plain(const struct outbox_delivery *msg, struct parts *parts)
{
    if (parts->has_text || parts->has_html || !is_plain_text(msg))
        return;
    parts->has_text = true;
    ob_buf_put(&parts->text, msg->payload, msg->payload_len);
}

static enum outbox_code lacks(struct ob_smtp_mail *mail, const struct outbox_delivery *msg, const json_t *payload,
                              struct outbox_error *err)
{
    ob_error_set(err, OUTBOX_INVALID, "%s",
                 is_plain_text(msg) ? "a plain-text payload has no subject: set the sink's template `subject`"
                 : payload          ? "a mail needs a subject, and text or html: in the payload, or as templates"
                                    : NOT_JSON);
    return wrong(mail, "smtp_payload_invalid");
}

static enum outbox_code take_parts(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                   const struct outbox_delivery *msg, const json_t *payload, struct parts *parts,
                                   struct outbox_error *err)
{
    size_t unused;
    enum outbox_code code =
        take_part(mail, config->subject, msg, payload, "subject", &parts->subject, &parts->has_subject, err);
    if (!code)
        code = take_part(mail, config->text, msg, payload, "text", &parts->text, &parts->has_text, err);
    if (!code)
        code = take_part(mail, config->html, msg, payload, "html", &parts->html, &parts->has_html, err);
    if (!code)
        code = take_text(mail, payload, "reply_to", &parts->reply_to, &unused, err);
    if (!code)
        code = take_attachments(mail, config, payload, err);
    if (code)
        return code;
    take_plain(msg, parts);
    if (parts->has_subject && (parts->has_text || parts->has_html))
        return OUTBOX_OK;
    return lacks(mail, msg, payload, err);
}

/* ---- the header fields ------------------------------------------------------------------------------------------- */

/* The message's own headers that the configuration lets through. */
static enum outbox_code put_passed(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                   const struct outbox_delivery *msg, struct outbox_error *err)
{
    struct ob_headers headers;
    enum outbox_code code = OUTBOX_OK;
    if (!config->pass_count)
        return OUTBOX_OK;
    ob_headers_init(&headers);
    ob_headers_add_message(&headers, msg, false);
    if (headers.code) {
        ob_error_set(err, OUTBOX_INVALID, "%s", headers.problem);
        code = wrong(mail, "smtp_header_invalid");
    }
    for (size_t i = 0; !code && i < config->pass_count; i++) {
        const char *value = ob_headers_get(&headers, config->pass[i]);
        if (value && !ob_mime_field(&mail->data, config->pass[i], value))
            code = wrong(mail, "smtp_header_invalid");
    }
    ob_headers_fini(&headers);
    return code;
}

static enum outbox_code put_head(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                 const struct outbox_delivery *msg, const struct parts *parts, struct outbox_error *err)
{
    struct ob_buf *buf = &mail->data;
    const char *reply_to = parts->reply_to ? parts->reply_to : config->reply_to;
    const char *subject = ob_buf_text(&parts->subject);
    bool ok = strlen(subject) == parts->subject.len && ob_mime_mailbox(buf, "From", config->from_name, config->from) &&
              ob_mime_mailbox(buf, "To", NULL, mail->recipient) && ob_mime_field(buf, "Subject", subject);
    if (reply_to && !ob_mime_address_ok(reply_to))
        ok = false;
    else if (reply_to)
        ok = ob_mime_mailbox(buf, "Reply-To", NULL, reply_to) && ok;
    ob_mime_date(buf, (msg->created_at_us ? msg->created_at_us : ob_clock_wall_us()) / 1000000);
    ob_buf_printf(buf, "Message-ID: <%s@%s>\r\n", mail->id, config->domain);
    ob_buf_printf(buf, "X-Outbox-Id: %s\r\n", mail->id);
    ok = ob_mime_field(buf, "X-Outbox-Topic", msg->topic ? msg->topic : "") && ok;
    if (msg->correlation_id)
        ok = ob_mime_field(buf, "X-Outbox-Correlation-Id", msg->correlation_id) && ok;
    for (size_t i = 0; i < config->fixed_count; i++)
        ok = ob_mime_field(buf, config->fixed[i].name, config->fixed[i].value) && ok;
    if (!ok) {
        ob_error_set(err, OUTBOX_INVALID,
                     "the subject, reply_to or another header field is invalid or has line "
                     "breaks");
        return wrong(mail, "smtp_header_invalid");
    }
    enum outbox_code code = put_passed(mail, config, msg, err);
    ob_buf_puts(buf, "MIME-Version: 1.0\r\n");
    return code;
}

/* ---- the bodies -------------------------------------------------------------------------------------------------- */

static void put_boundary(struct ob_smtp_mail *mail, int number, const char *end)
{
    ob_buf_printf(&mail->data, "--=_%d_%s%s\r\n", number, mail->id, end);
}

static void put_multipart(struct ob_smtp_mail *mail, const char *kind, int number)
{
    ob_buf_printf(&mail->data, "Content-Type: multipart/%s;\r\n boundary=\"=_%d_%s\"\r\n\r\n", kind, number, mail->id);
}

static void put_text(struct ob_smtp_mail *mail, const char *kind, const struct ob_buf *text)
{
    ob_buf_printf(&mail->data,
                  "Content-Type: text/%s; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", kind);
    ob_mime_quoted_printable(&mail->data, ob_buf_text(text), text->len);
}

static void put_bodies(struct ob_smtp_mail *mail, const struct parts *parts)
{
    if (mail->attachment_count) {
        put_multipart(mail, "mixed", 1);
        put_boundary(mail, 1, "");
    }
    if (parts->has_text && parts->has_html) {
        put_multipart(mail, "alternative", 2);
        put_boundary(mail, 2, "");
        put_text(mail, "plain", &parts->text);
        put_boundary(mail, 2, "");
        put_text(mail, "html", &parts->html);
        put_boundary(mail, 2, "--");
    } else if (parts->has_html) {
        put_text(mail, "html", &parts->html);
    } else {
        put_text(mail, "plain", &parts->text);
    }
}

enum outbox_code ob_smtp_mail_build(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                    const struct outbox_delivery *msg, struct outbox_error *err)
{
    const char *recipient = msg->recipient && *msg->recipient ? msg->recipient : config->to;
    struct parts parts = {.subject = OB_BUF_INIT, .text = OB_BUF_INIT, .html = OB_BUF_INIT};
    json_t *payload = json_loadb(msg->payload, msg->payload_len, JSON_DECODE_ANY, NULL);
    enum outbox_code code;
    outbox_uuid_format(&msg->id, mail->id);
    if (!recipient || !ob_mime_address_ok(recipient)) {
        ob_error_set(err, OUTBOX_INVALID,
                     recipient ? "the recipient is not an email address (one, in ASCII, without a name)"
                               : "the message has no recipient, and the sink has no `to`");
        code = wrong(mail, recipient ? "smtp_recipient_invalid" : "smtp_recipient_missing");
        goto done;
    }
    mail->recipient = ob_arena_strdup(&mail->arena, recipient);
    code = mail->recipient ? take_parts(mail, config, msg, payload, &parts, err) : ob_error_nomem(err);
    if (!code)
        code = put_head(mail, config, msg, &parts, err);
    if (code)
        goto done;
    put_bodies(mail, &parts);
    if (!ob_buf_ok(&mail->data) || !ob_buf_ok(&parts.subject) || !ob_buf_ok(&parts.text) || !ob_buf_ok(&parts.html))
        code = ob_error_nomem(err);
done:
    json_decref(payload);
    ob_buf_fini(&parts.subject);
    ob_buf_fini(&parts.text);
    ob_buf_fini(&parts.html);
    return code;
}

enum outbox_code ob_smtp_mail_attach(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                     struct outbox_error *err)
{
    struct ob_buf content = OB_BUF_INIT, *buf = &mail->data;
    size_t left = config->attachments_most;
    enum outbox_code code = OUTBOX_OK;
    if (!mail->attachment_count)
        return OUTBOX_OK;
    for (size_t i = 0; !code && i < mail->attachment_count; i++) {
        const struct ob_smtp_attachment *file = &mail->attachments[i];
        ob_buf_reset(&content);
        code = ob_attach_read(config->attachments_dir, file->path, left, &content, &mail->code, err);
        if (code)
            break;
        left -= content.len;
        put_boundary(mail, 1, "");
        ob_buf_printf(buf, "Content-Type: %s\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment",
                      file->type);
        if (!ob_mime_parameter(buf, "filename", file->name))
            code = wrong(mail, "smtp_attachment_refused");
        ob_buf_puts(buf, "\r\n\r\n");
        ob_mime_base64(buf, content.data, content.len);
    }
    put_boundary(mail, 1, "--");
    if (!code && !ob_buf_ok(buf))
        code = ob_error_nomem(err);
    ob_buf_fini(&content);
    return code;
}
