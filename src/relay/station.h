/* station.h - one store served by this process: its engine on the relay's loop, and the lanes its claims may take.
 *
 * Sinks are shared by all stations, so a delivery's handle carries the number of its station. */
#ifndef OB_RELAY_STATION_H
#define OB_RELAY_STATION_H

#include "lib/engine.h"
#include "relay/config.h"
#include "relay/outlet.h"

struct ob_station;

enum { OB_STATION_MAX = 4095 };

struct ob_station_settings {
    const struct ob_config *config; /* borrowed, like all of these */
    int index;                      /* of the store in the configuration */
    struct ob_outlet *const *outlets;
    uv_loop_t *loop;
    const struct ob_log *log;
    const char *worker;
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

/* Which station a tagged handle belongs to. */
int ob_station_of(uint64_t handle);
void ob_station_verdict(struct ob_station *station, uint64_t handle, const struct outbox_verdict *verdict);

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
