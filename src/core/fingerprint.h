/* fingerprint.h - failures that are alike have the same fingerprint: the code, and the text without what differs from message to
 * message (ids, numbers, addresses, times, quoted texts). A store computes it when it settles a failure. PostgreSQL has its own of the
 * same rules (sql/postgres/014_groups.sql), because workers settle there in SQL alone. */
#ifndef OB_CORE_FINGERPRINT_H
#define OB_CORE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

enum { OB_FINGERPRINT_DIGITS = 16, OB_SHAPE_CHARACTERS = 200, OB_SHAPE_ROOM = OB_SHAPE_CHARACTERS * 4 + 1 };

/* What is the same in all failures of a kind; only the first 500 characters count. Returns its length. */
size_t ob_failure_shape(const char *error, char shape[OB_SHAPE_ROOM]);

/* Either may be NULL. */
int64_t ob_fingerprint(const char *code, const char *error);

/* As 16 hex digits, and from them; the caller has checked the digits. */
void ob_fingerprint_text(int64_t fingerprint, char text[OB_FINGERPRINT_DIGITS + 1]);
int64_t ob_fingerprint_of(const char *digits);

#endif
