/* versioned.h - structs of the binary interface, whose caller may be compiled with an older or newer header.
 *
 * Such a struct begins with its size, and new members are added only at its end. When one is read, members that an older
 * caller does not have get their defaults, and members that only a newer caller has are ignored. When one is written, nothing
 * is written beyond its size. Elements of arrays have no size member; the size of an element is passed beside the array. */
#ifndef OB_BASE_VERSIONED_H
#define OB_BASE_VERSIONED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { OB_VERSIONED_MAX = 65536 };

/* Whether this can be the size of a struct or element: 0 or garbage means that the caller forgot the _INIT macro. */
static inline bool ob_size_is_sane(size_t size)
{
    return size >= 2 * sizeof(size_t) && size <= OB_VERSIONED_MAX;
}

/* Reads a caller's struct; `to` has the given size and contains the defaults. False when the caller's size is invalid. */
static inline bool ob_take_versioned(void *to, size_t size, const void *from)
{
    size_t theirs;
    memcpy(&theirs, from, sizeof theirs);
    if (!ob_size_is_sane(theirs))
        return false;
    memcpy(to, from, theirs < size ? theirs : size);
    memcpy(to, &size, sizeof size);
    return true;
}

/* Fills in a caller's struct, whose size is valid, from ours; its size member is unchanged. */
static inline void ob_give_versioned(void *to, const void *from, size_t size)
{
    size_t theirs, head = sizeof theirs;
    memcpy(&theirs, to, head);
    if (theirs > size)
        theirs = size;
    memcpy((char *)to + head, (const char *)from + head, theirs - head);
}

/* Copies an array into one with elements of another size; members missing in the source become zero. */
static inline void ob_copy_elements(void *to, size_t to_size, const void *from, size_t from_size, size_t count)
{
    size_t both = from_size < to_size ? from_size : to_size;
    for (size_t i = 0; i < count; i++) {
        char *element = (char *)to + i * to_size;
        memcpy(element, (const char *)from + i * from_size, both);
        memset(element + both, 0, to_size - both);
    }
}

#endif
