/* admin.h - the relay's HTTP server: the routes of def/routes.def, which are metrics and health, the dashboard and the API.
 *
 * It runs on its own thread, so it answers even when the loop is stuck. Everything it reads must therefore be
 * thread-safe: see metrics.h and health.h. It is off unless configured. The API needs a token (api.h); metrics and health do not:
 * keep it on a loopback or private address, or behind a proxy. */
#ifndef OB_DAEMON_ADMIN_H
#define OB_DAEMON_ADMIN_H

#include "base/log.h"
#include "config/config.h"
#include "daemon/health.h"
#include "daemon/metrics.h"

struct ob_admin;

struct ob_admin_options {
    const char *listen;         /* "127.0.0.1:9464", "[::1]:9464", "localhost:9464"; port 0: any free port */
    struct ob_metrics *metrics; /* borrowed until ob_admin_stop, like the other pointers */
    struct ob_health *health;
    const struct ob_log *log;       /* NULL: none */
    const struct ob_config *config; /* the stores of the API; borrowed during the call. NULL: no API and no page */
    bool open; /* the API needs no token from this machine: `outbox dev`. Everybody else needs one even then. */
};

/* OUTBOX_INVALID when the address cannot be parsed, OUTBOX_INTERNAL when listening on it fails. */
enum outbox_code ob_admin_start(const struct ob_admin_options *options, struct ob_admin **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for answers that are being sent. */
void ob_admin_stop(struct ob_admin *admin);
/* The stores of another configuration. admin may be NULL. */
enum outbox_code ob_admin_reload(struct ob_admin *admin, const struct ob_config *config,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;
int ob_admin_port(const struct ob_admin *admin);

#endif
