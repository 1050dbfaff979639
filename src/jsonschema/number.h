/* number.h - JSON numbers as exact decimals.
 *
 * A payload may hold more digits than a double or an int64 can keep (jsonb stores any number), and 0.1 is not exact as a
 * double. So numbers stay decimal: digits times a power of ten, and comparing or dividing never rounds.
 *
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

/* text must be a valid JSON number. The digits point into it, or into the arena when a decimal point separates them. */
enum ob_number_result ob_number_read(struct ob_number *number, const char *text, size_t len, struct ob_arena *arena);

/* Returns less than, equal to or greater than zero, like memcmp. */
int ob_number_compare(const struct ob_number *a, const struct ob_number *b);
bool ob_number_is_integer(const struct ob_number *number);
/* Whether number / divisor is an integer. The divisor must be positive with at most OB_NUMBER_DIVISOR_DIGITS digits. */
bool ob_number_is_multiple(const struct ob_number *number, const struct ob_number *divisor);
/* A count for minLength and similar keywords: a non-negative integer; false otherwise. Values above SIZE_MAX become
 * SIZE_MAX. */
bool ob_number_to_size(const struct ob_number *number, size_t *size);

#endif
