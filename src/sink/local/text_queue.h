/* text_queue.h - the lines that wait to be written, for the sinks that write lines.
 *
 * Lines stand in the order in which they were given, so that what follows a line stands right behind it. A line that is
 * given up before a byte of it is out takes those that follow it along, as not sent.
 *
 * Thread: the loop's. Verdicts may bring new lines in and cancel others: an entry has left its list before it is
 * answered. */
#ifndef OB_SINK_LOCAL_TEXT_QUEUE_H
#define OB_SINK_LOCAL_TEXT_QUEUE_H

#include "base/list.h"
#include "sink/local/text_line.h"

struct ob_text_entry {
    struct ob_list node;
    uint64_t handle;
    bool follows;
    bool cancelled; /* it is written all the same, and nobody hears of it */
    struct ob_buf line;
    size_t written; /* so much of it is out */
    enum outbox_sink_outcome outcome;
    int number; /* errno, when it went wrong */
};

struct ob_text_queue {
    const struct outbox_sink_host *host;
    const char *prefix; /* of codes: "file" */
    const char *name;   /* of what is written to, for people; borrowed */
    enum ob_text_format format;
    struct ob_list entries;
};

/* A line for each message; one for which there is no memory is answered, and so are those that follow it. */
void ob_text_queue_add(struct ob_text_queue *queue, const struct outbox_sink_item *items, size_t count);
void ob_text_queue_cancel(struct ob_text_queue *queue, uint64_t handle);
/* The verdict; number is an errno, 0 for none. */
void ob_text_line_answer(const struct ob_text_queue *queue, uint64_t handle, enum outbox_sink_outcome outcome,
                         int number);
/* The entry leaves its list, is freed, and its verdict is reported unless it was cancelled. */
void ob_text_entry_end(const struct ob_text_queue *queue, struct ob_text_entry *entry, enum outbox_sink_outcome outcome,
                       int number);
/* Frees them without a word. */
void ob_text_entries_free(struct ob_list *list);

#endif
