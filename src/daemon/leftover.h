/* leftover.h - what is left in a store when there is nothing more to deliver for now, and why. For `run --until-empty`. */
#ifndef OB_DAEMON_LEFTOVER_H
#define OB_DAEMON_LEFTOVER_H

#include "base/arena.h"
#include "daemon/maintenance.h"
#include "daemon/store_loop.h"

enum { OB_LEFTOVER_ROWS = 20 };

/* Messages of one topic that wait for somebody, or for a time. */
struct ob_leftover_row {
    const char *name_space, *topic, *reason;
    int64_t count;
};

struct ob_leftover {
    bool known;
    int64_t waiting; /* to be waited for: due, out, or on their way to another attempt */
    int64_t left;    /* not to be waited for: nothing that this relay does will deliver them now */
    bool by_headers; /* some of the waiting may have no route: ask for them */
    struct ob_leftover_row rows[OB_LEFTOVER_ROWS]; /* the first of what is left */
    size_t row_count;                              /* all of them; may be more */
    struct ob_arena arena;
};

void ob_leftover_read(struct ob_leftover *leftover, const struct ob_store_loop *store_loop,
                      const struct ob_config *config, const struct ob_maintenance_report *report);
void ob_leftover_fini(struct ob_leftover *leftover);
/* A line for each, then one for all. */
void ob_leftover_log(const struct ob_leftover *leftover, const char *store, const struct ob_log *log);

#endif
