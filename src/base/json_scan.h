/* json_scan.h - the tokens of JSON (RFC 8259), for those who read it: spaces, numbers, \u escapes. */
#ifndef OB_BASE_JSON_SCAN_H
#define OB_BASE_JSON_SCAN_H

#include <stddef.h>

/* Behind the spaces that begin at `at`. */
const char *ob_json_skip_space(const char *at, const char *end);

enum ob_json_number { OB_JSON_NUMBER_OK, OB_JSON_NUMBER_NO_DIGIT, OB_JSON_NUMBER_LEADING_ZERO };

/* How many digits a number has; 0 for a part that is not there. */
struct ob_json_digits {
    size_t whole, fraction, exponent;
};

/* Moves *at behind the number that begins there, or to where it goes wrong. */
enum ob_json_number ob_json_scan_number(const char **at, const char *end, struct ob_json_digits *digits);

/* The value of the four hexadecimal digits at *at, which moves behind them; -1 when they are not four. */
long ob_json_scan_hex(const char **at, const char *end);

#endif
