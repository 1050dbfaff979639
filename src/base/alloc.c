/* alloc.c - the replaceable allocator. The two pointers are set before any other call and never change afterwards, so no lock
 * is needed. */
#include "base/alloc.h"

#include <outbox/outbox.h>
#include <stdlib.h>
#include <string.h>

static void *(*alloc_fn)(size_t) = malloc;
static void (*release_fn)(void *) = free;

void outbox_set_allocator(void *(*alloc)(size_t), void (*release)(void *))
{
    bool both = alloc && release;
    alloc_fn = both ? alloc : malloc;
    release_fn = both ? release : free;
}

void *ob_alloc(size_t size)
{
    return alloc_fn(size ? size : 1);
}

void *ob_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    void *block = ob_alloc(total);
    if (block)
        memset(block, 0, total);
    return block;
}

void *ob_realloc(void *block, size_t old_size, size_t new_size)
{
    void *grown = ob_alloc(new_size);
    if (!grown)
        return NULL;
    if (block) {
        memcpy(grown, block, old_size < new_size ? old_size : new_size);
        release_fn(block);
    }
    return grown;
}

void ob_free(void *block)
{
    if (block)
        release_fn(block);
}

char *ob_strdup(const char *text)
{
    return ob_memdup(text, strlen(text));
}

char *ob_memdup(const void *data, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = ob_alloc(len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}
