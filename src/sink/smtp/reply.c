/* reply.c - see reply.h. */
#include "sink/smtp/reply.h"

#include "sink/shortage.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

void ob_smtp_reply_reset(struct ob_smtp_reply *reply)
{
    memset(reply, 0, sizeof *reply);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "5.1.1" at the beginning, of the class that the reply has; the length, 0 when there is none. */
static size_t read_enhanced(const char *text, size_t len, int code, int enhanced[3])
{
    size_t at = 0;
    int parts[3] = {0};
    for (int i = 0; i < 3; i++) {
        size_t from = at;
        while (at < len && is_digit(text[at]) && at - from < 3)
            parts[i] = parts[i] * 10 + (text[at++] - '0');
        if (at == from || (i < 2 && (at >= len || text[at++] != '.')))
            return 0;
    }
    if (parts[0] != code / 100 || (at < len && text[at] != ' '))
        return 0;
    memcpy(enhanced, parts, sizeof parts);
    return at;
}

static void add_text(struct ob_smtp_reply *reply, const char *text, size_t len)
{
    size_t have = strlen(reply->text);
    if (have && have + 1 < sizeof reply->text)
        reply->text[have++] = ' ';
    for (size_t i = 0; i < len && have + 1 < sizeof reply->text; i++) {
        unsigned char c = (unsigned char)text[i];
        reply->text[have++] = (char)(c >= ' ' && c < 0x7f ? c : '?');
    }
    reply->text[have] = '\0';
}

void ob_smtp_reply_line(struct ob_smtp_reply *reply, const char *line, size_t len)
{
    while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (len < 3 || !is_digit(line[0]) || !is_digit(line[1]) || !is_digit(line[2]))
        return;
    /* After a refusal libcurl sends QUIT, and the answer to that is passed here too. */
    if (strncmp(line, "221", 3) == 0 || (reply->begun && reply->replies && ob_smtp_reply_refuses(reply)))
        return;
    if (!reply->within) {
        reply->text[0] = '\0';
        memset(reply->enhanced, 0, sizeof reply->enhanced);
        reply->code = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
    }
    reply->within = len > 3 && line[3] == '-';
    if (len > 4) {
        size_t skip = read_enhanced(line + 4, len - 4, reply->code, reply->enhanced);
        while (skip && 4 + skip < len && line[4 + skip] == ' ')
            skip++;
        add_text(reply, line + 4 + skip, len - 4 - skip);
    }
    if (reply->within)
        return;
    if (reply->begun)
        reply->replies++;
    else if (reply->code == 235)
        reply->authenticated = true;
}

bool ob_smtp_reply_refuses(const struct ob_smtp_reply *reply)
{
    return !reply->within && reply->code >= 400 && reply->code <= 599;
}

enum ob_smtp_stage ob_smtp_reply_stage(const struct ob_smtp_reply *reply, bool all_left)
{
    int about = reply->replies - (ob_smtp_reply_refuses(reply) && reply->replies ? 1 : 0);
    if (!reply->begun)
        return OB_SMTP_CONNECT;
    if (about < 3)
        return (enum ob_smtp_stage)(OB_SMTP_MAIL + about);
    return all_left ? OB_SMTP_END : OB_SMTP_BODY;
}

/* The words of well-known servers: "queued as 4F2B", "OK id=1a2b-3c", "4f2b Message accepted for delivery". */
bool ob_smtp_reference(const struct ob_smtp_reply *reply, char *out, size_t size)
{
    static const char *const before[] = {"queued as ", "id=", NULL};
    const char *found = NULL;
    for (int i = 0; before[i] && !found; i++)
        if ((found = strstr(reply->text, before[i])))
            found += strlen(before[i]);
    if (!found && strstr(reply->text, " Message accepted"))
        found = reply->text;
    size_t len = found ? strcspn(found, " ;,)") : 0;
    if (len < 4 || len >= size || (found == reply->text && strncmp(found + len, " Message accepted", 17) != 0))
        return false;
    memcpy(out, found, len);
    out[len] = '\0';
    return true;
}

/* ---- judging a refusal ------------------------------------------------------------------------------------------- */

static bool is_enhanced(const struct ob_smtp_reply *reply, int subject, int detail)
{
    return reply->enhanced[0] && reply->enhanced[1] == subject && (detail < 0 || reply->enhanced[2] == detail);
}

static void put_code(const struct ob_smtp_reply *reply, char code[OB_SMTP_CODE])
{
    if (reply->enhanced[0])
        snprintf(code, OB_SMTP_CODE, "smtp_%d_%d.%d.%d", reply->code, reply->enhanced[0], reply->enhanced[1],
                 reply->enhanced[2]);
    else
        snprintf(code, OB_SMTP_CODE, "smtp_%d", reply->code);
}

/* 4yz. A temporary refusal that depends on sender and recipient is greylisting. A 421 with a policy code means that this
 * client sends too much. */
static void judge_transient(const struct ob_smtp_end *end, struct outbox_verdict *verdict)
{
    const struct ob_smtp_reply *reply = end->reply;
    bool policy = is_enhanced(reply, 7, -1), silent = !reply->enhanced[0];
    verdict->outcome = OUTBOX_SINK_RETRY;
    if (reply->code == 421 && policy) {
        verdict->outcome = OUTBOX_SINK_LIMITED;
        verdict->scope = OUTBOX_SCOPE_SINK;
        verdict->not_before_us = end->greylist_us;
    } else if (end->stage == OB_SMTP_CONNECT || reply->code == 421) {
        verdict->unreachable = true;
    } else if ((reply->code == 450 || reply->code == 451) && (policy || silent || is_enhanced(reply, 2, 0))) {
        verdict->not_before_us = end->greylist_us;
    }
}

/* 530, 534, 535 and 538 are about who we are, and so is 5.7.8. */
static bool is_about_login(const struct ob_smtp_reply *reply)
{
    return reply->code == 530 || reply->code == 534 || reply->code == 535 || reply->code == 538 ||
           is_enhanced(reply, 7, 8) || is_enhanced(reply, 7, 9);
}

/* 5yz. The sender comes from the configuration: if it is refused, every message would be, and none of them is wrong. */
static void judge_permanent(const struct ob_smtp_end *end, struct outbox_verdict *verdict)
{
    const struct ob_smtp_reply *reply = end->reply;
    bool size = reply->code == 552 || is_enhanced(reply, 3, 4) || is_enhanced(reply, 2, 3);
    bool content = is_enhanced(reply, 6, -1);
    if (is_enhanced(reply, 2, 2)) {
        verdict->outcome = OUTBOX_SINK_RETRY; /* a mailbox that is full will be emptied */
    } else if (is_about_login(reply) || end->stage == OB_SMTP_CONNECT ||
               (end->stage == OB_SMTP_MAIL && !size && !content)) {
        verdict->outcome = OUTBOX_SINK_BLOCKED;
        verdict->scope = OUTBOX_SCOPE_SINK;
    } else {
        verdict->outcome = OUTBOX_SINK_TERMINAL;
        verdict->scope = end->stage == OB_SMTP_RCPT ? OUTBOX_SCOPE_RECIPIENT : OUTBOX_SCOPE_MESSAGE;
    }
}

/* ---- judging a failure ------------------------------------------------------------------------------------------- */

static const struct cause {
    int curl;
    const char *code;
    bool blocked; /* else it is a retry */
} causes[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "smtp_resolve", false},
    {CURLE_COULDNT_CONNECT, "smtp_connect", false},
    {CURLE_OPERATION_TIMEDOUT, "smtp_timeout", false},
    {CURLE_SEND_ERROR, "smtp_send", false},
    {CURLE_RECV_ERROR, "smtp_receive", false},
    {CURLE_GOT_NOTHING, "smtp_receive", false},
    {CURLE_WEIRD_SERVER_REPLY, "smtp_garbage", false},
    {CURLE_USE_SSL_FAILED, "smtp_tls_missing", true},
    {CURLE_SSL_CONNECT_ERROR, "smtp_tls", false},
    {CURLE_PEER_FAILED_VERIFICATION, "smtp_tls_certificate", true},
    {CURLE_SSL_ISSUER_ERROR, "smtp_tls_certificate", true},
    {CURLE_SSL_CACERT_BADFILE, "smtp_tls_client", true},
    {CURLE_SSL_CERTPROBLEM, "smtp_tls_client", true},
    {CURLE_SSL_CIPHER, "smtp_tls_client", true},
    {CURLE_LOGIN_DENIED, "smtp_login", true},
    {CURLE_REMOTE_ACCESS_DENIED, "smtp_refused", true},
    {CURLE_URL_MALFORMAT, "smtp_url", true},
    {CURLE_UNSUPPORTED_PROTOCOL, "smtp_protocol", true},
    {CURLE_OUT_OF_MEMORY, "out_of_memory", false},
};

static void judge_failure(const struct ob_smtp_end *end, char code[OB_SMTP_CODE], struct outbox_verdict *verdict)
{
    static const struct cause other = {0, "smtp_failed", false};
    const struct cause *cause = &other;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].curl == end->curl)
            cause = &causes[i];
    snprintf(code, OB_SMTP_CODE, "%s", cause->code);
    verdict->outcome = end->stage == OB_SMTP_END ? OUTBOX_SINK_UNKNOWN
                       : cause->blocked          ? OUTBOX_SINK_BLOCKED
                                                 : OUTBOX_SINK_RETRY;
    verdict->scope = OUTBOX_SCOPE_SINK;
    verdict->unreachable = verdict->outcome != OUTBOX_SINK_BLOCKED;
    if (end->starved || end->curl == CURLE_OUT_OF_MEMORY) { /* here, and not there */
        verdict->unreachable = false;
        if (end->stage != OB_SMTP_END) {
            verdict->outcome = OUTBOX_SINK_NOT_SENT;
            verdict->not_before_us = OB_SHORTAGE_US;
        }
    }
}

void ob_smtp_judge(const struct ob_smtp_end *end, char code[OB_SMTP_CODE], struct outbox_verdict *verdict)
{
    const struct ob_smtp_reply *reply = end->reply;
    /* Any 2yz at the end means accepted, although libcurl accepts only one. */
    bool taken = end->stage == OB_SMTP_END && reply->replies == 4 && reply->code / 100 == 2;
    *verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    if (end->curl == CURLE_OK || taken) {
        verdict->outcome = OUTBOX_SINK_ACCEPTED;
        return;
    }
    verdict->code = code;
    verdict->text = end->error && *end->error ? end->error : curl_easy_strerror((CURLcode)end->curl);
    if (!ob_smtp_reply_refuses(reply)) {
        judge_failure(end, code, verdict);
        return;
    }
    put_code(reply, code);
    verdict->text = reply->text;
    if (reply->code < 500)
        judge_transient(end, verdict);
    else
        judge_permanent(end, verdict);
}
