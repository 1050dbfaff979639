/* registry.c - the table of adapters; see registry.h. */
#include "sink/registry.h"

#include "sink_have.h"

#include <string.h>

#define OB_SINK_BUILT(name) extern const struct outbox_sink_ops ob_sink_##name;
#define OB_SINK_MISSING(name, package)
OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING

static const struct outbox_sink_ops *const built[] = {
#define OB_SINK_BUILT(name) &ob_sink_##name,
#define OB_SINK_MISSING(name, package)
    OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING
        NULL,
};

static const struct {
    const char *kind, *package;
} missing[] = {
#define OB_SINK_BUILT(name)
#define OB_SINK_MISSING(name, package) {#name, package},
    OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING
    {NULL, NULL},
};

const struct outbox_sink_ops *ob_sink_at(size_t i)
{
    return i < sizeof built / sizeof built[0] ? built[i] : NULL;
}

const struct outbox_sink_ops *ob_sink_find(const char *kind)
{
    for (size_t i = 0; kind && built[i]; i++)
        if (strcmp(built[i]->kind, kind) == 0)
            return built[i];
    return NULL;
}

const char *ob_sink_missing(const char *kind)
{
    for (size_t i = 0; kind && missing[i].kind; i++)
        if (strcmp(missing[i].kind, kind) == 0)
            return missing[i].package;
    return NULL;
}
