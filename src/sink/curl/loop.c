/* loop.c - see loop.h.
 *
 * libcurl says which sockets it waits for (watch.c), and we tell it when they are ready. If a connect times out, libcurl
 * 7.88 does not continue with the next address of the host until the time for all of them is up: so we trigger it.
 *
 * A peer that floods keeps libcurl reading. Two things bound that: the limit on the bytes of an answer (flood.h), which also
 * ends a call that would not return; and fair turns: when libcurl wants to continue at once, it continues in the next turn
 * of the loop, after the others. A timer of 0 ms would be due again within the same turn, as long as data comes.
 *
 * libcurl closes connections that were unused for too long only when it opens or reuses one: so if there was no call for
 * that long, we close all that are left. */
#include "sink/curl/loop_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <pthread.h>
#include <string.h>

enum {
    CACHE = 1024
}; /* connections kept when there is no cap; libcurl's own default follows the calls of the moment */

/* ---- the engine ------------------------------------------------------------------------------------------------ */

static void loop_closed(uv_handle_t *handle)
{
    ob_curl_loop *loop = handle->data;
    if (--loop->handles > 0)
        return;
    ob_free(loop->watches);
    ob_free(loop);
}

static void multi_close(ob_curl_loop *loop)
{
    ob_flood_wait(&loop->flood, true);
    ob_flood_enter(&loop->flood);
    curl_multi_cleanup(loop->multi);
    ob_flood_leave(&loop->flood);
    ob_flood_wait(&loop->flood, false);
}

static void on_sweep(uv_timer_t *timer);

/* The call left the multi handle, or was never there. */
static void call_back(struct ob_curl_call *call)
{
    ob_curl_loop *loop = call->loop;
    call->out = false;
    if (--loop->out > 0)
        return;
    ob_flood_wait(&loop->flood, false);
    loop->quiet_ms = uv_now(loop->uv);
    if (!uv_is_active((uv_handle_t *)&loop->sweep))
        uv_timer_start(&loop->sweep, on_sweep, (uint64_t)(loop->limits.idle_us / 1000), 0);
}

static void call_remove(struct ob_curl_call *call)
{
    ob_flood_enter(&call->loop->flood);
    curl_multi_remove_handle(call->loop->multi, call->easy);
    ob_flood_leave(&call->loop->flood);
    call_back(call);
}

static void collect(ob_curl_loop *loop)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(loop->multi, &left))) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURL *easy = msg->easy_handle;
        CURLcode result = msg->data.result;
        struct ob_curl_call *call = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
        call_remove(call);
        if (!call->sent && result != CURLE_OK && !call->refused)
            ob_curl_place_failed(&call->place);
        call->done(call, result);
    }
}

/* Lets every call continue, due or not: only this deprecated function does that. */
static void remind(ob_curl_loop *loop)
{
    int running;
    loop->unannounced = false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    curl_multi_socket_all(loop->multi, &running);
#pragma GCC diagnostic pop
}

void ob_curl_act(ob_curl_loop *loop, curl_socket_t fd, int flags)
{
    if (loop->acting) { /* from within done */
        loop->again = true;
        return;
    }
    loop->acting = true;
    do {
        int running;
        loop->again = false;
        ob_flood_enter(&loop->flood);
        curl_multi_socket_action(loop->multi, fd, flags, &running);
        while (loop->unannounced)
            remind(loop);
        ob_flood_leave(&loop->flood);
        collect(loop);
        fd = CURL_SOCKET_TIMEOUT;
        flags = 0;
    } while (loop->again);
    loop->acting = false;
}

static bool call_add(struct ob_curl_call *call)
{
    return curl_multi_add_handle(call->loop->multi, call->easy) == CURLM_OK;
}

/* Nothing may be freed until all answers of this turn are reported. */
static void on_address(struct ob_curl_call *call, CURLcode result)
{
    call->loop->acting = true;
    if (result == CURLE_OK && !call_add(call))
        result = CURLE_OUT_OF_MEMORY;
    if (result == CURLE_OK)
        return;
    call_back(call);
    call->done(call, result);
}

static void on_addresses(void *ctx)
{
    ob_curl_loop *loop = ctx;
    loop->acting = false;
    ob_curl_act(loop, CURL_SOCKET_TIMEOUT, 0);
}

static void on_timer(uv_timer_t *timer)
{
    ob_curl_act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_turn(uv_idle_t *turn)
{
    uv_idle_stop(turn);
    ob_curl_act(turn->data, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl: call me in this many milliseconds. It does not request the same time twice, so the timer must not be early:
 * the event loop counts whole milliseconds, and the current one is partly over. */
static int on_timeout(CURLM *multi, long ms, void *data)
{
    (void)multi;
    ob_curl_loop *loop = data;
    if (ms == 0) {
        uv_timer_stop(&loop->timer);
        return uv_idle_start(&loop->turn, on_turn);
    }
    uv_idle_stop(&loop->turn);
    if (ms < 0)
        return uv_timer_stop(&loop->timer);
    uv_update_time(loop->uv);
    return uv_timer_start(&loop->timer, on_timer, (uint64_t)ms + 1, 0);
}

static void curl_begin(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static CURLM *multi_new(ob_curl_loop *loop)
{
    CURLM *multi = curl_multi_init();
    long connections = loop->limits.connections;
    if (!multi)
        return NULL;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, ob_curl_on_wish);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, loop);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, loop);
    /* Streams that share a connection stall now and then in libcurl 7.88: one request at a time on each. */
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, connections);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections ? connections : CACHE);
    return multi;
}

/* Closes all connections, when there was no call for as long as one may be kept. */
static void on_sweep(uv_timer_t *timer)
{
    ob_curl_loop *loop = timer->data;
    uint64_t idle_ms = (uint64_t)(loop->limits.idle_us / 1000), quiet_ms = uv_now(loop->uv) - loop->quiet_ms;
    if (loop->out > 0) /* the last one to come back starts the timer anew */
        return;
    CURLM *fresh = quiet_ms >= idle_ms ? multi_new(loop) : NULL;
    if (!fresh) {
        uv_timer_start(timer, on_sweep, quiet_ms < idle_ms ? idle_ms - quiet_ms : idle_ms, 0);
        return;
    }
    multi_close(loop);
    loop->multi = fresh;
    ob_curl_names_renew(&loop->names);
}

static void handles_init(ob_curl_loop *loop)
{
    uv_timer_init(loop->uv, &loop->timer);
    uv_idle_init(loop->uv, &loop->turn);
    uv_timer_init(loop->uv, &loop->sweep);
    uv_unref((uv_handle_t *)&loop->sweep);
    loop->timer.data = loop->turn.data = loop->sweep.data = loop;
    loop->handles = 3;
}

enum outbox_code ob_curl_loop_new(struct uv_loop_s *uv, const struct ob_net_guard *guard,
                                  const struct ob_curl_limits *limits, ob_curl_loop **out, struct outbox_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, curl_begin);
    ob_curl_loop *loop = ob_calloc(1, sizeof *loop);
    if (!loop)
        return ob_error_nomem(err);
    loop->uv = uv;
    loop->guard = guard;
    loop->limits = *limits;
    if (!ob_flood_init(&loop->flood, limits->answer_most)) {
        ob_free(loop);
        return ob_error_set(err, OUTBOX_INTERNAL,
                            "cannot start the thread that watches connections; check the thread limit");
    }
    loop->multi = multi_new(loop);
    if (!loop->multi || !ob_curl_names_init(&loop->names, uv, limits->connect_us)) {
        curl_multi_cleanup(loop->multi);
        ob_flood_fini(&loop->flood);
        ob_free(loop);
        return ob_error_nomem(err);
    }
    loop->names.answer = on_address;
    loop->names.answered = on_addresses;
    loop->names.ctx = loop;
    handles_init(loop);
    *out = loop;
    return OUTBOX_OK;
}

void ob_curl_loop_free(ob_curl_loop *loop)
{
    if (!loop)
        return;
    multi_close(loop);
    for (size_t fd = 0; fd < loop->watch_count; fd++)
        ob_curl_watch_close(loop->watches[fd]);
    ob_flood_fini(&loop->flood);
    ob_curl_names_fini(&loop->names);
    uv_close((uv_handle_t *)&loop->timer, loop_closed);
    uv_close((uv_handle_t *)&loop->turn, loop_closed);
    uv_close((uv_handle_t *)&loop->sweep, loop_closed);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

bool ob_curl_call_init(struct ob_curl_call *call, ob_curl_loop *loop,
                       void (*done)(struct ob_curl_call *call, CURLcode result))
{
    memset(call, 0, sizeof *call);
    ob_list_init(&call->place.node);
    ob_list_init(&call->place.turn);
    call->loop = loop;
    call->done = done;
    CURL *easy = call->easy = curl_easy_init();
    if (!easy)
        return false;
    bool ok = true;
#define SET(name, value) ok = curl_easy_setopt(easy, CURLOPT_##name, value) == CURLE_OK && ok
    SET(PRIVATE, call);
    SET(ERRORBUFFER, call->error);
    SET(NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(QUICK_EXIT, 1L); /* should it look a name up itself, nobody waits for that */
#endif
    SET(PROTOCOLS_STR, "http,https");
    SET(REDIR_PROTOCOLS_STR, "http,https");
    SET(FOLLOWLOCATION, 0L);
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(PROXY, "");
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(DISALLOW_USERNAME_IN_URL, 1L);
    SET(TCP_NODELAY, 1L);
    SET(TCP_KEEPALIVE, 1L);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(OPENSOCKETFUNCTION, ob_curl_on_open);
    SET(OPENSOCKETDATA, call);
    SET(CLOSESOCKETFUNCTION, ob_curl_on_close);
    SET(CLOSESOCKETDATA, loop);
    SET(PREREQFUNCTION, ob_curl_on_request);
    SET(PREREQDATA, call);
    SET(MAXAGE_CONN, (long)(loop->limits.idle_us / 1000000));
    SET(CONNECTTIMEOUT_MS, (long)(loop->limits.connect_us / 1000));
    SET(TIMEOUT_MS, (long)(loop->limits.total_us / 1000));
#undef SET
    return ok;
}

void ob_curl_call_fini(struct ob_curl_call *call)
{
    ob_curl_stop(call);
    curl_easy_cleanup(call->easy);
    call->easy = NULL;
    ob_curl_place_fini(&call->place);
}

bool ob_curl_to(struct ob_curl_call *call, const char *url)
{
    return curl_easy_setopt(call->easy, CURLOPT_URL, url) == CURLE_OK &&
           ob_curl_place_set(&call->loop->names, &call->place, url, false);
}

bool ob_curl_via(struct ob_curl_call *call, const char *proxy)
{
    return curl_easy_setopt(call->easy, CURLOPT_PROXY, proxy) == CURLE_OK &&
           ob_curl_place_set(&call->loop->names, &call->place, proxy, true);
}

bool ob_curl_start(struct ob_curl_call *call)
{
    call->sent = call->resent = call->starved = call->flooded = false;
    call->refused = call->dialled = 0;
    call->error[0] = '\0';
    enum ob_curl_asked asked = ob_curl_names_ask(&call->loop->names, call);
    call->out = asked == OB_CURL_WAITS || (asked == OB_CURL_KNOWN && call_add(call));
    call->loop->out += call->out;
    ob_flood_wait(&call->loop->flood, call->loop->out > 0);
    return call->out;
}

void ob_curl_go(ob_curl_loop *loop)
{
    ob_curl_act(loop, CURL_SOCKET_TIMEOUT, 0);
}

void ob_curl_stop(struct ob_curl_call *call)
{
    if (!call->out)
        return;
    if (!call->place.waits) {
        call_remove(call);
        return;
    }
    ob_curl_place_leave(&call->place);
    call_back(call);
}
