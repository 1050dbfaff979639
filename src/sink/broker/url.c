/* url.c - see url.h. */
#include "sink/broker/url.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word_of(const char *list, const char *word, size_t len)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t have = strcspn(at, " ");
        if (have == len && strncmp(at, word, len) == 0)
            return true;
        at += have;
    }
    return false;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
    return c && at ? (int)(at - digits) : -1;
}

static bool decode(const char *text, char *out, size_t size)
{
    size_t len = 0;
    for (; *text; text++) {
        int high = *text == '%' ? hex_digit(text[1]) : 0, low = *text == '%' && high >= 0 ? hex_digit(text[2]) : 0;
        if (high < 0 || low < 0 || len + 1 >= size)
            return false;
        out[len] = *text;
        if (*text == '%') {
            out[len] = (char)(unsigned char)(high * 16 + low);
            text += 2;
        }
        if (!out[len++])
            return false;
    }
    out[len] = '\0';
    return true;
}

/* Host and port, up to end. */
static bool read_place(struct ob_broker_url *url, const char *at, const char *end)
{
    const char *colon, *close = NULL;
    if (*at == '[') {
        close = memchr(at, ']', (size_t)(end - at));
        if (!close)
            return false;
        colon = close + 1 < end && close[1] == ':' ? close + 1 : NULL;
        if (!colon && close + 1 != end)
            return false;
        at++;
    } else {
        colon = memchr(at, ':', (size_t)(end - at));
        close = colon ? colon : end;
    }
    size_t len = (size_t)(close - at);
    if (len < 1 || len >= sizeof url->host)
        return false;
    memcpy(url->host, at, len);
    url->host[len] = '\0';
    if (!colon)
        return true;
    char *stop;
    long port = strtol(colon + 1, &stop, 10);
    url->port = (int)port;
    return stop == end && stop > colon + 1 && port >= 1 && port <= 65535;
}

void ob_broker_url_place(const struct ob_broker_url *url, char place[OB_PLACE])
{
    snprintf(place, OB_PLACE, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host, url->port);
}

enum outbox_code ob_broker_url_parse(struct ob_broker_url *url, const char *text, const char *schemes, int default_port,
                                     struct outbox_error *err)
{
    const char *at = strstr(text, "://");
    memset(url, 0, sizeof *url);
    url->port = default_port;
    if (!at || (size_t)(at - text) >= sizeof url->scheme || !is_word_of(schemes, text, (size_t)(at - text)))
        return ob_error_set(err, OUTBOX_INVALID, "url must begin with one of: %s, each followed by ://", schemes);
    memcpy(url->scheme, text, (size_t)(at - text));
    at += 3;
    const char *end = at + strcspn(at, "/?#");
    if (memchr(at, '@', (size_t)(end - at)))
        return ob_error_set(err, OUTBOX_INVALID, "url contains a user: set username and password instead");
    if (strpbrk(at, "?# \t\r\n"))
        return ob_error_set(err, OUTBOX_INVALID, "url has parameters or spaces, which are not supported");
    if (!read_place(url, at, end))
        return ob_error_set(err, OUTBOX_INVALID, "url has no valid host and port: write %s://host:%d", url->scheme,
                            default_port);
    url->has_path = *end == '/' && end[1];
    if (*end == '/' && !decode(end + 1, url->path, sizeof url->path))
        return ob_error_set(err, OUTBOX_INVALID, "the path of url is invalid or too long");
    return OUTBOX_OK;
}
