/* relay_info.h - what a relay writes about itself into its row of the store, with its heartbeat: the sinks with breaker, last error, rate
 * and limits, and the routes it serves. `outbox status`, `doctor` and `explain` read it there.
 *
 *     {"enabled": true, "sinks": [{"name": "billing", "kind": "http", "breaker": "open", "since": ..., "code": "http_500", ...}],
 *      "routes": [{"namespace": "*", "topic": "orders.*", "sink": "billing"}], "digest": "9f86d081884c7d65"}
 *
 * Its size is bounded: OB_RELAY_INFO_BYTES, and then "cut" is true. It has no option of a sink, and errors as they are recorded with
 * attempts, cut; they come from outside. */
#ifndef OB_DAEMON_RELAY_INFO_H
#define OB_DAEMON_RELAY_INFO_H

#include "config/config.h"
#include "core/machine.h"
#include "daemon/observer.h"

enum { OB_RELAY_INFO_BYTES = 256 * 1024, OB_RELAY_INFO_EVERY_US = 5000000 };

struct ob_relay_now {
    const struct ob_config *config;
    const struct ob_observer *observer;
    const struct ob_machine *machine;
    bool enabled;
    int64_t wall_us, boot_us;
};

/* What was told last. Starts zeroed; the owner frees text. */
struct ob_relay_told {
    uint64_t stamp;
    int64_t at_us;
    char *text;
};

/* To be freed with ob_free; NULL: no memory. */
char *ob_relay_info_text(const struct ob_relay_now *now);
/* The same if there is news: at once when a breaker, an error, a pause or a limit changed, otherwise every few seconds if anything did.
 * NULL: none, or no memory. */
char *ob_relay_info_news(struct ob_relay_told *told, const struct ob_relay_now *now);

#endif
