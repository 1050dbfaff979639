/* alloc.h - all memory of the library comes through here, so that outbox_set_allocator can replace it.
 *
 * Every function returns NULL on failure, and the caller must handle that. A replacement allocator has no realloc:
 * therefore ob_realloc takes the old size. */
#ifndef OB_BASE_ALLOC_H
#define OB_BASE_ALLOC_H

#include <stddef.h>

void *ob_alloc(size_t size) __attribute__((malloc, warn_unused_result));
/* Zeroed; fails when count * size overflows. */
void *ob_calloc(size_t count, size_t size) __attribute__((malloc, warn_unused_result));
/* On failure the old block stays valid. */
void *ob_realloc(void *block, size_t old_size, size_t new_size) __attribute__((warn_unused_result));
void ob_free(void *block);

char *ob_strdup(const char *text) __attribute__((malloc, warn_unused_result));
/* Copies len bytes and adds a NUL. */
char *ob_memdup(const void *data, size_t len) __attribute__((malloc, warn_unused_result));

#endif
