/* loop.h - libcurl transfers on the host's event loop, for every adapter that uses libcurl.
 *
 * A call is one easy handle that is reused. It has the settings that all adapters share: only http and https (an adapter
 * for another protocol changes that), no proxy from the environment, no redirects, no signals, addresses checked by the
 * guard when they are dialled and again before each request. And it never sends twice: libcurl would silently repeat a
 * request on a new connection when a reused one breaks without an answer, although the receiver may have received it; here
 * that second request is refused, and `resent` is set. It uses HTTP/1.1 by default: with one request at a time on a
 * connection HTTP/2 has no advantage, and gives a hostile peer a larger attack surface.
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
    int64_t idle_us;      /* after this time an unused connection is closed */
    int64_t connect_us;   /* to resolve the name, connect and do the TLS handshake */
    int64_t total_us;     /* from start to end */
    uint64_t answer_most; /* most bytes received for one call in total; see ob_curl_answer_most */
};

struct ob_curl_call {
    CURL *easy;
    ob_curl_loop *loop;
    void (*done)(struct ob_curl_call *call, CURLcode result);
    struct ob_curl_place place; /* the host; see ob_curl_to */

    bool out;     /* started, and not done */
    bool sent;    /* a request may have been sent: a later failure does not prove that nothing arrived */
    bool resent;  /* libcurl tried to send it again, and was prevented */
    bool flooded; /* more bytes came than an answer may have, and the connection was shut down */
    bool starved; /* this process has no descriptor or no memory left for a connection */
    int refused;  /* addresses that the guard refused... */
    int dialled;  /* ...and those it let pass */
    char error[CURL_ERROR_SIZE];
};

/* The most bytes received for an answer with this many bytes of content, including the overhead of reasonably small chunks
 * or frames, the headers and the handshake. */
static inline uint64_t ob_curl_answer_most(uint64_t content)
{
    return 2 * content + UINT64_C(128) * 1024;
}

/* guard is borrowed. */
enum outbox_code ob_curl_loop_new(struct uv_loop_s *uv, const struct ob_net_guard *guard,
                                  const struct ob_curl_limits *limits, ob_curl_loop **out,
                                  struct outbox_error *err) OUTBOX_MUST_CHECK;
/* ob_curl_call_fini must have been called for every call. The handles of this loop are closed in the event loop's next turn. */
void ob_curl_loop_free(ob_curl_loop *loop);

/* Creates the easy handle. False: out of memory; fini may still be called. */
bool ob_curl_call_init(struct ob_curl_call *call, ob_curl_loop *loop,
                       void (*done)(struct ob_curl_call *call, CURLcode result)) OUTBOX_MUST_CHECK;
/* Set CURLOPT_URL and CURLOPT_PROXY. Only host names set with these functions are resolved here; libcurl resolves others
 * itself. False: out of memory. */
bool ob_curl_to(struct ob_curl_call *call, const char *url) OUTBOX_MUST_CHECK;
bool ob_curl_via(struct ob_curl_call *call, const char *proxy) OUTBOX_MUST_CHECK;
/* Stops it first. */
void ob_curl_call_fini(struct ob_curl_call *call);

/* The call begins at the next ob_curl_go, or in the next turn. False: it could not be started; done will not be called. */
bool ob_curl_start(struct ob_curl_call *call) OUTBOX_MUST_CHECK;
/* Begins all started calls now: to be called after the last one of a batch. May call done. */
void ob_curl_go(ob_curl_loop *loop);
/* Aborts the call: done will not be called. */
void ob_curl_stop(struct ob_curl_call *call);

#endif
