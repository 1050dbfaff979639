/* buf.c - a growing buffer of bytes with sticky failure. */
#include "base/buf.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAP = 64 };

void ob_buf_init(struct ob_buf *buf)
{
    *buf = (struct ob_buf)OB_BUF_INIT;
}

void ob_buf_fini(struct ob_buf *buf)
{
    if (!buf)
        return;
    ob_free(buf->data);
    ob_buf_init(buf);
}

static size_t next_cap(size_t cap, size_t need)
{
    size_t grown = cap < FIRST_CAP ? FIRST_CAP : cap;
    while (grown < need) {
        if (grown > SIZE_MAX / 2)
            return need;
        grown *= 2;
    }
    return grown;
}

char *ob_buf_reserve(struct ob_buf *buf, size_t more)
{
    if (buf->failed)
        return NULL;
    size_t need;
    if (__builtin_add_overflow(buf->len, more, &need) || __builtin_add_overflow(need, 1, &need)) {
        buf->failed = true;
        return NULL;
    }
    if (need > buf->cap) {
        size_t cap = next_cap(buf->cap, need);
        char *data = ob_realloc(buf->data, buf->data ? buf->len + 1 : 0, cap);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
        buf->data[buf->len] = '\0';
    }
    return buf->data + buf->len;
}

void ob_buf_added(struct ob_buf *buf, size_t len)
{
    assert(len < buf->cap - buf->len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void ob_buf_put(struct ob_buf *buf, const void *data, size_t len)
{
    char *room = ob_buf_reserve(buf, len);
    if (!room)
        return;
    if (len)
        memcpy(room, data, len);
    ob_buf_added(buf, len);
}

void ob_buf_puts(struct ob_buf *buf, const char *text)
{
    ob_buf_put(buf, text, strlen(text));
}

void ob_buf_putc(struct ob_buf *buf, char c)
{
    ob_buf_put(buf, &c, 1);
}

void ob_buf_vprintf(struct ob_buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *room = len < 0 ? NULL : ob_buf_reserve(buf, (size_t)len);
    if (len < 0)
        buf->failed = true;
    if (room) {
        vsnprintf(room, (size_t)len + 1, format, again);
        ob_buf_added(buf, (size_t)len);
    }
    va_end(again);
}

void ob_buf_printf(struct ob_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ob_buf_vprintf(buf, format, args);
    va_end(args);
}

void ob_buf_reset(struct ob_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

bool ob_buf_ok(const struct ob_buf *buf)
{
    return !buf->failed;
}

const char *ob_buf_text(const struct ob_buf *buf)
{
    return buf->failed || !buf->data ? "" : buf->data;
}

char *ob_buf_take(struct ob_buf *buf)
{
    char *data = NULL;
    if (ob_buf_reserve(buf, 0)) {
        data = buf->data;
        buf->data = NULL;
    }
    ob_buf_fini(buf);
    return data;
}
