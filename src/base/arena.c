/* arena.c - blocks in one list, all freed together. */
#include "base/arena.h"

#include "base/alloc.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

struct ob_arena_block {
    struct ob_arena_block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

void ob_arena_init(struct ob_arena *arena, size_t block_size)
{
    arena->blocks = NULL;
    arena->block_size = block_size ? block_size : OB_ARENA_BLOCK;
}

void ob_arena_fini(struct ob_arena *arena)
{
    if (!arena)
        return;
    while (arena->blocks) {
        struct ob_arena_block *next = arena->blocks->next;
        ob_free(arena->blocks);
        arena->blocks = next;
    }
}

static struct ob_arena_block *block_new(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct ob_arena_block))
        return NULL;
    struct ob_arena_block *block = ob_alloc(sizeof *block + size);
    if (block) {
        block->next = NULL;
        block->used = 0;
        block->size = size;
    }
    return block;
}

/* A large piece goes after the block in use, which stays at the head of the list with its free space. */
static void block_link(struct ob_arena *arena, struct ob_arena_block *block)
{
    if (arena->blocks && block->size > arena->block_size) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
}

void *ob_arena_alloc(struct ob_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX - align)
        return NULL;
    size = (size + align - 1) / align * align;

    struct ob_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < size) {
        block = block_new(size > arena->block_size ? size : arena->block_size);
        if (!block)
            return NULL;
        block_link(arena, block);
    }
    void *piece = block->data + block->used;
    block->used += size;
    return piece;
}

void *ob_arena_calloc(struct ob_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    void *piece = ob_arena_alloc(arena, total);
    if (piece)
        memset(piece, 0, total);
    return piece;
}

char *ob_arena_strdup(struct ob_arena *arena, const char *text)
{
    return ob_arena_memdup(arena, text, strlen(text));
}

char *ob_arena_memdup(struct ob_arena *arena, const void *data, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = ob_arena_alloc(arena, len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}
