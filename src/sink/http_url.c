/* http_url.c - see http_url.h. */
#include "sink/http_url.h"

#include "base/alloc.h"
#include "base/error.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { URL_MOST = 8192 };

/* The parts that matter; all owned, freed with curl_free. */
struct ob_http_place {
    char *scheme, *host, *port, *path;
};

static void place_fini(struct ob_http_place *place)
{
    curl_free(place->scheme);
    curl_free(place->host);
    curl_free(place->port);
    curl_free(place->path);
    memset(place, 0, sizeof *place);
}

static bool place_init(struct ob_http_place *place, CURLU *url)
{
    memset(place, 0, sizeof *place);
    if (curl_url_get(url, CURLUPART_SCHEME, &place->scheme, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &place->host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &place->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PATH, &place->path, 0) == CURLUE_OK)
        return true;
    place_fini(place);
    return false;
}

static bool printable(const char *text)
{
    size_t len = 0;
    for (const char *at = text; *at; at++, len++)
        if (*at <= ' ' || *at > '~' || *at == '\\' || len >= URL_MOST)
            return false;
    return len > 0;
}

/* NULL with an error when it is not one we would use. Freed with curl_url_cleanup. */
static CURLU *parse(const char *text, struct outbox_error *err)
{
    if (!printable(text)) {
        (void)ob_error_set(err, OUTBOX_INVALID, "the URL is empty, too long, or has characters a URL does not have");
        return NULL;
    }
    CURLU *url = curl_url();
    if (!url) {
        (void)ob_error_nomem(err);
        return NULL;
    }
    char *scheme = NULL;
    CURLUcode code = curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK && strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        code = CURLUE_UNSUPPORTED_SCHEME;
    if (code == CURLUE_OK)
        code = curl_url_set(url, CURLUPART_FRAGMENT, NULL, 0);
    curl_free(scheme);
    if (code == CURLUE_OK)
        return url;
    curl_url_cleanup(url);
    (void)ob_error_set(err, OUTBOX_INVALID, "the URL cannot be used: %s; it must be like https://host/path",
                       code == CURLUE_USER_NOT_ALLOWED     ? "it holds a user or a password"
                       : code == CURLUE_UNSUPPORTED_SCHEME ? "it is neither http nor https"
                                                           : curl_url_strerror(code));
    return NULL;
}

static enum outbox_code normalize(CURLU *url, char **normal, struct outbox_error *err)
{
    char *text = NULL;
    *normal = NULL;
    if (curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK)
        *normal = ob_strdup(text);
    curl_free(text);
    return *normal ? OUTBOX_OK : ob_error_nomem(err);
}

enum outbox_code ob_http_url_parse(const char *text, char **normal, struct outbox_error *err)
{
    struct outbox_error own;
    CURLU *url = parse(text, err ? err : &own);
    if (!url)
        return err ? err->code : own.code;
    enum outbox_code code = normalize(url, normal, err);
    curl_url_cleanup(url);
    return code;
}

/* ---- the places -------------------------------------------------------------------------------------------------- */

void ob_http_urls_fini(struct ob_http_urls *urls)
{
    for (size_t i = 0; i < urls->count; i++)
        place_fini(&urls->places[i]);
    ob_free(urls->places);
    memset(urls, 0, sizeof *urls);
}

enum outbox_code ob_http_urls_allow(struct ob_http_urls *urls, const char *text, struct outbox_error *err)
{
    char full[512];
    bool bare = !strstr(text, "://");
    int len = snprintf(full, sizeof full, "%s%s", bare ? "https://" : "", text);
    if (len < 0 || (size_t)len >= sizeof full || strpbrk(text, "?#") || (bare && strchr(text, '/')))
        return ob_error_set(err, OUTBOX_INVALID,
                            "url_allow has \"%s\"; write https://host/path, without a query, or a host", text);
    size_t size = urls->count * sizeof *urls->places;
    struct ob_http_place *grown = ob_realloc(urls->places, size, size + sizeof *grown);
    if (!grown)
        return ob_error_nomem(err);
    urls->places = grown;
    struct outbox_error own;
    CURLU *url = parse(full, &own);
    if (!url)
        return ob_error_set(err, own.code, "url_allow has \"%s\": %s", text, own.text);
    bool ok = place_init(&grown[urls->count], url);
    curl_url_cleanup(url);
    if (!ok)
        return ob_error_nomem(err);
    urls->count++;
    return OUTBOX_OK;
}

static bool same_origin(const struct ob_http_place *one, const struct ob_http_place *other)
{
    return strcmp(one->scheme, other->scheme) == 0 && strcasecmp(one->host, other->host) == 0 &&
           strcmp(one->port, other->port) == 0;
}

/* An escaped dot or slash means to some servers what the plain one means: such a path may lead out of its prefix. */
static bool escapes(const char *path)
{
    for (const char *at = path; (at = strchr(at, '%')); at++)
        if (strncasecmp(at, "%2e", 3) == 0 || strncasecmp(at, "%2f", 3) == 0 || strncasecmp(at, "%5c", 3) == 0)
            return true;
    return false;
}

static bool below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strcmp(prefix, "/") == 0)
        return true;
    if (strncmp(path, prefix, len) != 0 || escapes(path))
        return false;
    return prefix[len - 1] == '/' || path[len] == '\0' || path[len] == '/';
}

enum outbox_code ob_http_url_admit(const struct ob_http_urls *urls, const char *text, char **normal,
                                   struct outbox_error *err)
{
    struct outbox_error own;
    struct ob_http_place place;
    *normal = NULL;
    CURLU *url = parse(text, &own);
    if (!url)
        return ob_error_set(err, own.code, "%s", own.text);
    enum outbox_code code = OUTBOX_OK;
    if (!place_init(&place, url)) {
        code = ob_error_nomem(err);
        goto done;
    }
    size_t i = 0;
    while (i < urls->count && !(same_origin(&urls->places[i], &place) && below(place.path, urls->places[i].path)))
        i++;
    if (i < urls->count)
        code = normalize(url, normal, err);
    else
        code = ob_error_set(err, OUTBOX_INVALID, "the message's URL is in none of the places that url_allow names");
    place_fini(&place);
done:
    curl_url_cleanup(url);
    return code;
}

bool ob_http_url_same_origin(const char *one, const char *other)
{
    struct ob_http_place a = {0}, b = {0};
    CURLU *first = parse(one, NULL), *second = parse(other, NULL);
    bool same = first && second && place_init(&a, first) && place_init(&b, second) && same_origin(&a, &b);
    place_fini(&a);
    place_fini(&b);
    curl_url_cleanup(first);
    curl_url_cleanup(second);
    return same;
}
