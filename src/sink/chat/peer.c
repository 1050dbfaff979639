/* peer.c - see peer.h. */
#include "sink/chat/peer.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { TURN_MOST_US = 60 * 1000000 }; /* turns are reserved at most this far ahead */

void ob_chat_peers_init(struct ob_chat_peers *peers)
{
    for (int i = 0; i < OB_CHAT_PEER_CHAINS; i++)
        ob_list_init(&peers->chains[i]);
    ob_list_init(&peers->recent);
    peers->count = 0;
}

static void forget(struct ob_chat_peers *peers, struct ob_chat_peer *peer)
{
    ob_list_remove(&peer->chain);
    ob_list_remove(&peer->recent);
    ob_free(peer);
    peers->count--;
}

void ob_chat_peers_fini(struct ob_chat_peers *peers)
{
    OB_LIST_EACH_SAFE (it, &peers->recent)
        forget(peers, OB_CONTAINER(it, struct ob_chat_peer, recent));
}

static struct ob_list *chain_of(struct ob_chat_peers *peers, const char *to)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *to; to++)
        hash = (hash ^ (unsigned char)*to) * 1099511628211u;
    return &peers->chains[(hash ^ hash >> 32) % OB_CHAT_PEER_CHAINS];
}

struct ob_chat_peer *ob_chat_peers_find(struct ob_chat_peers *peers, const char *to)
{
    OB_LIST_EACH (it, chain_of(peers, to)) {
        struct ob_chat_peer *peer = OB_CONTAINER(it, struct ob_chat_peer, chain);
        if (strcmp(peer->to, to) == 0)
            return peer;
    }
    return NULL;
}

struct ob_chat_peer *ob_chat_peers_get(struct ob_chat_peers *peers, const char *to, const struct ob_rate *rate)
{
    struct ob_chat_peer *peer = ob_chat_peers_find(peers, to);
    if (!peer) {
        if (peers->count >= OB_CHAT_PEERS)
            forget(peers, OB_CONTAINER(peers->recent.prev, struct ob_chat_peer, recent));
        peer = ob_calloc(1, sizeof *peer);
        if (!peer)
            return NULL;
        snprintf(peer->to, sizeof peer->to, "%s", to);
        peer->rate = *rate;
        peer->turn_us = peer->until_us = INT64_MIN / 2;
        ob_list_init(&peer->recent);
        ob_list_push(chain_of(peers, to), &peer->chain);
        peers->count++;
    }
    ob_list_remove(&peer->recent);
    ob_list_push_front(&peers->recent, &peer->recent);
    return peer;
}

int64_t ob_chat_peer_take(struct ob_chat_peer *peer, int64_t now_us, int64_t hold_us)
{
    int64_t ready_us = ob_rate_ready_us(&peer->rate, now_us);
    if (ready_us < peer->until_us)
        ready_us = peer->until_us;
    if (ready_us <= now_us + hold_us) {
        if (ready_us < now_us)
            ready_us = now_us;
        ob_rate_take(&peer->rate, ready_us);
        return ready_us - now_us;
    }
    /* Each message that is given back gets its own turn: with the same time, they would all come back at once. */
    int64_t turn_us = peer->turn_us + peer->rate.interval_ns / 1000;
    if (turn_us > now_us + TURN_MOST_US)
        turn_us = now_us + TURN_MOST_US;
    if (turn_us < ready_us)
        turn_us = ready_us;
    peer->turn_us = turn_us;
    return turn_us - now_us;
}
