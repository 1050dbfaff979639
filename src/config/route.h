/* route.h - which sink a message goes to: the first route that matches. For globs see base/glob.h. */
#ifndef OB_CONFIG_ROUTE_H
#define OB_CONFIG_ROUTE_H

#include "config/config.h"

enum { OB_ROUTE_NONE = -1, OB_ROUTE_BY_HEADERS = -2 };

/* The index of the route that takes the message, or OB_ROUTE_NONE. Results for lanes where headers do not matter are
 * cached in the configuration: one thread at a time. */
int ob_route_find(const struct ob_config *config, const struct outbox_delivery *msg);
/* The sink of all messages of a lane; OB_ROUTE_NONE: no route, OB_ROUTE_BY_HEADERS: it depends on the headers. */
int ob_route_lane(const struct ob_config *config, const char *name_space, const char *topic);

/* The cache of ob_route_find, created once with the configuration, in its arena; NULL: no memory. */
struct ob_route_memo *ob_route_memo_new(struct ob_arena *arena);

#endif
