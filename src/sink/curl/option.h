/* option.h - the options of a sink that sends HTTP requests with libcurl: one set of rows for its table, and one reader.
 * Thread: the one that opens the sink. */
#ifndef OB_SINK_CURL_OPTION_H
#define OB_SINK_CURL_OPTION_H

#include "sink/common/option.h"
#include "sink/curl/loop.h"

struct ob_curl_options {
    struct ob_net_guard guard;
    struct ob_curl_limits limits; /* except answer_most */
    int64_t patience_us;          /* the longest Retry-After that counts */
    const char *proxy;            /* NULL: none */
};

#define OB_CURL_SETTINGS \
    {.name = "allow", \
     .type = OUTBOX_OPTION_LIST, \
     .doc = "addresses that may be connected to though they are not public: 10.1.2.0/24, ::1, or any"}, \
        {.name = "proxy", \
         .type = OUTBOX_OPTION_TEXT, \
         .secret = true, \
         .doc = "http://host:port; the addresses behind it cannot be checked. None is taken from the environment"}, \
        {.name = "connections", \
         .type = OUTBOX_OPTION_INT, \
         .fallback = "0", \
         .least = 0, \
         .most = 10000, \
         .doc = "most connections at once; 0: as many as the sink's concurrency needs"}, \
        {.name = "idle", \
         .type = OUTBOX_OPTION_DURATION, \
         .fallback = "45s", \
         .least = 1000000, \
         .most = 3600000000, \
         .doc = "how long an unused connection is kept"}, \
        {.name = "connect_timeout", \
         .type = OUTBOX_OPTION_DURATION, \
         .fallback = "5s", \
         .least = 1000, \
         .most = 3600000000, \
         .doc = "time limit to resolve the name, connect and do the TLS handshake"}, \
        {.name = "response_timeout", \
         .type = OUTBOX_OPTION_DURATION, \
         .fallback = "30s", \
         .least = 1000, \
         .most = 3600000000, \
         .doc = "time limit for the whole request; the sink's timeout may be shorter"}, \
    { \
        .name = "retry_after_max", .type = OUTBOX_OPTION_DURATION, .fallback = "1h", .least = 0, .most = 604800000000, \
        .doc = "longest wait that a Retry-After can ask for" \
    }

/* The guard must be freed with ob_net_guard_fini, also after a failure. */
enum outbox_code ob_curl_options_read(struct ob_curl_options *read, const struct ob_options *options,
                                      struct ob_arena *arena, struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
