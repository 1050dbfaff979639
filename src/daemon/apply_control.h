/* apply_control.h - makes a store loop do what operators said in the store: pauses, and settings changed while it runs. */
#ifndef OB_DAEMON_APPLY_CONTROL_H
#define OB_DAEMON_APPLY_CONTROL_H

#include "daemon/maintenance.h"
#include "daemon/store_loop.h"

void ob_apply_control(struct ob_store_loop *store_loop, const struct ob_config *config,
                      const struct ob_maintenance_report *news, const struct ob_log *log);

#endif
