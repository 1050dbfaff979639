/* outlet.c - see outlet.h. What a sink is offered, and nothing else: it never sees the engine. */
#include "relay/outlet.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/verdict.h"
#include "sink/plugin.h"

#include <string.h>
#include <sys/stat.h>

/* A file that the adapter read when it was opened, as it was then. */
struct stamp {
    bool there;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct ob_outlet {
    struct ob_outlet_settings set;
    int users;
    struct ob_arena arena; /* of what follows */
    const char *name;
    struct outbox_sink_option *options;
    size_t option_count;
    struct stamp *stamps; /* one an option */
    int64_t timeout_us;
    struct outbox_sink_host host;
    outbox_sink *sink;
    uv_async_t wake;
};

static void on_done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct ob_outlet *outlet = ctx;
    const struct outbox_verdict given = ob_verdict_take(verdict);
    outlet->set.done(outlet->set.ctx, handle, &given);
}

static void on_wake(void *ctx)
{
    struct ob_outlet *outlet = ctx;
    uv_async_send(&outlet->wake);
}

static void on_async(uv_async_t *wake)
{
    struct ob_outlet *outlet = wake->data;
    if (outlet->sink && outlet->set.ops->step)
        outlet->set.ops->step(outlet->sink);
}

static int64_t on_now(void *ctx)
{
    (void)ctx;
    return ob_clock_boot_us();
}

static void on_log(void *ctx, enum outbox_log_level level, const char *text)
{
    static const enum ob_log_level levels[] = {OB_LOG_DEBUG, OB_LOG_INFO, OB_LOG_WARN, OB_LOG_ERROR};
    const struct ob_outlet *outlet = ctx;
    bool known = (unsigned)level < sizeof levels / sizeof levels[0];
    ob_log(outlet->set.log, known ? levels[level] : OB_LOG_ERROR, text, OB_STR("destination", outlet->name));
}

/* ---- what it was opened with ---- */

/* Whether the value names a file that the adapter reads when it is opened. What no table declares is taken for one when
 * it looks like it. */
static bool names_file(const struct outbox_sink_ops *ops, const struct outbox_sink_option *option)
{
    for (const struct outbox_sink_setting *setting = ops->settings; setting && setting->name; setting++)
        if (strcmp(setting->name, option->name) == 0)
            return setting->type == OUTBOX_OPTION_FILE;
    return option->value && option->value[0] == '/';
}

static struct stamp stamp_of(const struct outbox_sink_ops *ops, const struct outbox_sink_option *option)
{
    struct stat file;
    if (!names_file(ops, option) || stat(option->value, &file) || !S_ISREG(file.st_mode))
        return (struct stamp){.there = false};
    return (struct stamp){true, file.st_dev, file.st_ino, file.st_size, file.st_mtim};
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->there == b->there && a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool copy_sink(struct ob_outlet *outlet, const struct ob_config_sink *sink)
{
    struct ob_arena *arena = &outlet->arena;
    ob_arena_init(arena, 1024);
    outlet->timeout_us = sink->dest.timeout_us;
    outlet->name = sink->name ? ob_arena_strdup(arena, sink->name) : NULL;
    outlet->options = ob_arena_calloc(arena, sink->option_count + 1, sizeof *outlet->options);
    outlet->stamps = ob_arena_calloc(arena, sink->option_count + 1, sizeof *outlet->stamps);
    if ((sink->name && !outlet->name) || !outlet->options || !outlet->stamps)
        return false;
    for (size_t i = 0; i < sink->option_count; i++) {
        struct outbox_sink_option *option = &outlet->options[i];
        option->name = ob_arena_strdup(arena, sink->options[i].name);
        option->value = sink->options[i].value ? ob_arena_strdup(arena, sink->options[i].value) : NULL;
        if (!option->name || (sink->options[i].value && !option->value))
            return false;
        outlet->stamps[i] = stamp_of(outlet->set.ops, option);
        outlet->option_count++;
    }
    return true;
}

bool ob_outlet_is(const struct ob_outlet *outlet, const struct ob_config_sink *sink, const struct outbox_sink_ops *ops)
{
    if (outlet->set.ops != ops || !same_text(outlet->name, sink->name) || outlet->timeout_us != sink->dest.timeout_us ||
        outlet->option_count != sink->option_count)
        return false;
    for (size_t i = 0; i < sink->option_count; i++) {
        const struct stamp now = stamp_of(ops, &sink->options[i]);
        if (!same_text(outlet->options[i].name, sink->options[i].name) ||
            !same_text(outlet->options[i].value, sink->options[i].value) || !same_stamp(&outlet->stamps[i], &now))
            return false;
    }
    return true;
}

/* ---- life ---- */

static void outlet_free(struct ob_outlet *outlet)
{
    ob_arena_fini(&outlet->arena);
    ob_free(outlet);
}

static void on_closed(uv_handle_t *handle)
{
    outlet_free(handle->data);
}

/* A sink says what it does not take, perhaps in the words of a library: what is a secret, or came out of a variable and may
 * be one, is not repeated. */
static void mask(const struct ob_config_sink *sink, struct outbox_error *err)
{
    for (size_t i = 0; err && i < sink->mask_count; i++)
        for (char *at = err->text; (at = strstr(at, sink->masks[i])); at += strlen(sink->masks[i]))
            memset(at, '*', strlen(sink->masks[i]));
}

enum outbox_code ob_outlet_open(const struct ob_outlet_settings *settings, struct ob_outlet **out,
                                struct outbox_error *err)
{
    struct ob_outlet *outlet = ob_calloc(1, sizeof *outlet);
    *out = NULL;
    if (!outlet)
        return ob_error_nomem(err);
    outlet->set = *settings;
    outlet->set.sink = NULL; /* not ours */
    outlet->users = 1;
    bool copied = copy_sink(outlet, settings->sink);
    outlet->host = (struct outbox_sink_host){.size = sizeof outlet->host,
                                             .ctx = outlet,
                                             .loop = settings->loop,
                                             .done = on_done,
                                             .wake = on_wake,
                                             .now_us = on_now,
                                             .log = on_log,
                                             .name = outlet->name,
                                             .timeout_us = outlet->timeout_us};
    int failed = copied ? uv_async_init(settings->loop, &outlet->wake, on_async) : 0;
    if (!copied || failed) {
        outlet_free(outlet);
        return copied ? ob_error_set(err, OUTBOX_INTERNAL, "cannot wake sinks: %s", uv_strerror(failed))
                      : ob_error_nomem(err);
    }
    outlet->wake.data = outlet;
    enum outbox_code code =
        ob_sink_open(settings->ops, outlet->options, outlet->option_count, &outlet->host, &outlet->sink, err);
    if (code) {
        mask(settings->sink, err);
        outlet->sink = NULL; /* whatever it was set to: there is nothing to close */
        ob_outlet_close(outlet);
    } else {
        *out = outlet;
    }
    return code;
}

struct ob_outlet *ob_outlet_share(struct ob_outlet *outlet)
{
    outlet->users++;
    return outlet;
}

void ob_outlet_close(struct ob_outlet *outlet)
{
    if (!outlet || --outlet->users > 0)
        return;
    if (outlet->sink)
        outlet->set.ops->close(outlet->sink);
    outlet->sink = NULL;
    uv_close((uv_handle_t *)&outlet->wake, on_closed);
}

void ob_outlet_deliver(struct ob_outlet *outlet, const struct outbox_sink_item *items, size_t count)
{
    struct outbox_verdict no_memory = OUTBOX_VERDICT_INIT;
    no_memory.outcome = OUTBOX_SINK_NOT_SENT;
    no_memory.not_before_us = 100000;
    if (!ob_sink_deliver(outlet->set.ops, outlet->sink, items, count))
        for (size_t i = 0; i < count; i++)
            on_done(outlet, items[i].handle, &no_memory);
}

void ob_outlet_cancel(struct ob_outlet *outlet, uint64_t handle)
{
    outlet->set.ops->cancel(outlet->sink, handle);
}

bool ob_outlet_probe(struct ob_outlet *outlet, uint64_t handle)
{
    if (!outlet->set.ops->probe)
        return false;
    outlet->set.ops->probe(outlet->sink, handle);
    return true;
}

const struct outbox_sink_ops *ob_outlet_ops(const struct ob_outlet *outlet)
{
    return outlet->set.ops;
}
