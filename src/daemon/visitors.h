/* visitors.h - who is connected to a small server, and for how long: nobody keeps others out.
 *
 * A visitor has so much time for a whole request, from the connection or the answer before to the end of the answer, however
 * it spends it. When there are too many, of one peer or altogether, the one that has taken longest goes: a newcomer always
 * finds a place, also one from the address that floods us. So a probe is answered as long as it asks without delay.
 *
 * To go is to have one's socket shut down; the server then notices and closes it. One thread. */
#ifndef OB_DAEMON_VISITORS_H
#define OB_DAEMON_VISITORS_H

#include "base/list.h"

#include <stdint.h>
#include <sys/socket.h>

enum { OB_VISITORS = 32, OB_VISITORS_OF_A_PEER = 16, OB_VISITOR_US = 10000000 };

struct ob_visitors {
    struct ob_list all; /* the one that has taken longest comes first */
};

struct ob_visitor;

void ob_visitors_init(struct ob_visitors *visitors);
/* NULL: no memory; then it is not watched over. address may be NULL. */
struct ob_visitor *ob_visitor_came(struct ob_visitors *visitors, int fd, const struct sockaddr *address,
                                   int64_t now_us);
void ob_visitor_answered(struct ob_visitors *visitors, struct ob_visitor *visitor, int64_t now_us);
void ob_visitor_left(struct ob_visitor *visitor); /* accepts NULL */

/* Sends those away whose time is up, and says when that is next: INT64_MAX, never. */
int64_t ob_visitors_sweep(struct ob_visitors *visitors, int64_t now_us);

#endif
