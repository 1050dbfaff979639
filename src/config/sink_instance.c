/* sink_instance.c - see sink_instance.h. The host functions that a sink may call are here: a sink never sees the engine. */
#include "config/sink_instance.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/verdict.h"
#include "sink/plugin.h"

#include <string.h>
#include <sys/stat.h>

/* The state of a file when the adapter read it on opening. */
struct stamp {
    bool there;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct ob_sink_instance {
    struct ob_sink_instance_settings set;
    int users;
    struct ob_arena arena; /* for the members below */
    const char *name;
    struct outbox_sink_option *options;
    size_t option_count;
    struct stamp *stamps; /* one per option */
    int64_t timeout_us;
    struct outbox_sink_host host;
    outbox_sink *sink;
    uv_async_t wake;
    int answering; /* calls of done on the stack: the sink must not be closed */
    bool closing;  /* at the next turn of the loop */
};

static void on_done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    struct ob_sink_instance *instance = ctx;
    const struct outbox_verdict given = ob_verdict_take(verdict);
    if (instance->closing)
        return;
    instance->answering++;
    instance->set.done(instance->set.ctx, handle, &given);
    instance->answering--;
}

static void on_wake(void *ctx)
{
    struct ob_sink_instance *instance = ctx;
    uv_async_send(&instance->wake);
}

static void instance_end(struct ob_sink_instance *instance);

static void on_async(uv_async_t *wake)
{
    struct ob_sink_instance *instance = wake->data;
    if (instance->closing)
        instance_end(instance);
    else if (instance->sink && instance->set.ops->step)
        instance->set.ops->step(instance->sink);
}

static int64_t on_now(void *ctx)
{
    (void)ctx;
    return ob_clock_boot_us();
}

static void on_log(void *ctx, enum outbox_log_level level, const char *text)
{
    static const enum ob_log_level levels[] = {OB_LOG_DEBUG, OB_LOG_INFO, OB_LOG_WARN, OB_LOG_ERROR};
    const struct ob_sink_instance *instance = ctx;
    bool known = (unsigned)level < sizeof levels / sizeof levels[0];
    ob_log(instance->set.log, known ? levels[level] : OB_LOG_ERROR, text, OB_STR("sink", instance->name));
}

/* ---- what it was opened with ---- */

/* Whether the value names a file that the adapter reads on opening. An undeclared option counts as one if its value looks
 * like a path. */
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
    if (!option->value || !names_file(ops, option) || stat(option->value, &file) || !S_ISREG(file.st_mode))
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

static bool copy_sink(struct ob_sink_instance *instance, const struct ob_config_sink *sink)
{
    struct ob_arena *arena = &instance->arena;
    ob_arena_init(arena, 1024);
    instance->timeout_us = sink->delivery.timeout_us;
    instance->name = sink->name ? ob_arena_strdup(arena, sink->name) : NULL;
    instance->options = ob_arena_calloc(arena, sink->option_count + 1, sizeof *instance->options);
    instance->stamps = ob_arena_calloc(arena, sink->option_count + 1, sizeof *instance->stamps);
    if ((sink->name && !instance->name) || !instance->options || !instance->stamps)
        return false;
    for (size_t i = 0; i < sink->option_count; i++) {
        struct outbox_sink_option *option = &instance->options[i];
        option->name = ob_arena_strdup(arena, sink->options[i].name);
        option->value = sink->options[i].value ? ob_arena_strdup(arena, sink->options[i].value) : NULL;
        if (!option->name || (sink->options[i].value && !option->value))
            return false;
        instance->stamps[i] = stamp_of(instance->set.ops, option);
        instance->option_count++;
    }
    return true;
}

bool ob_sink_instance_is(const struct ob_sink_instance *instance, const struct ob_config_sink *sink,
                         const struct outbox_sink_ops *ops)
{
    if (instance->set.ops != ops || !same_text(instance->name, sink->name) ||
        instance->timeout_us != sink->delivery.timeout_us || instance->option_count != sink->option_count)
        return false;
    for (size_t i = 0; i < sink->option_count; i++) {
        const struct stamp now = stamp_of(ops, &sink->options[i]);
        if (!same_text(instance->options[i].name, sink->options[i].name) ||
            !same_text(instance->options[i].value, sink->options[i].value) || !same_stamp(&instance->stamps[i], &now))
            return false;
    }
    return true;
}

/* ---- life ---- */

static void instance_free(struct ob_sink_instance *instance)
{
    ob_arena_fini(&instance->arena);
    ob_free(instance);
}

static void on_closed(uv_handle_t *handle)
{
    instance_free(handle->data);
}

/* The error of a sink may contain text of a library: mask secrets in it, and values from variables, which may be secrets. */
static void mask(const struct ob_config_sink *sink, struct outbox_error *err)
{
    for (size_t i = 0; err && i < sink->mask_count; i++)
        for (char *at = err->text; (at = strstr(at, sink->masks[i])); at += strlen(sink->masks[i]))
            memset(at, '*', strlen(sink->masks[i]));
}

enum outbox_code ob_sink_instance_open(const struct ob_sink_instance_settings *settings, struct ob_sink_instance **out,
                                       struct outbox_error *err)
{
    struct ob_sink_instance *instance = ob_calloc(1, sizeof *instance);
    *out = NULL;
    if (!instance)
        return ob_error_nomem(err);
    instance->set = *settings;
    instance->set.sink = NULL; /* borrowed from the caller */
    instance->users = 1;
    bool copied = copy_sink(instance, settings->sink);
    instance->host = (struct outbox_sink_host){.size = sizeof instance->host,
                                               .ctx = instance,
                                               .loop = settings->loop,
                                               .done = on_done,
                                               .wake = on_wake,
                                               .now_us = on_now,
                                               .log = on_log,
                                               .name = instance->name,
                                               .timeout_us = instance->timeout_us};
    int failed = copied ? uv_async_init(settings->loop, &instance->wake, on_async) : 0;
    if (!copied || failed) {
        instance_free(instance);
        return copied ? ob_error_set(err, OUTBOX_INTERNAL, "cannot create the wake-up channel of the sinks: %s",
                                     uv_strerror(failed))
                      : ob_error_nomem(err);
    }
    instance->wake.data = instance;
    enum outbox_code code =
        ob_sink_open(settings->ops, instance->options, instance->option_count, &instance->host, &instance->sink, err);
    if (code) {
        mask(settings->sink, err);
        instance->sink = NULL; /* ignore what open set: there is nothing to close */
        ob_sink_instance_close(instance);
    } else {
        *out = instance;
    }
    return code;
}

static void instance_end(struct ob_sink_instance *instance)
{
    if (instance->sink)
        instance->set.ops->close(instance->sink);
    instance->sink = NULL;
    uv_close((uv_handle_t *)&instance->wake, on_closed);
}

struct ob_sink_instance *ob_sink_instance_share(struct ob_sink_instance *instance)
{
    instance->users++;
    return instance;
}

void ob_sink_instance_close(struct ob_sink_instance *instance)
{
    if (!instance || --instance->users > 0)
        return;
    instance->closing = true;
    if (instance->answering)
        uv_async_send(&instance->wake);
    else
        instance_end(instance);
}

void ob_sink_instance_deliver(struct ob_sink_instance *instance, const struct outbox_sink_item *items, size_t count)
{
    struct outbox_verdict no_memory = OUTBOX_VERDICT_INIT;
    no_memory.outcome = OUTBOX_SINK_NOT_SENT;
    no_memory.not_before_us = 100000;
    if (!ob_sink_deliver(instance->set.ops, instance->sink, items, count))
        for (size_t i = 0; i < count; i++)
            on_done(instance, items[i].handle, &no_memory);
}

void ob_sink_instance_cancel(struct ob_sink_instance *instance, uint64_t handle)
{
    instance->set.ops->cancel(instance->sink, handle);
}

bool ob_sink_instance_ping(struct ob_sink_instance *instance, uint64_t handle)
{
    if (!instance->set.ops->ping)
        return false;
    instance->set.ops->ping(instance->sink, handle);
    return true;
}

const struct outbox_sink_ops *ob_sink_instance_ops(const struct ob_sink_instance *instance)
{
    return instance->set.ops;
}
