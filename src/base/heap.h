/* heap.h - a binary min-heap of pointers to nodes embedded in their objects; any node can be removed.
 *
 * A node knows its place, so a timer can be cancelled or moved in O(log n). The heap owns its array only. */
#ifndef OB_BASE_HEAP_H
#define OB_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct ob_heap_node {
    size_t place; /* index + 1; 0 while not in a heap */
};

/* True when a must come before b. */
typedef bool ob_heap_less(const struct ob_heap_node *a, const struct ob_heap_node *b);

struct ob_heap {
    struct ob_heap_node **nodes;
    size_t count, cap;
    ob_heap_less *less;
};

void ob_heap_init(struct ob_heap *heap, ob_heap_less *less);
void ob_heap_fini(struct ob_heap *heap);

/* False when out of memory; the node is then not in the heap. The node must not be in a heap already. */
bool ob_heap_push(struct ob_heap *heap, struct ob_heap_node *node) __attribute__((warn_unused_result));
/* The smallest node; NULL when empty. */
struct ob_heap_node *ob_heap_peek(const struct ob_heap *heap);
struct ob_heap_node *ob_heap_pop(struct ob_heap *heap);
/* Does nothing for a node that is not in a heap. */
void ob_heap_remove(struct ob_heap *heap, struct ob_heap_node *node);
/* Call this after the object's sort order changed. */
void ob_heap_moved(struct ob_heap *heap, struct ob_heap_node *node);

#endif
