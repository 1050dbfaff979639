/* systemd.h - tells the service manager how the relay is (sd_notify). Does nothing when it was not started by one.
 *
 * The protocol is one datagram to the socket that NOTIFY_SOCKET names, so no library is needed. */
#ifndef OB_DAEMON_SYSTEMD_H
#define OB_DAEMON_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

/* All return whether somebody was told. */
bool ob_systemd_ready(const char *status);     /* it works; also after a reload */
bool ob_systemd_status(const char *status);    /* one line for `systemctl status` */
bool ob_systemd_reloading(const char *status); /* READY follows */
bool ob_systemd_stopping(const char *status);
bool ob_systemd_watchdog(void); /* it still works */

/* How often watchdog must be called, at the latest: half of what the manager allows. 0: it does not watch. */
int64_t ob_systemd_watchdog_us(void);

#endif
