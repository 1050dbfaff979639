/* load.c - from the words of a configuration to an adapter: one of this build, or one in a shared object.
 *
 * A shared object runs with the permissions of the relay, so its path must contain a '/': the search path of the dynamic
 * linker is never used. It is not unloaded, because its code may still be on the stack of a callback. */
#include "sink/registry.h"

#include "base/buf.h"
#include "base/error.h"
#include "sink/plugin.h"

#include <dlfcn.h>
#include <string.h>

static void kinds_of_this_build(struct ob_buf *buf)
{
    for (size_t i = 0; ob_sink_at(i); i++)
        ob_buf_printf(buf, "%s%s", i ? ", " : "", ob_sink_at(i)->kind);
}

static enum outbox_code unknown_kind(const char *kind, struct outbox_error *err)
{
    const char *package = ob_sink_missing(kind);
    if (package && *package)
        return ob_error_set(err, OUTBOX_UNSUPPORTED,
                            "sink kind \"%s\" is not in this build: install %s and build again with -Dsink_%s=enabled",
                            kind, package, kind);
    if (package)
        return ob_error_set(err, OUTBOX_UNSUPPORTED,
                            "sink kind \"%s\" is not in this build: build with -Dsink_%s=enabled", kind, kind);
    struct ob_buf buf = OB_BUF_INIT;
    kinds_of_this_build(&buf);
    ob_error_set(err, OUTBOX_INVALID,
                 "unknown sink kind \"%s\"; the kinds are: %s; or give the path of a shared object, with a '/'", kind,
                 ob_buf_text(&buf));
    ob_buf_fini(&buf);
    return OUTBOX_INVALID;
}

static enum outbox_code load_object(const char *path, const struct outbox_sink_ops **ops, struct outbox_error *err)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) /* the linker's own text names the path */
        return ob_error_set(err, OUTBOX_INVALID, "cannot load the sink: %s", dlerror());
    outbox_sink_entry *entry;
    *(void **)(void *)&entry = dlsym(object, "outbox_sink_ops");
    if (!entry) {
        dlclose(object);
        return ob_error_set(err, OUTBOX_INVALID, "%s: not a sink: it does not export outbox_sink_ops", path);
    }
    const struct outbox_sink_ops *found = entry();
    if (!found)
        return ob_error_set(err, OUTBOX_INVALID, "%s: outbox_sink_ops() returned NULL", path);
    return ob_plugin_adopt(path, found, ops, err);
}

enum outbox_code ob_sink_load(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                              struct outbox_error *err)
{
    *ops = NULL;
    if (!kind && !library)
        return ob_error_set(err, OUTBOX_INVALID, "a sink needs a kind");
    if (!library && strchr(kind, '/'))
        library = kind, kind = NULL;
    if (!library) {
        *ops = ob_sink_find(kind);
        return *ops ? OUTBOX_OK : unknown_kind(kind, err);
    }
    if (!strchr(library, '/'))
        return ob_error_set(err, OUTBOX_INVALID, "library \"%s\" is not a path: write ./%s, or the full path", library,
                            library);
    enum outbox_code code = load_object(library, ops, err);
    if (*ops && kind && strcmp((*ops)->kind, kind) != 0) {
        code =
            ob_error_set(err, OUTBOX_INVALID, "%s is a sink of kind \"%s\", not \"%s\"", library, (*ops)->kind, kind);
        *ops = NULL;
    }
    return code;
}
