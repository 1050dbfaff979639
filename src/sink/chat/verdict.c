/* verdict.c - see chat.h: what the result of a call means. An answer is untrusted data: it is shown as printable text,
 * without the secrets that we sent. */
#include "sink/chat/chat.h"

#include "sink/curl/excerpt.h"
#include "sink/curl/http_outcome.h"

#include <stdio.h>
#include <string.h>

enum { QUOTE_MOST = 1024 };

/* ---- the answer -------------------------------------------------------------------------------------------------- */

size_t ob_chat_on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_chat_call *call = data;
    call->cut = call->cut || call->answer.len + size * count > OB_CHAT_ANSWER_MOST;
    if (call->cut)
        return 0;
    ob_buf_put(&call->answer, bytes, size * count);
    return size * count;
}

size_t ob_chat_on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct ob_chat_call *call = data;
    size_t len = size * count;
    if (len >= 5 && memcmp(bytes, "HTTP/", 5) == 0) /* after an interim answer comes another */
        call->headed = false;
    else if (len <= 2 && (bytes[0] == '\r' || bytes[0] == '\n'))
        call->headed = true;
    return len;
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
    return call->own_to ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_SINK;
}

void ob_chat_limit(struct ob_chat_call *call, struct outbox_verdict *verdict, int64_t after_s, const char *word)
{
    outbox_sink *sink = call->sink;
    int64_t now = now_us(sink), after_us = verdict->not_before_us;
    int64_t most_s = sink->curl.patience_us / 1000000;
    if (after_s > 0 && (after_s < most_s ? after_s : most_s) * 1000000 > after_us)
        after_us = (after_s < most_s ? after_s : most_s) * 1000000;
    bool all = !call->to[0] || (now < sink->limited_until_us && strcmp(sink->limited_to, call->to) != 0);
    ob_chat_end(call, verdict, OUTBOX_SINK_LIMITED, all ? OUTBOX_SCOPE_SINK : OUTBOX_SCOPE_RECIPIENT, word);
    verdict->not_before_us = after_us;
    snprintf(sink->limited_to, sizeof sink->limited_to, "%s", call->to);
    sink->limited_until_us = now + (after_us > 0 ? after_us : 1000000);
}

static void mask_secrets(struct ob_chat_call *call)
{
    const outbox_sink *sink = call->sink;
    for (size_t i = 0; i < sizeof sink->secrets / sizeof *sink->secrets; i++)
        ob_excerpt_mask(&call->said, sink->secrets[i]);
}

void ob_chat_quote(struct ob_chat_call *call, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (!len)
        return;
    ob_buf_puts(&call->said, call->said.len ? ": " : "");
    ob_excerpt_put(&call->said, text, len < QUOTE_MOST ? len : QUOTE_MOST);
    mask_secrets(call); /* now, while a secret that was cut off stands at the end */
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

/* A receiver may answer before it has read the whole request, and then close: libcurl reports an error, although the answer
 * is complete. */
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
    ob_http_end_init(end, &call->curl, (int)result, call->headed);
    end->whole = !call->cut && ob_buf_ok(&call->answer) && answered_whole(call, result);
    end->cut = call->cut;
    end->patience_us = call->sink->curl.patience_us;
}

static void quote_failure(struct ob_chat_call *call, const struct ob_http_end *end)
{
    if (end->refused)
        ob_chat_quote(call, "the address is not public; to allow it, add it to the sink's `allow`");
    else if (end->resent)
        ob_chat_quote(call, "the connection was closed before an answer arrived; the request was not repeated");
    else if (end->cut || end->flooded)
        ob_chat_quote(call, "the response is too long");
    else
        ob_chat_quote(call, *call->curl.error ? call->curl.error : curl_easy_strerror((CURLcode)end->curl));
}

void ob_chat_judge(struct ob_chat_call *call, CURLcode result, struct outbox_verdict *verdict)
{
    static const struct ob_http_rules none;
    const struct ob_chat_provider *provider = call->sink->provider;
    struct ob_http_end end;
    if (call->connect_only && result == CURLE_OK) {
        ob_chat_accept(call, verdict, NULL);
        verdict->text = "reachable; only sending a message can tell whether it accepts them";
        return;
    }
    call_end(call, result, &end);
    ob_http_judge(&none, &end, call->code, verdict);
    if (end.resent || end.status < 200 || (end.status < 300 && !end.whole)) {
        quote_failure(call, &end);
        return;
    }
    ob_buf_printf(&call->said, "status %d", end.status);
    json_t *reply = json_loadb(ob_buf_text(&call->answer), call->answer.len, JSON_DECODE_ANY, NULL);
    if (end.status < 300) { /* a status is no proof: the document must say so */
        ob_chat_end(call, verdict, OUTBOX_SINK_UNKNOWN, OUTBOX_SCOPE_MESSAGE, "unclear");
        verdict->not_before_us = ob_http_patience_us(&end);
    }
    provider->judge(call, end.status, reply, verdict);
    if (verdict->outcome == OUTBOX_SINK_UNKNOWN && strcmp(strrchr(call->code, '_'), "_unclear") == 0)
        ob_chat_quote(call, call->sink->placed ? "expected the word ok"
                            : reply            ? "expected a JSON document that confirms the message"
                                               : "expected JSON: check the URL of the API");
    json_decref(reply);
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

void ob_chat_describe(struct ob_chat_call *call, struct outbox_verdict *verdict)
{
    note_peer(call, verdict);
    verdict->reference = call->reference[0] ? call->reference : NULL;
    if (call->moved) {
        snprintf(call->output, sizeof call->output, "{\"moved_to\":\"%s\"}", call->move_to);
        verdict->output = call->output;
    }
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        return;
    mask_secrets(call);
    verdict->text = ob_buf_ok(&call->said) ? ob_buf_text(&call->said) : NULL;
}
