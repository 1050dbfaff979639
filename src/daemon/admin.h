/* admin.h - the relay's HTTP server: the routes of def/routes.def, at present metrics and health.
 *
 * It runs on its own thread, so it answers even when the loop is stuck. Everything it reads must therefore be
 * thread-safe: see metrics.h and health.h. It is off unless configured, and has no authentication: keep it on a loopback
 * or private address. */
#ifndef OB_DAEMON_ADMIN_H
#define OB_DAEMON_ADMIN_H

#include "base/log.h"
#include "daemon/health.h"
#include "daemon/metrics.h"

struct ob_admin;

struct ob_admin_options {
    const char *listen;         /* "127.0.0.1:9464", "[::1]:9464", "localhost:9464"; port 0: any free port */
    struct ob_metrics *metrics; /* borrowed until ob_admin_stop, like the other pointers */
    struct ob_health *health;
    const struct ob_log *log; /* NULL: none */
};

/* OUTBOX_INVALID when the address cannot be parsed, OUTBOX_INTERNAL when listening on it fails. */
enum outbox_code ob_admin_start(const struct ob_admin_options *options, struct ob_admin **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for answers that are being sent. */
void ob_admin_stop(struct ob_admin *admin);
int ob_admin_port(const struct ob_admin *admin);

#endif
