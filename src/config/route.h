/* route.h - which sink a message goes to: the first route that matches. For globs see base/glob.h. */
#ifndef OB_CONFIG_ROUTE_H
#define OB_CONFIG_ROUTE_H

#include "config/config.h"

enum { OB_ROUTE_NONE = -1, OB_ROUTE_BY_HEADERS = -2 };

/* The index of the route that takes the message; OB_ROUTE_NONE. The answer for a lane where headers do not matter is
 * remembered within the configuration: one thread at a time. */
int ob_route_find(const struct ob_config *config, const struct outbox_delivery *msg);
/* The sink that every message of a lane goes to; OB_ROUTE_NONE: to none, OB_ROUTE_BY_HEADERS: that depends. */
int ob_route_lane(const struct ob_config *config, const char *name_space, const char *topic);

/* The memory of ob_route_find, made once with the configuration, in its arena; NULL when memory runs out. */
struct ob_route_memo *ob_route_memo_new(struct ob_arena *arena);

#endif
