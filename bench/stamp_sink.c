/* stamp_sink.c - a sink for `outbox run` that accepts everything and notes when it came: the other end of peer_load.
 *
 * Options: path (required), a line per message at the end: the "i" of its payload and the clock in microseconds; refuse, the
 * key whose messages are never accepted; silent, answers nothing to every n-th message. */
#include <outbox/sink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stamp {
    long number;
    long long us;
};

struct outbox_sink {
    const struct outbox_sink_host *host;
    char *path, *refuse;
    long silent, seen;
    struct stamp *stamps;
    size_t count, room;
};

static const struct outbox_sink_setting settings[] = {
    {.name = "path", .type = OUTBOX_OPTION_TEXT, .required = true},
    {.name = "refuse", .type = OUTBOX_OPTION_TEXT},
    {.name = "silent", .type = OUTBOX_OPTION_INT, .fallback = "0", .least = 0, .most = 1000000},
    {.name = NULL},
};

static void stamp_close(outbox_sink *sink)
{
    if (!sink)
        return;
    FILE *file = sink->path ? fopen(sink->path, "w") : NULL;
    for (size_t i = 0; file && i < sink->count; i++)
        fprintf(file, "%ld %lld\n", sink->stamps[i].number, sink->stamps[i].us);
    if (file)
        fclose(file);
    free(sink->stamps);
    free(sink->path);
    free(sink->refuse);
    free(sink);
}

static enum outbox_code stamp_open(const struct outbox_sink_option *options, size_t count,
                                   const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    outbox_sink *sink = calloc(1, sizeof *sink);
    if (!sink) {
        snprintf(err->text, sizeof err->text, "out of memory");
        return err->code = OUTBOX_NOMEM;
    }
    sink->host = host;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(options[i].name, "path") == 0)
            sink->path = strdup(options[i].value);
        if (strcmp(options[i].name, "refuse") == 0)
            sink->refuse = strdup(options[i].value);
        if (strcmp(options[i].name, "silent") == 0)
            sink->silent = strtol(options[i].value, NULL, 10);
    }
    *out = sink;
    return OUTBOX_OK;
}

static long number_of(const struct outbox_delivery *msg)
{
    static const char mark[] = "\"i\":";
    const char *found = memmem(msg->payload, msg->payload_len, mark, sizeof mark - 1);
    return found ? strtol(found + sizeof mark - 1, NULL, 10) : -1;
}

static void note(outbox_sink *sink, const struct outbox_delivery *msg)
{
    if (sink->count == sink->room) {
        size_t room = sink->room ? 2 * sink->room : 65536;
        struct stamp *more = realloc(sink->stamps, room * sizeof more[0]);
        if (!more)
            abort(); /* a figure without its stamps is worth nothing */
        sink->stamps = more;
        sink->room = room;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sink->stamps[sink->count++] = (struct stamp){number_of(msg), now.tv_sec * 1000000LL + now.tv_nsec / 1000};
}

static void stamp_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
        const char *key = items[i].msg->key;
        if (sink->silent && ++sink->seen % sink->silent == 0)
            continue; /* until the host has waited long enough */
        if (sink->refuse && key && strcmp(key, sink->refuse) == 0) {
            verdict.outcome = OUTBOX_SINK_RETRY;
            verdict.scope = OUTBOX_SCOPE_RECIPIENT;
        } else {
            note(sink, items[i].msg);
        }
        sink->host->done(sink->host->ctx, items[i].handle, &verdict);
    }
}

static void stamp_cancel(outbox_sink *sink, uint64_t handle)
{
    (void)sink;
    (void)handle;
}

static const struct outbox_sink_ops ops = {
    OUTBOX_SINK_OPS_HEAD, .kind = "stamp",          .keeps_order = true,
    .open = stamp_open,   .deliver = stamp_deliver, .cancel = stamp_cancel,
    .close = stamp_close, .settings = settings,     .summary = "notes when each message came",
};

OUTBOX_API outbox_sink_entry outbox_sink_ops;
const struct outbox_sink_ops *outbox_sink_ops(void)
{
    return &ops;
}
