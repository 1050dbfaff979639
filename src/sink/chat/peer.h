/* peer.h - what a sink knows about recent recipients: how fast messages may be sent to each, until when it must wait, and
 * where a recipient has moved.
 *
 * Bounded: if the table is full, the least recently used recipient is removed. That costs at most one message that the
 * receiver refuses because it came too early. Thread: the loop's. The caller passes the time. */
#ifndef OB_SINK_CHAT_PEER_H
#define OB_SINK_CHAT_PEER_H

#include "base/list.h"
#include "core/rate.h"

enum { OB_CHAT_PEERS = 8192, OB_CHAT_PEER_CHAINS = 1024, OB_CHAT_TO = 128 };

struct ob_chat_peer {
    struct ob_list chain, recent;
    char to[OB_CHAT_TO];
    struct ob_rate rate;
    int64_t turn_us;  /* the latest time promised to a message that had to wait */
    int64_t until_us; /* nothing may be sent before */
    int strikes;      /* consecutive refusals for being too early */
    char moved_to[OB_CHAT_TO];
};

struct ob_chat_peers {
    struct ob_list chains[OB_CHAT_PEER_CHAINS];
    struct ob_list recent; /* most recent first */
    size_t count;
};

void ob_chat_peers_init(struct ob_chat_peers *peers);
void ob_chat_peers_fini(struct ob_chat_peers *peers);
/* Adds the recipient with this rate if it is not known. Valid until the next call. NULL: out of memory. */
struct ob_chat_peer *ob_chat_peers_get(struct ob_chat_peers *peers, const char *to, const struct ob_rate *rate);
/* NULL if it is not known. */
struct ob_chat_peer *ob_chat_peers_find(struct ob_chat_peers *peers, const char *to);

/* How long a message to this recipient has to wait. Up to hold_us: the message is counted, and its turn is reserved.
 * Longer: it is not counted, and must be given back. */
int64_t ob_chat_peer_take(struct ob_chat_peer *peer, int64_t now_us, int64_t hold_us);

#endif
