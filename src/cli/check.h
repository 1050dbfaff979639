/* check.h - what the files of `outbox check` share. */
#ifndef OB_CLI_CHECK_H
#define OB_CLI_CHECK_H

#include "cli/cli.h"

/* As Nagios has them; they are exit statuses. */
enum ob_check { OB_CHECK_OK, OB_CHECK_WARNING, OB_CHECK_CRITICAL, OB_CHECK_UNKNOWN };

/* Replaces the file. look NULL: only the status is known. */
bool ob_check_write(const char *path, const char *store, const struct ob_look *look, int status,
                    struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
