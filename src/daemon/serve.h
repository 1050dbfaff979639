/* serve.h - the relay as a process: its loop, its signals, one configuration after another.
 *
 *     RUNNING ──SIGTERM, SIGINT, nothing left──▶ STOPPING ──everything settled or released──▶ ended
 *
 * SIGHUP: the new configuration takes over at once, and the old one drains beside it: see generation.h. The number of
 * configurations that drain at a time is limited; a reload beyond that waits until one has finished.
 *
 * SIGTERM: finish what is in flight within the grace period, release the rest unspent. A second SIGTERM: stop at once. */
#ifndef OB_DAEMON_SERVE_H
#define OB_DAEMON_SERVE_H

#include "base/log_out.h"
#include "config/config.h"

struct ob_serve_options {
    struct ob_config *config;               /* owned from here on */
    struct ob_config *(*reload)(void *ctx); /* a new configuration, or NULL after it reported the error */
    void (*unload)(struct ob_config *config);
    void *ctx;
    struct ob_log *log;                         /* its level and format follow the configuration */
    struct ob_log_out *out;                     /* the output of log; NULL: log writes elsewhere */
    bool open;                                  /* the API needs no token from this machine: `outbox dev` */
    bool until_empty;                           /* stop when nothing is left to deliver */
    void (*started)(void *ctx, int admin_port); /* before the first claim; NULL: nobody is told */
};

/* Blocks the signals above until the relay runs, which handles them before its first claim. Call it before other threads
 * are created. */
void ob_serve_hold_signals(void);
/* Returns when the relay has ended; an error when it could not start. */
enum outbox_code ob_serve(const struct ob_serve_options *options, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
