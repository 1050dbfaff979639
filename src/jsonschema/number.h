/* number.h - JSON numbers as exact decimals.
 *
 * A payload may hold more digits than a double or an int64 keeps (jsonb stores any), and 0.1 has no double at all. So a
 * number stays decimal: digits times ten to an exponent, and comparing or dividing rounds nothing.
 * Invariant: no zero at either end of the digits; zero has no digits, exponent 0 and no sign. */
#ifndef OB_JSONSCHEMA_NUMBER_H
#define OB_JSONSCHEMA_NUMBER_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_number {
    const char *digits; /* '0' to '9', most significant first; borrowed */
    uint32_t count;
    int32_t exponent;
    bool negative;
};

enum { OB_NUMBER_DIGITS_MAX = 100000, OB_NUMBER_EXPONENT_MAX = 1000000000, OB_NUMBER_DIVISOR_DIGITS = 18 };

enum ob_number_result { OB_NUMBER_OK, OB_NUMBER_TOO_BIG, OB_NUMBER_NOMEM };

/* text is a number by the grammar of JSON. The digits point into it, or into the arena when a point divides them. */
enum ob_number_result ob_number_read(struct ob_number *number, const char *text, size_t len, struct ob_arena *arena);

/* Below, equal to or above zero, as memcmp does. */
int ob_number_compare(const struct ob_number *a, const struct ob_number *b);
bool ob_number_is_integer(const struct ob_number *number);
/* Whether number / divisor is an integer. The divisor is above zero with at most OB_NUMBER_DIVISOR_DIGITS digits. */
bool ob_number_is_multiple(const struct ob_number *number, const struct ob_number *divisor);
/* A count for minLength and its like: an integer from 0 up; false otherwise. What exceeds SIZE_MAX becomes SIZE_MAX. */
bool ob_number_to_size(const struct ob_number *number, size_t *size);

#endif
