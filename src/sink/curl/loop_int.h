/* loop_int.h - what loop.c and watch.c share. Thread: the loop's. */
#ifndef OB_SINK_CURL_LOOP_INT_H
#define OB_SINK_CURL_LOOP_INT_H

#include "sink/curl/flood.h"
#include "sink/curl/loop.h"

#include <uv.h>

struct watch;

struct ob_curl_loop {
    uv_loop_t *uv;
    uv_timer_t timer;
    uv_idle_t turn;   /* libcurl continues in the next turn */
    uv_timer_t sweep; /* runs if there were calls since the last sweep; does not keep the loop alive */
    int handles;      /* how many of these three are not closed yet */
    struct ob_curl_names names;
    int out;           /* calls that were started and are not done */
    uint64_t quiet_ms; /* since when there are none, in the loop's time */
    struct ob_flood flood;
    CURLM *multi;
    const struct ob_net_guard *guard;
    struct ob_curl_limits limits;
    struct watch **watches; /* by descriptor */
    size_t watch_count;
    bool acting, again;
    bool unannounced; /* libcurl closed a socket without telling us */
};

/* Lets libcurl continue: with a socket that is ready, or (CURL_SOCKET_TIMEOUT) with timeouts that are due. */
void ob_curl_act(ob_curl_loop *loop, curl_socket_t fd, int flags);

void ob_curl_watch_close(struct watch *watch); /* accepts NULL */

/* libcurl's callbacks: for the multi handle, and for the calls. */
int ob_curl_on_wish(CURL *easy, curl_socket_t fd, int what, void *data, void *unused);
curl_socket_t ob_curl_on_open(void *data, curlsocktype purpose, struct curl_sockaddr *address);
int ob_curl_on_close(void *data, curl_socket_t fd);
int ob_curl_on_request(void *data, char *peer, char *own, int peer_port, int own_port);

#endif
