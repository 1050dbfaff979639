/* utf8.h - what is a character of UTF-8 and what is not (RFC 3629: no surrogates, no overlong forms). */
#ifndef OB_BASE_UTF8_H
#define OB_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that text begins with, 1 to 4; 0 when it is no valid character or len is 0. */
size_t ob_utf8_width(const char *text, size_t len);
bool ob_utf8_valid(const char *text, size_t len);

/* The character that text begins with; width is its ob_utf8_width. */
unsigned ob_utf8_decode(const char *text, size_t width);
/* Whether a character may not go to a terminal or into a log as it is: it controls one (C0, DEL, C1), ends a line, or turns the
 * direction of what stands around it. */
bool ob_utf8_controls(unsigned character);

#endif
