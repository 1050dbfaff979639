/* nats_int.h - between the files of the NATS sink; see nats.c. */
#ifndef OB_SINK_BROKER_NATS_NATS_INT_H
#define OB_SINK_BROKER_NATS_NATS_INT_H

#include "sink/broker/broker.h"

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
 * names a message by its id, and is true; a late word that a connection is closed only makes the broker thread look. */
struct ob_nats_link {
    struct ob_list node; /* of those not in use */
    pthread_mutex_t mutex;
    struct ob_broker *broker; /* NULL: nobody listens */
    struct ob_list events;
};

struct ob_nats_link *ob_nats_link_take(struct ob_broker *broker);
void ob_nats_link_give(struct ob_nats_link *link);
/* NULL: none. To be freed. */
struct ob_nats_event *ob_nats_link_next(struct ob_nats_link *link);
/* Callbacks; the closure is the link. */
void ob_nats_on_ack(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *error, void *closure);
void ob_nats_on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure);
void ob_nats_on_closed(natsConnection *nc, void *closure);

/* Whether the server keeps within what a publisher can be sent. */
struct ob_nats_watch {
    int fd, epoll; /* fd: a duplicate of the library's; -1: none */
    int64_t since_us;
    uint64_t sent; /* messages, by the caller */
};

void ob_nats_watch_init(struct ob_nats_watch *watch);
/* Where the descriptor cannot be found (no /proc, or none left) nothing is watched. */
void ob_nats_watch_open(struct ob_nats_watch *watch, natsConnection *connection);
void ob_nats_watch_close(struct ob_nats_watch *watch);
/* False: it does not, and was hung up on. */
bool ob_nats_watch_check(struct ob_nats_watch *watch);

/* Ends a connect that takes longer than it may. */
enum { OB_NATS_PEERS = 16 };
struct ob_nats_guard {
    char peers[OB_NATS_PEERS][OB_ADDRESS_TEXT + 8]; /* "address port" */
    size_t peer_count;
    int old[64]; /* sockets to them that were there before */
    size_t old_count;
    int64_t until_us;
    bool over;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

void ob_nats_guard_peer(struct ob_nats_guard *guard, const char *address, int port);
/* From here on; until_us of the monotonic clock. False: there is no thread for it. */
bool ob_nats_guard_start(struct ob_nats_guard *guard, int64_t until_us);
void ob_nats_guard_end(struct ob_nats_guard *guard);

/* What the end of a publish means. */
void ob_nats_verdict(struct ob_verdict *verdict, natsStatus status, int code, const char *text, int attempt,
                     bool one_address);
/* Why there is no connection to the servers named in places. text: of the library; dialled: it was tried. */
void ob_nats_verdict_of_connect(struct ob_verdict *verdict, natsStatus status, const char *text, const char *places,
                                bool dialled);
/* May messages go there? Not to the server's own subjects, nor to several at once. */
bool ob_nats_subject_ok(const char *subject, size_t len);

#endif
