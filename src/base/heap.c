/* heap.c - binary heap. Invariants: nodes[i]->place == i + 1, and no node is less than its parent. */
#include "base/heap.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>

void ob_heap_init(struct ob_heap *heap, ob_heap_less *less)
{
    *heap = (struct ob_heap){.less = less};
}

void ob_heap_fini(struct ob_heap *heap)
{
    if (!heap)
        return;
    ob_free(heap->nodes);
    ob_heap_init(heap, heap->less);
}

static void put(struct ob_heap *heap, size_t index, struct ob_heap_node *node)
{
    heap->nodes[index] = node;
    node->place = index + 1;
}

static void sift_up(struct ob_heap *heap, size_t index)
{
    struct ob_heap_node *node = heap->nodes[index];
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!heap->less(node, heap->nodes[parent]))
            break;
        put(heap, index, heap->nodes[parent]);
        index = parent;
    }
    put(heap, index, node);
}

static void sift_down(struct ob_heap *heap, size_t index)
{
    struct ob_heap_node *node = heap->nodes[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->less(heap->nodes[child + 1], heap->nodes[child]))
            child++;
        if (!heap->less(heap->nodes[child], node))
            break;
        put(heap, index, heap->nodes[child]);
        index = child;
    }
    put(heap, index, node);
}

bool ob_heap_push(struct ob_heap *heap, struct ob_heap_node *node)
{
    assert(node->place == 0);
    if (heap->count == heap->cap) {
        size_t cap = heap->cap ? heap->cap * 2 : 16;
        const size_t each = sizeof(struct ob_heap_node *);
        if (cap > SIZE_MAX / each)
            return false;
        struct ob_heap_node **nodes = ob_realloc(heap->nodes, heap->count * each, cap * each);
        if (!nodes)
            return false;
        heap->nodes = nodes;
        heap->cap = cap;
    }
    put(heap, heap->count++, node);
    sift_up(heap, heap->count - 1);
    return true;
}

struct ob_heap_node *ob_heap_peek(const struct ob_heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}

struct ob_heap_node *ob_heap_pop(struct ob_heap *heap)
{
    struct ob_heap_node *first = ob_heap_peek(heap);
    if (first)
        ob_heap_remove(heap, first);
    return first;
}

void ob_heap_remove(struct ob_heap *heap, struct ob_heap_node *node)
{
    if (node->place == 0)
        return;
    size_t index = node->place - 1;
    assert(index < heap->count && heap->nodes[index] == node);
    struct ob_heap_node *last = heap->nodes[--heap->count];
    node->place = 0;
    if (last != node) {
        put(heap, index, last);
        ob_heap_moved(heap, last);
    }
}

void ob_heap_moved(struct ob_heap *heap, struct ob_heap_node *node)
{
    assert(node->place > 0);
    sift_up(heap, node->place - 1);
    sift_down(heap, node->place - 1);
}
