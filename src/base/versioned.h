/* versioned.h - structs that cross the binary interface, compiled perhaps with an older or newer header.
 *
 * Such a struct begins with its size and grows at its end only. Reading one: what an older caller lacks has its default,
 * what a newer one has in addition is ignored. Writing one: never beyond its size. Elements of arrays have no size of their
 * own; the size of an element is passed beside the array. */
#ifndef OB_BASE_VERSIONED_H
#define OB_BASE_VERSIONED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { OB_VERSIONED_MAX = 65536 };

/* Whether this can be the size of a struct or element: 0 and noise mean that the caller forgot the _INIT macro. */
static inline bool ob_size_is_sane(size_t size)
{
    return size >= 2 * sizeof(size_t) && size <= OB_VERSIONED_MAX;
}

/* Reads a caller's struct; `to` has the given size and contains the defaults. False when its size cannot be right. */
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

/* Fills a caller's struct, whose size is sane, from ours; its size stays. */
static inline void ob_give_versioned(void *to, const void *from, size_t size)
{
    size_t theirs, head = sizeof theirs;
    memcpy(&theirs, to, head);
    if (theirs > size)
        theirs = size;
    memcpy((char *)to + head, (const char *)from + head, theirs - head);
}

/* Copies an array into one with elements of another size; members that the source lacks become zero. */
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
