/* entry.c - one message between deliver and its verdict, and the chain of those of its key behind it.
 *
 * Invariants: an entry is in one list: `waiting`, in the order of arrival, or `out`. If an entry ends without being
 * accepted, those that wait behind it end with it, unsent. An entry that librdkafka may still access is not freed. */
#include "sink/kafka/kafka_int.h"

#include "base/alloc.h"

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

struct ob_kafka_entry *ob_kafka_entry_new(outbox_sink *sink, const struct outbox_sink_item *item, int64_t now_us)
{
    struct ob_kafka_entry *entry = ob_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->sink = sink;
    entry->handle = item->handle;
    entry->msg = item->msg;
    entry->number = ++sink->arrived;
    entry->since_us = now_us;
    entry->topic = sink->config.topic ? 1 : hash_text(item->msg->topic);
    atomic_init(&entry->partition, -1);
    ob_list_push(&sink->waiting, &entry->node);
    return entry;
}

/* Removes it from its list; the entries that wait for it and cannot be sent any more are moved to `lost`. */
static void unlink_entry(struct ob_kafka_entry *entry, bool accepted, struct ob_list *lost)
{
    struct ob_kafka_entry *behind = entry->behind;
    if (entry->ahead)
        entry->ahead->behind = NULL;
    entry->ahead = entry->behind = NULL;
    ob_list_remove(&entry->node);
    if (entry->out)
        entry->sink->out_count--;
    if (behind)
        behind->ahead = NULL;
    while (!accepted && behind) {
        struct ob_kafka_entry *next = behind->behind;
        if (behind->out) {
            behind->broken = true;
            return; /* its own report speaks for the rest */
        }
        ob_list_remove(&behind->node);
        ob_list_push(lost, &behind->node);
        behind = next;
        if (behind)
            behind->ahead = NULL;
    }
}

/* librdkafka still refers to an entry without a report: it is kept until the producer has shut down. */
static void entry_free(struct ob_kafka_entry *entry)
{
    struct ob_kafka_producer *producer = entry->out ? entry->sink->producers[entry->batching] : NULL;
    if (producer)
        ob_list_push(&producer->orphans, &entry->node);
    else
        ob_free(entry);
}

void ob_kafka_entry_end(struct ob_kafka_entry *entry, const struct outbox_verdict *verdict)
{
    outbox_sink *sink = entry->sink;
    struct ob_list lost, *node;
    uint64_t handle = entry->handle;
    bool cancelled = !entry->msg;
    struct outbox_verdict unsent = OUTBOX_VERDICT_INIT;
    ob_list_init(&lost);
    unlink_entry(entry, verdict->outcome == OUTBOX_SINK_ACCEPTED && !cancelled, &lost);
    entry_free(entry);
    if (!cancelled)
        ob_kafka_answer(sink, handle, verdict);
    unsent.outcome = OUTBOX_SINK_NOT_SENT;
    while ((node = ob_list_shift(&lost))) {
        entry = OB_CONTAINER(node, struct ob_kafka_entry, node);
        handle = entry->handle;
        ob_free(entry);
        ob_kafka_answer(sink, handle, &unsent);
    }
}

void ob_kafka_entry_unsent(struct ob_kafka_entry *entry)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    ob_kafka_entry_end(entry, &verdict);
}

/* Puts it back into `waiting`, in the order of arrival. */
void ob_kafka_entry_again(struct ob_kafka_entry *entry)
{
    outbox_sink *sink = entry->sink;
    if (!entry->msg || entry->broken) {
        ob_kafka_entry_unsent(entry);
        return;
    }
    atomic_store(&entry->partition, -1);
    ob_list_remove(&entry->node);
    struct ob_list *at = sink->waiting.next;
    while (at != &sink->waiting && OB_CONTAINER(at, struct ob_kafka_entry, node)->number < entry->number)
        at = at->next;
    ob_list_push(at, &entry->node); /* before `at` */
}
