/* list.h - an intrusive, circular, doubly linked list. The node lives in the object; the list owns nothing.
 *
 *     struct job { struct ob_list node; ... };
 *     struct ob_list jobs; ob_list_init(&jobs);
 *     ob_list_push(&jobs, &job->node);
 *     OB_LIST_EACH (it, &jobs) { struct job *job = OB_CONTAINER(it, struct job, node); ... }
 */
#ifndef OB_BASE_LIST_H
#define OB_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ob_list {
    struct ob_list *next, *prev;
};

#define OB_CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define OB_LIST_EACH(it, list) for (struct ob_list *it = (list)->next; it != (list); it = it->next)
/* The element may be removed (and freed) in the body. */
#define OB_LIST_EACH_SAFE(it, list) \
    for (struct ob_list *it = (list)->next, *it##_next = it->next; it != (list); it = it##_next, it##_next = it->next)

/* For heads and for nodes: removing an unlinked node again does no harm. */
static inline void ob_list_init(struct ob_list *list)
{
    list->next = list->prev = list;
}

static inline bool ob_list_empty(const struct ob_list *list)
{
    return list->next == list;
}

static inline void ob_list_insert_between(struct ob_list *node, struct ob_list *prev, struct ob_list *next)
{
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

/* At the end. */
static inline void ob_list_push(struct ob_list *list, struct ob_list *node)
{
    ob_list_insert_between(node, list->prev, list);
}

/* At the beginning. */
static inline void ob_list_push_front(struct ob_list *list, struct ob_list *node)
{
    ob_list_insert_between(node, list, list->next);
}

static inline void ob_list_remove(struct ob_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ob_list_init(node);
}

/* From the beginning; NULL when empty. */
static inline struct ob_list *ob_list_shift(struct ob_list *list)
{
    if (ob_list_empty(list))
        return NULL;
    struct ob_list *node = list->next;
    ob_list_remove(node);
    return node;
}

#endif
