/* chat.c - see chat.h: the calls, from a message to its verdict. */
#include "sink/chat.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sink/excerpt.h"
#include "sink/http_outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MOST = 1024 * 1024, QUOTE_MOST = 1024 };

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_chat_call *call = data;
    call->cut = call->cut || call->answer.len + size * count > ANSWER_MOST;
    if (call->cut)
        return 0;
    ob_buf_put(&call->answer, bytes, size * count);
    return size * count;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_chat_call *call = data;
    size_t len = size * count;
    if (len >= 5 && memcmp(bytes, "HTTP/", 5) == 0) /* after an interim answer comes another */
        call->headed = false;
    else if (len <= 2 && (bytes[0] == '\r' || bytes[0] == '\n'))
        call->headed = true;
    return len;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void call_clear(struct ob_chat_call *call)
{
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
    return curl_easy_setopt(easy, CURLOPT_URL, sink->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, sink->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "outbox") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, call) == CURLE_OK &&
           (!sink->proxy || curl_easy_setopt(easy, CURLOPT_PROXY, sink->proxy) == CURLE_OK) &&
           (!sink->ca || curl_easy_setopt(easy, CURLOPT_CAINFO, sink->ca) == CURLE_OK);
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

/* Back to the others, ready for the next message. A probe is made for the occasion. */
static void call_release(struct ob_chat_call *call)
{
    ob_list_remove(&call->node);
    if (call->probe) {
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

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void sink_free(outbox_sink *sink)
{
    struct ob_list *lists[] = {&sink->out, &sink->spare};
    for (int i = 0; i < 2; i++)
        OB_LIST_EACH_SAFE (it, lists[i])
            call_free(OB_CONTAINER(it, struct ob_chat_call, node));
    ob_curl_loop_free(sink->loop);
    ob_chat_peers_fini(&sink->peers);
    ob_chat_config_fini(sink);
    ob_free(sink);
}

static void enter(outbox_sink *sink)
{
    sink->depth++;
}

static void leave(outbox_sink *sink)
{
    if (--sink->depth == 0 && sink->closing)
        sink_free(sink);
}

static void answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict)
{
    if (!sink->closing)
        sink->host->done(sink->host->ctx, handle, verdict);
}

static int64_t now_us(const outbox_sink *sink)
{
    return sink->host->now_us(sink->host->ctx);
}

/* ---- for the services -------------------------------------------------------------------------------------------- */

void ob_chat_end(struct ob_chat_call *call, struct outbox_verdict *verdict, enum outbox_sink_outcome outcome,
                 enum outbox_sink_scope scope, const char *word)
{
    snprintf(call->code, sizeof call->code, "%s_%s", call->sink->provider->kind, word);
    verdict->code = call->code;
    verdict->outcome = outcome;
    verdict->scope = scope;
    verdict->unreachable = false;
}

void ob_chat_accept(struct ob_chat_call *call, struct outbox_verdict *verdict, const char *reference)
{
    *verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    verdict->outcome = OUTBOX_SINK_ACCEPTED;
    snprintf(call->reference, sizeof call->reference, "%s", reference ? reference : "");
}

enum outbox_sink_scope ob_chat_scope_of_recipient(const struct ob_chat_call *call)
{
    return call->own_to ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_DESTINATION;
}

void ob_chat_limit(struct ob_chat_call *call, struct outbox_verdict *verdict, int64_t after_s, const char *word)
{
    outbox_sink *sink = call->sink;
    int64_t now = now_us(sink), after_us = verdict->not_before_us;
    int64_t most_s = sink->patience_us / 1000000;
    if (after_s > 0 && (after_s < most_s ? after_s : most_s) * 1000000 > after_us)
        after_us = (after_s < most_s ? after_s : most_s) * 1000000;
    bool all = !call->to[0] || (now < sink->limited_until_us && strcmp(sink->limited_to, call->to) != 0);
    ob_chat_end(call, verdict, OUTBOX_SINK_LIMITED, all ? OUTBOX_SCOPE_DESTINATION : OUTBOX_SCOPE_RECIPIENT, word);
    verdict->not_before_us = after_us;
    snprintf(sink->limited_to, sizeof sink->limited_to, "%s", call->to);
    sink->limited_until_us = now + (after_us > 0 ? after_us : 1000000);
}

void ob_chat_quote(struct ob_chat_call *call, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (!len)
        return;
    ob_buf_puts(&call->said, call->said.len ? ": " : "");
    ob_excerpt_put(&call->said, text, len < QUOTE_MOST ? len : QUOTE_MOST);
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

/* A receiver may answer before it has read all, and then close: libcurl calls that an error, though the answer is there
 * from its first to its last byte. */
static bool answered_whole(const struct ob_chat_call *call, CURLcode result)
{
    curl_off_t length = -1;
    if (result == CURLE_OK)
        return true;
    curl_easy_getinfo(call->curl.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return call->headed && length >= 0 && (size_t)length == call->answer.len;
}

static void call_end(const struct ob_chat_call *call, CURLcode result, struct ob_http_end *end)
{
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(call->curl.easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(call->curl.easy, CURLINFO_RETRY_AFTER, &retry_after);
    if (status < 300 && !call->headed) /* closed amidst the headers: a yes must be whole */
        status = 0;
    *end = (struct ob_http_end){
        .curl = (int)result,
        .status = (int)status,
        .sent = call->curl.sent,
        .resent = call->curl.resent,
        .refused = call->curl.refused > 0 && call->curl.dialled == 0,
        .whole = !call->cut && ob_buf_ok(&call->answer) && answered_whole(call, result),
        .cut = call->cut,
        .retry_after_s = retry_after,
        .patience_us = call->sink->patience_us,
    };
}

static void quote_failure(struct ob_chat_call *call, const struct ob_http_end *end)
{
    if (end->refused)
        ob_chat_quote(call, "the address is not public, and `allow` does not name it");
    else if (end->resent)
        ob_chat_quote(call, "the connection was closed before an answer came; the request was not repeated");
    else if (end->cut)
        ob_chat_quote(call, "the answer is too long");
    else
        ob_chat_quote(call, *call->curl.error ? call->curl.error : curl_easy_strerror((CURLcode)end->curl));
}

static void judge(struct ob_chat_call *call, CURLcode result, struct outbox_verdict *verdict)
{
    static const struct ob_http_rules none;
    const struct ob_chat_provider *provider = call->sink->provider;
    struct ob_http_end end;
    call_end(call, result, &end);
    ob_http_judge(&none, &end, call->code, verdict);
    if (end.resent || end.status < 200 || (end.status < 300 && !end.whole)) {
        quote_failure(call, &end);
        return;
    }
    ob_buf_printf(&call->said, "status %d", end.status);
    json_t *reply = json_loadb(ob_buf_text(&call->answer), call->answer.len, JSON_DECODE_ANY, NULL);
    if (end.status < 300) /* a status is no proof: the document must say so */
        ob_chat_end(call, verdict, OUTBOX_SINK_UNKNOWN, OUTBOX_SCOPE_MESSAGE, "unclear");
    provider->judge(call, end.status, reply, verdict);
    json_decref(reply);
}

/* The recipient has gone elsewhere, and nothing was delivered: the message follows, once, and those to come at once. */
static bool call_follow(struct ob_chat_call *call)
{
    outbox_sink *sink = call->sink;
    if (!call->moving)
        return false;
    call->moving = false;
    struct ob_chat_peer *peer = ob_chat_peers_get(&sink->peers, call->to, &sink->rate);
    if (peer)
        memcpy(peer->moved_to, call->move_to, sizeof peer->moved_to);
    if (call->moved) /* once more? Then at the next attempt. */
        return false;
    sink->host->log(sink->host->ctx, OUTBOX_LOG_WARN,
                    "a recipient has moved to another id: its messages go there; the output of this delivery names it");
    call->moved = true;
    ob_buf_reset(&call->said);
    return sink->provider->address(sink, call->body, call->move_to) && call_send(call);
}

/* What the verdict means for the recipient's next messages. */
static void note_peer(struct ob_chat_call *call, const struct outbox_verdict *verdict)
{
    struct ob_chat_peer *peer = call->to[0] ? ob_chat_peers_find(&call->sink->peers, call->to) : NULL;
    if (!peer)
        return;
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        peer->strikes = 0;
    if (verdict->outcome == OUTBOX_SINK_LIMITED && verdict->scope == OUTBOX_SCOPE_RECIPIENT &&
        verdict->not_before_us > 0)
        peer->until_us = now_us(call->sink) + verdict->not_before_us;
}

static void tell(struct ob_chat_call *call, struct outbox_verdict *verdict)
{
    const outbox_sink *sink = call->sink;
    verdict->reference = call->reference[0] ? call->reference : NULL;
    if (call->moved) {
        snprintf(call->output, sizeof call->output, "{\"moved_to\":\"%s\"}", call->move_to);
        verdict->output = call->output;
    }
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        return;
    for (size_t i = 0; i < sizeof sink->secrets / sizeof *sink->secrets; i++)
        ob_excerpt_mask(&call->said, sink->secrets[i]);
    verdict->text = ob_buf_ok(&call->said) ? ob_buf_text(&call->said) : NULL;
}

static void call_done(struct ob_curl_call *curl, CURLcode result)
{
    struct ob_chat_call *call = OB_CONTAINER(curl, struct ob_chat_call, curl);
    outbox_sink *sink = call->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    judge(call, result, &verdict);
    if (!call->probe && call_follow(call))
        return;
    note_peer(call, &verdict);
    tell(call, &verdict);
    ob_list_remove(&call->node); /* from here on no cancel finds it */
    enter(sink);
    answer(sink, call->handle, &verdict);
    call_release(call);
    leave(sink);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

enum outbox_code ob_chat_open(const struct ob_chat_provider *provider, const struct outbox_sink_option *given,
                              size_t count, const struct outbox_sink_host *host, outbox_sink **out,
                              struct outbox_error *err)
{
    struct ob_options options = {given, count};
    outbox_sink *sink = ob_calloc(1, provider->size);
    if (!sink)
        return ob_error_nomem(err);
    sink->provider = provider;
    sink->host = host;
    ob_arena_init(&sink->arena, 1024);
    ob_net_guard_init(&sink->guard);
    ob_list_init(&sink->out);
    ob_list_init(&sink->spare);
    ob_chat_peers_init(&sink->peers);
    enum outbox_code code = ob_chat_config_read(sink, &options, err);
    if (!code)
        code = provider->open(sink, &options, err);
    if (!code && sink->to) {
        char to[OB_CHAT_TO];
        if (!provider->admit(sink, sink->to, to))
            code = ob_error_set(err, OUTBOX_INVALID, "the recipient of the destination is none that %s could have",
                                provider->kind);
    }
    if (!code)
        code = ob_curl_loop_new(host->loop, &sink->guard, &sink->limits, &sink->loop, err);
    if (code) {
        sink_free(sink);
        return code;
    }
    *out = sink;
    return OUTBOX_OK;
}

/* Whether it is too early for this message; then it is answered. */
static bool put_off(struct ob_chat_call *call)
{
    outbox_sink *sink = call->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    const struct ob_rate *rate = sink->provider->rate ? sink->provider->rate(sink, call->to) : &sink->rate;
    const char *key = call->to[0] ? call->to : "(all)";
    int64_t now = now_us(sink), wait_us = ob_rate_ready_us(&sink->overall, now) - now;
    struct ob_chat_peer *peer = ob_chat_peers_get(&sink->peers, key, rate);
    verdict.scope = OUTBOX_SCOPE_DESTINATION;
    if (wait_us <= 0 && peer) {
        wait_us = ob_chat_peer_take(peer, now);
        verdict.scope = call->to[0] ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_DESTINATION;
    }
    if (wait_us <= 0) {
        ob_rate_take(&sink->overall, now);
        return false;
    }
    snprintf(call->code, sizeof call->code, "%s_paced", sink->provider->kind);
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.code = call->code;
    verdict.not_before_us = wait_us;
    ob_list_remove(&call->node); /* from here on no cancel finds it */
    answer(sink, call->handle, &verdict);
    return true;
}

/* A recipient that is known to have gone elsewhere. */
static bool redirect(struct ob_chat_call *call)
{
    const outbox_sink *sink = call->sink;
    struct ob_chat_peer *peer = call->to[0] ? ob_chat_peers_find(&call->sink->peers, call->to) : NULL;
    if (!peer || !peer->moved_to[0])
        return true;
    memcpy(call->move_to, peer->moved_to, sizeof call->move_to);
    call->moved = true;
    return sink->provider->address(sink, call->body, call->move_to);
}

static void answer_unsent(outbox_sink *sink, uint64_t handle, const struct ob_chat_call *call, enum outbox_code code,
                          const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID && call;
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_RETRY;
    verdict.code = wrong ? call->code : "out_of_memory";
    verdict.text = text;
    answer(sink, handle, &verdict);
}

static void deliver_one(outbox_sink *sink, const struct outbox_sink_item *item)
{
    struct outbox_error err;
    struct ob_chat_call *call = call_take(sink, item->handle);
    enum outbox_code code = call ? ob_chat_compose(call, item->msg, &err) : ob_error_nomem(&err);
    if (!code) {
        if (put_off(call)) {
            call_release(call);
            return;
        }
        if (redirect(call) && call_send(call))
            return;
        code = ob_error_nomem(&err);
    }
    if (call)
        ob_list_remove(&call->node);
    answer_unsent(sink, item->handle, call, code, err.text);
    if (call)
        call_release(call);
}

void ob_chat_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    enter(sink);
    for (size_t i = 0; i < count && !sink->closing; i++)
        deliver_one(sink, &items[i]);
    if (!sink->closing)
        ob_curl_go(sink->loop);
    leave(sink);
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

void ob_chat_probe(outbox_sink *sink, uint64_t handle)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_chat_call *call = sink->probe_url ? call_new(sink) : NULL;
    if (!sink->probe_url) {
        verdict.outcome = OUTBOX_SINK_ACCEPTED;
        verdict.text = "there is nothing to look at without sending a message";
        answer(sink, handle, &verdict);
        return;
    }
    if (call) {
        call->probe = true;
        call->handle = handle;
        ob_list_push(&sink->out, &call->node);
    }
    if (!call || curl_easy_setopt(call->curl.easy, CURLOPT_HTTPGET, 1L) != CURLE_OK ||
        curl_easy_setopt(call->curl.easy, CURLOPT_URL, sink->probe_url) != CURLE_OK || !ob_curl_start(&call->curl)) {
        call_free(call);
        answer_unsent(sink, handle, NULL, OUTBOX_NOMEM, "out of memory");
        return;
    }
    enter(sink);
    ob_curl_go(sink->loop);
    leave(sink);
}

void ob_chat_close(outbox_sink *sink)
{
    if (!sink)
        return;
    sink->closing = true;
    if (!sink->depth)
        sink_free(sink);
}
