/* arena.h - memory that is freed all at once: a batch owns an arena, and its messages are slices of it.
 *
 * A list of blocks; the newest is filled first. A piece that is too large gets a block of its own, so that a large payload
 * does not waste the block in use. Not thread-safe. */
#ifndef OB_BASE_ARENA_H
#define OB_BASE_ARENA_H

#include <stddef.h>

struct ob_arena_block;

struct ob_arena {
    struct ob_arena_block *blocks;
    size_t block_size;
};

enum { OB_ARENA_BLOCK = 16 * 1024 };

/* block_size 0: OB_ARENA_BLOCK. Allocates nothing yet. */
void ob_arena_init(struct ob_arena *arena, size_t block_size);
/* Frees every block; the arena can be used again. */
void ob_arena_fini(struct ob_arena *arena);

/* All return NULL on failure, and the arena stays usable. Memory is aligned for any type and not zeroed. */
void *ob_arena_alloc(struct ob_arena *arena, size_t size) __attribute__((warn_unused_result));
void *ob_arena_calloc(struct ob_arena *arena, size_t count, size_t size) __attribute__((warn_unused_result));
char *ob_arena_strdup(struct ob_arena *arena, const char *text) __attribute__((warn_unused_result));
/* Copies len bytes and adds a NUL, so that text and bytes can be treated alike. */
char *ob_arena_memdup(struct ob_arena *arena, const void *data, size_t len) __attribute__((warn_unused_result));

#endif
