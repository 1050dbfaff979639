/* serve.h - the relay as a process: its loop, its signals, one configuration after another.
 *
 *     RUNNING ──SIGTERM, SIGINT, nothing left──▶ STOPPING ──everything given back──▶ the end
 *
 * SIGHUP: the new configuration takes over at once, the old one drains beside it: see generation.h. There are no more than
 * a few that drain; a reload beyond that waits until one is through.
 *
 * SIGTERM: finish what is out within the grace period, give the rest back unspent. A second one: at once. */
#ifndef OB_DAEMON_SERVE_H
#define OB_DAEMON_SERVE_H

#include "base/log_out.h"
#include "config/config.h"

struct ob_serve_options {
    struct ob_config *config;               /* owned from here on */
    struct ob_config *(*reload)(void *ctx); /* a new one, or NULL after it said why not */
    void (*unload)(struct ob_config *config);
    void *ctx;
    struct ob_log *log;     /* its level and format follow the configuration */
    struct ob_log_out *out; /* where it writes to; NULL: somewhere else */
    bool until_empty;       /* end when nothing is left to deliver */
};

/* From here on the signals above wait until the relay runs, which obeys them before it claims anything. To be called
 * before other threads are made. */
void ob_serve_hold_signals(void);
/* Returns when the relay has ended; an error when it could not begin. */
enum outbox_code ob_serve(const struct ob_serve_options *options, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
