/* message_copy.c - see message_copy.h. */
#include "core/message_copy.h"

#include "base/alloc.h"

#include <string.h>

static const size_t texts[] = {
    offsetof(struct outbox_delivery, name_space),     offsetof(struct outbox_delivery, topic),
    offsetof(struct outbox_delivery, tenant_id),      offsetof(struct outbox_delivery, key),
    offsetof(struct outbox_delivery, dedupe_key),     offsetof(struct outbox_delivery, subject),
    offsetof(struct outbox_delivery, recipient),      offsetof(struct outbox_delivery, headers),
    offsetof(struct outbox_delivery, correlation_id), offsetof(struct outbox_delivery, content_type),
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static const char **text_at(struct outbox_delivery *msg, size_t i)
{
    return (const char **)(void *)((char *)msg + texts[i]);
}

struct outbox_delivery *ob_message_copy(const struct outbox_delivery *msg, size_t *bytes)
{
    struct outbox_delivery head = *msg;
    size_t lengths[TEXTS], total = sizeof head + head.payload_len + 1;
    for (size_t i = 0; i < TEXTS; i++) {
        const char *text = *text_at(&head, i);
        lengths[i] = text ? strlen(text) + 1 : 0;
        total += lengths[i];
    }
    *bytes = 0;
    struct outbox_delivery *copy = ob_alloc(total);
    if (!copy)
        return NULL;
    *copy = head;
    char *at = (char *)(copy + 1);
    for (size_t i = 0; i < TEXTS; i++) {
        if (!lengths[i])
            continue;
        memcpy(at, *text_at(&head, i), lengths[i]);
        *text_at(copy, i) = at;
        at += lengths[i];
    }
    if (head.payload_len)
        memcpy(at, head.payload, head.payload_len);
    at[head.payload_len] = '\0';
    copy->payload = at;
    *bytes = total;
    return copy;
}
