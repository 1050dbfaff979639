/* versioned.h - takes a struct of a caller that may have been compiled with an older or newer header.
 *
 * Such structs begin with their size, and grow at the end only: what an older one lacks has its default, what a newer
 * one has more is not looked at. */
#ifndef OB_LIB_VERSIONED_H
#define OB_LIB_VERSIONED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* to holds the defaults. False when the caller forgot the _INIT macro: the size cannot be. */
static inline bool ob_take_versioned(void *to, size_t size, const void *from)
{
    size_t theirs;
    memcpy(&theirs, from, sizeof theirs);
    if (theirs < 2 * sizeof(size_t) || theirs > 65536)
        return false;
    memcpy(to, from, theirs < size ? theirs : size);
    memcpy(to, &size, sizeof size);
    return true;
}

#endif
