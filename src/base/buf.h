/* buf.h - a growing buffer of bytes.
 *
 * Failure is sticky: after a failed allocation every later call does nothing, and ob_buf_ok returns false.
 * So a caller can write many pieces and check once. Invariant: data[len] is NUL whenever data is not NULL. */
#ifndef OB_BASE_BUF_H
#define OB_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct ob_buf {
    char *data;
    size_t len, cap; /* cap includes the NUL */
    bool failed;
};
#define OB_BUF_INIT \
    { \
        0 \
    }

void ob_buf_init(struct ob_buf *buf);
void ob_buf_fini(struct ob_buf *buf);

/* Makes room for `more` bytes after len; the caller may write there and then call ob_buf_added. NULL on failure. */
char *ob_buf_reserve(struct ob_buf *buf, size_t more);
void ob_buf_added(struct ob_buf *buf, size_t len);

void ob_buf_put(struct ob_buf *buf, const void *data, size_t len);
void ob_buf_puts(struct ob_buf *buf, const char *text);
void ob_buf_putc(struct ob_buf *buf, char c);
void ob_buf_printf(struct ob_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ob_buf_vprintf(struct ob_buf *buf, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Clears the content and any failure, but keeps the memory. */
void ob_buf_reset(struct ob_buf *buf);
bool ob_buf_ok(const struct ob_buf *buf);
/* The content, NUL-terminated; "" when nothing was written or on failure. Borrowed until the next call. */
const char *ob_buf_text(const struct ob_buf *buf);
/* Passes the content to the caller, to be freed with ob_free, and empties the buffer. NULL on failure. */
char *ob_buf_take(struct ob_buf *buf);

#endif
