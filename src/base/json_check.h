/* json_check.h - whether a text is JSON, and whether it is JSON that every store takes. */
#ifndef OB_BASE_JSON_CHECK_H
#define OB_BASE_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* The text is valid UTF-8. Strict: one value, no NUL, no escape that is no character (\u0000, half of a surrogate pair),
 * numbers that fit any database, at most 256 levels. False may be a text that some store takes all the same. */
bool ob_json_check(const char *data, size_t len);

/* Whether the bytes are one JSON value as RFC 8259 has it, in UTF-8, of at most 10,000 levels. They can then stand
 * wherever a JSON text has a value. */
bool ob_json_valid(const char *data, size_t len);

#endif
