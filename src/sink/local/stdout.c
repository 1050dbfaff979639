/* stdout.c - the sink that writes a line per message to standard output.
 *
 * The loop must not block when nothing reads the pipe: a piece is written only when poll(2) says that there is room, and a
 * piece is never longer than a pipe takes in one write. So the descriptor's flags, which other processes share, are not
 * changed. A line is accepted when all of it is written. Lines are written one after another, in the order given.
 *
 * Thread: the loop's. */
#include "base/alloc.h"
#include "base/error.h"
#include "sink/common/option.h"
#include "sink/local/append.h"
#include "sink/local/text_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

extern const struct outbox_sink_ops ob_sink_stdout;

struct outbox_sink {
    struct ob_text_queue queue;
    int fd; /* our own number for standard output, so that several sinks can wait for it */
    uv_poll_t poll;
    bool can_poll; /* a file is always ready, and epoll does not know it */
    bool polling, writing;
};

static const struct outbox_sink_setting settings[] = {OB_TEXT_LINE_SETTING, {0}};

/* The reader is gone, or the disk behind it is full. A partly written line may have been read. */
static void fail(outbox_sink *sink, int number)
{
    struct ob_list failed, *node;
    enum outbox_sink_outcome outcome =
        number == ENOSPC || number == EDQUOT || number == EIO ? OUTBOX_SINK_RETRY : OUTBOX_SINK_BLOCKED;
    ob_list_init(&failed);
    while ((node = ob_list_shift(&sink->queue.entries)))
        ob_list_push(&failed, node);
    while (!ob_list_empty(&failed)) {
        struct ob_text_entry *entry = OB_CONTAINER(failed.next, struct ob_text_entry, node);
        ob_text_entry_end(&sink->queue, entry,
                          entry->written   ? OUTBOX_SINK_UNKNOWN
                          : entry->follows ? OUTBOX_SINK_NOT_SENT
                                           : outcome,
                          number);
    }
}

static bool has_room(const outbox_sink *sink)
{
    struct pollfd fd = {.fd = sink->fd, .events = POLLOUT};
    return poll(&fd, 1, 0) > 0; /* an error shows in the write */
}

static void on_room(uv_poll_t *poll, int status, int events);

static void wait_for_room(outbox_sink *sink)
{
    if (sink->polling)
        return;
    sink->polling = true;
    uv_poll_start(&sink->poll, UV_WRITABLE | UV_DISCONNECT, on_room);
}

/* One line, as far as it goes. True: it is out. */
static bool write_entry(outbox_sink *sink, struct ob_text_entry *entry, int *number)
{
    while (entry->written < entry->line.len) {
        size_t left = entry->line.len - entry->written, put;
        if (sink->can_poll && !has_room(sink)) {
            wait_for_room(sink);
            return false;
        }
        *number = ob_append(sink->fd, entry->line.data + entry->written, left < PIPE_BUF ? left : PIPE_BUF, &put);
        entry->written += put;
        if (*number == EAGAIN) { /* somebody else took the room */
            *number = 0;
            wait_for_room(sink);
            return false;
        }
        if (*number)
            return false;
    }
    return true;
}

/* Verdicts may bring new deliveries in; those are taken up here, not in a call within the call. */
static void write_queue(outbox_sink *sink)
{
    int number = 0;
    if (sink->writing || sink->polling)
        return;
    sink->writing = true;
    while (!ob_list_empty(&sink->queue.entries)) {
        struct ob_text_entry *entry = OB_CONTAINER(sink->queue.entries.next, struct ob_text_entry, node);
        if (!write_entry(sink, entry, &number)) {
            if (!number)
                break;
            fail(sink, number);
            number = 0;
            continue;
        }
        ob_text_entry_end(&sink->queue, entry, OUTBOX_SINK_ACCEPTED, 0);
    }
    sink->writing = false;
}

static void on_room(uv_poll_t *poll, int status, int events)
{
    outbox_sink *sink = poll->data;
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    sink->polling = false;
    write_queue(sink);
}

static void stdout_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    ob_text_queue_add(&sink->queue, items, count);
    write_queue(sink);
}

static void stdout_cancel(outbox_sink *sink, uint64_t handle)
{
    ob_text_queue_cancel(&sink->queue, handle);
}

static void stdout_ping(outbox_sink *sink, uint64_t handle)
{
    struct pollfd fd = {.fd = sink->fd, .events = POLLOUT};
    bool closed = poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP | POLLNVAL));
    ob_text_line_answer(&sink->queue, handle, closed ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_ACCEPTED, closed ? EPIPE : 0);
}

static void free_sink(outbox_sink *sink)
{
    close(sink->fd);
    ob_free(sink);
}

static void on_closed(uv_handle_t *handle)
{
    free_sink(handle->data);
}

static void stdout_close(outbox_sink *sink)
{
    if (!sink)
        return;
    ob_text_entries_free(&sink->queue.entries);
    if (sink->can_poll)
        uv_close((uv_handle_t *)&sink->poll, on_closed);
    else
        free_sink(sink);
}

/* libuv makes what it polls non-blocking, for all who share it; that is undone. */
static bool poll_init(outbox_sink *sink)
{
    int flags = fcntl(sink->fd, F_GETFL);
    if (uv_guess_handle(sink->fd) == UV_FILE || uv_poll_init(sink->queue.host->loop, &sink->poll, sink->fd))
        return false;
    sink->poll.data = sink;
    fcntl(sink->fd, F_SETFL, flags);
    return true;
}

static enum outbox_code stdout_open(const struct outbox_sink_option *options, size_t count,
                                    const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    const struct ob_options get = {options, count, settings};
    *sink = ob_calloc(1, sizeof **sink);
    if (!*sink)
        return ob_error_nomem(err);
    (*sink)->queue = (struct ob_text_queue){.host = host,
                                            .prefix = "stdout",
                                            .name = "standard output",
                                            .format = ob_text_line_parse(ob_option_text(&get, "format"))};
    ob_list_init(&(*sink)->queue.entries);
    (*sink)->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if ((*sink)->fd < 0) {
        ob_free(*sink);
        return ob_error_set(err, OUTBOX_INVALID, "standard output is not usable: %s", strerror(errno));
    }
    (*sink)->can_poll = poll_init(*sink);
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error to report, not an end */
    return OUTBOX_OK;
}

const struct outbox_sink_ops ob_sink_stdout = {
    OUTBOX_SINK_OPS_HEAD,    .kind = "stdout",      .also = "console print screen log stderr",
    .keeps_order = true,     .open = stdout_open,   .deliver = stdout_deliver,
    .cancel = stdout_cancel, .close = stdout_close, .settings = settings,
    .ping = stdout_ping,     .descriptors = 4,      .summary = "writes a line per message to standard output",
    .protocol = "local",
};
