/* registry.h - the adapters of this build, and those in shared objects.
 *
 * The table is made by src/sink/meson.build. Nothing here depends on what a message says: the kind and the path of a
 * shared object come from the configuration only. */
#ifndef OB_SINK_REGISTRY_H
#define OB_SINK_REGISTRY_H

#include <outbox/sink.h>

/* The adapter of this kind; NULL when this build has none. */
const struct outbox_sink_ops *ob_sink_find(const char *kind);
/* Adapter number i of this build; NULL behind the last. */
const struct outbox_sink_ops *ob_sink_at(size_t i);
/* The package an adapter needs that this build could have but has not; "" when there is none to name, NULL when the
 * kind is unknown or built in. */
const char *ob_sink_missing(const char *kind);

/* What a configuration means by `kind` and `library` (NULL: none): an adapter of this build, or, when library is given
 * or kind has a '/', the one in that shared object. A shared object stays loaded for the life of the process. */
enum outbox_code ob_sink_load(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
