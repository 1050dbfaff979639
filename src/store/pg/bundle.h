/* bundle.h - copies of the items of one settle or eject, and which messages of windows they are. */
#ifndef OB_STORE_PG_BUNDLE_H
#define OB_STORE_PG_BUNDLE_H

#include "store/pg/request.h"

struct ob_pg_bundle {
    struct outbox_settle *items;
    size_t *from;  /* their places among the host's */
    size_t *order; /* for ob_pg_bundle_group */
    struct ob_pg_window **windows;
    struct ob_pg_held **held;
    size_t count, windowed, room; /* windowed: those that are in windows, which come first */
};

/* Empties it, with room for so many; false: out of memory. */
bool ob_pg_bundle_room(struct ob_pg_bundle *bundle, size_t count);
void ob_pg_bundle_fini(struct ob_pg_bundle *bundle);

void ob_pg_bundle_put(struct ob_pg_bundle *bundle, const struct outbox_settle *item, size_t from);
/* The last item put is in this window. */
void ob_pg_bundle_put_held(struct ob_pg_bundle *bundle, struct ob_pg_window *window, struct ob_pg_held *held);
/* Puts the items of a window side by side, and the windows in their order: settle_window is quicker then. */
void ob_pg_bundle_group(struct ob_pg_bundle *bundle);
/* Adds a settle_window for the items that are in windows. under_way: they go on as leased rows of the queue. */
void ob_pg_bundle_add(const struct ob_pg_bundle *bundle, struct ob_pg_request *request, const char *worker,
                      bool under_way, enum ob_pg_words words);

#endif
