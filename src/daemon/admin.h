/* admin.h - the relay's HTTP: metrics and health now, the rows of def/routes.def in general.
 *
 * It has a thread of its own, and so answers also when the loop does not. What it reads must bear that: see metrics.h and
 * health.h. It is off unless configured, and has no passwords: keep it on a loopback or private address. */
#ifndef OB_DAEMON_ADMIN_H
#define OB_DAEMON_ADMIN_H

#include "base/log.h"
#include "daemon/health.h"
#include "daemon/metrics.h"

struct ob_admin;

struct ob_admin_options {
    const char *listen;         /* "127.0.0.1:9464", "[::1]:9464", "localhost:9464"; port 0: any that is free */
    struct ob_metrics *metrics; /* borrowed, like the rest, until it is stopped */
    struct ob_health *health;
    const struct ob_log *log; /* NULL: none */
};

/* OUTBOX_INVALID for an address that is none, OUTBOX_INTERNAL when it cannot be listened on. */
enum outbox_code ob_admin_start(const struct ob_admin_options *options, struct ob_admin **out,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Waits for answers under way. */
void ob_admin_stop(struct ob_admin *admin);
int ob_admin_port(const struct ob_admin *admin);

#endif
