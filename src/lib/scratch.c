/* scratch.c - see scratch.h. */
#include "lib/scratch.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "lib/migrate.h"
#ifdef HAVE_POSTGRES
#include "store/pg/store.h"
#endif

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const endings[] = {"", "-wal", "-shm", "-journal", "-relay"};

/* ---- files: PATH.bench-PID ---- */

static void remove_file(const char *path)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        struct ob_buf name = OB_BUF_INIT;
        ob_buf_printf(&name, "%s%s", path, endings[i]);
        if (ob_buf_ok(&name))
            unlink(ob_buf_text(&name));
        ob_buf_fini(&name);
    }
}

/* Of names such as PATH.bench-123: whether that process is gone. */
static bool is_left(const char *name)
{
    const char *digits = strrchr(name, '-') + 1;
    char *end;
    long pid = strtol(digits, &end, 10);
    return *end == '\0' && end > digits && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* The path in a pattern stands for itself. */
static void put_literal(struct ob_buf *pattern, const char *path)
{
    for (; *path; path++) {
        if (strchr("*?[\\", *path))
            ob_buf_putc(pattern, '\\');
        ob_buf_putc(pattern, *path);
    }
}

static ob_code sweep_files(const char *path, int *removed, struct outbox_error *err)
{
    struct ob_buf pattern = OB_BUF_INIT;
    glob_t found;
    put_literal(&pattern, path);
    ob_buf_puts(&pattern, ".bench-*");
    if (!ob_buf_ok(&pattern)) {
        ob_buf_fini(&pattern);
        return ob_error_nomem(err);
    }
    if (glob(ob_buf_text(&pattern), 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_left(found.gl_pathv[i])) {
                remove_file(found.gl_pathv[i]);
                ++*removed;
            }
        globfree(&found);
    }
    ob_buf_fini(&pattern);
    return OUTBOX_OK;
}

/* ---- both ---- */

ob_code ob_scratch_sweep(const char *url, int *removed, struct outbox_error *err)
{
    *removed = 0;
    if (ob_url_kind(url) == OB_URL_SQLITE)
        return sweep_files(ob_url_path(url), removed, err);
#ifdef HAVE_POSTGRES
    return ob_pg_scratch_sweep(url, removed, err);
#else
    return OUTBOX_OK;
#endif
}

ob_code ob_scratch_create(const char *url, struct ob_scratch *scratch, struct outbox_error *err)
{
    struct ob_buf name = OB_BUF_INIT;
    struct ob_migrate how = {0};
    bool file = ob_url_kind(url) == OB_URL_SQLITE;
    *scratch = (struct ob_scratch){0};
    if (file)
        ob_buf_printf(&name, "%s.bench-%ld", url, (long)getpid());
    else
        ob_buf_puts(&name, url);
    scratch->url = ob_buf_take(&name);
    ob_buf_fini(&name);
    if (!scratch->url)
        return ob_error_nomem(err);
    snprintf(scratch->schema, sizeof scratch->schema, "outbox_bench_%08x",
             (unsigned)ob_clock_wall_us() ^ ((unsigned)getpid() << 16));
    scratch->open =
        (struct ob_open){.schema = file ? NULL : scratch->schema, .application = scratch->schema, .create = file};
    return ob_store_migrate(scratch->url, &scratch->open, &how, err);
}

ob_code ob_scratch_drop(const char *url, struct ob_scratch *scratch, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    if (!scratch->url)
        return OUTBOX_OK;
    if (ob_url_kind(url) == OB_URL_SQLITE)
        remove_file(ob_url_path(scratch->url));
#ifdef HAVE_POSTGRES
    else
        code = ob_pg_scratch_drop(url, scratch->schema, err);
#else
    (void)err;
#endif
    ob_free(scratch->url);
    scratch->url = NULL;
    return code;
}

static int64_t size_of(const char *path, const char *ending)
{
    struct ob_buf name = OB_BUF_INIT;
    struct stat status = {0};
    ob_buf_printf(&name, "%s%s", path, ending);
    if (!ob_buf_ok(&name) || stat(ob_buf_text(&name), &status) != 0)
        status.st_size = 0;
    ob_buf_fini(&name);
    return status.st_size;
}

ob_code ob_scratch_bytes(const struct ob_scratch *scratch, int64_t *bytes, struct outbox_error *err)
{
    *bytes = 0;
    if (ob_url_kind(scratch->url) == OB_URL_SQLITE) {
        *bytes = size_of(ob_url_path(scratch->url), "") + size_of(ob_url_path(scratch->url), "-wal");
        return OUTBOX_OK;
    }
#ifdef HAVE_POSTGRES
    return ob_pg_wal_bytes(scratch->url, bytes, err);
#else
    (void)err;
    return OUTBOX_OK;
#endif
}
