/* file.c - the sink that appends a line per message to a file.
 *
 * Files block, so the work is done on libuv's threads: one job at a time, which takes all lines that wait. A job opens
 * the file if it must, writes every line with one write(2), and syncs once; then all of its lines are accepted. A file
 * that was moved away is noticed before a job, and the path is opened anew: so rotation needs no signal.
 *
 * Threads: the loop's, and a worker of libuv for the job. During a job its entries belong to the worker, except for
 * `cancelled`. Lines are written in the order given.
 * A partly written line is truncated again; if that fails, the next message begins on a new line. */
#include "base/alloc.h"
#include "base/error.h"
#include "sink/common/option.h"
#include "sink/local/append.h"
#include "sink/local/text_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

extern const struct outbox_sink_ops ob_sink_file;

struct outbox_sink {
    char *path;
    bool sync;
    mode_t mode;
    int nofollow; /* O_NOFOLLOW, or 0 */
    struct ob_text_queue queue;
    struct ob_list job; /* of entries */
    uv_work_t work;
    bool working, closing;
    int fd;    /* the thread's while working; -1: not open */
    bool torn; /* half a line stands at the end of the file */
};

static const struct outbox_sink_setting settings[] = {
    {.name = "path",
     .type = OUTBOX_OPTION_TEXT,
     .required = true,
     .also = "filename file",
     .doc = "path of the file; created if missing"},
    OB_TEXT_LINE_SETTING,
    {.name = "fsync",
     .type = OUTBOX_OPTION_BOOL,
     .fallback = "true",
     .doc = "fsync the file before its lines count as accepted, once for all waiting lines"},
    {.name = "mode", .type = OUTBOX_OPTION_TEXT, .fallback = "0640", .doc = "permissions of a new file, octal"},
    {.name = "symlinks",
     .type = OUTBOX_OPTION_BOOL,
     .fallback = "false",
     .doc = "follow a symbolic link at the end of `path`; off: refuse it (`file_eloop`), except below /dev"},
    {0},
};

/* ---- on the thread ---- */

static void close_file(outbox_sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
}

/* A file that was just made is lost in a crash unless its folder knows it. */
static void sync_folder(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

/* Whether the file ends within a line: one of ours whose job died, or of somebody else. A file that may not be read
 * counts as it did before it was opened anew. */
static bool ends_torn(const outbox_sink *sink)
{
    struct stat ours, there;
    char last = '\n';
    bool torn = sink->torn;
    if (fstat(sink->fd, &ours) || !S_ISREG(ours.st_mode) || ours.st_size == 0)
        return false;
    int fd = open(sink->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | sink->nofollow);
    if (fd < 0)
        return torn;
    if (fstat(fd, &there) == 0 && there.st_ino == ours.st_ino && there.st_dev == ours.st_dev &&
        pread(fd, &last, 1, ours.st_size - 1) == 1)
        torn = last != '\n';
    close(fd);
    return torn;
}

static int open_file(outbox_sink *sink)
{
    struct stat ours, there;
    if (sink->fd >= 0 && (stat(sink->path, &there) || fstat(sink->fd, &ours) || there.st_ino != ours.st_ino ||
                          there.st_dev != ours.st_dev))
        close_file(sink);
    if (sink->fd >= 0)
        return 0;
    /* O_NONBLOCK: a named pipe without a reader must not block the thread forever. */
    sink->fd = open(sink->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | sink->nofollow,
                    sink->mode);
    if (sink->fd < 0)
        return errno;
    sink->torn = ends_torn(sink);
    if (sink->sync)
        sync_folder(sink->path);
    return 0;
}

/* Removes a partly written line, if nothing was written after it. */
static void cut(outbox_sink *sink, size_t written)
{
    struct stat now;
    if (!written)
        return;
    sink->torn = fstat(sink->fd, &now) || !S_ISREG(now.st_mode) ||
                 lseek(sink->fd, 0, SEEK_CUR) != now.st_size || /* with O_APPEND: where our write ended */
                 ftruncate(sink->fd, now.st_size - (off_t)written);
}

static int write_line(outbox_sink *sink, const struct ob_buf *line)
{
    size_t written;
    int number = sink->torn ? ob_append(sink->fd, "\n", 1, &written) : 0;
    if (number)
        return number;
    sink->torn = false;
    number = ob_append(sink->fd, line->data, line->len, &written);
    if (number)
        cut(sink, written);
    return number;
}

static bool is_passing(int number)
{
    return number == ENOSPC || number == EDQUOT || number == EIO || number == EAGAIN || number == EMFILE ||
           number == ENFILE || number == ENOMEM || number == ESTALE || number == ETIMEDOUT;
}

static void run_job(uv_work_t *work)
{
    outbox_sink *sink = work->data;
    int number = open_file(sink);
    bool failed = false;
    OB_LIST_EACH (it, &sink->job) {
        struct ob_text_entry *entry = OB_CONTAINER(it, struct ob_text_entry, node);
        if (!number)
            number = write_line(sink, &entry->line);
        entry->number = number;
        entry->outcome = !number              ? OUTBOX_SINK_ACCEPTED
                         : failed             ? OUTBOX_SINK_NOT_SENT /* after the first that went wrong */
                         : is_passing(number) ? OUTBOX_SINK_RETRY
                                              : OUTBOX_SINK_BLOCKED;
        failed = number != 0;
    }
    if (sink->fd < 0 || !sink->sync || fdatasync(sink->fd) == 0 || errno == EINVAL) /* EINVAL: a pipe, a device */
        return;
    int lost = errno;
    close_file(sink);
    OB_LIST_EACH (it, &sink->job) {
        struct ob_text_entry *entry = OB_CONTAINER(it, struct ob_text_entry, node);
        if (entry->outcome == OUTBOX_SINK_ACCEPTED)
            entry->outcome = OUTBOX_SINK_UNKNOWN, entry->number = lost;
    }
}

/* ---- on the loop ---- */

static void start_job(outbox_sink *sink);

static void free_sink(outbox_sink *sink)
{
    ob_text_entries_free(&sink->queue.entries);
    ob_text_entries_free(&sink->job);
    close_file(sink);
    ob_free(sink->path);
    ob_free(sink);
}

static void end_job(uv_work_t *work, int status)
{
    outbox_sink *sink = work->data;
    (void)status;
    sink->working = false;
    if (sink->closing) {
        free_sink(sink);
        return;
    }
    sink->working = true; /* verdicts may bring new lines in: those wait for the end of this */
    while (!ob_list_empty(&sink->job)) {
        struct ob_text_entry *entry = OB_CONTAINER(sink->job.next, struct ob_text_entry, node);
        ob_text_entry_end(&sink->queue, entry, entry->outcome, entry->number);
    }
    sink->working = false;
    start_job(sink);
}

static void start_job(outbox_sink *sink)
{
    struct ob_list *node;
    if (sink->working || ob_list_empty(&sink->queue.entries))
        return;
    while ((node = ob_list_shift(&sink->queue.entries)))
        ob_list_push(&sink->job, node);
    sink->working = true;
    uv_queue_work(sink->queue.host->loop, &sink->work, run_job, end_job);
}

static void file_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    ob_text_queue_add(&sink->queue, items, count);
    start_job(sink);
}

/* A line in a job is still written, but not reported. */
static void file_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH (it, &sink->job) {
        struct ob_text_entry *entry = OB_CONTAINER(it, struct ob_text_entry, node);
        if (entry->handle == handle)
            entry->cancelled = true;
    }
    ob_text_queue_cancel(&sink->queue, handle);
}

/* Opens what is there, as a job would: rights alone say nothing of a folder, or of a pipe that nobody reads. A ping does
 * not create the file, so there it can only look at its folder. */
static int try_open(const outbox_sink *sink)
{
    char copy[PATH_MAX];
    int fd = open(sink->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | sink->nofollow);
    int number = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    snprintf(copy, sizeof copy, "%s", sink->path);
    return number != ENOENT || access(dirname(copy), W_OK | X_OK) ? number : 0;
}

static void file_ping(outbox_sink *sink, uint64_t handle)
{
    int number = try_open(sink);
    ob_text_line_answer(&sink->queue, handle, number ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_ACCEPTED, number);
}

static void file_close(outbox_sink *sink)
{
    if (!sink)
        return;
    sink->closing = true;
    if (!sink->working)
        free_sink(sink);
    else
        (void)uv_cancel((uv_req_t *)&sink->work); /* either way end_job comes: we are not within it, see sink.h */
}

static enum outbox_code read_mode(outbox_sink *sink, const char *text, struct outbox_error *err)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    if (end == text || *end || mode > 0777)
        return ob_error_set(err, OUTBOX_INVALID, "mode is \"%.20s\", but must be octal, such as 0640", text);
    sink->mode = (mode_t)mode;
    return OUTBOX_OK;
}

static enum outbox_code file_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    const struct ob_options get = {options, count, settings};
    outbox_sink *sink = ob_calloc(1, sizeof *sink);
    if (!sink)
        return ob_error_nomem(err);
    ob_list_init(&sink->queue.entries);
    ob_list_init(&sink->job);
    sink->fd = -1;
    sink->work.data = sink;
    sink->sync = ob_option_bool(&get, "fsync");
    sink->path = ob_strdup(ob_option_string(&get, "path"));
    /* With a link, anyone who may write to the folder could redirect us to any file that we may write to. In /dev only root
 * creates links. */
    bool follow = ob_option_bool(&get, "symlinks") || (sink->path && strncmp(sink->path, "/dev/", 5) == 0);
    sink->nofollow = follow ? 0 : O_NOFOLLOW;
    sink->queue.host = host;
    sink->queue.prefix = "file";
    sink->queue.name = sink->path;
    sink->queue.format = ob_text_line_parse(ob_option_text(&get, "format"));
    enum outbox_code code = sink->path ? read_mode(sink, ob_option_string(&get, "mode"), err) : ob_error_nomem(err);
    if (!code && sink->path && (!*sink->path || strlen(sink->path) >= PATH_MAX))
        code = ob_error_set(err, OUTBOX_INVALID, "path must have 1 to %d bytes", PATH_MAX - 1);
    if (code)
        free_sink(sink);
    else
        *out = sink;
    return code;
}

const struct outbox_sink_ops ob_sink_file = {
    OUTBOX_SINK_OPS_HEAD,  .kind = "file",      .also = "jsonl ndjson",
    .keeps_order = true,   .open = file_open,   .deliver = file_deliver,
    .cancel = file_cancel, .close = file_close, .settings = settings,
    .ping = file_ping,     .descriptors = 4,    .summary = "appends a line per message to a file",
    .protocol = "local",
};
