/* http_url.h - which URLs a request may be sent to. They are parsed by libcurl's own parser, and passed to libcurl in the
 * form that this parser writes, so that the URL that was checked is the one that is used. No I/O; any thread. */
#ifndef OB_SINK_CURL_HTTP_URL_H
#define OB_SINK_CURL_HTTP_URL_H

#include <outbox/outbox.h>

struct ob_http_place;

/* The places in which URLs from messages must lie. */
struct ob_http_urls {
    struct ob_http_place *places; /* owned */
    size_t count;
};

void ob_http_urls_fini(struct ob_http_urls *urls);
/* "https://host[:port][/path]": that scheme, host and port, and that path or below; or a bare host, meaning https. */
enum outbox_code ob_http_urls_allow(struct ob_http_urls *urls, const char *text,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An absolute URL of http or https without user or password, in *normal; to be freed with ob_free. The error does not
 * repeat the URL, which may be a secret. */
enum outbox_code ob_http_url_parse(const char *text, char **normal, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same for a URL from a message: it must lie in one of the places. */
enum outbox_code ob_http_url_admit(const struct ob_http_urls *urls, const char *text, char **normal,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Whether two URLs have the same scheme, host and port. */
bool ob_http_url_same_origin(const char *one, const char *other);

#endif
