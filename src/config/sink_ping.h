/* sink_ping.h - checks whether every configured sink would accept messages, without sending one. For `outbox doctor` and
 * `outbox validate`. */
#ifndef OB_CONFIG_SINK_PING_H
#define OB_CONFIG_SINK_PING_H

#include "config/config.h"

enum ob_ping_state {
    OB_PING_WELL,
    OB_PING_SICK,   /* the verdict says why */
    OB_PING_CLOSED, /* the adapter could not be opened: err says why */
    OB_PING_SILENT, /* no answer in time */
    OB_PING_CANNOT, /* this kind of sink cannot be checked without sending */
};

/* Texts are valid during the call. */
struct ob_ping {
    const struct ob_config_sink *sink;
    enum ob_ping_state state;
    const struct outbox_verdict *verdict; /* SICK, and WELL */
    const char *error;                    /* CLOSED */
    int64_t took_us;
};

/* Both skip sinks that are `broken`: the reader of the configuration has reported those. */

/* Calls tell once for every sink, in the order of the answers. Waits at most timeout_us. */
enum outbox_code ob_ping_sinks(const struct ob_config *config, int64_t timeout_us,
                               void (*tell)(void *ctx, const struct ob_ping *ping), void *ctx,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Opens and closes every sink, and calls tell for those that cannot be opened because of settings that only the adapter
 * can check. Sends no requests. */
enum outbox_code ob_ping_settings(const struct ob_config *config, void (*tell)(void *ctx, const struct ob_ping *ping),
                                  void *ctx, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
