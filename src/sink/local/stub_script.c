/* stub_script.c - see stub.h. */
#include "sink/local/stub.h"

#include "base/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum outbox_sink_outcome outcome;
    bool takes, silent;
} outcomes[] = {
    {"accept", OUTBOX_SINK_ACCEPTED, true, false},    {"retry", OUTBOX_SINK_RETRY, false, false},
    {"limited", OUTBOX_SINK_LIMITED, false, false},   {"terminal", OUTBOX_SINK_TERMINAL, false, false},
    {"blocked", OUTBOX_SINK_BLOCKED, false, false},   {"unknown", OUTBOX_SINK_UNKNOWN, false, false},
    {"not_sent", OUTBOX_SINK_NOT_SENT, false, false}, {"taken", OUTBOX_SINK_UNKNOWN, true, false},
    {"silent", OUTBOX_SINK_UNKNOWN, false, true},
};
static const char *const scopes[] = {"message", "recipient", "sink"};

/* Copies the part up to the next mark. False when it is empty or too long. */
static bool part(const char **at, char *out, size_t room)
{
    size_t len = strcspn(*at, " :@/!*");
    if (len == 0 || len >= room)
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len;
    return true;
}

static bool read_outcome(const char **at, struct ob_stub_word *word)
{
    char name[32];
    *word = (struct ob_stub_word){.patience_us = -1};
    if (!part(at, name, sizeof name))
        return false;
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        if (strcmp(outcomes[i].name, name) != 0)
            continue;
        word->outcome = outcomes[i].outcome;
        word->takes = outcomes[i].takes;
        word->silent = outcomes[i].silent;
        if (word->outcome != OUTBOX_SINK_ACCEPTED)
            snprintf(word->code, sizeof word->code, "stub_%s", name);
        return true;
    }
    return false;
}

static bool read_mark(const char **at, struct ob_stub_word *word, int64_t *times)
{
    char text[OB_STUB_CODE];
    char mark = *(*at)++;
    if (mark == '!')
        return word->unreachable = true;
    if (!part(at, text, sizeof text))
        return false;
    if (mark == ':')
        return snprintf(word->code, sizeof word->code, "%s", text) > 0;
    if (mark == '/')
        return ob_value_duration(text, &word->patience_us);
    if (mark == '*')
        return (*times = strtoll(text, NULL, 10)) > 0;
    for (unsigned i = 0; i < sizeof scopes / sizeof scopes[0]; i++)
        if (strcmp(scopes[i], text) == 0) {
            word->scope = (enum outbox_sink_scope)i;
            return true;
        }
    return false;
}

bool ob_stub_script(const char *script, int64_t n, struct ob_stub_word *word, const char **bad)
{
    const char *at = script + strspn(script, " ");
    *bad = at;
    if (!*at)
        return false;
    while (*at) {
        int64_t times = 1;
        *bad = at;
        if (!read_outcome(&at, word))
            return false;
        while (*at && *at != ' ')
            if (!read_mark(&at, word, &times))
                return false;
        if (n <= times)
            return true;
        n -= times;
        at += strspn(at, " ");
    }
    return true; /* the last word goes on */
}
