/* excerpt.c - see excerpt.h. */
#include "sink/curl/excerpt.h"

#include "base/utf8.h"

#include <string.h>

enum { PART_LEAST = 8 }; /* a beginning shorter than this gives nothing away */

void ob_excerpt_put(struct ob_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t width = ob_utf8_width(text + i, len - i);
        if (!width)
            ob_buf_putc(out, '?');
        else if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            ob_buf_putc(out, ' ');
        else
            ob_buf_put(out, text + i, width);
        i += width ? width : 1;
    }
}

void ob_excerpt_mask(struct ob_buf *text, const char *secret)
{
    size_t len = secret ? strlen(secret) : 0;
    char *at = text->data;
    if (len < 4 || !at)
        return;
    while ((at = memmem(at, text->len - (size_t)(at - text->data), secret, len))) {
        memset(at, '*', len);
        at += len;
    }
    for (size_t part = len - 1 < text->len ? len - 1 : text->len; part >= PART_LEAST; part--) {
        if (memcmp(text->data + text->len - part, secret, part) != 0)
            continue;
        memset(text->data + text->len - part, '*', part);
        break;
    }
}
