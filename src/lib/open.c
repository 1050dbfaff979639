/* open.c - opens the store that a URL names. Stores missing from this build are reported here, and only here. */
#include "lib/open.h"

#include "base/error.h"
#ifdef HAVE_POSTGRES
#include "store/pg/store.h"
#endif
#ifdef HAVE_SQLITE
#include "store/sqlite/store.h"
#endif

#include <stdio.h>
#include <string.h>

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum ob_url ob_url_kind(const char *url)
{
    if (has_prefix(url, "sqlite:"))
        return OB_URL_SQLITE;
    if (has_prefix(url, "postgresql://") || has_prefix(url, "postgres://"))
        return OB_URL_POSTGRES;
    /* libpq's own form: a keyword and an equals sign come first. */
    size_t word = strspn(url, "abcdefghijklmnopqrstuvwxyz_");
    if (word > 0 && url[word + strspn(url + word, " ")] == '=')
        return OB_URL_POSTGRES;
    return OB_URL_UNKNOWN;
}

const char *ob_url_path(const char *url)
{
    return has_prefix(url, "sqlite:") ? url + strlen("sqlite:") : url;
}

void ob_url_redact(const char *url, char *text, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";
    enum { SCHEME_MOST = 16 };
    size_t scheme = strspn(url, letters);
    enum ob_url kind = ob_url_kind(url);
#ifdef HAVE_POSTGRES
    if (kind == OB_URL_POSTGRES) {
        ob_pg_redact(url, text, size);
        return;
    }
#endif
    /* In an unknown URL we cannot tell which part is a password: show only the scheme and the length. */
    if (kind == OB_URL_SQLITE)
        snprintf(text, size, "%s", url);
    else if (scheme > 0 && scheme <= SCHEME_MOST && strncmp(url + scheme, "://", 3) == 0)
        snprintf(text, size, "%.*s://... (%zu bytes)", (int)scheme, url, strlen(url));
    else
        snprintf(text, size, "... (%zu bytes)", strlen(url));
}

static ob_code names_no_store(const char *url, struct outbox_error *err)
{
    char shown[120];
    size_t len = strlen(url);
    if (*url == '/' || *url == '.' || (len > 3 && strcmp(url + len - 3, ".db") == 0))
        return ob_error_set(err, OUTBOX_INVALID, "the store is given as a path; of an SQLite file write sqlite:PATH");
    ob_url_redact(url, shown, sizeof shown);
    return ob_error_set(err, OUTBOX_INVALID,
                        "\"%s\" does not name a store; write postgresql://USER@HOST/DATABASE or sqlite:PATH", shown);
}

static ob_code names_no_file(struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_INVALID, "the sqlite: URL has no path; write sqlite:PATH");
}

ob_code ob_url_check(const char *url, struct outbox_error *err)
{
    switch (ob_url_kind(url)) {
    case OB_URL_SQLITE: return *ob_url_path(url) ? OUTBOX_OK : names_no_file(err);
    case OB_URL_POSTGRES:
#ifdef HAVE_POSTGRES
        return ob_pg_check(url, err);
#else
        return OUTBOX_OK;
#endif
    default: return names_no_store(url, err);
    }
}

#ifndef HAVE_SQLITE
static ob_code no_sqlite(struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_UNSUPPORTED, "this build has no SQLite store; build it with sqlite3 installed");
}
#endif

#ifndef HAVE_POSTGRES
static ob_code no_postgres(struct outbox_error *err)
{
    return ob_error_set(err, OUTBOX_UNSUPPORTED, "this build has no PostgreSQL store; build it with libpq installed");
}
#endif

static ob_code open_sqlite(const char *url, const struct ob_open *options, struct ob_store **store,
                           struct outbox_error *err)
{
    if (!*ob_url_path(url))
        return names_no_file(err);
#ifdef HAVE_SQLITE
    return ob_sqlite_open(ob_url_path(url), options->create, store, err);
#else
    (void)options;
    (void)store;
    return no_sqlite(err);
#endif
}

static ob_code open_postgres(const char *url, const struct ob_open *options, struct ob_store **store,
                             struct outbox_error *err)
{
#ifdef HAVE_POSTGRES
    struct ob_pg_options pg = {.schema = options->schema,
                               .application = options->application,
                               .log = options->log,
                               .limit_us = options->limit_us};
    return ob_pg_open(url, &pg, store, err);
#else
    (void)url;
    (void)options;
    (void)store;
    return no_postgres(err);
#endif
}

ob_code ob_store_open(const char *url, const struct ob_open *options, struct ob_store **store, struct outbox_error *err)
{
    static const struct ob_open defaults;
    *store = NULL;
    if (!options)
        options = &defaults;
    switch (ob_url_kind(url)) {
    case OB_URL_SQLITE: return open_sqlite(url, options, store, err);
    case OB_URL_POSTGRES: return open_postgres(url, options, store, err);
    default: return names_no_store(url, err);
    }
}

static ob_code async_sqlite(const struct ob_async_store_options *options, struct ob_async_store **async,
                            struct outbox_error *err)
{
#ifdef HAVE_SQLITE
    struct ob_async_store_options file = *options;
    file.url = ob_url_path(options->url);
    return *file.url ? ob_sqlite_async_open(&file, async, err) : names_no_file(err);
#else
    (void)options;
    (void)async;
    return no_sqlite(err);
#endif
}

static ob_code async_postgres(const struct ob_async_store_options *options, struct ob_async_store **async,
                              struct outbox_error *err)
{
#ifdef HAVE_POSTGRES
    return ob_pg_async_open(options, async, err);
#else
    (void)options;
    (void)async;
    return no_postgres(err);
#endif
}

ob_code ob_async_store_open(const struct ob_async_store_options *options, struct ob_async_store **async,
                            struct outbox_error *err)
{
    *async = NULL;
    switch (ob_url_kind(options->url)) {
    case OB_URL_SQLITE: return async_sqlite(options, async, err);
    case OB_URL_POSTGRES: return async_postgres(options, async, err);
    default: return names_no_store(options->url, err);
    }
}
