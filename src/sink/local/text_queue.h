/* text_queue.h - the lines that wait to be written, for the sinks that write lines.
 *
 * Lines are kept in the order in which they were added, so a line that follows another is right behind it. If a line is
 * given up before a byte of it was written, those that follow it end with it, as not sent.
 *
 * Thread: the loop's. Reporting a verdict may add new lines and cancel others, so an entry is removed from its list before
 * its verdict is reported. */
#ifndef OB_SINK_LOCAL_TEXT_QUEUE_H
#define OB_SINK_LOCAL_TEXT_QUEUE_H

#include "base/list.h"
#include "sink/local/text_line.h"

struct ob_text_entry {
    struct ob_list node;
    uint64_t handle;
    bool follows;
    bool cancelled; /* it is still written, but no verdict is reported */
    struct ob_buf line;
    size_t written; /* bytes written so far */
    enum outbox_sink_outcome outcome;
    int number; /* the errno if writing failed */
};

struct ob_text_queue {
    const struct outbox_sink_host *host;
    const char *prefix; /* of codes: "file" */
    const char *name;   /* of the file or stream, for texts; borrowed */
    enum ob_text_format format;
    struct ob_list entries;
};

/* Adds a line for each message. If memory runs out for one, it and those that follow it get their verdict at once. */
void ob_text_queue_add(struct ob_text_queue *queue, const struct outbox_sink_item *items, size_t count);
void ob_text_queue_cancel(struct ob_text_queue *queue, uint64_t handle);
/* Reports the verdict; number is an errno, 0 for none. */
void ob_text_line_answer(const struct ob_text_queue *queue, uint64_t handle, enum outbox_sink_outcome outcome,
                         int number);
/* Removes the entry from its list, frees it, and reports its verdict unless it was cancelled. */
void ob_text_entry_end(const struct ob_text_queue *queue, struct ob_text_entry *entry, enum outbox_sink_outcome outcome,
                       int number);
/* Frees all entries without reporting verdicts. */
void ob_text_entries_free(struct ob_list *list);

#endif
