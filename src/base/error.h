/* error.h - filling the caller's struct outbox_error, and the tables of errors.def.
 *
 * An error is filled once, where the cause is known, and passed up unchanged:
 *
 *     if (limit < 1)
 *         return ob_error_set(err, OUTBOX_INVALID, "limit is %d, but must be 1 to 10000", limit);
 */
#ifndef OB_BASE_ERROR_H
#define OB_BASE_ERROR_H

#include <outbox/outbox.h>

/* Both return the code; err may be NULL. A text that is too long is truncated at a character boundary. */
enum outbox_code ob_error_set(struct outbox_error *err, enum outbox_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the database's own SQLSTATE. */
enum outbox_code ob_error_set_sqlstate(struct outbox_error *err, enum outbox_code code, const char *sqlstate,
                                       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* "out of memory": needs no memory itself. */
enum outbox_code ob_error_nomem(struct outbox_error *err);
void ob_error_clear(struct outbox_error *err);

/* The columns of errors.def; an unknown code is treated as OUTBOX_DATABASE. */
enum outbox_error_class ob_code_class(enum outbox_code code);
int ob_code_exit(enum outbox_code code);
const char *ob_code_todo(enum outbox_code code);
const char *ob_code_sqlstate(enum outbox_code code);
/* The code whose row names this SQLSTATE; OUTBOX_DATABASE when none does. */
enum outbox_code ob_code_by_sqlstate(const char *sqlstate);

#endif
