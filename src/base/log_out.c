/* log_out.c - see log_out.h.
 *
 * The flags of the descriptor are not changed: O_NONBLOCK belongs to the open file, which the shell and our children share.
 * For a socket, each send has MSG_DONTWAIT; a pipe or a terminal is opened a second time with O_NONBLOCK. If that is not
 * allowed, we poll before each write, and write at most PIPE_BUF bytes at a time, which a pipe takes as a whole. */
#include "base/log_out.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void ob_log_out_init(struct ob_log_out *out, int fd)
{
    struct stat file;
    char path[40];
    out->fd = fd;
    out->from = out->to = 0;
    out->dropped = out->told = 0;
    out->way = OB_LOG_OUT_PLAIN;
    pthread_mutex_init(&out->lock, NULL);
    if (fstat(fd, &file) || S_ISREG(file.st_mode))
        return;
    out->way = OB_LOG_OUT_SOCKET;
    if (S_ISSOCK(file.st_mode))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    out->way = own >= 0 ? OB_LOG_OUT_UNBLOCKED : OB_LOG_OUT_CAREFUL;
    out->fd = own >= 0 ? own : fd;
}

/* The number of bytes written; 0 when there is no room now, -1 when there never will be. */
static ssize_t push(const struct ob_log_out *out, const char *data, size_t len)
{
    struct pollfd room = {.fd = out->fd, .events = POLLOUT};
    ssize_t sent;
    if (out->way == OB_LOG_OUT_CAREFUL) {
        if (poll(&room, 1, 0) < 1)
            return 0;
        len = len < PIPE_BUF ? len : PIPE_BUF;
    }
    do
        sent = out->way == OB_LOG_OUT_SOCKET ? send(out->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                                             : write(out->fd, data, len);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) ? 0 : sent;
}

static void push_waiting(struct ob_log_out *out)
{
    while (out->from < out->to) {
        ssize_t sent = push(out, out->waiting + out->from, out->to - out->from);
        if (sent == 0)
            return;
        if (sent < 0) { /* the reader is gone */
            for (size_t i = out->from; i < out->to; i++)
                out->dropped += out->waiting[i] == '\n';
            sent = (ssize_t)(out->to - out->from);
        }
        out->from += (size_t)sent;
    }
    out->from = out->to = 0;
}

static void keep(struct ob_log_out *out, const char *data, size_t len)
{
    if (out->to + len > OB_LOG_OUT_BYTES && out->from > 0) {
        memmove(out->waiting, out->waiting + out->from, out->to - out->from);
        out->to -= out->from;
        out->from = 0;
    }
    memcpy(out->waiting + out->to, data, len);
    out->to += len;
}

void ob_log_out_write(void *ctx, enum ob_log_level level, const char *line, size_t len)
{
    struct ob_log_out *out = ctx;
    (void)level;
    pthread_mutex_lock(&out->lock);
    push_waiting(out);
    if (out->to - out->from + len + 1 > OB_LOG_OUT_BYTES) {
        out->dropped++;
    } else {
        keep(out, line, len);
        keep(out, "\n", 1);
        push_waiting(out);
    }
    pthread_mutex_unlock(&out->lock);
}

void ob_log_out_flush(struct ob_log_out *out)
{
    pthread_mutex_lock(&out->lock);
    push_waiting(out);
    pthread_mutex_unlock(&out->lock);
}

uint64_t ob_log_out_dropped(struct ob_log_out *out)
{
    pthread_mutex_lock(&out->lock);
    uint64_t dropped = out->dropped;
    pthread_mutex_unlock(&out->lock);
    return dropped;
}

uint64_t ob_log_out_cleared(struct ob_log_out *out)
{
    pthread_mutex_lock(&out->lock);
    uint64_t news = out->to == out->from ? out->dropped - out->told : 0;
    out->told += news;
    pthread_mutex_unlock(&out->lock);
    return news;
}

static bool is_empty(struct ob_log_out *out)
{
    pthread_mutex_lock(&out->lock);
    push_waiting(out);
    bool empty = out->from == out->to;
    pthread_mutex_unlock(&out->lock);
    return empty;
}

void ob_log_out_fini(struct ob_log_out *out, int64_t patience_us)
{
    int64_t until = ob_clock_mono_us() + patience_us, left;
    while (!is_empty(out) && (left = until - ob_clock_mono_us()) > 0) {
        struct pollfd room = {.fd = out->fd, .events = POLLOUT};
        poll(&room, 1, (int)(left / 1000) + 1);
    }
    pthread_mutex_lock(&out->lock);
    if (out->way == OB_LOG_OUT_UNBLOCKED)
        close(out->fd);
    out->fd = -1;
    pthread_mutex_unlock(&out->lock);
}
