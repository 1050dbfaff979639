/* verdict.c - what errors of NATS and JetStream mean, by their codes. */
#include "sink/broker/nats/nats_int.h"

#include <stdio.h>
#include <string.h>

static const struct {
    int code;
    enum outbox_sink_outcome outcome;
    bool unreachable;
} table[] = {
    {10054, OUTBOX_SINK_TERMINAL, false}, /* message larger than the stream allows */
    {10097, OUTBOX_SINK_TERMINAL, false}, /* headers larger than 64 kB */
    {10008, OUTBOX_SINK_RETRY, true},     /* cluster without a leader, server not ready, and the like */
    {10009, OUTBOX_SINK_RETRY, true},
    {10118, OUTBOX_SINK_RETRY, true},
    {10023, OUTBOX_SINK_RETRY, false}, /* full: of resources, of storage, of memory, of messages */
    {10028, OUTBOX_SINK_RETRY, false},
    {10047, OUTBOX_SINK_RETRY, false},
    {10077, OUTBOX_SINK_RETRY, false},
    {10158, OUTBOX_SINK_RETRY, false},   /* the same message is under way */
    {10167, OUTBOX_SINK_RETRY, false},   /* too much is under way */
    {10039, OUTBOX_SINK_BLOCKED, false}, /* no JetStream for this account, or at all */
    {10076, OUTBOX_SINK_BLOCKED, false},
    {10060, OUTBOX_SINK_BLOCKED, false}, /* the subject belongs to another stream than expect_stream */
    {10109, OUTBOX_SINK_BLOCKED, false}, /* sealed */
};

static void verdict_of_code(struct ob_verdict *verdict, int code, const char *text)
{
    char name[16];
    snprintf(name, sizeof name, "%d", code);
    ob_verdict_set(verdict, OUTBOX_SINK_RETRY, "nats", name, "%s", text);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].code == code) {
            verdict->outcome = table[i].outcome;
            verdict->unreachable = table[i].unreachable;
        }
}

static void verdict_of_status(struct ob_verdict *verdict, natsStatus status, const char *text, int attempt)
{
    const char *why = text && *text ? text : natsStatus_GetText(status);
    switch (status) {
    case NATS_MAX_PAYLOAD:
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "nats", "max_payload", "larger than the server's max_payload");
        break;
    case NATS_NO_RESPONDERS: /* at first it may be a stream that is still being found */
        ob_verdict_set(verdict, attempt > 1 ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_RETRY, "nats", "no_stream",
                       "no stream takes this subject, or it has no leader");
        break;
    case NATS_NOT_PERMITTED: ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "nats", "not_permitted", "%s", why); break;
    case NATS_INVALID_SUBJECT:
        ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "nats", "address", "not a valid NATS subject");
        break;
    case NATS_NO_MEMORY: /* for the answer: the message has left */
        ob_verdict_set(verdict, OUTBOX_SINK_UNKNOWN, "out", "of_memory", "out of memory");
        break;
    case NATS_TIMEOUT:
        ob_verdict_set(verdict, OUTBOX_SINK_UNKNOWN, "nats", "timeout", "no acknowledgement in time");
        verdict->unreachable = true;
        break;
    default: ob_verdict_set(verdict, OUTBOX_SINK_UNKNOWN, "nats", "lost", "%s", why); verdict->unreachable = true;
    }
}

void ob_nats_verdict(struct ob_verdict *verdict, natsStatus status, int code, const char *text, int attempt,
                     bool one_address)
{
    if (code)
        verdict_of_code(verdict, code, text);
    else
        verdict_of_status(verdict, status, text, attempt);
    /* Rights and streams differ from subject to subject. */
    if (!one_address && code != 10039 && code != 10076)
        verdict->scope = OUTBOX_SCOPE_MESSAGE;
}

/* The library says it only in words: its own when we reject a certificate ("64:IP address mismatch:depth=0:cert=..."),
 * those of OpenSSL when the server does. */
static void verdict_of_tls(struct ob_verdict *verdict, const char *text, const char *places, bool dialled)
{
    bool rejected = !dialled || strstr(text, ":depth=") || strstr(text, "certificate") || strstr(text, "unknown ca");
    ob_verdict_set(verdict, rejected ? OUTBOX_SINK_BLOCKED : OUTBOX_SINK_RETRY, "nats", "tls", "%s: %s", places,
                   strstr(text, "(null)") ? "the TLS handshake was interrupted" : text);
    verdict->unreachable = !rejected;
}

void ob_nats_verdict_of_connect(struct ob_verdict *verdict, natsStatus status, const char *text, const char *places,
                                bool dialled)
{
    const char *place_in_source = text[0] == '(' ? strstr(text, "): ") : NULL;
    if (place_in_source)
        text = place_in_source + 3;
    switch (status) {
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED: ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "nats", "auth", "%s", text); break;
    case NATS_SSL_ERROR: verdict_of_tls(verdict, text, places, dialled); break;
    case NATS_SECURE_CONNECTION_WANTED:
    case NATS_SECURE_CONNECTION_REQUIRED:
        ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "nats", "tls", "%s", text);
        break;
    case NATS_NO_MEMORY: ob_verdict_shortage(verdict); break;
    case NATS_INVALID_ARG: ob_verdict_set(verdict, OUTBOX_SINK_BLOCKED, "nats", "setting", "%s", text); break;
    default: ob_verdict_unreachable(verdict, "nats", places, text);
    }
}

/* Tokens between dots, none empty, no wildcards, nothing invisible. Names with a '$' in front are the server's: its API
 * listens there. _INBOX is where answers go. */
bool ob_nats_subject_ok(const char *subject, size_t len)
{
    if (!len || subject[0] == '.' || subject[0] == '$' || subject[len - 1] == '.' || strstr(subject, "..") ||
        strncmp(subject, "_INBOX", 6) == 0 || len > 4096)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)subject[i] <= ' ' || subject[i] == 0x7f || subject[i] == '*' || subject[i] == '>')
            return false;
    return true;
}
