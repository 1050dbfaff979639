/* plugin.c - a sink built with headers of another age: appends topic and payload of each message to a file. A message of the
 * topic "refused" gets a verdict with text, one of "odd" an outcome that today's host does not know. */
#include "frozen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT, INT };
enum { ACCEPTED, TERMINAL = 3, FROM_TOMORROW = 77 };

struct outbox_sink {
    const struct outbox_sink_host *host;
    FILE *file;
    long copies;
};

static const struct outbox_sink_setting settings[] = {
    {.name = "path", .type = TEXT},
    {.name = "copies", .type = INT, .fallback = "1", .least = 1, .most = 3},
    TOMORROW({.name = "shade", .type = 99, .fallback = "dark", .unit = "lux"}, ){.name = NULL},
};

static int sink_open(const struct outbox_sink_option *options, size_t count, const struct outbox_sink_host *host,
                     outbox_sink **sink, struct outbox_error *err)
{
    const char *path = NULL, *copies = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(options[i].name, "path") == 0)
            path = options[i].value;
        if (strcmp(options[i].name, "copies") == 0)
            copies = options[i].value;
        TOMORROW(if (options[i].line != 0) abort();) /* today's host does not know it: zero */
    }
    TOMORROW(if (OUTBOX_HAS(host, count)) abort();)
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file || !copies) {
        snprintf(err->text, sizeof err->text, "path and copies did not arrive");
        return err->code = 1;
    }
    *sink = malloc(sizeof **sink);
    **sink = (struct outbox_sink){host, file, strtol(copies, NULL, 10)};
    return 0;
}

static void sink_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct outbox_delivery *msg = items[i].msg;
        struct outbox_verdict verdict;
        memset(&verdict, 0x7f, sizeof verdict); /* nobody may read beyond the size */
        verdict = (struct outbox_verdict){.size = sizeof verdict, TODAY(.not_before_us = -1)};
        TOMORROW(if (items[i].deadline_us != 0 || OUTBOX_HAS(msg, colour)) abort();)
        if (strcmp(msg->topic, "refused") == 0)
            verdict.outcome = TERMINAL, verdict.code = "no", verdict.text = "refused by a sink of another age";
        else if (strcmp(msg->topic, "odd") == 0)
            verdict.outcome = FROM_TOMORROW;
        else
            for (long copy = 0; copy < sink->copies; copy++)
                fprintf(sink->file, "%s %.*s\n", msg->topic, (int)msg->payload_len, (const char *)msg->payload);
        fflush(sink->file);
        sink->host->done(sink->host->ctx, items[i].handle, &verdict);
    }
}

TODAY(static void sink_check(const struct outbox_sink_check *check) {
    TOMORROW(if (OUTBOX_HAS(check, concurrency)) abort();)
    for (size_t i = 0; i < check->count; i++)
        if (strcmp(check->options[i].name, "copies") == 0 && strcmp(check->options[i].value, "3") == 0)
            check->problem(check->ctx, true, "copies",
                           check->timeout_us == 10000000 ? "is one too many" : "no timeout");
})

static void sink_cancel(outbox_sink *sink, uint64_t handle)
{
    (void)sink, (void)handle;
}

static void sink_close(outbox_sink *sink)
{
    if (sink)
        fclose(sink->file);
    free(sink);
}

__attribute__((visibility("default"))) const struct outbox_sink_ops *outbox_sink_ops(void);
const struct outbox_sink_ops *outbox_sink_ops(void)
{
    static const struct outbox_sink_ops ops = {.size = sizeof ops,
                                               .abi = 1,
                                               .item_size = sizeof(struct outbox_sink_item),
                                               .option_size = sizeof(struct outbox_sink_option),
                                               .setting_size = sizeof(struct outbox_sink_setting),
                                               .kind = "aged",
                                               .open = sink_open,
                                               .deliver = sink_deliver,
                                               .cancel = sink_cancel,
                                               .close = sink_close,
                                               TODAY(.check = sink_check, ).settings = settings};
    return &ops;
}
