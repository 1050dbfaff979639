/* wait.c - sleeps until there is work: inotify on the write-ahead log, so a commit of any process wakes it.
 *
 * An event only means that some connection wrote to the log. PRAGMA data_version shows whether that was a commit, and the queue
 * whether the commit is work for us. Our own writes cause events too.
 *
 *   1 The watches are set before anything is read, and stay set: a commit after the read causes an event.
 *   2 Work is what is due in the scope of the last claim and was not seen by it: committed since by others
 *     (data_version moved) or by us (stale), or become due since (a due time, the end of a lease). What the last claim
 *     saw and left, because it was blocked, is not new: otherwise every wait would return at once.
 *   3 The log is written before the commit is visible: the page with the commit, then fsync, then the index in shared
 *     memory, which causes no event. So after an event we check again, at doubling intervals, until the next event or the
 *     timeout: a wake-up is late by no more than the duration of the commit.
 *   4 Due times and ends of leases are known: the sleep ends at the next one.
 *
 * A log that is deleted (by the last connection that closes) and created again is found through its directory. Without inotify
 * we poll at doubling intervals, up to POLL_US. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { STEP_US = 500, POLL_US = 250000, LOG_LOOK = 1000 };

void ob_sqlite_watch_init(struct ob_sqlite_watch *watch)
{
    *watch = (struct ob_sqlite_watch){.fd = -1, .directory = -1, .file = -1, .interrupt = -1, .stale = true};
}

void ob_sqlite_watch_fini(struct ob_sqlite_watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    ob_free(watch->wal_path);
    ob_free(watch->name_space);
    ob_free(watch->topics);
    ob_free(watch->only);
    ob_free(watch->skip);
    ob_free(watch->rules);
}

/* ---- what the last claim was about ------------------------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool replace(char **kept, const char *text)
{
    if (is_same(*kept, text))
        return true;
    ob_free(*kept);
    *kept = text ? ob_strdup(text) : NULL;
    return !text || *kept;
}

ob_code ob_sqlite_watch_look(struct ob_sqlite_store *store, const struct ob_sqlite_scope *scope,
                             struct outbox_error *err)
{
    struct ob_sqlite_watch *watch = &store->watch;
    bool same = is_same(watch->topics, scope->topics) && is_same(watch->only, scope->only) &&
                is_same(watch->skip, scope->skip) && is_same(watch->rules, scope->rules) &&
                is_same(watch->name_space, scope->name_space);
    if (!same)
        store->lead.until_us = 0; /* its scope has changed */
    if (!replace(&watch->name_space, scope->name_space) || !replace(&watch->topics, scope->topics) ||
        !replace(&watch->only, scope->only) || !replace(&watch->skip, scope->skip) ||
        !replace(&watch->rules, scope->rules))
        return ob_error_nomem(err);
    return ob_sqlite_number(store, OB_SQLITE_data_version, OB_NO_ARGS, 0, &watch->version, err);
}

/* ---- arming ------------------------------------------------------------------------------------------------------ */

static ob_code name_wal(struct ob_sqlite_store *store, struct outbox_error *err)
{
    struct ob_buf buf = OB_BUF_INIT;
    const char *file = sqlite3_db_filename(store->db, "main");
    if (!file || !*file) /* in memory: no other connection can write */
        return OUTBOX_OK;
    ob_buf_printf(&buf, "%s-wal", file);
    store->watch.wal_path = ob_buf_take(&buf);
    ob_buf_fini(&buf);
    if (!store->watch.wal_path)
        return ob_error_nomem(err);
    char *slash = strrchr(store->watch.wal_path, '/');
    store->watch.wal_name = slash ? slash + 1 : store->watch.wal_path;
    return OUTBOX_OK;
}

static void watch_file(struct ob_sqlite_watch *watch)
{
    watch->file = inotify_add_watch(watch->fd, watch->wal_path, IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF);
}

static ob_code arm(struct ob_sqlite_store *store, struct outbox_error *err)
{
    struct ob_sqlite_watch *watch = &store->watch;
    if (watch->wal_path)
        return OUTBOX_OK;
    ob_code code = name_wal(store, err);
    if (code || !watch->wal_path)
        return code;
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return OUTBOX_OK;
    char saved = *watch->wal_name, *cut = watch->wal_path + (watch->wal_name - watch->wal_path);
    *cut = '\0';
    watch->directory =
        inotify_add_watch(watch->fd, *watch->wal_path ? watch->wal_path : ".", IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    *cut = saved;
    watch_file(watch);
    return OUTBOX_OK;
}

/* Whether anything was written since the last call. Also watches a log that was created again. */
static bool take_events(struct ob_sqlite_watch *watch)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool any = false;
    for (ssize_t len; watch->fd >= 0 && (len = read(watch->fd, buffer, sizeof buffer)) > 0;) {
        for (char *at = buffer; at < buffer + len;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            bool about_log = event->len && strcmp(event->name, watch->wal_name) == 0;
            any = any || event->wd != watch->directory || about_log || event->mask & IN_Q_OVERFLOW;
            if ((event->wd == watch->file && event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) || about_log)
                watch_file(watch);
            at += sizeof *event + event->len;
        }
    }
    return any;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

struct look {
    int64_t now;
    bool due;        /* something can be claimed */
    int64_t next_us; /* when the next message can be; 0: none is known */
};

static void sooner(struct look *look, int64_t when)
{
    if (when && when <= look->now)
        look->due = true;
    else if (when && (!look->next_us || when < look->next_us))
        look->next_us = when;
}

/* after: what was due by then is ignored. lane 0: any but the first few. */
static ob_code look_at_lane(struct ob_sqlite_store *store, int64_t lane, int64_t after, struct look *look,
                            struct outbox_error *err)
{
    int64_t prio = 10, when;
    while (!look->due) {
        const struct ob_sqlite_arg below[] = {OB_NUM(lane), OB_NUM(prio)};
        ob_code code = lane ? ob_sqlite_number(store, OB_SQLITE_lower_prio, below, 2, -1, &prio, err)
                            : ob_sqlite_number(store, OB_SQLITE_lower_prio_wide, below + 1, 1, -1, &prio, err);
        if (code || prio < 0)
            return code;
        const struct ob_sqlite_arg next[] = {OB_NUM(lane), OB_NUM(prio), OB_NUM(after)};
        code = lane ? ob_sqlite_number(store, OB_SQLITE_next_due, next, 3, 0, &when, err)
                    : ob_sqlite_number(store, OB_SQLITE_next_due_wide, next + 1, 2, 0, &when, err);
        if (code)
            return code;
        sooner(look, when);
    }
    return OUTBOX_OK;
}

ob_code ob_sqlite_log_waits(struct ob_sqlite_store *store, bool *waits, struct outbox_error *err)
{
    int64_t answer = 0;
    ob_code code = ob_sqlite_number(store, OB_SQLITE_log_waits, OB_ARGS(OB_NUM(LOG_LOOK)), 0, &answer, err);
    *waits = answer != 0;
    return code;
}

/* Ignores the tenant: a claim that finds nothing for it costs less than an index would. Also ignores the lanes of leases, and
 * all lanes if there are many. */
static ob_code look_at_queue(struct ob_sqlite_store *store, int64_t after, struct look *look, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row, began;
    *look = (struct look){.now = ob_clock_wall_us()};
    ob_code code = ob_sqlite_begin_read(store, &began, err);
    if (code)
        return code;
    const struct ob_sqlite_watch *watch = &store->watch;
    int64_t when;
    int lanes = 0;
    code = ob_sqlite_number(store, OB_SQLITE_next_expiry, OB_ARGS(OB_NUM(after)), 0, &when, err);
    if (code) {
        ob_sqlite_end_read(store, began);
        return code;
    }
    sooner(look, when);
    if (!look->due)
        code = ob_sqlite_log_waits(store, &look->due, err);
    if (code) {
        ob_sqlite_end_read(store, began);
        return code;
    }
    code = ob_sqlite_start(store, OB_SQLITE_lanes,
                           OB_ARGS(OB_TEXT(watch->name_space), OB_TEXT(watch->topics), OB_TEXT(watch->only),
                                   OB_TEXT(watch->skip), OB_TEXT(watch->rules), OB_NUM(OB_SQLITE_LANES_FEW + 1)),
                           &stmt, err);
    while (!code && !look->due) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        code = look_at_lane(store, ++lanes > OB_SQLITE_LANES_FEW ? 0 : sqlite3_column_int64(stmt, 0), after, look, err);
    }
    ob_sqlite_done(stmt);
    ob_sqlite_end_read(store, began);
    return code;
}

/* Whether there is new work, and if not, until when. */
static ob_code look(struct ob_sqlite_store *store, struct look *look, struct outbox_error *err)
{
    struct ob_sqlite_watch *watch = &store->watch;
    int64_t version;
    ob_code code = ob_sqlite_number(store, OB_SQLITE_data_version, OB_NO_ARGS, 0, &version, err);
    if (code)
        return code;
    bool news = watch->stale || version != watch->version;
    watch->version = version;
    watch->stale = false;
    code = look_at_queue(store, news ? 0 : watch->looked_us, look, err);
    if (!code && news && !look->due)
        watch->looked_us = look->now;
    return code;
}

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

/* False if the wait must end. */
static bool doze(const struct ob_sqlite_watch *watch, int64_t us)
{
    struct pollfd fds[] = {{.fd = watch->fd, .events = POLLIN}, {.fd = watch->interrupt, .events = POLLIN}};
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    /* A signal only causes one more check. */
    return ppoll(fds, 2, &left, NULL) <= 0 || !fds[1].revents;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

ob_code ob_sqlite_wait(struct ob_store *base, int64_t timeout_us, bool *woken, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct ob_sqlite_watch *watch = &store->watch;
    int64_t deadline = ob_clock_mono_us() + (timeout_us > 0 ? timeout_us : 0), step = STEP_US;
    *woken = false;
    ob_code code = arm(store, err);
    while (!code) {
        struct look found;
        bool wrote = take_events(watch);
        code = look(store, &found, err);
        if (code)
            break;
        int64_t left = deadline - ob_clock_mono_us();
        *woken = found.due;
        if (found.due || left <= 0)
            break;
        step = wrote ? STEP_US : least(2 * step, 1000000000);
        if (watch->fd < 0)
            step = least(step, POLL_US);
        if (found.next_us)
            left = least(left, found.next_us - found.now);
        if (!doze(watch, least(left, step)))
            break;
    }
    return code;
}
