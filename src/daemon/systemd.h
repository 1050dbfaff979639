/* systemd.h - reports the state of the relay to the service manager (sd_notify). Does nothing when the relay was not
 * started by one.
 *
 * The protocol is one datagram to the socket that NOTIFY_SOCKET names, so no library is needed. */
#ifndef OB_DAEMON_SYSTEMD_H
#define OB_DAEMON_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

/* All return whether the report was sent. */
bool ob_systemd_ready(const char *status);     /* ready; also after a reload */
bool ob_systemd_status(const char *status);    /* one line for `systemctl status` */
bool ob_systemd_reloading(const char *status); /* ob_systemd_ready must follow */
bool ob_systemd_stopping(const char *status);
bool ob_systemd_watchdog(void); /* keep-alive for the watchdog */

/* The interval at which ob_systemd_watchdog must be called: half of what the service manager allows. 0: no watchdog. */
int64_t ob_systemd_watchdog_us(void);

#endif
