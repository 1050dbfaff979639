/* names.h - valid names of namespaces, topics and sinks, as operators give them. The function check_names in
 * sql/postgres/003_enqueue.sql accepts the same names. */
#ifndef OB_CORE_NAMES_H
#define OB_CORE_NAMES_H

#include "base/limits.h"
#include "core/store.h"

/* Spaces and control characters, which are not allowed in topics and namespaces. */
bool ob_name_is_blank(unsigned character);

/* 1 to 64 letters, digits, '-', '_' and '.'. */
bool ob_name_is_sink(const char *name);

/* OUTBOX_INVALID for an impossible name. Namespace and topic may be patterns with * and ?. NULL: not given. */
enum outbox_code ob_names_check(const char *name_space, const char *topic, const char *sink,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;

const char *ob_role_name(enum ob_role role);
/* OB_ROLE_NONE: there is no such role. */
enum ob_role ob_role_find(const char *name);

#endif
