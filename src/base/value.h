/* value.h - values as people write them in a configuration: "250ms", "32MiB", "100/s", "yes".
 *
 * The parsers return false, and leave the result unchanged, if the text is not such a value or does not fit an int64_t. */
#ifndef OB_BASE_VALUE_H
#define OB_BASE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

enum { OB_VALUE_TEXT = 48 };

bool ob_value_int(const char *text, int64_t *value);
/* true, yes, on, 1; false, no, off, 0. Case-insensitive. */
bool ob_value_bool(const char *text, bool *value);
/* "250ms", "1.5s", "1h30m"; units us, ms, s, m (or min), h, d. A unit is required, except for "0". */
bool ob_value_duration(const char *text, int64_t *us);
/* "512", "64KiB", "1.5MiB", "10MB"; units B, kB (or KB), MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024). */
bool ob_value_size(const char *text, int64_t *bytes);
/* "100/s", "5/10s", "1000/h"; "0" and "none": no limit, which is a count of 0. */
bool ob_value_rate(const char *text, int64_t *count, int64_t *period_us);

/* "0.25", "1", "25%": from 0 to 1, in millionths. */
bool ob_value_ratio(const char *text, int64_t *millionths);

/* The reverse: the shortest text that means exactly this value. */
void ob_value_duration_text(int64_t us, char text[OB_VALUE_TEXT]);
void ob_value_size_text(int64_t bytes, char text[OB_VALUE_TEXT]);
void ob_value_ratio_text(int64_t millionths, char text[OB_VALUE_TEXT]);

#endif
