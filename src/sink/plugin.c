/* plugin.c - see plugin.h. Thread: that of the configuration and the loop. */
#include "sink/plugin.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/versioned.h"

#include <string.h>

struct plugin {
    struct plugin *next;
    const struct outbox_sink_ops *theirs;
    struct outbox_sink_ops ops;
};

static struct plugin *plugins; /* never freed, as shared objects are never unloaded */

static enum outbox_code check_table(const char *path, const struct outbox_sink_ops *ops, struct outbox_error *err)
{
    if (ops->abi != OUTBOX_SINK_ABI)
        return ob_error_set(err, OUTBOX_UNSUPPORTED,
                            "%s: built for version %d of the sink interface, but this relay has version %d: rebuild it",
                            path, ops->abi, OUTBOX_SINK_ABI);
    if (!ops->kind || !ops->open || !ops->deliver || !ops->cancel || !ops->close)
        return ob_error_set(err, OUTBOX_INVALID, "%s: kind, open, deliver, cancel and close must all be set", path);
    if (!ob_size_is_sane(ops->item_size) || !ob_size_is_sane(ops->option_size) || !ob_size_is_sane(ops->setting_size))
        return ob_error_set(err, OUTBOX_INVALID,
                            "%s: the sizes in its table are not set; start the table with OUTBOX_SINK_OPS_HEAD", path);
    return OUTBOX_OK;
}

/* A type that is newer than this host is passed to the sink as text, as it was written. */
static bool copy_settings(struct outbox_sink_ops *ops)
{
    const char *rows = (const char *)ops->settings;
    size_t stride = ops->setting_size, count = 0;
    if (!ops->settings)
        return true;
    while (((const struct outbox_sink_setting *)(const void *)(rows + count * stride))->name)
        count++;
    struct outbox_sink_setting *copy = ob_calloc(count + 1, sizeof *copy);
    if (!copy)
        return false;
    ob_copy_elements(copy, sizeof *copy, rows, stride, count);
    for (size_t i = 0; i < count; i++)
        if ((unsigned)copy[i].type > OUTBOX_OPTION_FILE)
            copy[i].type = OUTBOX_OPTION_TEXT;
    ops->settings = copy;
    ops->setting_size = sizeof *copy;
    return true;
}

enum outbox_code ob_plugin_adopt(const char *path, const struct outbox_sink_ops *theirs,
                                 const struct outbox_sink_ops **ops, struct outbox_error *err)
{
    *ops = NULL;
    for (const struct plugin *known = plugins; known; known = known->next)
        if (known->theirs == theirs) {
            *ops = &known->ops;
            return OUTBOX_OK;
        }
    struct outbox_sink_ops copy = {.size = 0};
    if (!ob_take_versioned(&copy, sizeof copy, theirs))
        return ob_error_set(err, OUTBOX_INVALID, "%s: its table has no size; start it with OUTBOX_SINK_OPS_HEAD", path);
    enum outbox_code code = check_table(path, &copy, err);
    if (code)
        return code;
    struct plugin *plugin = ob_calloc(1, sizeof *plugin);
    if (!plugin || !copy_settings(&copy)) {
        ob_free(plugin);
        return ob_error_nomem(err);
    }
    *plugin = (struct plugin){.next = plugins, .theirs = theirs, .ops = copy};
    plugins = plugin;
    *ops = &plugin->ops;
    return OUTBOX_OK;
}

/* ---- calls ---- */

enum outbox_code ob_sink_open(const struct outbox_sink_ops *ops, const struct outbox_sink_option *options, size_t count,
                              const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    if (ops->option_size == sizeof *options)
        return ops->open(options, count, host, sink, err);
    void *theirs = ob_calloc(count + 1, ops->option_size);
    if (!theirs)
        return ob_error_nomem(err);
    ob_copy_elements(theirs, ops->option_size, options, sizeof *options, count);
    enum outbox_code code = ops->open(theirs, count, host, sink, err);
    ob_free(theirs);
    return code;
}

void ob_sink_check(const struct outbox_sink_ops *ops, const struct outbox_sink_check *check)
{
    struct outbox_sink_check copy = *check;
    if (!ops->check)
        return;
    void *theirs = ob_calloc(check->count + 1, ops->option_size);
    if (!theirs)
        return;
    ob_copy_elements(theirs, ops->option_size, check->options, sizeof *check->options, check->count);
    copy.size = sizeof copy;
    copy.options = theirs;
    ops->check(&copy);
    ob_free(theirs);
}

bool ob_sink_deliver(const struct outbox_sink_ops *ops, outbox_sink *sink, const struct outbox_sink_item *items,
                     size_t count)
{
    if (ops->item_size == sizeof *items) {
        ops->deliver(sink, items, count);
        return true;
    }
    void *theirs = ob_calloc(count + 1, ops->item_size);
    if (!theirs)
        return false;
    ob_copy_elements(theirs, ops->item_size, items, sizeof *items, count);
    ops->deliver(sink, theirs, count);
    ob_free(theirs);
    return true;
}
