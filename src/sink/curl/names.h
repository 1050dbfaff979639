/* names.h - resolves the host names of calls.
 *
 * libcurl's own resolver starts a thread for every call, and joins it if the call ends first: a name server that does not
 * answer then blocks the loop. So names are resolved here (base/resolve.h: off the loop, with a time limit, without joining
 * threads), and the addresses are passed to libcurl. Whether an address may be dialled is still decided when it is dialled.
 *
 * Names are resolved again after a minute of use, while the old addresses stay in use, and at once after a failed connect.
 * If that fails, the old addresses are kept for ten minutes: an open connection needs none, and an outage of the name server
 * alone should not stop deliveries.
 *
 * Thread: the loop's. */
#ifndef OB_SINK_CURL_NAMES_H
#define OB_SINK_CURL_NAMES_H

#include "base/list.h"

#include <curl/curl.h>
#include <uv.h>

struct ob_curl_call;
struct ob_curl_name;

struct ob_curl_names {
    struct ob_list list;   /* of struct ob_curl_name */
    uv_async_t *async;     /* a lookup is done; lives until the last lookup is freed */
    uv_timer_t *timer;     /* expires at the earliest deadline of a waiting call */
    struct ob_list asking; /* calls that wait, in the order of their deadlines */
    int64_t patience_us;
    unsigned version; /* never used twice, so that no call keeps old addresses */
    /* The name is resolved (CURLE_OK), or it failed: the text is in call->error. It may start, stop and free calls. */
    void (*answer)(struct ob_curl_call *call, CURLcode result);
    void (*answered)(void *ctx); /* called after the last answer of a turn */
    void *ctx;
};

/* What a call knows of its host. */
struct ob_curl_place {
    struct ob_curl_name *name; /* NULL: the URL has an address instead of a name */
    bool proxied;              /* the name is the proxy's */
    unsigned version;          /* of the addresses that were passed to libcurl */
    struct curl_slist *addresses;
    struct ob_list node, turn; /* in the list of calls that wait for this name, and of all waiting calls */
    int64_t until_us;
    bool waits;
};

bool ob_curl_names_init(struct ob_curl_names *names, uv_loop_t *uv, int64_t patience_us);
/* ob_curl_place_fini must have been called for every place. */
void ob_curl_names_fini(struct ob_curl_names *names);
/* libcurl no longer has the addresses that were passed to it. */
void ob_curl_names_renew(struct ob_curl_names *names);

/* Sets the host: that of the URL, or of the proxy. False: out of memory. */
bool ob_curl_place_set(struct ob_curl_names *names, struct ob_curl_place *place, const char *url, bool proxy);
void ob_curl_place_fini(struct ob_curl_place *place);

enum ob_curl_asked { OB_CURL_KNOWN, OB_CURL_WAITS, OB_CURL_NOMEM };
/* KNOWN: the call can begin. WAITS: names->answer will be called, unless ob_curl_place_leave is called first. */
enum ob_curl_asked ob_curl_names_ask(struct ob_curl_names *names, struct ob_curl_call *call);
void ob_curl_place_leave(struct ob_curl_place *place);
/* No connection could be made: the address of the host may have changed. */
void ob_curl_place_failed(struct ob_curl_place *place);

#endif
