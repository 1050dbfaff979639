/* peer.h - what a sink knows of the recipients it wrote to lately: how fast they may be written to, until when one
 * must be left alone, and where one has gone.
 *
 * Bounded: of more recipients than fit, the one not written to for longest is forgotten. Forgetting costs at most a
 * message that the receiver refuses for being too early. Thread: the loop's. Time is given. */
#ifndef OB_SINK_CHAT_PEER_H
#define OB_SINK_CHAT_PEER_H

#include "base/list.h"
#include "core/rate.h"

enum { OB_CHAT_PEERS = 8192, OB_CHAT_PEER_CHAINS = 1024, OB_CHAT_TO = 128 };

struct ob_chat_peer {
    struct ob_list chain, recent;
    char to[OB_CHAT_TO];
    struct ob_rate rate;
    int64_t turn_us;  /* the last turn that was promised to one who had to wait */
    int64_t until_us; /* to be left alone until then */
    int strikes;      /* refusals for being too early, one after the other */
    char moved_to[OB_CHAT_TO];
};

struct ob_chat_peers {
    struct ob_list chains[OB_CHAT_PEER_CHAINS];
    struct ob_list recent; /* the latest first */
    size_t count;
};

void ob_chat_peers_init(struct ob_chat_peers *peers);
void ob_chat_peers_fini(struct ob_chat_peers *peers);
/* Makes one if need be, with this rate. Valid until the next call. NULL when there is no memory. */
struct ob_chat_peer *ob_chat_peers_get(struct ob_chat_peers *peers, const char *to, const struct ob_rate *rate);
/* NULL when it is not known. */
struct ob_chat_peer *ob_chat_peers_find(struct ob_chat_peers *peers, const char *to);

/* How long a message to this one has to wait. No longer than hold_us: it is counted, and its place is kept for it. Longer:
 * it is not, and must come again. */
int64_t ob_chat_peer_take(struct ob_chat_peer *peer, int64_t now_us, int64_t hold_us);

#endif
