/* template.c - see template.h.
 *
 * A template is a list of parts: a literal text, then perhaps a placeholder. Thread: any, it is only read. */
#include "sink/common/template.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/uuid.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_MOST = 256 };

struct part {
    const char *literal;
    size_t literal_len;
    const char *path;     /* NULL: the literal is the end */
    const char *fallback; /* NULL: the field must be there */
    bool quoted;          /* of JSON: the placeholder stands between quotes */
};

struct ob_template {
    struct ob_arena arena;
    enum ob_escape escape;
    struct part *parts;
    size_t count;
};

/* ---- fields of the message -------------------------------------------------------------------------------------- */

/* False if there is no such field. *text is NULL if the message has no value for it; the UUID is written to id. */
static bool message_field(const struct outbox_delivery *msg, const char *name, char id[OB_UUID_TEXT], const char **text)
{
    static const struct outbox_delivery none;
    if (!msg)
        msg = &none;
    if (strcmp(name, "id") == 0) {
        outbox_uuid_format(&msg->id, id);
        *text = id;
        return true;
    }
    const struct {
        const char *name, *value;
    } fields[] = {
        {"namespace", msg->name_space},          {"topic", msg->topic},     {"key", msg->key},
        {"recipient", msg->recipient},           {"subject", msg->subject}, {"tenant", msg->tenant_id},
        {"correlation_id", msg->correlation_id},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].name, name) == 0) {
            *text = fields[i].value;
            return true;
        }
    return false;
}

/* ---- making one ------------------------------------------------------------------------------------------------- */

static char *trimmed(struct ob_arena *arena, const char *from, const char *end)
{
    while (from < end && strchr(" \t\r\n", *from))
        from++;
    while (end > from && strchr(" \t\r\n", end[-1]))
        end--;
    return ob_arena_memdup(arena, from, (size_t)(end - from));
}

static enum outbox_code part_read(ob_template *tpl, struct part *part, const char *from, const char *end,
                                  struct outbox_error *err)
{
    const char *bar = memchr(from, '|', (size_t)(end - from)), *unused;
    char id[OB_UUID_TEXT];
    part->path = trimmed(&tpl->arena, from, bar ? bar : end);
    if (part->path && bar)
        part->fallback = ob_arena_memdup(&tpl->arena, bar + 1, (size_t)(end - bar - 1));
    if (!part->path || (bar && !part->fallback))
        return ob_error_nomem(err);
    if (!*part->path)
        return ob_error_set(err, OUTBOX_INVALID, "{{}} in a template does not name a field");
    if (strlen(part->path) > PATH_MOST)
        return ob_error_set(err, OUTBOX_INVALID, "{{%.32s...}} in a template is too long for a field", part->path);
    if (part->path[0] == '@' && !message_field(NULL, part->path + 1, id, &unused))
        return ob_error_set(err, OUTBOX_INVALID,
                            "{{%s}} in a template is not a field of a message; the fields are @id, @namespace, "
                            "@topic, @key, "
                            "@recipient, @subject, @tenant and @correlation_id",
                            part->path);
    return OUTBOX_OK;
}

/* Whether JSON text that began inside or outside of a string ends inside. */
static bool inside_string(bool inside, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
    return inside;
}

static enum outbox_code parse(ob_template *tpl, const char *text, struct outbox_error *err)
{
    bool quoted = false;
    for (;;) {
        struct part *part = &tpl->parts[tpl->count++];
        const char *open = strstr(text, "{{");
        part->literal = text;
        part->literal_len = open ? (size_t)(open - text) : strlen(text);
        part->quoted = quoted = inside_string(quoted, text, part->literal_len);
        if (!open)
            return OUTBOX_OK;
        const char *close = strstr(open, "}}");
        if (!close)
            return ob_error_set(err, OUTBOX_INVALID, "a {{ in a template is never closed: %.32s", open);
        enum outbox_code code = part_read(tpl, part, open + 2, close, err);
        if (code)
            return code;
        text = close + 2;
    }
}

enum outbox_code ob_template_new(const char *text, enum ob_escape escape, ob_template **out, struct outbox_error *err)
{
    ob_template *tpl = ob_calloc(1, sizeof *tpl);
    if (!tpl)
        return ob_error_nomem(err);
    ob_arena_init(&tpl->arena, 512);
    tpl->escape = escape;
    size_t most = 1;
    for (const char *at = text; (at = strstr(at, "{{")); at += 2)
        most++;
    const char *copy = ob_arena_strdup(&tpl->arena, text);
    tpl->parts = ob_arena_calloc(&tpl->arena, most, sizeof *tpl->parts);
    enum outbox_code code = copy && tpl->parts ? parse(tpl, copy, err) : ob_error_nomem(err);
    if (code) {
        ob_template_free(tpl);
        return code;
    }
    *out = tpl;
    return OUTBOX_OK;
}

void ob_template_free(ob_template *tpl)
{
    if (!tpl)
        return;
    ob_arena_fini(&tpl->arena);
    ob_free(tpl);
}

/* ---- filling it ------------------------------------------------------------------------------------------------- */

/* What the path leads to; NULL when it is missing. */
static const json_t *look_up(const json_t *value, const char *path)
{
    char step[PATH_MOST + 1];
    while (value) {
        size_t len = strcspn(path, ".");
        memcpy(step, path, len);
        step[len] = '\0';
        if (json_is_array(value))
            value = len && strspn(step, "0123456789") == len ? json_array_get(value, strtoul(step, NULL, 10)) : NULL;
        else
            value = json_object_get(value, step);
        if (!path[len])
            return value;
        path += len + 1;
    }
    return NULL;
}

static void put_html(struct ob_buf *buf, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        switch (text[i]) {
        case '&': ob_buf_puts(buf, "&amp;"); break;
        case '<': ob_buf_puts(buf, "&lt;"); break;
        case '>': ob_buf_puts(buf, "&gt;"); break;
        case '"': ob_buf_puts(buf, "&quot;"); break;
        case '\'': ob_buf_puts(buf, "&#39;"); break;
        default: ob_buf_putc(buf, text[i]);
        }
}

/* Slack knows these three only, and shows other entities as they stand. */
void ob_escape_slack(struct ob_buf *buf, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        switch (text[i]) {
        case '&': ob_buf_puts(buf, "&amp;"); break;
        case '<': ob_buf_puts(buf, "&lt;"); break;
        case '>': ob_buf_puts(buf, "&gt;"); break;
        default: ob_buf_putc(buf, text[i]);
        }
}

static void put_markdown(struct ob_buf *buf, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] && strchr("_*[]()~`>#+-=|{}.!\\", text[i]))
            ob_buf_putc(buf, '\\');
        ob_buf_putc(buf, text[i]);
    }
}

/* The content of a JSON string: what ob_json_quote writes, without its quotes. */
static void put_json(struct ob_buf *buf, const char *text, size_t len)
{
    struct ob_buf quote = OB_BUF_INIT;
    ob_json_quote(&quote, text, len);
    if (ob_buf_ok(&quote))
        ob_buf_put(buf, quote.data + 1, quote.len - 2);
    else
        buf->failed = true;
    ob_buf_fini(&quote);
}

static void put_text(const ob_template *tpl, const struct part *part, const char *text, size_t len, struct ob_buf *buf)
{
    if (tpl->escape == OB_ESCAPE_HTML)
        put_html(buf, text, len);
    else if (tpl->escape == OB_ESCAPE_SLACK)
        ob_escape_slack(buf, text, len);
    else if (tpl->escape == OB_ESCAPE_MARKDOWN)
        put_markdown(buf, text, len);
    else if (tpl->escape == OB_ESCAPE_NONE)
        ob_buf_put(buf, text, len);
    else if (part->quoted)
        put_json(buf, text, len);
    else
        ob_json_quote(buf, text, len);
}

static void put_value(const ob_template *tpl, const struct part *part, const json_t *value, struct ob_buf *buf)
{
    if (json_is_string(value)) {
        put_text(tpl, part, json_string_value(value), json_string_length(value), buf);
        return;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        buf->failed = true;
    else if (tpl->escape == OB_ESCAPE_JSON && !part->quoted)
        ob_buf_puts(buf, text);
    else
        put_text(tpl, part, text, strlen(text), buf);
    free(text);
}

static enum outbox_code fill(const ob_template *tpl, const struct part *part, const struct outbox_delivery *msg,
                             const json_t *payload, struct ob_buf *buf, struct outbox_error *err)
{
    char id[OB_UUID_TEXT];
    const char *text = NULL;
    const json_t *value = NULL;
    if (part->path[0] == '@')
        message_field(msg, part->path + 1, id, &text);
    else
        value = look_up(payload, part->path);
    if (text)
        put_text(tpl, part, text, strlen(text), buf);
    else if (value && !json_is_null(value))
        put_value(tpl, part, value, buf);
    else if (part->fallback)
        ob_buf_puts(buf, part->fallback);
    else
        return ob_error_set(err, OUTBOX_INVALID, "the template needs {{%s}}, which the message does not have",
                            part->path);
    return OUTBOX_OK;
}

enum outbox_code ob_template_render(const ob_template *tpl, const struct outbox_delivery *msg, const json_t *payload,
                                    struct ob_buf *buf, struct outbox_error *err)
{
    for (size_t i = 0; i < tpl->count; i++) {
        const struct part *part = &tpl->parts[i];
        ob_buf_put(buf, part->literal, part->literal_len);
        enum outbox_code code = part->path ? fill(tpl, part, msg, payload, buf, err) : OUTBOX_OK;
        if (code)
            return code;
    }
    return ob_buf_ok(buf) ? OUTBOX_OK : ob_error_nomem(err);
}
