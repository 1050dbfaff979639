/* registry.h - the adapters of this build, and those in shared objects.
 *
 * The table is made by src/sink/meson.build. Nothing here depends on the content of a message: the kind and the path of a
 * shared object come from the configuration only. */
#ifndef OB_SINK_REGISTRY_H
#define OB_SINK_REGISTRY_H

#include <outbox/sink.h>

/* The adapter of this kind; NULL if this build has none. */
const struct outbox_sink_ops *ob_sink_find(const char *kind);
/* Adapter number i of this build; NULL after the last. */
const struct outbox_sink_ops *ob_sink_at(size_t i);
/* For an adapter that exists but is not in this build: the package that it needs, "" if there is none to name. NULL if the
 * kind is unknown or built in. */
const char *ob_sink_missing(const char *kind);

/* The adapter for `kind` and `library` (NULL: none) of a configuration: one of this build, or, if library is given or kind
 * has a '/', the one in that shared object. A shared object stays loaded for the life of the process. */
enum outbox_code ob_sink_load(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
