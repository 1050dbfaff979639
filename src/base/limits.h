/* limits.h - the rows of def/limits.def for C: constants, and functions that check a value and report the error. */
#ifndef OB_BASE_LIMITS_H
#define OB_BASE_LIMITS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum ob_limit {
#define LIMIT(name, least, most, unit, what) OB_LIMIT_##name,
#include "limits.def"
#undef LIMIT
    OB_LIMIT_COUNT,
};

/* OB_LEAST(lease), OB_MOST(topic): constant expressions, which can also be used as array sizes. */
#define OB_LEAST(name) ((int64_t)OB_LIMIT_LEAST_##name)
#define OB_MOST(name) ((int64_t)OB_LIMIT_MOST_##name)
enum ob_limit_number {
#define LIMIT(name, least, most, unit, what) OB_LIMIT_LEAST_##name = (least), OB_LIMIT_MOST_##name = (most),
#include "limits.def"
#undef LIMIT
};

bool ob_limit_allows(enum ob_limit limit, int64_t value);
int64_t ob_limit_least(enum ob_limit limit);
int64_t ob_limit_most(enum ob_limit limit);
/* "1 to 255 bytes", "100 ms to 24 h". */
const char *ob_limit_range(enum ob_limit limit, char text[64]);

/* OUTBOX_INVALID for a value that is not allowed; name is the caller's name for it. */
enum outbox_code ob_limit_check(enum ob_limit limit, const char *name, int64_t value, struct outbox_error *err);

#endif
