/* station.h - one store served by this process: its engine on the relay's loop, and the lanes its claims may take.
 *
 * Sinks are shared by all stations, also by those of another configuration while a reload is under way. So a delivery's
 * handle carries the number of its station, and a table of the process tells whose it is. Numbers go round, so that one is
 * not used again soon: a sink may answer late, when the station that asked has gone. */
#ifndef OB_RELAY_STATION_H
#define OB_RELAY_STATION_H

#include "lib/engine.h"
#include "relay/config.h"
#include "relay/outlet.h"

struct ob_station;

enum { OB_STATION_MAX = 4095 };

/* Who has which number; 0 is nobody's. Begins zeroed. */
struct ob_station_table {
    struct ob_station *at[OB_STATION_MAX + 1];
    int last; /* given */
};
/* The verdict goes to the station that the handle names, if it is still there. */
void ob_station_table_verdict(const struct ob_station_table *table, uint64_t handle,
                              const struct outbox_verdict *verdict);

struct ob_station_settings {
    const struct ob_config *config; /* borrowed, like all of these but for the line */
    int index;                      /* of the store in the configuration */
    struct ob_outlet *const *outlets;
    struct ob_shared_line *line; /* to the store; the station takes a reference. NULL: it opens one */
    struct ob_station_table *table;
    int cap; /* messages out for a sink, at most; 0: as configured */
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker;  /* the name it claims under */
    const char *process; /* what the names of all stations of this process begin with */
    ob_note_fn *note;
    void *note_ctx;
    /* Whether the payload is what its route asks for (S12): OUTBOX_OK; OUTBOX_INVALID, and why; or it cannot be told
     * now. NULL: everything is. */
    enum outbox_code (*valid)(void *ctx, const struct outbox_delivery *msg, char *why, size_t size);
    void *valid_ctx;
};

enum outbox_code ob_station_open(const struct ob_station_settings *settings, struct ob_station **out,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Closing takes a turn of the loop: the station frees itself then. */
void ob_station_close(struct ob_station *station);

/* Does what is due, and says when something will be again. */
int64_t ob_station_turn(struct ob_station *station);
struct ob_engine *ob_station_engine(struct ob_station *station);

/* Its line, for the station after it. */
struct ob_shared_line *ob_station_line(struct ob_station *station);

/* The lanes there are in the store; copied. */
void ob_station_lanes(struct ob_station *station, const struct outbox_lane *lanes, size_t count);
/* Whether the store has told by now what operators want. */
bool ob_station_heeded(const struct ob_station *station);
void ob_station_set_heeded(struct ob_station *station);
/* What operators asked for while it runs; each is true when that changed something. */
bool ob_station_enable(struct ob_station *station, bool enabled); /* for the record; pauses do the work */
bool ob_station_enabled(const struct ob_station *station);        /* as configured until the store has told */
bool ob_station_pause(struct ob_station *station, int dest, bool paused);
bool ob_station_tune(struct ob_station *station, int dest, const struct ob_dest_settings *settings);
const struct ob_dest_settings *ob_station_configured(const struct ob_station *station, int dest);
/* How many of them no route leads anywhere from. */
size_t ob_station_unrouted_lanes(const struct ob_station *station);

#endif
