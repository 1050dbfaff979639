/* lock.c - one relay per file.
 *
 * The lock is flock(2) on a separate file beside the database, "<path>-relay", which contains the holder's process id for
 * information. The kernel releases it when the last descriptor is closed, however the process ends, so it is never stale. The
 * file is never removed: otherwise two relays could lock two files of the same name. The lock file is named after the
 * database's real path, so that a symbolic link does not lead to a second lock. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct ob_sqlite_lock {
    int fd;
};

static ob_code held_by_another(int fd, const char *path, struct outbox_error *err)
{
    char text[32];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    long pid = strtol(text, NULL, 10);
    if (pid > 0)
        return ob_error_set(
            err, OUTBOX_LOCKED,
            "another relay (process %ld) serves \"%s\"; an SQLite file allows one relay: stop that one first", pid,
            path);
    return ob_error_set(err, OUTBOX_LOCKED,
                        "another relay serves \"%s\"; an SQLite file allows one relay: stop that one first", path);
}

static ob_code take(int fd, const char *path, struct outbox_error *err)
{
    char text[32];
    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? held_by_another(fd, path, err)
                                    : ob_error_set(err, OUTBOX_DATABASE, "\"%s-relay\": %s", path, strerror(errno));
    int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* The number is only informative: the lock works without it. */
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)len, 0) != len)
        return OUTBOX_OK;
    return OUTBOX_OK;
}

static char *real_path(const char *path, struct outbox_error *err)
{
    struct ob_sqlite_target target;
    if (ob_sqlite_target_parse(path, &target, err))
        return NULL;
    char *real = realpath(target.path, NULL), *copy = real ? ob_strdup(real) : NULL;
    if (!real)
        ob_error_set(err, OUTBOX_UNREACHABLE, "\"%s\": %s", target.path, strerror(errno));
    else if (!copy)
        ob_error_nomem(err);
    free(real);
    ob_sqlite_target_fini(&target);
    return copy;
}

ob_code ob_sqlite_relay_lock(const char *path, struct ob_sqlite_lock **lock, struct outbox_error *err)
{
    struct outbox_error local = {.code = OUTBOX_OK};
    struct ob_buf name = OB_BUF_INIT;
    struct ob_sqlite_lock *made = NULL;
    ob_code code = OUTBOX_OK;
    int fd = -1;
    err = err ? err : &local;
    *lock = NULL;
    char *real = real_path(path, err);
    if (!real)
        return err->code;
    ob_buf_printf(&name, "%s-relay", real);
    made = ob_alloc(sizeof *made);
    if (!made || !ob_buf_ok(&name)) {
        code = ob_error_nomem(err);
        goto done;
    }
    fd = open(ob_buf_text(&name), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    code = fd < 0 ? ob_error_set(err, errno == EACCES ? OUTBOX_FORBIDDEN : OUTBOX_DATABASE, "\"%s\": %s",
                                 ob_buf_text(&name), strerror(errno))
                  : take(fd, real, err);
    if (code)
        goto done;
    made->fd = fd;
    *lock = made;
    made = NULL;
    fd = -1;
done:
    if (fd >= 0)
        close(fd);
    ob_free(made);
    ob_buf_fini(&name);
    ob_free(real);
    return code;
}

void ob_sqlite_relay_unlock(struct ob_sqlite_lock *lock)
{
    if (!lock)
        return;
    close(lock->fd);
    ob_free(lock);
}
