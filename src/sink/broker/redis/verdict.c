/* verdict.c - what an error reply of Redis means. Its first word is the code; the rest is text for humans. */
#include "sink/broker/redis/redis_int.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *word;
    enum outbox_sink_outcome outcome;
    bool unreachable;
} table[] = {
    {"LOADING", OUTBOX_SINK_RETRY, true},      {"MASTERDOWN", OUTBOX_SINK_RETRY, true},
    {"CLUSTERDOWN", OUTBOX_SINK_RETRY, true},  {"READONLY", OUTBOX_SINK_RETRY, true},
    {"NOREPLICAS", OUTBOX_SINK_RETRY, true},   {"MISCONF", OUTBOX_SINK_RETRY, true},
    {"TRYAGAIN", OUTBOX_SINK_RETRY, false},    {"BUSY", OUTBOX_SINK_RETRY, true},
    {"ASK", OUTBOX_SINK_RETRY, false},         {"MOVED", OUTBOX_SINK_RETRY, false},
    {"OOM", OUTBOX_SINK_LIMITED, false},       {"NOAUTH", OUTBOX_SINK_BLOCKED, false},
    {"WRONGPASS", OUTBOX_SINK_BLOCKED, false}, {"NOPERM", OUTBOX_SINK_BLOCKED, false},
    {"DENIED", OUTBOX_SINK_BLOCKED, false},    {"WRONGTYPE", OUTBOX_SINK_BLOCKED, false},
};

void ob_redis_verdict(struct ob_verdict *verdict, const char *error, size_t len, bool one_address)
{
    char word[32] = "", lower[32] = "";
    size_t n = 0;
    while (n < len && n + 1 < sizeof word && isalpha((unsigned char)error[n])) {
        word[n] = error[n];
        lower[n] = (char)tolower((unsigned char)error[n]);
        n++;
    }
    ob_verdict_set(verdict, OUTBOX_SINK_RETRY, "redis", n ? lower : "error", "%.*s", (int)(len < 300 ? len : 300),
                   error);
    verdict->scope = OUTBOX_SCOPE_MESSAGE;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].word, word) != 0)
            continue;
        verdict->outcome = table[i].outcome;
        verdict->unreachable = table[i].unreachable;
        verdict->scope = OUTBOX_SCOPE_SINK;
    }
    /* Rights and types may differ from stream to stream. */
    if (!one_address && (strcmp(word, "WRONGTYPE") == 0 || strcmp(word, "NOPERM") == 0))
        verdict->scope = OUTBOX_SCOPE_MESSAGE;
}
