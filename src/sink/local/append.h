/* append.h - writes whole lines to a descriptor, and makes stable codes of errors.
 *
 * Blocks as the descriptor does. Any thread; no state. */
#ifndef OB_SINK_LOCAL_APPEND_H
#define OB_SINK_LOCAL_APPEND_H

#include <stddef.h>

enum { OB_ERRNO_CODE = 40 };

/* Writes everything, with one write(2) if the kernel takes all of it. Returns 0 or the errno; *written: bytes written. */
int ob_append(int fd, const void *data, size_t len, size_t *written);
/* "file_enospc" for "file" and ENOSPC. */
const char *ob_errno_code(const char *prefix, int number, char code[OB_ERRNO_CODE]);

#endif
