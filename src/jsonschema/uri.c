/* uri.c - RFC 3986, section 5. */
#include "jsonschema/uri.h"

#include <ctype.h>
#include <string.h>

static size_t span_until(struct ob_text text, size_t at, const char *stops)
{
    size_t end = at;
    while (end < text.len && !(text.data[end] && strchr(stops, text.data[end])))
        end++;
    return end;
}

void ob_uri_split(struct ob_text text, struct ob_uri *uri)
{
    *uri = (struct ob_uri){.has_scheme = false};
    size_t at = 0, end = span_until(text, 0, ":/?#");
    if (end > 0 && end < text.len && text.data[end] == ':') {
        uri->has_scheme = true;
        uri->scheme = (struct ob_text){text.data, end};
        at = end + 1;
    }
    if (text.len - at >= 2 && text.data[at] == '/' && text.data[at + 1] == '/') {
        end = span_until(text, at + 2, "/?#");
        uri->has_authority = true;
        uri->authority = (struct ob_text){text.data + at + 2, end - at - 2};
        at = end;
    }
    end = span_until(text, at, "?#");
    uri->path = (struct ob_text){text.data + at, end - at};
    at = end;
    if (at < text.len && text.data[at] == '?') {
        end = span_until(text, at, "#");
        uri->has_query = true;
        uri->query = (struct ob_text){text.data + at + 1, end - at - 1};
        at = end;
    }
    if (at < text.len) {
        uri->has_fragment = true;
        uri->fragment = (struct ob_text){text.data + at + 1, text.len - at - 1};
    }
}

/* Appends a path without its "." and ".." segments. */
static void put_path(struct ob_buf *out, struct ob_text path)
{
    size_t base = out->len, at = 0;
    while (at < path.len) {
        size_t start = at, step = at + (path.data[at] == '/');
        size_t end = span_until(path, step, "/");
        struct ob_text name = {path.data + step, end - step};
        bool last = end == path.len, dot = ob_text_is(name, "."), dots = ob_text_is(name, "..");
        at = end;
        if (!dot && !dots) {
            ob_buf_put(out, path.data + start, end - start);
            continue;
        }
        if (dots && ob_buf_ok(out)) {
            while (out->len > base && out->data[out->len - 1] != '/')
                out->len--;
            if (out->len > base)
                out->len--;
        }
        if (last)
            ob_buf_putc(out, '/');
    }
}

/* Merges a relative path with the base: it replaces the last segment of the base's path. */
static void merge(struct ob_buf *out, const struct ob_uri *base, struct ob_text path)
{
    struct ob_buf joined = OB_BUF_INIT;
    size_t keep = base->path.len;
    while (keep > 0 && base->path.data[keep - 1] != '/')
        keep--;
    if (base->has_authority && base->path.len == 0)
        ob_buf_putc(&joined, '/');
    ob_buf_put(&joined, base->path.data, keep);
    ob_buf_put(&joined, path.data, path.len);
    if (ob_buf_ok(&joined))
        put_path(out, (struct ob_text){ob_buf_text(&joined), joined.len});
    else
        out->failed = true;
    ob_buf_fini(&joined);
}

void ob_uri_resolve(struct ob_buf *out, struct ob_text base, struct ob_text reference)
{
    struct ob_uri from, to;
    ob_uri_split(base, &from);
    ob_uri_split(reference, &to);
    const struct ob_uri *scheme = to.has_scheme ? &to : &from;
    const struct ob_uri *authority = to.has_scheme || to.has_authority ? &to : &from;
    if (scheme->has_scheme) {
        ob_buf_put(out, scheme->scheme.data, scheme->scheme.len);
        ob_buf_putc(out, ':');
    }
    if (authority->has_authority) {
        ob_buf_puts(out, "//");
        ob_buf_put(out, authority->authority.data, authority->authority.len);
    }
    bool query_of_base = false;
    if (authority == &to || (to.path.len && to.path.data[0] == '/')) {
        put_path(out, to.path);
    } else if (to.path.len == 0) {
        ob_buf_put(out, from.path.data, from.path.len);
        query_of_base = !to.has_query;
    } else {
        merge(out, &from, to.path);
    }
    const struct ob_uri *query = query_of_base ? &from : &to;
    if (query->has_query) {
        ob_buf_putc(out, '?');
        ob_buf_put(out, query->query.data, query->query.len);
    }
}

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 0x20) - 'a' + 10 : -1;
}

bool ob_uri_decode(struct ob_buf *out, struct ob_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '%') {
            ob_buf_putc(out, text.data[i]);
            continue;
        }
        if (text.len - i < 3 || hex(text.data[i + 1]) < 0 || hex(text.data[i + 2]) < 0)
            return false;
        ob_buf_putc(out, (char)(hex(text.data[i + 1]) * 16 + hex(text.data[i + 2])));
        i += 2;
    }
    return true;
}
