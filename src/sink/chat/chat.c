/* chat.c - see chat.h: the calls, from a message to its verdict, and the messages that wait for their turn. */
#include "sink/chat/chat.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/shortage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { MOVES_MOST = 4 }; /* of one recipient, one after the other */

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void call_clear(struct ob_chat_call *call)
{
    call->due_us = 0;
    call->placed = false;
    json_decref(call->body);
    call->body = NULL;
    free(call->document);
    call->document = NULL;
    ob_buf_reset(&call->answer);
    ob_buf_reset(&call->said);
    call->headed = call->cut = call->moving = call->moved = call->own_to = false;
    call->to[0] = call->move_to[0] = call->code[0] = call->reference[0] = call->output[0] = '\0';
}

static void call_free(struct ob_chat_call *call)
{
    if (!call)
        return;
    ob_list_remove(&call->node);
    ob_curl_call_fini(&call->curl);
    call_clear(call);
    ob_buf_fini(&call->answer);
    ob_buf_fini(&call->said);
    ob_free(call);
}

static bool call_configure(struct ob_chat_call *call)
{
    CURL *easy = call->curl.easy;
    const outbox_sink *sink = call->sink;
    return (!sink->curl.proxy || ob_curl_via(&call->curl, sink->curl.proxy)) && ob_curl_to(&call->curl, sink->url) &&
           curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, sink->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "outbox") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ob_chat_on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, ob_chat_on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, call) == CURLE_OK && ob_curl_tls(easy, &sink->tls);
}

static void call_done(struct ob_curl_call *curl, CURLcode result);

static struct ob_chat_call *call_new(outbox_sink *sink)
{
    struct ob_chat_call *call = ob_calloc(1, sizeof *call);
    if (!call)
        return NULL;
    ob_list_init(&call->node);
    call->sink = sink;
    if (ob_curl_call_init(&call->curl, sink->loop, call_done) && call_configure(call))
        return call;
    call_free(call);
    return NULL;
}

static struct ob_chat_call *call_take(outbox_sink *sink, uint64_t handle)
{
    struct ob_list *node = ob_list_shift(&sink->spare);
    struct ob_chat_call *call = node ? OB_CONTAINER(node, struct ob_chat_call, node) : call_new(sink);
    if (!call)
        return NULL;
    call->handle = handle;
    ob_list_push(&sink->out, &call->node);
    return call;
}

/* Returns the call to the spare ones, ready for the next message. The call of a ping is not kept. */
static void call_release(struct ob_chat_call *call)
{
    ob_list_remove(&call->node);
    if (call->ping) {
        call_free(call);
        return;
    }
    call_clear(call);
    ob_list_push_front(&call->sink->spare, &call->node);
}

/* Posts the body as it is now. */
static bool call_send(struct ob_chat_call *call)
{
    CURL *easy = call->curl.easy;
    free(call->document);
    call->document = json_dumps(call->body, JSON_COMPACT);
    ob_buf_reset(&call->answer);
    call->headed = false;
    return call->document &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->document)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->document) == CURLE_OK && ob_curl_start(&call->curl);
}

/* ---- those who wait ------------------------------------------------------------------------------------------------ */

/* Of its own, because it stays in the loop for a moment when the sink is gone. */
struct ob_chat_timer {
    uv_timer_t uv;
    outbox_sink *sink;
};

static void timer_closed(uv_handle_t *handle)
{
    ob_free(handle->data);
}

static void timer_free(struct ob_chat_timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->uv, timer_closed);
}

static struct ob_chat_timer *timer_new(outbox_sink *sink)
{
    struct ob_chat_timer *timer = ob_calloc(1, sizeof *timer);
    if (!timer)
        return NULL;
    uv_timer_init(sink->host->loop, &timer->uv);
    timer->uv.data = timer;
    timer->sink = sink;
    return timer;
}

/* The held call that is due first; NULL if there is none. */
static struct ob_chat_call *first_held(outbox_sink *sink)
{
    struct ob_chat_call *first = NULL;
    OB_LIST_EACH (it, &sink->out) {
        struct ob_chat_call *call = OB_CONTAINER(it, struct ob_chat_call, node);
        if (call->due_us && (!first || call->due_us < first->due_us))
            first = call;
    }
    return first;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void sink_free(outbox_sink *sink)
{
    struct ob_list *lists[] = {&sink->out, &sink->spare};
    for (int i = 0; i < 2; i++)
        OB_LIST_EACH_SAFE (it, lists[i])
            call_free(OB_CONTAINER(it, struct ob_chat_call, node));
    timer_free(sink->timer);
    ob_curl_loop_free(sink->loop);
    ob_chat_peers_fini(&sink->peers);
    ob_chat_config_fini(sink);
    ob_free(sink);
}

static void answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict)
{
    sink->host->done(sink->host->ctx, handle, verdict);
}

static int64_t now_us(const outbox_sink *sink)
{
    return sink->host->now_us(sink->host->ctx);
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

static const struct ob_rate *rate_of(const struct ob_chat_call *call)
{
    const outbox_sink *sink = call->sink;
    return sink->provider->rate ? sink->provider->rate(sink, call->to) : &sink->rate;
}

static void dispatch(struct ob_chat_call *call);
static void start_all(outbox_sink *sink);

/* The recipient has moved, and nothing was delivered: this message is sent to the new id, once, and later messages go there
 * directly. It takes its turn among the messages to the new id. */
static bool call_follow(struct ob_chat_call *call)
{
    outbox_sink *sink = call->sink;
    if (!call->moving)
        return false;
    call->moving = false;
    struct ob_chat_peer *peer = ob_chat_peers_get(&sink->peers, call->to, rate_of(call));
    if (peer)
        memcpy(peer->moved_to, call->move_to, sizeof peer->moved_to);
    if (!peer || call->moved) /* once more? Then at the next attempt. */
        return false;
    sink->host->log(sink->host->ctx, OUTBOX_LOG_WARN,
                    "recipient moved to another id; messages go there. See the output of this delivery for the id");
    ob_buf_reset(&call->said);
    dispatch(call);
    start_all(sink);
    return true;
}

static void call_done(struct ob_curl_call *curl, CURLcode result)
{
    struct ob_chat_call *call = OB_CONTAINER(curl, struct ob_chat_call, curl);
    outbox_sink *sink = call->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    ob_chat_judge(call, result, &verdict);
    if (!call->ping && call_follow(call))
        return;
    ob_chat_describe(call, &verdict);
    ob_list_remove(&call->node); /* from here on no cancel finds it */
    answer(sink, call->handle, &verdict);
    call_release(call);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

enum outbox_code ob_chat_open(const struct ob_chat_provider *provider, const struct outbox_sink_option *given,
                              size_t count, const struct outbox_sink_host *host, outbox_sink **out,
                              struct outbox_error *err)
{
    struct ob_options options = {given, count, provider->settings};
    outbox_sink *sink = ob_calloc(1, provider->size);
    if (!sink)
        return ob_error_nomem(err);
    sink->provider = provider;
    sink->host = host;
    ob_arena_init(&sink->arena, 1024);
    ob_list_init(&sink->out);
    ob_list_init(&sink->spare);
    ob_chat_peers_init(&sink->peers);
    enum outbox_code code = ob_chat_config_read(sink, &options, err);
    if (!code)
        code = provider->open(sink, &options, err);
    if (!code && sink->to) {
        char to[OB_CHAT_TO];
        if (!provider->admit(sink, sink->to, to))
            code = ob_error_set(err, OUTBOX_INVALID, "the sink's recipient is not valid for %s", provider->kind);
    }
    if (!code && !(sink->timer = timer_new(sink)))
        code = ob_error_nomem(err);
    if (!code)
        code = ob_curl_loop_new(host->loop, &sink->curl.guard, &sink->curl.limits, &sink->loop, err);
    if (code) {
        sink_free(sink);
        return code;
    }
    *out = sink;
    return OUTBOX_OK;
}

/* How long this message has to wait, and because of which limit; 0: it is sent now. If it may wait here, its turn among the
 * messages to its recipient is reserved; it counts towards the overall limit only when it is sent. */
static int64_t wait_of(struct ob_chat_call *call, enum outbox_sink_scope *scope)
{
    outbox_sink *sink = call->sink;
    int64_t now = now_us(sink), overall_us = ob_rate_ready_us(&sink->overall, now) - now;
    *scope = OUTBOX_SCOPE_SINK;
    if (overall_us > sink->hold_us)
        return overall_us;
    if (!call->placed) {
        struct ob_chat_peer *peer = ob_chat_peers_get(&sink->peers, call->to[0] ? call->to : "(all)", rate_of(call));
        int64_t wait_us = peer ? ob_chat_peer_take(peer, now, sink->hold_us) : 0;
        call->placed = wait_us <= sink->hold_us;
        if (wait_us > 0) {
            *scope = call->to[0] ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_SINK;
            return wait_us;
        }
    }
    if (overall_us > 0)
        return overall_us;
    ob_rate_take(&sink->overall, now);
    return 0;
}

static void give_back(struct ob_chat_call *call, int64_t wait_us, enum outbox_sink_scope scope)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    snprintf(call->code, sizeof call->code, "%s_paced", call->sink->provider->kind);
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.scope = scope;
    verdict.code = call->code;
    verdict.not_before_us = wait_us;
    ob_list_remove(&call->node); /* from here on no cancel finds it */
    answer(call->sink, call->handle, &verdict);
    call_release(call);
}

/* Follows a recipient that is known to have moved, perhaps more than once. Its turns are counted at the new id. */
static bool redirect(struct ob_chat_call *call)
{
    outbox_sink *sink = call->sink;
    bool ok = true;
    for (int moves = 0; ok && call->to[0] && moves < MOVES_MOST; moves++) {
        const struct ob_chat_peer *peer = ob_chat_peers_find(&sink->peers, call->to);
        if (!peer || !peer->moved_to[0])
            break;
        memcpy(call->move_to, peer->moved_to, sizeof call->move_to);
        memcpy(call->to, peer->moved_to, sizeof call->to);
        call->moved = true;
        call->placed = false;
        ok = sink->provider->address(sink, call->body, call->to);
    }
    return ok;
}

static void answer_unsent(outbox_sink *sink, uint64_t handle, const struct ob_chat_call *call, enum outbox_code code,
                          const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID && call;
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = wrong ? -1 : OB_SHORTAGE_US;
    verdict.local = true;
    verdict.code = wrong ? call->code : "out_of_memory";
    verdict.text = text;
    answer(sink, handle, &verdict);
}

static void fail_unsent(struct ob_chat_call *call, enum outbox_code code, const char *text)
{
    ob_list_remove(&call->node);
    answer_unsent(call->sink, call->handle, call, code, text);
    call_release(call);
}

/* Sends the message, holds it, or gives it back. */
static void dispatch(struct ob_chat_call *call)
{
    enum outbox_sink_scope scope;
    call->due_us = 0;
    if (!redirect(call)) {
        fail_unsent(call, OUTBOX_NOMEM, "out of memory");
        return;
    }
    int64_t wait_us = wait_of(call, &scope);
    if (wait_us > call->sink->hold_us)
        give_back(call, wait_us, scope);
    else if (wait_us)
        call->due_us = now_us(call->sink) + wait_us;
    else if (!call_send(call))
        fail_unsent(call, OUTBOX_NOMEM, "out of memory");
}

static void on_timer(uv_timer_t *uv);

/* Begins the started calls, and sets the timer for those that wait. */
static void start_all(outbox_sink *sink)
{
    ob_curl_go(sink->loop);
    const struct ob_chat_call *call = first_held(sink);
    if (!call)
        return;
    int64_t wait_us = call->due_us - now_us(sink);
    uv_update_time(sink->host->loop);
    uv_timer_start(&sink->timer->uv, on_timer, wait_us > 0 ? (uint64_t)wait_us / 1000 + 1 : 0, 0);
}

static void on_timer(uv_timer_t *uv)
{
    outbox_sink *sink = ((struct ob_chat_timer *)uv->data)->sink;
    struct ob_chat_call *call;
    int64_t now = now_us(sink);
    while ((call = first_held(sink)) && call->due_us <= now)
        dispatch(call);
    start_all(sink);
}

static void deliver_one(outbox_sink *sink, const struct outbox_sink_item *item)
{
    struct outbox_error err;
    struct ob_chat_call *call = call_take(sink, item->handle);
    if (!call) {
        answer_unsent(sink, item->handle, NULL, OUTBOX_NOMEM, "out of memory");
        return;
    }
    enum outbox_code code = ob_chat_compose(call, item->msg, &err);
    if (code)
        fail_unsent(call, code, err.text);
    else
        dispatch(call);
}

void ob_chat_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        deliver_one(sink, &items[i]);
    start_all(sink);
}

void ob_chat_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH (it, &sink->out) {
        struct ob_chat_call *call = OB_CONTAINER(it, struct ob_chat_call, node);
        if (call->handle != handle)
            continue;
        ob_curl_stop(&call->curl);
        call_release(call);
        return;
    }
}

void ob_chat_ping(outbox_sink *sink, uint64_t handle)
{
    struct ob_chat_call *call = call_new(sink);
    if (call) {
        call->ping = true;
        call->connect_only = !sink->ping_url;
        call->handle = handle;
        ob_list_push(&sink->out, &call->node);
    }
    if (!call || curl_easy_setopt(call->curl.easy, CURLOPT_HTTPGET, 1L) != CURLE_OK ||
        curl_easy_setopt(call->curl.easy, CURLOPT_CONNECT_ONLY, call->connect_only ? 1L : 0L) != CURLE_OK ||
        !ob_curl_to(&call->curl, call->connect_only ? sink->url : sink->ping_url) || !ob_curl_start(&call->curl)) {
        call_free(call);
        answer_unsent(sink, handle, NULL, OUTBOX_NOMEM, "out of memory");
        return;
    }
    ob_curl_go(sink->loop);
}

void ob_chat_close(outbox_sink *sink)
{
    if (sink)
        sink_free(sink);
}
