/* http_url.h - which URLs a request may go to. Parsed by libcurl's own parser, and handed to libcurl as that parser
 * writes them: so what was checked is what is used. No I/O; any thread. */
#ifndef OB_SINK_CURL_HTTP_URL_H
#define OB_SINK_CURL_HTTP_URL_H

#include <outbox/outbox.h>

struct ob_http_place;

/* Where URLs that come with messages may lead. */
struct ob_http_urls {
    struct ob_http_place *places; /* owned */
    size_t count;
};

void ob_http_urls_fini(struct ob_http_urls *urls);
/* "https://host[:port][/path]": that scheme, host and port, and paths from there on; or a bare host, meaning https. */
enum outbox_code ob_http_urls_allow(struct ob_http_urls *urls, const char *text,
                                    struct outbox_error *err) OUTBOX_MUST_CHECK;

/* An absolute URL of http or https without user or password, in *normal; to be freed with ob_free. The error does not
 * repeat the URL, which may be a secret. */
enum outbox_code ob_http_url_parse(const char *text, char **normal, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same for one that came with a message: it must lie in one of the places. */
enum outbox_code ob_http_url_admit(const struct ob_http_urls *urls, const char *text, char **normal,
                                   struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Whether two URLs have the same scheme, host and port. */
bool ob_http_url_same_origin(const char *one, const char *other);

#endif
