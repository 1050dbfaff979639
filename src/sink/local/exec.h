/* exec.h - what the exec sink runs, with which environment, and what an exit status means. No processes here.
 *
 * The table of statuses follows sysexits.h:
 *
 *   0                                     accepted
 *   65 data, 66 input, 67 user, 68 host   terminal: this message is wrong
 *   69 unavailable                        retry; the sink seems to be down
 *   70 software, 71 os, 73, 74 i/o, 75 temporary, 76 protocol   retry
 *   64 usage, 72 file, 77 rights, 78 configuration              blocked: the configuration must be fixed
 *   126, 127                              blocked: the program could not be run
 *   a signal                              unknown
 *   anything else                         the setting `other`
 *
 * The setting `exit` takes precedence over the table. */
#ifndef OB_SINK_LOCAL_EXEC_H
#define OB_SINK_LOCAL_EXEC_H

#include "base/arena.h"
#include "sink/common/option.h"

enum { OB_EXEC_STATUSES = 256 };

/* Owns an arena, which holds everything else. */
struct ob_exec {
    struct ob_arena arena;
    char **words; /* ends with NULL */
    char **env;   /* PATH and what is configured, "NAME=VALUE"; ends with NULL */
    size_t env_count;
    const char *directory;               /* NULL: the relay's */
    signed char exits[OB_EXEC_STATUSES]; /* an outcome; -1: by the table */
    enum outbox_sink_outcome other;
};

enum outbox_code ob_exec_init(struct ob_exec *plan, const struct ob_options *options,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_exec_fini(struct ob_exec *plan);
/* The environment for one message, in the arena; NULL: out of memory. */
char **ob_exec_env(const struct ob_exec *plan, const struct outbox_delivery *msg, struct ob_arena *arena);
/* Fills outcome, scope, code and unreachable; code becomes "exit_75" or "signal_9". */
void ob_exec_verdict(const struct ob_exec *plan, int64_t status, int number, char code[32],
                     struct outbox_verdict *verdict);
/* 0 if the program exists and may be run; else the errno. */
int ob_exec_look(const struct ob_exec *plan);

#endif
