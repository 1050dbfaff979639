/* http.c - the webhook sink: every message is one HTTP request, and the status of the answer decides.
 *
 * Calls are kept and reused, with their connections. The host sends at most one request of a key at a time, because
 * requests on several connections may overtake each other. A request is never repeated here.
 *
 * Thread: the loop's. It must not know where messages come from, nor when they are tried again. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "sink/curl/tls.h"
#include "sink/http/answer.h"
#include "sink/http/request.h"
#include "sink/shortage.h"

#include <stdio.h>
#include <string.h>

enum { FOLLOW_MOST = 3 };

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct ob_http_config config;
    ob_curl_loop *loop;
    struct ob_list out, spare; /* of struct call */
};

struct call {
    struct ob_curl_call curl;
    struct ob_list node;
    outbox_sink *sink;
    uint64_t handle;
    bool ping;
    int followed;
    struct ob_http_request request;
    struct ob_http_answer answer;
};

extern const struct outbox_sink_ops ob_sink_http;

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void call_free(struct call *call)
{
    if (!call)
        return;
    ob_list_remove(&call->node);
    ob_curl_call_fini(&call->curl);
    ob_http_request_fini(&call->request);
    ob_http_answer_fini(&call->answer);
    ob_free(call);
}

/* What all requests of the sink have in common is said once. */
static bool call_configure(struct call *call, const struct ob_http_config *config)
{
    CURL *easy = call->curl.easy;
    bool ok = true;
#define SET(name, value) ok = curl_easy_setopt(easy, CURLOPT_##name, value) == CURLE_OK && ok
#define SET_GIVEN(name, value) \
    if (value) \
    SET(name, value)
    SET(POST, 1L);
    SET(CUSTOMREQUEST, config->method);
    SET(HTTP_VERSION, config->version);
    SET(WRITEFUNCTION, ob_http_answer_body);
    SET(WRITEDATA, &call->answer);
    SET(HEADERFUNCTION, ob_http_answer_header);
    SET(HEADERDATA, &call->answer);
    SET_GIVEN(USERAGENT, config->user_agent);
#undef SET_GIVEN
#undef SET
    return ok && ob_curl_tls(easy, &config->tls) &&
           (!config->curl.proxy || ob_curl_via(&call->curl, config->curl.proxy)) &&
           (!config->url || ob_curl_to(&call->curl, config->url));
}

static void call_done(struct ob_curl_call *curl, CURLcode result);

static struct call *call_new(outbox_sink *sink)
{
    struct call *call = ob_calloc(1, sizeof *call);
    if (!call)
        return NULL;
    ob_list_init(&call->node);
    call->sink = sink;
    ob_http_request_init(&call->request);
    ob_http_answer_init(&call->answer, &sink->config);
    if (ob_curl_call_init(&call->curl, sink->loop, call_done) && call_configure(call, &sink->config))
        return call;
    call_free(call);
    return NULL;
}

static struct call *call_take(outbox_sink *sink, uint64_t handle)
{
    struct ob_list *node = ob_list_shift(&sink->spare);
    struct call *call = node ? OB_CONTAINER(node, struct call, node) : call_new(sink);
    if (!call)
        return NULL;
    call->handle = handle;
    call->followed = 0;
    ob_http_answer_reset(&call->answer);
    ob_list_push(&sink->out, &call->node);
    return call;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void sink_free(outbox_sink *sink)
{
    struct ob_list *lists[] = {&sink->out, &sink->spare};
    for (int i = 0; i < 2; i++)
        OB_LIST_EACH_SAFE (it, lists[i])
            call_free(OB_CONTAINER(it, struct call, node));
    ob_curl_loop_free(sink->loop);
    ob_http_config_fini(&sink->config);
    ob_free(sink);
}

static void answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict)
{
    sink->host->done(sink->host->ctx, handle, verdict);
}

/* A message that failed before a request was made. */
static void answer_unsent(outbox_sink *sink, uint64_t handle, enum outbox_code code, const char *problem,
                          const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID;
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = wrong ? -1 : OB_SHORTAGE_US;
    verdict.local = true;
    verdict.code = wrong ? problem : "out_of_memory";
    verdict.text = text;
    answer(sink, handle, &verdict);
}

/* A receiver may answer before it has read the whole request, and then close: libcurl reports an error, although the answer
 * is complete. */
static bool call_answered(const struct call *call, CURLcode result, long status)
{
    curl_off_t length = -1;
    if (result == CURLE_OK || call->answer.cut)
        return true;
    curl_easy_getinfo(call->curl.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return call->answer.headed && (status == 204 || (length >= 0 && (size_t)length == call->answer.received));
}

static void call_end(const struct call *call, CURLcode result, struct ob_http_end *end)
{
    const struct ob_http_answer *answer = &call->answer;
    ob_http_end_init(end, &call->curl, (int)result, answer->headed);
    if (answer->garbage)
        end->status = 0;
    end->whole = call_answered(call, result, end->status);
    end->cut = answer->cut || answer->garbage;
    end->keyed = call->request.keyed;
    end->own_address = call->request.url != NULL;
    end->patience_us = call->sink->config.curl.patience_us;
}

/* Follows a redirect to the same origin, if configured: the signature and the secrets in the headers are not sent anywhere
 * else. Only redirects that keep the method. */
static bool call_follow(struct call *call, const struct ob_http_end *end)
{
    const char *target = NULL, *here = NULL;
    CURL *easy = call->curl.easy;
    if (!call->sink->config.follow || end->curl != CURLE_OK || (end->status != 307 && end->status != 308) ||
        call->followed++ >= FOLLOW_MOST)
        return false;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &target);
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &here);
    if (!target || !here || !ob_http_url_same_origin(here, target))
        return false;
    if (!ob_curl_to(&call->curl, target))
        return false;
    ob_http_answer_reset(&call->answer);
    return ob_curl_start(&call->curl);
}

/* Returns the call to the spare ones, ready for the next message. The call of a ping is not kept. */
static void call_release(struct call *call)
{
    outbox_sink *sink = call->sink;
    ob_list_remove(&call->node);
    if (call->ping) {
        call_free(call);
        return;
    }
    if ((call->followed || call->request.url) && sink->config.url && !ob_curl_to(&call->curl, sink->config.url)) {
        call_free(call);
        return;
    }
    ob_list_push_front(&sink->spare, &call->node);
}

/* A ping checks whether messages would be accepted: the status of a HEAD says little about that of a POST. */
static void judge_ping(const struct ob_http_config *config, const struct ob_http_end *end,
                       struct outbox_verdict *verdict)
{
    bool connected = end->curl == CURLE_OK && config->ping == OB_HTTP_PING_CONNECT;
    if (!connected && !(end->status && (verdict->outcome == OUTBOX_SINK_TERMINAL || end->status == 405)))
        return;
    *verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    verdict->outcome = OUTBOX_SINK_ACCEPTED;
    if (connected)
        verdict->text = "reachable; only sending a message can tell whether it accepts them";
}

static void call_done(struct ob_curl_call *curl, CURLcode result)
{
    struct call *call = OB_CONTAINER(curl, struct call, curl);
    outbox_sink *sink = call->sink;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct ob_http_end end;
    char code[32];
    call_end(call, result, &end);
    if (!call->ping && call_follow(call, &end))
        return;
    ob_http_judge(&sink->config.rules, &end, code, &verdict);
    if (call->ping)
        judge_ping(&sink->config, &end, &verdict);
    ob_http_answer_describe(&call->answer, &end, curl->error, &verdict);
    ob_list_remove(&call->node); /* from here on no cancel finds it */
    answer(sink, call->handle, &verdict);
    call_release(call);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

static enum outbox_code http_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    outbox_sink *sink = ob_calloc(1, sizeof *sink);
    if (!sink)
        return ob_error_nomem(err);
    sink->host = host;
    ob_list_init(&sink->out);
    ob_list_init(&sink->spare);
    enum outbox_code code = ob_http_config_init(&sink->config, options, count, err);
    if (!code)
        code = ob_curl_loop_new(host->loop, &sink->config.curl.guard, &sink->config.curl.limits, &sink->loop, err);
    if (code) {
        sink_free(sink);
        return code;
    }
    *out = sink;
    return OUTBOX_OK;
}

static bool call_send(struct call *call)
{
    CURL *easy = call->curl.easy;
    const struct ob_http_request *request = &call->request;
    /* The body is borrowed, not copied, and goes out with the header lines in one write. */
    return (!request->url || ob_curl_to(&call->curl, request->url)) &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->head) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body_len ? request->body : "") == CURLE_OK &&
           ob_curl_start(&call->curl);
}

static void deliver_one(outbox_sink *sink, const struct outbox_sink_item *item, int64_t now_s)
{
    struct outbox_error err;
    struct call *call = call_take(sink, item->handle);
    enum outbox_code code =
        call ? ob_http_request_build(&call->request, &sink->config, item->msg, now_s, &err) : ob_error_nomem(&err);
    if (!code && !call_send(call))
        code = ob_error_nomem(&err);
    if (!code)
        return;
    const char *problem = call ? call->request.problem : NULL;
    if (call)
        call_release(call);
    answer_unsent(sink, item->handle, code, problem, err.text);
}

static void http_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    int64_t now_s = ob_clock_wall_us() / 1000000;
    for (size_t i = 0; i < count; i++)
        deliver_one(sink, &items[i], now_s);
    ob_curl_go(sink->loop);
}

static void http_cancel(outbox_sink *sink, uint64_t handle)
{
    OB_LIST_EACH (it, &sink->out) {
        struct call *call = OB_CONTAINER(it, struct call, node);
        if (call->handle != handle)
            continue;
        ob_curl_stop(&call->curl);
        call_release(call);
        return;
    }
}

static void http_ping(outbox_sink *sink, uint64_t handle)
{
    const struct ob_http_config *config = &sink->config;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    struct call *call = config->url ? call_new(sink) : NULL;
    if (!config->url) {
        verdict.outcome = OUTBOX_SINK_ACCEPTED;
        verdict.text = "every message has its own URL: nothing to check";
        answer(sink, handle, &verdict);
        return;
    }
    if (!call) {
        answer_unsent(sink, handle, OUTBOX_NOMEM, NULL, "out of memory");
        return;
    }
    call->ping = true;
    call->handle = handle;
    ob_list_push(&sink->out, &call->node);
    CURL *easy = call->curl.easy;
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, config->ping == OB_HTTP_PING_OPTIONS ? "OPTIONS" : NULL);
    curl_easy_setopt(easy, CURLOPT_NOBODY, config->ping == OB_HTTP_PING_HEAD ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, config->ping == OB_HTTP_PING_CONNECT ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, config->fixed);
    if (!ob_curl_start(&call->curl)) {
        call_free(call);
        answer_unsent(sink, handle, OUTBOX_NOMEM, NULL, "out of memory");
        return;
    }
    ob_curl_go(sink->loop);
}

static void http_close(outbox_sink *sink)
{
    if (sink)
        sink_free(sink);
}

const struct outbox_sink_ops ob_sink_http = {
    OUTBOX_SINK_OPS_HEAD,
    .kind = "http",
    .also = "webhook webhooks https rest api post curl standard-webhooks",
    .keeps_order = false,
    .open = http_open,
    .deliver = http_deliver,
    .cancel = http_cancel,
    .close = http_close,
    .settings = ob_http_settings,
    .check = ob_http_config_check,
    .ping = http_ping,
    .descriptors = 4,
    .descriptors_each = 1,
    .connections = "connections",
    .summary = "webhooks: one HTTP request per message, signed according to Standard Webhooks",
    .protocol = "http",
    .peer = "url",
};
