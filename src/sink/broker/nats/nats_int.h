/* nats_int.h - shared by the files of the NATS sink; see nats.c. */
#ifndef OB_SINK_BROKER_NATS_NATS_INT_H
#define OB_SINK_BROKER_NATS_NATS_INT_H

#include "sink/broker/broker.h"

#include <nats/nats.h>

/* What the library reported on one of its threads. */
struct ob_nats_event {
    struct ob_list node;
    char id[OB_UUID_TEXT]; /* of the message; "": it is about the connection */
    natsStatus status;
    int code; /* JetStream's; 0 for none */
    bool duplicate;
    char text[300]; /* the stream and sequence, or the error */
};

/* The queue of events from the library's threads for one connection. The library calls back even after a connection was
 * destroyed, and does not say which call is the last; so a link is never freed, but reused. A late event does no harm: it
 * names a message by its id, and is true; a late report that a connection is closed only makes the broker thread check. */
struct ob_nats_link {
    struct ob_list node; /* in the list of unused links */
    pthread_mutex_t mutex;
    struct ob_broker *broker; /* NULL: events are dropped */
    struct ob_list events;
};

struct ob_nats_link *ob_nats_link_take(struct ob_broker *broker);
void ob_nats_link_give(struct ob_nats_link *link);
/* NULL: none. The caller frees it. */
struct ob_nats_event *ob_nats_link_next(struct ob_nats_link *link);
/* Callbacks; the closure is the link. */
void ob_nats_on_ack(jsCtx *js, natsMsg *msg, jsPubAck *ack, jsPubAckErr *error, void *closure);
void ob_nats_on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure);
void ob_nats_on_closed(natsConnection *nc, void *closure);

/* Checks that the server sends no more than a publisher can expect. */
struct ob_nats_watch {
    int fd, epoll; /* fd: a duplicate of the library's; -1: none */
    int64_t since_us;
    uint64_t sent; /* messages sent, counted by the caller */
};

void ob_nats_watch_init(struct ob_nats_watch *watch);
/* If the descriptor cannot be found (no /proc, or no free descriptors), nothing is watched. */
void ob_nats_watch_open(struct ob_nats_watch *watch, natsConnection *connection);
void ob_nats_watch_close(struct ob_nats_watch *watch);
/* False: the server sent too much, and the connection was shut down. */
bool ob_nats_watch_check(struct ob_nats_watch *watch);

/* Ends a connect that exceeds its time limit. */
enum { OB_NATS_PEERS = 16 };
struct ob_nats_guard {
    char peers[OB_NATS_PEERS][OB_ADDRESS_TEXT + 8]; /* "address port" */
    size_t peer_count;
    int old[64]; /* sockets to them that existed before */
    size_t old_count;
    int64_t until_us;
    bool over;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

void ob_nats_guard_peer(struct ob_nats_guard *guard, const char *address, int port);
/* Call before connecting; until_us is of the monotonic clock. False: the thread could not be started. */
bool ob_nats_guard_start(struct ob_nats_guard *guard, int64_t until_us);
void ob_nats_guard_end(struct ob_nats_guard *guard);

/* The verdict for the result of a publish. */
void ob_nats_verdict(struct ob_verdict *verdict, natsStatus status, int code, const char *text, int attempt,
                     bool one_address);
/* The verdict for a failed connect to the servers named in places. text: from the library; dialled: a connect was tried. */
void ob_nats_verdict_of_connect(struct ob_verdict *verdict, natsStatus status, const char *text, const char *places,
                                bool dialled);
/* Whether messages may be sent to it: not a subject of the server's own, and no wildcards. */
bool ob_nats_subject_ok(const char *subject, size_t len);

#endif
