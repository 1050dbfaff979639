/* names.h - where the hosts are that calls go to.
 *
 * libcurl's own resolver starts a thread for every call, and waits for it when the call ends before it: a name server
 * that does not answer then stops the loop. So names are looked up here (base/resolve.h: off the loop, bounded, nobody
 * waits for a thread), and libcurl is given the addresses. Whether an address may be dialled is still decided when it is
 * dialled.
 *
 * Addresses are looked up again after a minute of use, while the old ones are used; at once, when no connection came about.
 * When that fails the old ones stay for ten minutes: a connection that is there needs none, and a name server that is down
 * is no reason to stop.
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
    uv_async_t *async;     /* a lookup is done; lives until the last of them is freed */
    uv_timer_t *timer;     /* the patience of the one that waits for longest is over */
    struct ob_list asking; /* calls that wait, in the order of their deadlines */
    int64_t patience_us;
    unsigned version; /* never used twice, so that no call has old addresses */
    /* What was asked for is there (CURLE_OK), or is not: the text is in call->error. It may start, stop and free calls. */
    void (*answer)(struct ob_curl_call *call, CURLcode result);
    void (*answered)(void *ctx); /* the last one of a turn */
    void *ctx;
};

/* What a call knows of its host. */
struct ob_curl_place {
    struct ob_curl_name *name; /* NULL: the URL has an address, no name */
    bool proxied;              /* the name is the proxy's */
    unsigned version;          /* of the addresses that libcurl was given */
    struct curl_slist *addresses;
    struct ob_list node, turn; /* among those that wait for the name, and among all that wait */
    int64_t until_us;
    bool waits;
};

bool ob_curl_names_init(struct ob_curl_names *names, uv_loop_t *uv, int64_t patience_us);
/* Every call must have been finished before. */
void ob_curl_names_fini(struct ob_curl_names *names);
/* libcurl has forgotten what it was given. */
void ob_curl_names_renew(struct ob_curl_names *names);

/* The host of the URL, or of the proxy. False: no memory. */
bool ob_curl_place_set(struct ob_curl_names *names, struct ob_curl_place *place, const char *url, bool proxy);
void ob_curl_place_fini(struct ob_curl_place *place);

enum ob_curl_asked { OB_CURL_KNOWN, OB_CURL_WAITS, OB_CURL_NOMEM };
/* KNOWN: the call can go out. WAITS: names->answer will be called, unless ob_curl_place_leave is. */
enum ob_curl_asked ob_curl_names_ask(struct ob_curl_names *names, struct ob_curl_call *call);
void ob_curl_place_leave(struct ob_curl_place *place);
/* No connection came about: the host may have moved. */
void ob_curl_place_failed(struct ob_curl_place *place);

#endif
