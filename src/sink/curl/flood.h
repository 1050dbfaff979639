/* flood.h - bounds what a peer can make a client library read.
 *
 * A library such as libcurl reads as long as there is something to read: a peer that sends faster than the library reads
 * keeps one call from returning, and with it everybody else on the thread's loop. What is wanted of an answer has a
 * size; what comes beyond that is a flood. So a thread of its own looks at the sockets of calls that take long, and at all
 * sockets now and then, and shuts those down that had more bytes than an answer can have. The library then reads an error,
 * as if the peer had closed the connection. The work of a call is bounded because its input is.
 *
 * Threads: all functions are for the thread of the user's loop. The watching thread only runs while there are users, and
 * only wakes up while answers are awaited. It takes no signals. */
#ifndef OB_SINK_CURL_FLOOD_H
#define OB_SINK_CURL_FLOOD_H

#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One user: an engine and its sockets. Embedded; private but for what the functions say. */
struct ob_flood {
    struct ob_list node, sockets;
    uint64_t most;     /* bytes of an answer */
    atomic_uint calls; /* odd: within a call */
    unsigned seen;     /* calls, at the last look */
    bool waiting;      /* answers are awaited */
};

struct ob_flood_socket {
    struct ob_list node;
    int fd;
    ino_t inode;
    uint64_t before; /* bytes that came with earlier answers */
    bool cut;
};

/* False: the thread could not be started. */
bool ob_flood_init(struct ob_flood *flood, uint64_t most);
void ob_flood_fini(struct ob_flood *flood); /* sockets left are forgotten */

/* Around each call of the library that may read. */
static inline void ob_flood_enter(struct ob_flood *flood)
{
    atomic_fetch_add_explicit(&flood->calls, 1, memory_order_relaxed);
}

static inline void ob_flood_leave(struct ob_flood *flood)
{
    atomic_fetch_add_explicit(&flood->calls, 1, memory_order_relaxed);
}

/* A new socket, not yet connected. */
void ob_flood_open(struct ob_flood *flood, struct ob_flood_socket *socket, int fd);
/* Before its number is free for others. */
void ob_flood_close(struct ob_flood_socket *socket);
/* Looks at once: for an answer that comes in many pieces. */
void ob_flood_look(struct ob_flood *flood, struct ob_flood_socket *socket);
/* The answer is over: from here the bytes of the next one count. True: the socket was cut. */
bool ob_flood_end(struct ob_flood_socket *socket);
/* Whether answers are awaited, on any socket: else nobody looks. */
void ob_flood_wait(struct ob_flood *flood, bool begins);

#endif
