/* visitors.h - limits the connections of a small server in number and time, so that no client keeps others out.
 *
 * A visitor has a fixed time for a whole request, from the connection or the previous answer to the end of the answer,
 * however it uses that time. When there are too many visitors, from one peer or in total, the one whose request has taken
 * longest is disconnected: a new one is always admitted, even from an address that floods us. So a probe that sends its
 * request without delay is always answered. One whose request is being answered stays, as long as there are others: those requests
 * are few (api.h), and to cut them would leave nobody answered when many ask.
 *
 * To disconnect a visitor is to shut its socket down; the server then notices and closes it. One thread. */
#ifndef OB_DAEMON_VISITORS_H
#define OB_DAEMON_VISITORS_H

#include "base/list.h"

#include <stdint.h>
#include <sys/socket.h>

enum { OB_VISITORS = 64, OB_VISITORS_OF_A_PEER = 32, OB_VISITOR_US = 10000000 };

struct ob_visitors {
    struct ob_list all; /* the one whose request has taken longest comes first */
};

struct ob_visitor;

void ob_visitors_init(struct ob_visitors *visitors);
/* NULL: no memory; then the connection is not limited. address may be NULL. */
struct ob_visitor *ob_visitor_came(struct ob_visitors *visitors, int fd, const struct sockaddr *address,
                                   int64_t now_us);
void ob_visitor_answered(struct ob_visitors *visitors, struct ob_visitor *visitor, int64_t now_us);
/* Its request is complete, and is being answered; until ob_visitor_answered. */
void ob_visitor_busy(struct ob_visitor *visitor); /* accepts NULL */
void ob_visitor_left(struct ob_visitor *visitor); /* accepts NULL */

/* Disconnects those whose time is over, and returns when the next one's time ends; INT64_MAX: never. */
int64_t ob_visitors_sweep(struct ob_visitors *visitors, int64_t now_us);

#endif
