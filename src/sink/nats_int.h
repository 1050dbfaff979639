/* nats_int.h - between the files of the NATS sink; nats.c tells the story. */
#ifndef OB_SINK_NATS_INT_H
#define OB_SINK_NATS_INT_H

#include "sink/courier.h"

#include <nats/nats.h>

/* What the library said on one of its threads. */
struct ob_nats_event {
    struct ob_list node;
    char id[OB_UUID_TEXT]; /* of the message; "": of the connection */
    natsStatus status;
    int code; /* JetStream's; 0 for none */
    bool duplicate;
    char text[300]; /* the stream and sequence, or the error */
};

/* Where the threads of one connection leave their events. The library calls back even after a connection was destroyed,
 * and does not say which call is the last; so a link is never freed, but used again. An event too late does no harm: it
 * names a message by its id, and is true; a late word that a connection is closed only makes the courier look. */
struct ob_nats_link {
    struct ob_list node; /* of those not in use */
    pthread_mutex_t mutex;
    struct ob_courier *courier; /* NULL: nobody listens */
    struct ob_list events;
};

struct ob_nats_link *ob_nats_link_take(struct ob_courier *courier);
void ob_nats_link_give(struct ob_nats_link *link);
/* NULL: none. To be freed. */
struct ob_nats_event *ob_nats_link_next(struct ob_nats_link *link);
/* Callbacks; the closure is the link. */
void ob_nats_on_ack(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *error, void *closure);
void ob_nats_on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure);
void ob_nats_on_closed(natsConnection *nc, void *closure);

/* What the end of a publish means. */
void ob_nats_rule(struct ob_ruling *ruling, natsStatus status, int code, const char *text, int attempt,
                  bool one_address);
/* Why there is no connection to the servers named in places. text: of the library; dialled: it was tried. */
void ob_nats_rule_connect(struct ob_ruling *ruling, natsStatus status, const char *text, const char *places,
                          bool dialled);
/* May messages go there? Not to the server's own subjects, nor to several at once. */
bool ob_nats_subject_ok(const char *subject, size_t len);

#endif
