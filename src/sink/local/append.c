/* append.c - see append.h. */
#include "sink/local/append.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ob_append(int fd, const void *data, size_t len, size_t *written)
{
    *written = 0;
    while (*written < len) {
        ssize_t put = write(fd, (const char *)data + *written, len - *written);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : EIO;
        *written += (size_t)put;
    }
    return 0;
}

const char *ob_errno_code(const char *prefix, int number, char code[OB_ERRNO_CODE])
{
    const char *name = strerrorname_np(number);
    snprintf(code, OB_ERRNO_CODE, "%s_%s", prefix, name ? name : "failed");
    for (char *at = code; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return code;
}
