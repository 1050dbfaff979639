/* stub.h - the scripts of the stub sink (no I/O here): what is answered to the first attempt, to the second, and so on.
 *
 *   SCRIPT  words with blanks between them; the last word goes on for ever
 *   WORD    OUTCOME [:CODE] [@SCOPE] [/PATIENCE] [!] [*TIMES]
 *
 * OUTCOME is accept, retry, limited, terminal, blocked, unknown or not_sent; taken (it is written down, and the verdict
 * is unknown all the same); silent (no answer comes). SCOPE is message, recipient or sink. PATIENCE is a
 * duration. "!" says that the sink seems to be down. "retry:http_503!*2 limited@recipient/2s accept" */
#ifndef OB_SINK_LOCAL_STUB_H
#define OB_SINK_LOCAL_STUB_H

#include <outbox/sink.h>

enum { OB_STUB_CODE = 64 };

struct ob_stub_word {
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool takes;  /* the receiver has it */
    bool silent; /* and says nothing */
    bool unreachable;
    int64_t patience_us; /* -1: none */
    char code[OB_STUB_CODE];
};

/* The word for turn n, from 1. False when the script cannot be read; then *bad points at the word that is wrong. */
bool ob_stub_script(const char *script, int64_t n, struct ob_stub_word *word, const char **bad);

#endif
