/* http_outcome.c - see http_outcome.h.
 *
 * The rules: an answer is judged by its status, except for an incomplete 2xx: then the receiver may have stopped half-way,
 * and may or may not have the message. Without an answer, it matters whether a request may have been sent: if not, the
 * receiver certainly does not have the message. */
#include "sink/curl/http_outcome.h"
#include "sink/curl/loop.h"
#include "sink/shortage.h"

#include "base/error.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

/* ---- the operator's rules -------------------------------------------------------------------------------------- */

static const char *const names[] = {
    [OUTBOX_SINK_ACCEPTED] = "accepted", [OUTBOX_SINK_RETRY] = "retry",     [OUTBOX_SINK_LIMITED] = "limited",
    [OUTBOX_SINK_TERMINAL] = "terminal", [OUTBOX_SINK_BLOCKED] = "blocked", [OUTBOX_SINK_UNKNOWN] = "unknown",
};
enum { NAMES = sizeof names / sizeof *names, CLASS = 0x80 }; /* CLASS: said of the whole class */

static int outcome_named(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

enum outbox_code ob_http_rules_set(struct ob_http_rules *rules, const char *status, const char *outcome,
                                   struct outbox_error *err)
{
    int value = outcome_named(outcome);
    if (value < 0)
        return ob_error_set(
            err, OUTBOX_INVALID,
            "on_status.%s is \"%s\", but must be accepted, retry, limited, terminal, blocked or unknown", status,
            outcome);
    bool shaped = strlen(status) == 3 && status[0] >= '1' && status[0] <= '5';
    int first = shaped ? (status[0] - '0') * 100 : 0;
    if (shaped && strcmp(status + 1, "xx") == 0) {
        for (int i = first; i < first + 100; i++)
            if (!rules->at[i] || rules->at[i] & CLASS)
                rules->at[i] = (unsigned char)((value + 1) | CLASS);
        return OUTBOX_OK;
    }
    if (!shaped || strspn(status + 1, "0123456789") != 2)
        return ob_error_set(err, OUTBOX_INVALID,
                            "on_status.%s is not a status; write one like 404, or a class like 4xx", status);
    rules->at[first + (status[1] - '0') * 10 + status[2] - '0'] = (unsigned char)(value + 1);
    return OUTBOX_OK;
}

/* ---- an answer ------------------------------------------------------------------------------------------------- */

void ob_http_end_init(struct ob_http_end *end, const struct ob_curl_call *call, int result, bool headed)
{
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after);
    /* libcurl is content with a connection that closes amidst the headers. */
    if (status < 300 && !headed)
        status = 0;
    *end = (struct ob_http_end){
        .curl = result,
        .status = (int)status,
        .sent = call->sent,
        .resent = call->resent,
        .starved = call->starved,
        .refused = call->refused > 0 && call->dialled == 0,
        .flooded = call->flooded,
        .retry_after_s = retry_after,
    };
}

int64_t ob_http_patience_us(const struct ob_http_end *end)
{
    int64_t most_s = end->patience_us / 1000000;
    if (end->retry_after_s <= 0)
        return -1;
    return (end->retry_after_s < most_s ? end->retry_after_s : most_s) * 1000000;
}

static enum outbox_sink_outcome by_status(const struct ob_http_end *end)
{
    int status = end->status;
    if (status >= 200 && status < 300)
        return OUTBOX_SINK_ACCEPTED;
    switch (status) {
    case 429: return OUTBOX_SINK_LIMITED;
    case 503: return end->retry_after_s ? OUTBOX_SINK_LIMITED : OUTBOX_SINK_RETRY;
    case 408:
    case 425: return OUTBOX_SINK_RETRY;
    /* With an Idempotency-Key this means: the first request with that key is still being processed. */
    case 409: return end->keyed ? OUTBOX_SINK_RETRY : OUTBOX_SINK_TERMINAL;
    case 401:
    case 403:
    case 404:
    case 405:
    case 407:
    case 410: return OUTBOX_SINK_BLOCKED;
    case 501:
    case 505: return OUTBOX_SINK_TERMINAL;
    }
    if (status >= 500)
        return OUTBOX_SINK_RETRY;
    return status >= 300 ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_UNKNOWN;
}

static void judge_status(const struct ob_http_rules *rules, const struct ob_http_end *end, char code[32],
                         struct outbox_verdict *verdict)
{
    int rule = end->status < 600 ? rules->at[end->status] & ~CLASS : 0;
    verdict->outcome = rule ? (enum outbox_sink_outcome)(rule - 1) : by_status(end);
    /* A gateway answers this if the server behind it is down; a 500 may be about this message alone. */
    verdict->unreachable =
        verdict->outcome == OUTBOX_SINK_RETRY && (end->status == 502 || end->status == 503 || end->status == 504);
    snprintf(code, 32, "http_%d", end->status);
    if (verdict->outcome != OUTBOX_SINK_ACCEPTED)
        verdict->not_before_us = ob_http_patience_us(end);
}

/* ---- no answer ------------------------------------------------------------------------------------------------- */

struct cause {
    int curl;
    const char *code;
    enum outbox_sink_outcome outcome; /* when nothing was sent */
};

static const struct cause causes[] = {
    {CURLE_OK, "http_partial", OUTBOX_SINK_RETRY}, /* closed amidst the headers */
    {CURLE_COULDNT_RESOLVE_HOST, "http_resolve", OUTBOX_SINK_RETRY},
    {CURLE_COULDNT_RESOLVE_PROXY, "http_resolve", OUTBOX_SINK_RETRY},
    {CURLE_COULDNT_CONNECT, "http_connect", OUTBOX_SINK_RETRY},
    {CURLE_OPERATION_TIMEDOUT, "http_timeout", OUTBOX_SINK_RETRY},
    {CURLE_SSL_CONNECT_ERROR, "http_tls", OUTBOX_SINK_RETRY},
    {CURLE_PROXY, "http_proxy", OUTBOX_SINK_RETRY},
    {CURLE_PEER_FAILED_VERIFICATION, "http_tls_certificate", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_ISSUER_ERROR, "http_tls_certificate", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_INVALIDCERTSTATUS, "http_tls_certificate", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_CERTPROBLEM, "http_tls_client", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_CACERT_BADFILE, "http_tls_client", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_CIPHER, "http_tls_client", OUTBOX_SINK_BLOCKED},
    {CURLE_SSL_ENGINE_NOTFOUND, "http_tls_client", OUTBOX_SINK_BLOCKED},
    {CURLE_URL_MALFORMAT, "http_url", OUTBOX_SINK_BLOCKED},
    {CURLE_UNSUPPORTED_PROTOCOL, "http_protocol", OUTBOX_SINK_BLOCKED},
    {CURLE_SEND_FAIL_REWIND, "http_resend", OUTBOX_SINK_RETRY},
    {CURLE_GOT_NOTHING, "http_empty", OUTBOX_SINK_RETRY},
    {CURLE_SEND_ERROR, "http_send", OUTBOX_SINK_RETRY},
    {CURLE_RECV_ERROR, "http_receive", OUTBOX_SINK_RETRY},
    {CURLE_PARTIAL_FILE, "http_partial", OUTBOX_SINK_RETRY},
    {CURLE_WEIRD_SERVER_REPLY, "http_garbage", OUTBOX_SINK_RETRY},
    {CURLE_BAD_CONTENT_ENCODING, "http_garbage", OUTBOX_SINK_RETRY},
    {CURLE_HTTP2, "http_framing", OUTBOX_SINK_RETRY},
    {CURLE_HTTP2_STREAM, "http_framing", OUTBOX_SINK_RETRY},
    {CURLE_OUT_OF_MEMORY, "out_of_memory", OUTBOX_SINK_RETRY},
};

static const struct cause *cause_of(int curl)
{
    static const struct cause other = {0, "http_failed", OUTBOX_SINK_RETRY};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].curl == curl)
            return &causes[i];
    return &other;
}

/* What came was no answer of HTTP, or had no end. For libcurl a line that is too long is one that its memory does not
 * suffice for. An answer of HTTP/0.9 is one of anything. */
static bool is_garbage(const struct ob_http_end *end)
{
    return end->cut || end->flooded || end->curl == CURLE_OUT_OF_MEMORY || end->curl == CURLE_UNSUPPORTED_PROTOCOL;
}

static void judge_failure(const struct ob_http_end *end, char code[32], struct outbox_verdict *verdict)
{
    const struct cause *cause = cause_of(end->curl);
    const char *name = cause->code;
    verdict->outcome = cause->outcome;
    if (end->sent) {
        verdict->outcome = OUTBOX_SINK_UNKNOWN;
        if (end->resent)
            name = "http_resend";
        else if (is_garbage(end))
            name = "http_garbage";
    } else if (end->refused) {
        /* A sink whose URL leads to a forbidden address must be fixed by an operator; a message that names one is wrong. */
        verdict->outcome = end->own_address ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_BLOCKED;
        verdict->local = true;
        name = "http_address_refused";
    } else if (end->own_address && end->curl == CURLE_URL_MALFORMAT) {
        verdict->outcome = OUTBOX_SINK_TERMINAL;
        verdict->local = true;
    }
    verdict->unreachable = verdict->outcome == OUTBOX_SINK_RETRY || verdict->outcome == OUTBOX_SINK_UNKNOWN;
    if (!end->sent && (end->curl == CURLE_OUT_OF_MEMORY || end->starved)) {
        verdict->unreachable = false;
        verdict->outcome = OUTBOX_SINK_NOT_SENT;
        verdict->scope = OUTBOX_SCOPE_SINK;
        verdict->not_before_us = OB_SHORTAGE_US;
    }
    snprintf(code, 32, "%s", name);
}

void ob_http_judge(const struct ob_http_rules *rules, const struct ob_http_end *end, char code[32],
                   struct outbox_verdict *verdict)
{
    if (end->status >= 200 && !end->resent && (end->whole || end->status >= 300))
        judge_status(rules, end, code, verdict);
    else
        judge_failure(end, code, verdict);
    /* A message's own address is one of many: what is wrong there is no matter of the others. */
    verdict->scope = end->own_address ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_SINK;
    if (end->own_address)
        verdict->unreachable = false;
    verdict->code = verdict->outcome == OUTBOX_SINK_ACCEPTED ? NULL : code;
    verdict->status = end->status;
}
