/* resp_guard.h - looks at the bytes of a Redis before hiredis does, which believes any length that it reads.
 *
 * A reply is a line, or a string whose length stands before it, or an array whose count does. The guard follows this,
 * keeps nothing of it, and refuses a reply that is longer than may be, or is no reply at all. */
#ifndef OB_SINK_BROKER_REDIS_RESP_GUARD_H
#define OB_SINK_BROKER_REDIS_RESP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_resp_guard {
    size_t limit; /* bytes of one reply */
    /* inside */
    enum { OB_RESP_TYPE, OB_RESP_LINE, OB_RESP_COUNT, OB_RESP_BULK } state;
    char type, digits[24];
    size_t count;    /* of digits */
    size_t used;     /* bytes of this reply, announced ones included */
    size_t bulk;     /* bytes of a string still to come */
    size_t pending;  /* values still to come until the reply is whole */
    const char *why; /* refused */
};

void ob_resp_guard_init(struct ob_resp_guard *guard, size_t limit);
/* False: refused, now and from now on; guard->why says why. */
bool ob_resp_guard_pass(struct ob_resp_guard *guard, const char *data, size_t len);

#endif
