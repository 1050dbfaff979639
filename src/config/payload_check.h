/* payload_check.h - checks a payload against the schema of its route before it is handed to a sink (S12).
 *
 * OUTBOX_OK: it is valid, or its route has no schema. OUTBOX_INVALID: the message is dead, and `why`, always UTF-8, says
 * where and by which rule: "/amount: must be > 0 (exclusiveMinimum) [order.json#/properties/amount/exclusiveMinimum]".
 * OUTBOX_NOMEM: not known; the message must wait. One thread at a time per configuration, as for ob_route_find. */
#ifndef OB_CONFIG_PAYLOAD_CHECK_H
#define OB_CONFIG_PAYLOAD_CHECK_H

#include "config/config.h"

/* The error of a message that is dead for this reason begins with it: the code of its verdict. */
#define OB_PAYLOAD_CHECK_CODE "schema"

enum outbox_code ob_payload_check(const struct ob_config *config, const struct outbox_delivery *msg, char *why,
                                  size_t size) OUTBOX_MUST_CHECK;

#endif
