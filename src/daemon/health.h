/* health.h - whether the relay is live and ready, for probes.
 *
 * The loop's thread sets the state; any thread may read it. Live: the loop has turned recently. Ready: the relay runs,
 * and every store answers with the schema that this version needs. */
#ifndef OB_DAEMON_HEALTH_H
#define OB_DAEMON_HEALTH_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { OB_HEALTH_STALL_US = 15000000 };

enum ob_health_phase { OB_HEALTH_STARTING, OB_HEALTH_RUNNING, OB_HEALTH_STOPPING };

struct ob_health;

/* NULL: no memory. stall_us: a loop that has not turned for this long is stuck; 0: OB_HEALTH_STALL_US. */
struct ob_health *ob_health_new(int64_t stall_us);
void ob_health_free(struct ob_health *health);

/* Call at least every few seconds, even when there is nothing to do. */
void ob_health_tick(struct ob_health *health);
void ob_health_set_phase(struct ob_health *health, enum ob_health_phase phase);
/* reason: why it is not ready, as text for operators; NULL when it is ready. A store that was never set is not ready. */
void ob_health_set_store(struct ob_health *health, const char *name, bool ready, const char *reason);
void ob_health_forget_stores(struct ob_health *health); /* at a reload */

bool ob_health_live(struct ob_health *health);
/* The answers as JSON documents. The first returns what ob_health_live does; the second whether it is ready. */
bool ob_health_live_json(struct ob_health *health, struct ob_buf *buf);
bool ob_health_ready_json(struct ob_health *health, struct ob_buf *buf);

#endif
