/* attach.c - see attach.h. */
#include "sink/smtp/attach.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ob_attach_name_ok(const char *name)
{
    if (!*name || strlen(name) >= PATH_MAX)
        return false;
    for (const char *step = name;; step++) {
        size_t len = strcspn(step, "/");
        if (len == 0 || len > NAME_MAX || (step[0] == '.' && (len == 1 || (len == 2 && step[1] == '.'))))
            return false;
        step += len;
        if (!*step)
            return true;
    }
}

/* A descriptor, or -1 with errno. */
static int open_below(const char *folder, const char *name)
{
    char step[NAME_MAX + 1];
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        size_t len = strcspn(name, "/");
        bool last = name[len] == '\0';
        memcpy(step, name, len);
        step[len] = '\0';
        /* Not to wait at a pipe that nobody writes to. */
        int next = openat(at, step, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY));
        int why = errno;
        close(at);
        errno = why;
        if (last)
            return next;
        at = next;
        name += len + 1;
    }
    return -1;
}

static enum outbox_code why_not(int error, const char *name, const char **code, struct outbox_error *err)
{
    if (error == ENOENT || error == ENOTDIR) {
        *code = "smtp_attachment_missing";
        return ob_error_set(err, error == ENOENT ? OUTBOX_BUSY : OUTBOX_INVALID, "attachment %s does not exist", name);
    }
    if (error == ELOOP) {
        *code = "smtp_attachment_refused";
        return ob_error_set(err, OUTBOX_INVALID,
                            "attachment %s is a symbolic link, or behind one: links are not "
                            "followed",
                            name);
    }
    *code = "smtp_attachment_unreadable";
    bool ours = error == EMFILE || error == ENFILE || error == ENOMEM; /* and not the file's fault */
    return ob_error_set(err, ours ? OUTBOX_INTERNAL : OUTBOX_BUSY, "cannot read attachment %s: %s", name,
                        strerror(error));
}

static enum outbox_code read_all(int fd, const char *name, size_t most, struct ob_buf *buf, const char **code,
                                 struct outbox_error *err)
{
    struct stat st;
    size_t total = 0;
    if (fstat(fd, &st) != 0)
        return why_not(errno, name, code, err);
    if (!S_ISREG(st.st_mode)) {
        *code = "smtp_attachment_refused";
        return ob_error_set(err, OUTBOX_INVALID, "attachment %s is not a regular file", name);
    }
    for (;;) {
        if (total > most) {
            *code = "smtp_attachment_too_large";
            return ob_error_set(err, OUTBOX_INVALID, "attachment %s exceeds attachments_max", name);
        }
        char *room = ob_buf_reserve(buf, 65536);
        if (!room)
            return ob_error_nomem(err);
        ssize_t got = read(fd, room, 65536);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return why_not(errno, name, code, err);
        if (got == 0)
            return OUTBOX_OK;
        ob_buf_added(buf, (size_t)got);
        total += (size_t)got;
    }
}

enum outbox_code ob_attach_read(const char *folder, const char *name, size_t most, struct ob_buf *buf,
                                const char **code, struct outbox_error *err)
{
    int fd = open_below(folder, name);
    if (fd < 0)
        return why_not(errno, name, code, err);
    enum outbox_code result = read_all(fd, name, most, buf, code, err);
    close(fd);
    return result;
}
