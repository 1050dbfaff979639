/* flood.h - bounds what a peer can make a client library read.
 *
 * A library such as libcurl reads as long as there is something to read: a peer that sends faster than the library reads
 * keeps one call from returning, and blocks everything else on the thread's loop. The size of an answer is limited;
 * anything beyond the limit is a flood. So a separate thread checks the sockets of calls that take long, and from time to
 * time all sockets, and shuts down those that received more bytes than an answer can have. The library then reads an
 * error, as if the peer had closed the connection. The work of a call is bounded because its input is.
 *
 * Threads: all functions are for the thread of the user's loop. The watching thread runs only while there are users, and
 * wakes up only while answers are awaited. It takes no signals. */
#ifndef OB_SINK_CURL_FLOOD_H
#define OB_SINK_CURL_FLOOD_H

#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One user and its sockets. Embedded; private. */
struct ob_flood {
    struct ob_list node, sockets;
    uint64_t most;     /* most bytes of an answer */
    atomic_uint calls; /* odd: within a call */
    unsigned seen;     /* calls, at the last check */
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
void ob_flood_fini(struct ob_flood *flood); /* its remaining sockets are no longer watched */

/* To be called before and after each call of the library that may read. */
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
/* To be called before the descriptor is closed, while its number cannot be reused. */
void ob_flood_close(struct ob_flood_socket *socket);
/* Checks at once: for an answer that comes in many pieces. */
void ob_flood_look(struct ob_flood *flood, struct ob_flood_socket *socket);
/* The answer is complete: the count starts again for the next one. True: the socket was shut down. */
bool ob_flood_end(struct ob_flood_socket *socket);
/* Says whether answers are awaited on any socket; if not, nothing is checked. */
void ob_flood_wait(struct ob_flood *flood, bool begins);

#endif
