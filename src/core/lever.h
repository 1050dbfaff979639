/* lever.h - the names of what operators do with messages, and which states each is for. See struct ob_operation in core/store.h. */
#ifndef OB_CORE_LEVER_H
#define OB_CORE_LEVER_H

#include "core/store.h"

const char *ob_lever_name(enum ob_lever lever);
/* The lever of this name + 1; 0: not found. */
int ob_lever_find(const char *name);
/* The state that a filter means if it names none; what the lever does with others is in ob_lever_takes. */
enum ob_status ob_lever_status(enum ob_lever lever);
bool ob_lever_takes(enum ob_lever lever, enum ob_status status);

/* Whether the operation is complete and valid: ids, topic, run. */
ob_code ob_operation_check(const struct ob_operation *operation, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
