/* stub.h - the scripts of the stub sink: the answers to the first attempt, the second, and so on. No I/O.
 *
 *   SCRIPT  words separated by spaces; the last word applies to all further attempts
 *   WORD    OUTCOME [:CODE] [@SCOPE] [/PATIENCE] [!] [*TIMES]
 *
 * OUTCOME is accept, retry, limited, terminal, blocked, unknown or not_sent; taken (the message is recorded, but the
 * verdict is unknown); or silent (no answer comes). SCOPE is message, recipient or sink. PATIENCE is a duration. "!" means
 * that the sink seems to be down. Example: "retry:http_503!*2 limited@recipient/2s accept" */
#ifndef OB_SINK_LOCAL_STUB_H
#define OB_SINK_LOCAL_STUB_H

#include <outbox/sink.h>

enum { OB_STUB_CODE = 64 };

struct ob_stub_word {
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool takes;  /* the receiver has it */
    bool silent; /* no verdict is given */
    bool unreachable;
    int64_t patience_us; /* -1: none */
    char code[OB_STUB_CODE];
};

/* The word for attempt n, from 1. False if the script is invalid; *bad then points at the wrong word. */
bool ob_stub_script(const char *script, int64_t n, struct ob_stub_word *word, const char **bad);

#endif
