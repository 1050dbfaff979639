/* datagram.c - a template for your own sink: each message goes as one datagram to a UNIX socket.
 *
 * Build it with make, then name it: `sinks: {audit: {kind: ./datagram.so, path: /run/audit.sock}}`.
 *
 * This one answers at once, from within deliver. One that waits for its receiver puts its handles into the loop of its
 * host (host->loop, a uv_loop_t), or works on a thread of its own and calls host->wake. */
#include <outbox/sink.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct sockaddr_un address;
    int fd;
};

static const struct outbox_sink_setting settings[] = {
    {.name = "path", .type = OUTBOX_OPTION_TEXT, .required = true, .doc = "the socket of the receiver"},
    {0},
};

static enum outbox_code sink_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    int len = 0, most = (int)sizeof(*sink)->address.sun_path - 1;
    *sink = calloc(1, sizeof **sink);
    if (!*sink)
        return err->code = OUTBOX_NOMEM;
    **sink = (struct outbox_sink){.host = host, .address.sun_family = AF_UNIX};
    for (size_t i = 0; i < count; i++) /* names and types were checked by the table above */
        if (strcmp(options[i].name, "path") == 0)
            len = snprintf((*sink)->address.sun_path, (size_t)most + 1, "%s", options[i].value);
    (*sink)->fd = len > most ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if ((*sink)->fd >= 0)
        return OUTBOX_OK;
    snprintf(err->text, sizeof err->text, "no socket: %s", len > most ? "its path is too long" : strerror(errno));
    free(*sink);
    return err->code = OUTBOX_INVALID;
}

/* Codes decide, never the text of an answer. When in doubt whether the receiver has it: OUTBOX_SINK_UNKNOWN. */
static void answer(outbox_sink *sink, uint64_t handle, int number)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    char code[32];
    verdict.outcome = number == 0          ? OUTBOX_SINK_ACCEPTED
                      : number == EMSGSIZE ? OUTBOX_SINK_TERMINAL
                                           : OUTBOX_SINK_RETRY;
    verdict.unreachable = number == ENOENT || number == ECONNREFUSED; /* nobody is there: pause, and look again */
    snprintf(code, sizeof code, "errno_%d", number);
    verdict.code = number ? code : NULL;
    verdict.text = number ? strerror(number) : NULL;
    sink->host->done(sink->host->ctx, handle, &verdict);
}

static void sink_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct outbox_delivery *msg = items[i].msg; /* borrowed until it is answered */
        char id[37];
        outbox_uuid_format(&msg->id, id); /* lets the receiver tell a second delivery from a new message */
        id[36] = '\n';
        struct iovec parts[] = {{id, 37}, {(void *)msg->payload, msg->payload_len}};
        struct msghdr packet = {&sink->address, sizeof sink->address, parts, 2, NULL, 0, 0};
        answer(sink, items[i].handle, sendmsg(sink->fd, &packet, MSG_NOSIGNAL) < 0 ? errno : 0);
    }
}

static void sink_cancel(outbox_sink *sink, uint64_t handle)
{
    (void)sink, (void)handle; /* nothing is out after deliver */
}

static void sink_close(outbox_sink *sink)
{
    if (sink)
        close(sink->fd);
    free(sink);
}

OUTBOX_API outbox_sink_entry outbox_sink_ops; /* the one name that the relay looks for */
const struct outbox_sink_ops *outbox_sink_ops(void)
{
    static const struct outbox_sink_ops ops = {
        OUTBOX_SINK_OPS_HEAD,  .kind = "datagram",  .open = sink_open,    .deliver = sink_deliver,
        .cancel = sink_cancel, .close = sink_close, .settings = settings, .summary = "one datagram per message"};
    return &ops; /* keeps_order is false: it is never given two messages of one key at once */
}
