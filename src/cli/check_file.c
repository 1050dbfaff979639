/* check_file.c - the result of a check as a file for the textfile collector of node_exporter.
 *
 * What /metrics of a relay shows too has the same name here. The file is replaced as a whole: a reader sees the old one or the new. */
#include "cli/check.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTBOX_METRIC(id, type, name, labels, help) static const char name_of_##id[] = name, help_of_##id[] = help;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#include "metrics.def"
#pragma GCC diagnostic pop
#undef OUTBOX_METRIC

static void put(struct ob_buf *buf, const char *name, const char *help, const char *store, double value)
{
    ob_buf_printf(buf, "# HELP %s %s\n# TYPE %s gauge\n%s{store=\"", name, help, name, name);
    for (const char *c = store; *c; c++) {
        if (*c == '"' || *c == '\\')
            ob_buf_putc(buf, '\\');
        ob_buf_putc(buf, (char)(*c == '\n' ? ' ' : *c));
    }
    ob_buf_printf(buf, "\"} %.17g\n", value);
}

static void put_look(struct ob_buf *buf, const struct ob_look *look, const char *store)
{
    const struct ob_status_row *total = &look->total;
    const struct {
        const char *name, *help;
        double value;
    } rows[] = {
        {name_of_pending, help_of_pending, (double)total->pending},
        {name_of_due, help_of_due, (double)total->due},
        {name_of_oldest, help_of_oldest, total->oldest_due_s},
        {name_of_oldest_undelivered, help_of_oldest_undelivered, total->oldest_undelivered_s},
        {name_of_retrying, help_of_retrying, (double)total->retrying},
        {name_of_dead_last_hour, help_of_dead_last_hour, (double)total->dead_last_hour},
        {name_of_processing, help_of_processing, (double)total->processing},
        {name_of_stuck, help_of_stuck, (double)total->stuck},
        {name_of_parked, help_of_parked, (double)total->parked},
        {name_of_dead, help_of_dead, (double)total->dead},
        {name_of_estimated, help_of_estimated, total->estimated},
        {name_of_paused, help_of_paused, (double)look->pauses.count},
        {"outbox_check_relays", "Relays that are alive and not switched off.",
         ob_relays_deliver(look->relays) ? (double)ob_relays_alive(look->relays) : 0},
        {"outbox_check_breakers_open", "Sinks whose breaker is not closed, counted at each relay.",
         (double)look->breakers},
        {"outbox_check_retry_share", "Part of the undelivered messages that failed before, 0 to 1.",
         ob_look_retry_share(look)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put(buf, rows[i].name, rows[i].help, store, rows[i].value);
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t some = write(fd, data, len);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        data += some;
        len -= (size_t)some;
    }
    return true;
}

static bool replace(const char *path, const struct ob_buf *text, struct outbox_error *err)
{
    struct ob_buf name = OB_BUF_INIT;
    ob_buf_printf(&name, "%s.%ld.tmp", path, (long)getpid()); /* the collector reads *.prom only */
    const char *temporary = ob_buf_text(&name);
    int fd = ob_buf_ok(&name) ? open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;
    bool good = fd >= 0 && write_all(fd, ob_buf_text(text), text->len) && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(temporary, path) != 0) {
        good = false;
        why = errno;
    }
    if (!good && fd >= 0)
        unlink(temporary);
    if (!good)
        ob_error_set(err, OUTBOX_INTERNAL, "--prometheus %s: %s", path, strerror(why));
    ob_buf_fini(&name);
    return good;
}

bool ob_check_write(const char *path, const char *store, const struct ob_look *look, int status,
                    struct outbox_error *err)
{
    struct ob_buf text = OB_BUF_INIT;
    put(&text, "outbox_check_status", "Result of outbox check: 0 ok, 1 warning, 2 critical, 3 unknown.", store, status);
    put(&text, "outbox_check_timestamp_seconds", "When outbox check last ran.", store,
        (double)ob_clock_wall_us() / 1e6);
    if (look)
        put_look(&text, look, store);
    bool good = ob_buf_ok(&text) ? replace(path, &text, err) : (ob_error_nomem(err), false);
    ob_buf_fini(&text);
    return good;
}
