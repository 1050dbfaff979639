/* leftover.h - what remains in a store when nothing more can be delivered for now, and why. For `run --until-empty`. */
#ifndef OB_DAEMON_LEFTOVER_H
#define OB_DAEMON_LEFTOVER_H

#include "base/arena.h"
#include "daemon/maintenance.h"
#include "daemon/store_loop.h"

enum { OB_LEFTOVER_ROWS = 20 };

/* Messages of one topic that wait for an operator or for a later time. */
struct ob_leftover_row {
    const char *name_space, *topic, *reason;
    int64_t count;
};

struct ob_leftover {
    bool known;
    int64_t waiting; /* worth waiting for: due, in flight, or waiting for another attempt */
    int64_t left;    /* not worth waiting for: this relay cannot deliver them now */
    bool by_headers; /* some of the waiting ones may have no route, depending on their headers: request a count */
    struct ob_leftover_row rows[OB_LEFTOVER_ROWS]; /* the first rows of what is left */
    size_t row_count;                              /* of all topics; may exceed OB_LEFTOVER_ROWS */
    struct ob_arena arena;
};

void ob_leftover_read(struct ob_leftover *leftover, const struct ob_store_loop *store_loop,
                      const struct ob_config *config, const struct ob_maintenance_report *report);
void ob_leftover_fini(struct ob_leftover *leftover);
/* Logs one line per row, then one with the total. */
void ob_leftover_log(const struct ob_leftover *leftover, const char *store, const struct ob_log *log);

#endif
