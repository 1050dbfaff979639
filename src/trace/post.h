/* post.h - sends one request of OTLP/HTTP and waits for the answer. Not for the loop's thread.
 *
 * What an answer means is OTLP's rule: 429, 502, 503, 504 and a connection that fails are tried again, after Retry-After if
 * the collector names a time; every other answer but success is final. Redirects are not followed. */
#ifndef OB_TRACE_POST_H
#define OB_TRACE_POST_H

#include <outbox/outbox.h>

struct ob_post;

enum ob_post_outcome {
    OB_POST_ACCEPTED,
    OB_POST_AGAIN,   /* later */
    OB_POST_REFUSED, /* never */
};

struct ob_post_header {
    const char *name, *value;
};

struct ob_post_settings {
    const char *url;                      /* copied, like all of these */
    const struct ob_post_header *headers; /* of every request */
    size_t header_count;
    const char *ca;     /* file with trusted CA certificates; NULL: the system's */
    int64_t timeout_us; /* of one request */
};

struct ob_post_answer {
    enum ob_post_outcome outcome;
    int64_t after_us; /* AGAIN: the collector asks to wait that long; -1: it did not say */
    int64_t rejected; /* ACCEPTED: spans that were not taken in spite of that */
    char text[200];   /* what went wrong, for people */
};

/* *out is the URL that requests go to: `endpoint`, with OTLP's /v1/traces if it names no path; to be freed with ob_free. Fails with
 * OUTBOX_INVALID unless it is a URL of http or https without user and password. */
enum outbox_code ob_post_url(const char *endpoint, char **out, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Fails with OUTBOX_UNSUPPORTED in a build without libcurl. */
enum outbox_code ob_post_open(const struct ob_post_settings *settings, struct ob_post **out,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_post_close(struct ob_post *post);
/* A request consists of two parts, so that nobody need copy the larger one. */
struct ob_post_part {
    const void *data;
    size_t len;
};
/* stop(ctx) is asked now and then; when it is true, the request is given up (AGAIN). May be NULL. */
void ob_post_send(struct ob_post *post, const struct ob_post_part parts[2], bool (*stop)(void *ctx), void *ctx,
                  struct ob_post_answer *answer);

#endif
