/* ledger.h - a file to which many processes append what they did; the order of its lines is the order of the deeds.
 *
 *   A id key seq ghost   a worker's receiver accepted the message ("-" for no key)
 *   P id key seq 0       a producer was told that its commit succeeded
 *
 * A ghost is a message that its producer was sure to roll back. */
#ifndef CONTRACT_LEDGER_H
#define CONTRACT_LEDGER_H

#include "suite.h"

enum { TRANSACTION_MAX = 3 }; /* messages of one producer's transaction */

struct ledger_line {
    char deed; /* 'A', 'P' */
    char id[37];
    char key[32];
    long long seq;
    int ghost;
};

int ledger_open(const char *path); /* to append; -1 on failure */
void ledger_write(int fd, const struct ledger_line *line);
/* All lines, in order; kept. */
struct ledger_line *ledger_read(struct fx *fx, const char *path, size_t *n);

/* A small generator of its own, so that a run can be repeated from its seed. */
struct dice {
    uint64_t state;
};
uint32_t dice_roll(struct dice *dice, uint32_t sides); /* 0 to sides - 1 */

#endif
