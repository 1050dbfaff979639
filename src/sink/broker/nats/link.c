/* link.c - the way from the threads of libnats to the broker thread's; see nats_int.h. */
#include "sink/broker/nats/nats_int.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ob_list pool = {&pool, &pool};

struct ob_nats_link *ob_nats_link_take(struct ob_broker *broker)
{
    pthread_mutex_lock(&pool_mutex);
    struct ob_list *node = ob_list_shift(&pool);
    pthread_mutex_unlock(&pool_mutex);
    struct ob_nats_link *link = node ? OB_CONTAINER(node, struct ob_nats_link, node) : NULL;
    if (!link) {
        link = ob_calloc(1, sizeof *link);
        if (!link)
            return NULL;
        pthread_mutex_init(&link->mutex, NULL);
        ob_list_init(&link->events);
        ob_list_init(&link->node);
    }
    pthread_mutex_lock(&link->mutex);
    link->broker = broker;
    pthread_mutex_unlock(&link->mutex);
    return link;
}

struct ob_nats_event *ob_nats_link_next(struct ob_nats_link *link)
{
    pthread_mutex_lock(&link->mutex);
    struct ob_list *node = ob_list_shift(&link->events);
    pthread_mutex_unlock(&link->mutex);
    return node ? OB_CONTAINER(node, struct ob_nats_event, node) : NULL;
}

void ob_nats_link_give(struct ob_nats_link *link)
{
    struct ob_nats_event *event;
    if (!link)
        return;
    pthread_mutex_lock(&link->mutex);
    link->broker = NULL;
    pthread_mutex_unlock(&link->mutex);
    while ((event = ob_nats_link_next(link)))
        ob_free(event);
    pthread_mutex_lock(&pool_mutex);
    ob_list_push(&pool, &link->node);
    pthread_mutex_unlock(&pool_mutex);
}

/* Owns event, which may be NULL: then memory ran out, and ack_timeout ends the job instead. */
static void event_push(struct ob_nats_link *link, struct ob_nats_event *event)
{
    pthread_mutex_lock(&link->mutex);
    bool listens = link->broker && event;
    if (listens) {
        ob_list_push(&link->events, &event->node);
        ob_broker_kick(link->broker);
    }
    pthread_mutex_unlock(&link->mutex);
    if (!listens)
        ob_free(event);
}

void ob_nats_on_ack(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *error, void *closure)
{
    struct ob_nats_event *event = ob_calloc(1, sizeof *event);
    const char *id = NULL;
    (void)js;
    if (event && natsMsgHeader_Get(msg, "Nats-Msg-Id", &id) == NATS_OK && id) {
        snprintf(event->id, sizeof event->id, "%s", id);
        if (error) {
            event->status = error->Err ? error->Err : NATS_ERR;
            event->code = (int)error->ErrCode;
            snprintf(event->text, sizeof event->text, "%s", error->ErrText ? error->ErrText : "");
        } else if (ack) {
            event->duplicate = ack->Duplicate;
            snprintf(event->text, sizeof event->text, "%s/%" PRIu64, ack->Stream ? ack->Stream : "", ack->Sequence);
        }
        event_push(closure, event);
    } else {
        ob_free(event);
    }
    natsMsg_Destroy(msg);
}

void ob_nats_on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure)
{
    struct ob_nats_event *event = ob_calloc(1, sizeof *event);
    const char *text = NULL;
    (void)sub;
    if (event) {
        event->status = status;
        natsConnection_GetLastError(nc, &text);
        snprintf(event->text, sizeof event->text, "%s", text ? text : natsStatus_GetText(status));
    }
    event_push(closure, event);
}

void ob_nats_on_closed(natsConnection *nc, void *closure)
{
    struct ob_nats_link *link = closure;
    (void)nc;
    pthread_mutex_lock(&link->mutex);
    if (link->broker)
        ob_broker_kick(link->broker);
    pthread_mutex_unlock(&link->mutex);
}
