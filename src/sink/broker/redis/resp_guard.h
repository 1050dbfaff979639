/* resp_guard.h - checks the bytes from a Redis server before hiredis parses them, because hiredis trusts any length in them.
 *
 * A reply is a line, a string preceded by its length, or an array preceded by its count. The guard follows this structure,
 * stores nothing of it, and refuses a reply that is too long or malformed. */
#ifndef OB_SINK_BROKER_REDIS_RESP_GUARD_H
#define OB_SINK_BROKER_REDIS_RESP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_resp_guard {
    size_t limit; /* bytes of one reply */
    /* private */
    enum { OB_RESP_TYPE, OB_RESP_LINE, OB_RESP_COUNT, OB_RESP_BULK } state;
    char type, digits[24];
    size_t count;    /* of digits */
    size_t used;     /* bytes of this reply, announced ones included */
    size_t bulk;     /* bytes of a string still to come */
    size_t pending;  /* values still to come until the reply is complete */
    const char *why; /* why the input was refused */
};

void ob_resp_guard_init(struct ob_resp_guard *guard, size_t limit);
/* False: refused, and so is all further input; guard->why says why. */
bool ob_resp_guard_pass(struct ob_resp_guard *guard, const char *data, size_t len);

#endif
