/* text_queue.c - see text_queue.h. */
#include "sink/local/text_queue.h"

#include "base/alloc.h"
#include "sink/local/append.h"
#include "sink/shortage.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct ob_text_entry *entry_at(struct ob_list *node)
{
    return OB_CONTAINER(node, struct ob_text_entry, node);
}

static void entry_free(struct ob_text_entry *entry)
{
    if (!entry)
        return;
    ob_list_remove(&entry->node);
    ob_buf_fini(&entry->line);
    ob_free(entry);
}

void ob_text_entries_free(struct ob_list *list)
{
    OB_LIST_EACH_SAFE (it, list)
        entry_free(entry_at(it));
}

void ob_text_line_answer(const struct ob_text_queue *queue, uint64_t handle, enum outbox_sink_outcome outcome,
                         int number)
{
    char code[OB_ERRNO_CODE], text[PATH_MAX + 128];
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = outcome;
    verdict.scope = OUTBOX_SCOPE_SINK;
    verdict.unreachable = outcome == OUTBOX_SINK_RETRY || outcome == OUTBOX_SINK_UNKNOWN;
    if (number) {
        snprintf(text, sizeof text, "%s: %s", queue->name, strerror(number));
        verdict.code = ob_errno_code(queue->prefix, number, code);
        verdict.text = text;
    }
    queue->host->done(queue->host->ctx, handle, &verdict);
}

static void answer_shortage(const struct ob_text_queue *queue, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = OB_SHORTAGE_US;
    verdict.code = "out_of_memory";
    verdict.text = "out of memory";
    queue->host->done(queue->host->ctx, handle, &verdict);
}

void ob_text_entry_end(const struct ob_text_queue *queue, struct ob_text_entry *entry, enum outbox_sink_outcome outcome,
                       int number)
{
    uint64_t handle = entry->handle;
    bool cancelled = entry->cancelled;
    entry_free(entry);
    if (!cancelled)
        ob_text_line_answer(queue, handle, outcome, number);
}

static struct ob_text_entry *entry_new(const struct ob_text_queue *queue, const struct outbox_sink_item *item)
{
    struct ob_text_entry *entry = ob_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    ob_list_init(&entry->node);
    entry->handle = item->handle;
    entry->follows = item->follows;
    ob_text_line_put(&entry->line, queue->format, item->msg);
    if (ob_buf_ok(&entry->line))
        return entry;
    entry_free(entry);
    return NULL;
}

void ob_text_queue_add(struct ob_text_queue *queue, const struct outbox_sink_item *items, size_t count)
{
    bool lost = false; /* a line of this key could not be made */
    for (size_t i = 0; i < count; i++) {
        struct ob_text_entry *entry = lost && items[i].follows ? NULL : entry_new(queue, &items[i]);
        lost = !entry;
        if (entry)
            ob_list_push(&queue->entries, &entry->node);
        else
            answer_shortage(queue, items[i].handle);
    }
}

/* What stands behind a line that will not be written. All of it leaves the queue before the first verdict. */
static void drop_followers(struct ob_text_queue *queue, struct ob_list *node)
{
    struct ob_list lost, *next;
    ob_list_init(&lost);
    for (; node != &queue->entries && entry_at(node)->follows; node = next) {
        next = node->next;
        ob_list_remove(node);
        ob_list_push(&lost, node);
    }
    while (!ob_list_empty(&lost))
        ob_text_entry_end(queue, entry_at(lost.next), OUTBOX_SINK_NOT_SENT, 0);
}

/* A partly written line must be completed, or it would run into the next. */
void ob_text_queue_cancel(struct ob_text_queue *queue, uint64_t handle)
{
    OB_LIST_EACH (it, &queue->entries) {
        struct ob_text_entry *entry = entry_at(it);
        if (entry->handle != handle)
            continue;
        struct ob_list *behind = it->next;
        entry->cancelled = true;
        if (entry->written == 0) {
            entry_free(entry);
            drop_followers(queue, behind);
        }
        return;
    }
}
