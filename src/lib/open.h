/* open.h - opens the store that a URL names. For config, daemon and cli; applications call outbox_open. */
#ifndef OB_LIB_OPEN_H
#define OB_LIB_OPEN_H

#include "base/log.h"
#include "core/async_store.h"
#include "core/migration.h"
#include "core/store.h"

enum ob_url { OB_URL_UNKNOWN, OB_URL_POSTGRES, OB_URL_SQLITE };

/* Recognises postgresql://, postgres:// and key=value strings; and sqlite:PATH. */
enum ob_url ob_url_kind(const char *url);
/* The PATH of "sqlite:PATH", within the URL itself. */
const char *ob_url_path(const char *url);
/* Checks whether it can name a store, without connecting; the text of err contains no password. */
ob_code ob_url_check(const char *url, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The URL without passwords, for display; if it names no store, only the scheme and the length. */
void ob_url_redact(const char *url, char *text, size_t size);

struct ob_open {
    const char *schema;       /* PostgreSQL; NULL: "outbox" */
    const char *application;  /* NULL: "outbox" */
    int64_t limit_us;         /* PostgreSQL: how long a statement may take; 0: as the server says */
    bool create;              /* SQLite: create the file if it does not exist */
    const struct ob_log *log; /* for what the store reports besides errors; may be NULL. Must outlive the store. */
};

/* options may be NULL. The caller owns *store and closes it with store->ops->close. */
ob_code ob_store_open(const char *url, const struct ob_open *options, struct ob_store **store,
                      struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An async store for the same URLs, see core/async_store.h. It connects with its first request. Close it with ops->close. */
ob_code ob_async_store_open(const struct ob_async_store_options *options, struct ob_async_store **async,
                            struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
