/* json_check.h - whether a text is JSON, and whether it is JSON that every store accepts. */
#ifndef OB_BASE_JSON_CHECK_H
#define OB_BASE_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether every store accepts the text as JSON; the text must be valid UTF-8. Strict: one value, no NUL, no escape that is
 * not a character (\u0000, half of a surrogate pair), numbers that fit any database, at most 256 levels. A store may still
 * accept a text for which this is false. */
bool ob_json_check(const char *data, size_t len);

/* Whether the bytes are one JSON value as defined by RFC 8259, in UTF-8, of at most 10,000 levels. They can then be used
 * wherever a JSON text has a value. */
bool ob_json_valid(const char *data, size_t len);

#endif
