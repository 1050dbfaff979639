/* names.h - what operators may name: namespaces, topics, sinks. The function check_names in sql/postgres/003_enqueue.sql
 * takes the same. */
#ifndef OB_CORE_NAMES_H
#define OB_CORE_NAMES_H

#include "base/limits.h"

/* Spaces and control characters: no topic and no namespace has one. */
bool ob_name_is_blank(unsigned character);

/* 1 to 64 letters, digits, '-', '_' and '.'. */
bool ob_name_is_sink(const char *name);

/* OUTBOX_INVALID for a name that nothing can have. Namespace and topic may be patterns with * and ?. NULL: none is given. */
enum outbox_code ob_names_check(const char *name_space, const char *topic, const char *sink,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
