/* http_url.c - see http_url.h. */
#include "sink/curl/http_url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { URL_MOST = 8192, ROUNDS_MOST = 8 };

/* The parts that matter; all owned, freed with curl_free, but for plain. */
struct ob_http_place {
    char *scheme, *host, *port, *path;
    char *plain; /* the path as any server may understand it; NULL: it is one that servers understand differently */
};

static void place_fini(struct ob_http_place *place)
{
    curl_free(place->scheme);
    curl_free(place->host);
    curl_free(place->port);
    curl_free(place->path);
    ob_free(place->plain);
    memset(place, 0, sizeof *place);
}

/* ---- paths: a path may lead out of its prefix in the eyes of one server, and not in those of another ----------- */

static int hex(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = memchr(digits, digit | 0x20, sizeof digits - 1);
    return at && digit > ' ' ? (int)(at - digits) : -1;
}

/* One round of decoding, in place. False when something appears that would divide or end the path. */
static bool decode(char *path, bool *changed)
{
    char *to = path;
    *changed = false;
    for (const char *at = path; *at; at++) {
        int high = *at == '%' ? hex(at[1]) : -1, low = high >= 0 ? hex(at[2]) : -1;
        if (*at == '%' && (at[1] | 0x20) == 'u' && hex(at[2]) >= 0) /* %u002e: some servers know that too */
            return false;
        if (low < 0) {
            *to++ = *at;
            continue;
        }
        char byte = (char)(high * 16 + low);
        if (byte == '/' || byte == '\\' || (unsigned char)byte < ' ' || byte == 0x7f)
            return false;
        *to++ = byte;
        *changed = true;
        at += 2;
    }
    *to = '\0';
    return true;
}

/* Some servers drop what follows a semicolon before they look for dots. */
static bool has_dots(const char *path)
{
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        at += *at == '/';
        size_t len = strcspn(at, "/;");
        if ((len == 1 || len == 2) && strncmp(at, "..", len) == 0)
            return true;
    }
    return false;
}

/* Decoded as often as anybody might; NULL when it is ambiguous, or memory ran out. */
static char *path_plain(const char *path)
{
    char *plain = ob_strdup(path);
    bool changed = true, ok = plain != NULL;
    for (int round = 0; ok && changed; round++)
        ok = round < ROUNDS_MOST && decode(plain, &changed);
    if (ok && ob_utf8_valid(plain, strlen(plain)) && !has_dots(plain))
        return plain;
    ob_free(plain);
    return NULL;
}

static bool place_init(struct ob_http_place *place, CURLU *url)
{
    memset(place, 0, sizeof *place);
    if (curl_url_get(url, CURLUPART_SCHEME, &place->scheme, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &place->host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &place->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PATH, &place->path, 0) == CURLUE_OK) {
        place->plain = path_plain(place->path);
        return true;
    }
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
                       code == CURLUE_USER_NOT_ALLOWED     ? "it contains a user or a password"
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
    if (!grown[urls->count - 1].plain)
        return ob_error_set(err, OUTBOX_INVALID,
                            "url_allow has \"%s\": servers may read its path differently; write it without escapes",
                            text);
    return OUTBOX_OK;
}

static bool same_origin(const struct ob_http_place *one, const struct ob_http_place *other)
{
    return strcmp(one->scheme, other->scheme) == 0 && strcasecmp(one->host, other->host) == 0 &&
           strcmp(one->port, other->port) == 0;
}

/* plain: of the path, or NULL. */
static bool below(const char *plain, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strcmp(prefix, "/") == 0)
        return true;
    if (!plain || strncmp(plain, prefix, len) != 0)
        return false;
    return prefix[len - 1] == '/' || plain[len] == '\0' || plain[len] == '/';
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
    while (i < urls->count && !(same_origin(&urls->places[i], &place) && below(place.plain, urls->places[i].plain)))
        i++;
    if (i < urls->count)
        code = normalize(url, normal, err);
    else
        code = ob_error_set(err, OUTBOX_INVALID, "the message's URL is not allowed by url_allow");
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
