/* json.c - the JSON writer. */
#include "base/json.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void ob_json_init(struct ob_json *json, struct ob_buf *buf)
{
    *json = (struct ob_json){.buf = buf};
}

static void put_escaped(struct ob_buf *buf, unsigned c)
{
    switch (c) {
    case '"': ob_buf_puts(buf, "\\\""); break;
    case '\\': ob_buf_puts(buf, "\\\\"); break;
    case '\b': ob_buf_puts(buf, "\\b"); break;
    case '\f': ob_buf_puts(buf, "\\f"); break;
    case '\n': ob_buf_puts(buf, "\\n"); break;
    case '\r': ob_buf_puts(buf, "\\r"); break;
    case '\t': ob_buf_puts(buf, "\\t"); break;
    default: ob_buf_printf(buf, "\\u%04x", c); break;
    }
}

/* Most characters are visible ASCII, which need not be decoded. */
static bool stands(const char *text, size_t width)
{
    unsigned char c = (unsigned char)text[0];
    if (width == 1)
        return c >= 0x20 && c != 0x7f;
    return width > 0 && !ob_utf8_controls(ob_utf8_decode(text, width));
}

void ob_json_quote(struct ob_buf *buf, const char *text, size_t len)
{
    ob_buf_putc(buf, '"');
    size_t plain = 0; /* start of the run not written yet */
    for (size_t i = 0; i < len;) {
        size_t width = ob_utf8_width(text + i, len - i);
        if (stands(text + i, width) && text[i] != '"' && text[i] != '\\') {
            i += width;
            continue;
        }
        ob_buf_put(buf, text + plain, i - plain);
        if (width == 0)
            ob_buf_puts(buf, "\xef\xbf\xbd");
        else
            put_escaped(buf, ob_utf8_decode(text + i, width));
        plain = i += width ? width : 1;
    }
    ob_buf_put(buf, text + plain, len - plain);
    ob_buf_putc(buf, '"');
}

void ob_json_shown(struct ob_buf *buf, const char *json, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t width = ob_utf8_width(json + i, len - i);
        if (stands(json + i, width) || (width == 1 && (json[i] == '\n' || json[i] == '\t' || json[i] == '\r')))
            ob_buf_put(buf, json + i, width);
        else if (width)
            put_escaped(buf, ob_utf8_decode(json + i, width));
        else
            ob_buf_puts(buf, "\xef\xbf\xbd");
        i += width ? width : 1;
    }
}

/* Called before any value: writes the comma, unless the value follows its key. */
static void before_value(struct ob_json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0)
        return;
    assert(json->closer[json->depth - 1] == ']');
    if (json->filled[json->depth - 1])
        ob_buf_putc(json->buf, ',');
    json->filled[json->depth - 1] = true;
}

static void open_level(struct ob_json *json, char opener, char closer)
{
    before_value(json);
    assert(json->depth < OB_JSON_DEPTH);
    ob_buf_putc(json->buf, opener);
    json->closer[json->depth] = closer;
    json->filled[json->depth] = false;
    json->depth++;
}

void ob_json_object(struct ob_json *json)
{
    open_level(json, '{', '}');
}

void ob_json_array(struct ob_json *json)
{
    open_level(json, '[', ']');
}

void ob_json_end(struct ob_json *json)
{
    assert(json->depth > 0 && !json->after_key);
    ob_buf_putc(json->buf, json->closer[--json->depth]);
}

void ob_json_key(struct ob_json *json, const char *key)
{
    assert(json->depth > 0 && json->closer[json->depth - 1] == '}' && !json->after_key);
    if (json->filled[json->depth - 1])
        ob_buf_putc(json->buf, ',');
    json->filled[json->depth - 1] = true;
    ob_json_quote(json->buf, key, strlen(key));
    ob_buf_putc(json->buf, ':');
    json->after_key = true;
}

void ob_json_string(struct ob_json *json, const char *text)
{
    if (text)
        ob_json_string_n(json, text, strlen(text));
    else
        ob_json_null(json);
}

void ob_json_string_n(struct ob_json *json, const char *text, size_t len)
{
    before_value(json);
    ob_json_quote(json->buf, text, len);
}

void ob_json_int(struct ob_json *json, int64_t value)
{
    before_value(json);
    ob_buf_printf(json->buf, "%" PRId64, value);
}

void ob_json_double(struct ob_json *json, double value)
{
    if (!isfinite(value)) {
        ob_json_null(json);
        return;
    }
    before_value(json);
    ob_buf_printf(json->buf, "%.15g", value);
}

void ob_json_bool(struct ob_json *json, bool value)
{
    before_value(json);
    ob_buf_puts(json->buf, value ? "true" : "false");
}

void ob_json_null(struct ob_json *json)
{
    before_value(json);
    ob_buf_puts(json->buf, "null");
}

void ob_json_raw(struct ob_json *json, const char *text, size_t len)
{
    before_value(json);
    ob_buf_put(json->buf, text, len);
}

/* In JSON control characters occur only between tokens. */
void ob_json_raw_line(struct ob_json *json, const char *text, size_t len)
{
    size_t from = 0;
    before_value(json);
    for (size_t i = 0; i <= len; i++) {
        if (i < len && (unsigned char)text[i] >= 0x20)
            continue;
        ob_buf_put(json->buf, text + from, i - from);
        from = i + 1;
    }
}
