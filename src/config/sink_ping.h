/* sink_ping.h - asks every configured sink whether it would take messages, without sending one. For `outbox doctor` and
 * `outbox validate`. */
#ifndef OB_CONFIG_SINK_PING_H
#define OB_CONFIG_SINK_PING_H

#include "config/config.h"

enum ob_ping_state {
    OB_PING_WELL,
    OB_PING_SICK,   /* the verdict says why */
    OB_PING_CLOSED, /* the adapter could not be opened: err says why */
    OB_PING_SILENT, /* no answer in time */
    OB_PING_CANNOT, /* this kind of sink cannot be asked without sending */
};

/* Texts are borrowed for the call. */
struct ob_ping {
    const struct ob_config_sink *sink;
    enum ob_ping_state state;
    const struct outbox_verdict *verdict; /* SICK, and WELL */
    const char *error;                    /* CLOSED */
    int64_t took_us;
};

/* Both leave out sinks that are broken: whoever read the configuration has told of them. */

/* Tells of every sink once, in the order of the answers. Waits timeout_us at most. */
enum outbox_code ob_ping_sinks(const struct ob_config *config, int64_t timeout_us,
                               void (*tell)(void *ctx, const struct ob_ping *ping), void *ctx,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Opens every sink and closes it again, and tells of those that cannot be opened: their settings are wrong in a way that
 * only the adapter knows. Nothing is asked of anybody. */
enum outbox_code ob_ping_settings(const struct ob_config *config, void (*tell)(void *ctx, const struct ob_ping *ping),
                                  void *ctx, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
