/* json.h - writes JSON into a buffer, for --json output and logs. It does not read JSON.
 *
 *     struct ob_json json;
 *     ob_json_init(&json, &buf);
 *     ob_json_object(&json);
 *     ob_json_key(&json, "topic"), ob_json_string(&json, topic);
 *     ob_json_end(&json);
 *
 * The writer adds the commas. Bytes that are not UTF-8 become U+FFFD, so the output is always valid JSON. Check ob_buf_ok for
 * allocation failures. A call that is not allowed at this place is a bug and fails an assertion. */
#ifndef OB_BASE_JSON_H
#define OB_BASE_JSON_H

#include "base/buf.h"

#include <stdint.h>

enum { OB_JSON_DEPTH = 32 };

struct ob_json {
    struct ob_buf *buf;
    int depth;
    char closer[OB_JSON_DEPTH]; /* '}' or ']' of each open level */
    bool filled[OB_JSON_DEPTH]; /* whether the level has an element */
    bool after_key;
};

void ob_json_init(struct ob_json *json, struct ob_buf *buf);

void ob_json_object(struct ob_json *json);
void ob_json_array(struct ob_json *json);
/* Closes the innermost object or array. */
void ob_json_end(struct ob_json *json);
void ob_json_key(struct ob_json *json, const char *key);

void ob_json_string(struct ob_json *json, const char *text); /* NULL writes null */
void ob_json_string_n(struct ob_json *json, const char *text, size_t len);
void ob_json_int(struct ob_json *json, int64_t value);
void ob_json_double(struct ob_json *json, double value); /* null when not finite */
void ob_json_bool(struct ob_json *json, bool value);
void ob_json_null(struct ob_json *json);
/* Writes text that is known to be JSON (base/json_check.h), without checking it. */
void ob_json_raw(struct ob_json *json, const char *text, size_t len);
/* The same on one line: line breaks between tokens are omitted. */
void ob_json_raw_line(struct ob_json *json, const char *text, size_t len);

/* Copies JSON for display: characters that control a terminal or change the text direction become escapes. The meaning stays
 * the same, because such characters occur only in strings. */
void ob_json_shown(struct ob_buf *buf, const char *json, size_t len);
/* Writes a quoted string; the log uses it too. Characters that control a terminal are escaped. */
void ob_json_quote(struct ob_buf *buf, const char *text, size_t len);

#endif
