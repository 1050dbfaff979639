/* utf8.h - validation and decoding of UTF-8 (RFC 3629: no surrogates, no overlong forms). */
#ifndef OB_BASE_UTF8_H
#define OB_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length in bytes of the character that text begins with, 1 to 4; 0 when it is invalid or len is 0. */
size_t ob_utf8_width(const char *text, size_t len);
bool ob_utf8_valid(const char *text, size_t len);

/* The character that text begins with; width is its ob_utf8_width. */
unsigned ob_utf8_decode(const char *text, size_t width);
/* Whether a character must not be written to a terminal or a log unescaped: it is a control character (C0, DEL, C1), ends a
 * line, or changes the direction of the text around it. */
bool ob_utf8_controls(unsigned character);

#endif
