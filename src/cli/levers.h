/* levers.h - the commands that act on messages: retry, discard, skip, redeliver, expire, move. */
#ifndef OB_CLI_LEVERS_H
#define OB_CLI_LEVERS_H

#include "cli/cli.h"

struct ob_cli_lever {
    enum ob_lever lever;
    const char *title, *done; /* "Retry", "pending again" */
    bool always_ask;          /* also when ids are given */
    bool moves;               /* needs --to */
};

/* Runs the act on the messages that the command line names; returns the exit status. */
int ob_cli_lever(struct ob_cli *cli, const struct ob_cli_lever *lever);

#endif
