/* loop.h - libcurl transfers on the host's event loop, for every adapter that speaks through libcurl.
 *
 * A call is one easy handle that is used again and again. It comes with what is the same everywhere: only http and
 * https (an adapter of another protocol says so), no proxy from the environment, no redirects, no signals, addresses
 * checked by the guard when they are dialled and again before each request. And it never sends twice: libcurl would
 * quietly repeat a request on a fresh connection when a reused one dies without an answer, and the receiver may have
 * had it; here that second request is refused, and `resent` tells. It speaks HTTP/1.1 unless told otherwise: with one
 * request at a time on a connection HTTP/2 has no advantage, and gives a hostile peer more to play with.
 *
 * Threads: the loop's only. done is never called from within a callback of libcurl: it may start, stop
 * and free calls, but not the loop. */
#ifndef OB_SINK_CURL_LOOP_H
#define OB_SINK_CURL_LOOP_H

#include "sink/curl/names.h"
#include "sink/curl/net_guard.h"

#include <curl/curl.h>

struct uv_loop_s;
typedef struct ob_curl_loop ob_curl_loop;

struct ob_curl_limits {
    int connections;      /* at once, all hosts together; 0: as many as there are calls */
    int64_t idle_us;      /* a connection unused for so long is closed */
    int64_t connect_us;   /* to resolve, connect and shake hands */
    int64_t total_us;     /* from start to end */
    uint64_t answer_most; /* bytes that may come for one call in total; see ob_curl_answer_most */
};

struct ob_curl_call {
    CURL *easy;
    ob_curl_loop *loop;
    void (*done)(struct ob_curl_call *call, CURLcode result);
    struct ob_curl_place place; /* the host; see ob_curl_to */

    bool out;     /* started, and not done */
    bool sent;    /* a request may have left: a failure from here on is no proof that nothing arrived */
    bool resent;  /* libcurl wanted to send it again, and was stopped */
    bool flooded; /* more came than an answer may have, and the connection was cut */
    bool starved; /* this process has no descriptor or no memory left for a connection */
    int refused;  /* addresses that the guard refused... */
    int dialled;  /* ...and those it let pass */
    char error[CURL_ERROR_SIZE];
};

/* What may come for an answer with so many bytes of content, in chunks or frames however small they are, within reason; and
 * for headers and the handshake. */
static inline uint64_t ob_curl_answer_most(uint64_t content)
{
    return 2 * content + UINT64_C(128) * 1024;
}

/* guard is borrowed. */
enum outbox_code ob_curl_loop_new(struct uv_loop_s *uv, const struct ob_net_guard *guard,
                                  const struct ob_curl_limits *limits, ob_curl_loop **out,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Every call must have been finished before. Its handles leave the event loop when that turns next. */
void ob_curl_loop_free(ob_curl_loop *loop);

/* Makes the easy handle. False when memory ran out; fini is allowed then. */
bool ob_curl_call_init(struct ob_curl_call *call, ob_curl_loop *loop,
                       void (*done)(struct ob_curl_call *call, CURLcode result)) OUTBOX_MUST_CHECK;
/* Where it goes: CURLOPT_URL and CURLOPT_PROXY. Only the names of hosts that are told so are looked up here; libcurl looks
 * others up itself. False: no memory. */
bool ob_curl_to(struct ob_curl_call *call, const char *url) OUTBOX_MUST_CHECK;
bool ob_curl_via(struct ob_curl_call *call, const char *proxy) OUTBOX_MUST_CHECK;
/* Stops it first. */
void ob_curl_call_fini(struct ob_curl_call *call);

/* The call goes out at the next ob_curl_go, or when the loop turns. False: it did not, and done will not be called. */
bool ob_curl_start(struct ob_curl_call *call) OUTBOX_MUST_CHECK;
/* Begins now what was started: after the last one of a batch. May call done. */
void ob_curl_go(ob_curl_loop *loop);
/* Forgets it: done will not be called. */
void ob_curl_stop(struct ob_curl_call *call);

#endif
