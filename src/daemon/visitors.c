/* visitors.c - see visitors.h. */
#include "daemon/visitors.h"

#include "base/alloc.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

struct ob_visitor {
    struct ob_list node;
    int fd;
    int64_t since_us;
    bool going, busy;
    unsigned char peer[16]; /* its address; IPv4 in the first four bytes */
};

void ob_visitors_init(struct ob_visitors *visitors)
{
    ob_list_init(&visitors->all);
}

static void peer_of(const struct sockaddr *address, unsigned char peer[16])
{
    memset(peer, 0, 16);
    if (address && address->sa_family == AF_INET)
        memcpy(peer, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (address && address->sa_family == AF_INET6)
        memcpy(peer, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
}

static void send_away(struct ob_visitor *visitor)
{
    visitor->going = true;
    shutdown(visitor->fd, SHUT_RDWR);
}

/* The visitor of a peer whose request has taken longest, and how many the peer has; peer NULL: of all. */
static struct ob_visitor *oldest(struct ob_visitors *visitors, const unsigned char *peer, int *count)
{
    struct ob_visitor *first = NULL;
    *count = 0;
    OB_LIST_EACH (it, &visitors->all) {
        struct ob_visitor *visitor = OB_CONTAINER(it, struct ob_visitor, node);
        if (visitor->going || (peer && memcmp(visitor->peer, peer, sizeof visitor->peer) != 0))
            continue;
        if (!first || (first->busy && !visitor->busy))
            first = visitor;
        ++*count;
    }
    return first;
}

struct ob_visitor *ob_visitor_came(struct ob_visitors *visitors, int fd, const struct sockaddr *address, int64_t now_us)
{
    struct ob_visitor *visitor = ob_calloc(1, sizeof *visitor), *first;
    int count;
    if (!visitor)
        return NULL;
    visitor->fd = fd;
    visitor->since_us = now_us;
    peer_of(address, visitor->peer);
    ob_list_push(&visitors->all, &visitor->node);
    first = oldest(visitors, visitor->peer, &count);
    if (count > OB_VISITORS_OF_A_PEER)
        send_away(first);
    first = oldest(visitors, NULL, &count);
    if (count > OB_VISITORS)
        send_away(first);
    return visitor;
}

void ob_visitor_answered(struct ob_visitors *visitors, struct ob_visitor *visitor, int64_t now_us)
{
    if (!visitor)
        return;
    visitor->since_us = now_us;
    visitor->busy = false;
    ob_list_remove(&visitor->node);
    ob_list_push(&visitors->all, &visitor->node);
}

void ob_visitor_busy(struct ob_visitor *visitor)
{
    if (visitor)
        visitor->busy = true;
}

void ob_visitor_left(struct ob_visitor *visitor)
{
    if (!visitor)
        return;
    ob_list_remove(&visitor->node);
    ob_free(visitor);
}

int64_t ob_visitors_sweep(struct ob_visitors *visitors, int64_t now_us)
{
    OB_LIST_EACH (it, &visitors->all) {
        struct ob_visitor *visitor = OB_CONTAINER(it, struct ob_visitor, node);
        if (visitor->going)
            continue;
        if (visitor->since_us + OB_VISITOR_US > now_us)
            return visitor->since_us + OB_VISITOR_US;
        send_away(visitor);
    }
    return INT64_MAX;
}
