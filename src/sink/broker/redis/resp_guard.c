/* resp_guard.c - see resp_guard.h. */
#include "sink/broker/redis/resp_guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 4096, CRLF = 2 };

void ob_resp_guard_init(struct ob_resp_guard *guard, size_t limit)
{
    *guard = (struct ob_resp_guard){.limit = limit, .pending = 1};
}

static bool refuse(struct ob_resp_guard *guard, const char *why)
{
    guard->why = why;
    return false;
}

static bool use(struct ob_resp_guard *guard, size_t bytes)
{
    if (bytes > guard->limit - guard->used)
        return refuse(guard, "a reply is longer than expected");
    guard->used += bytes;
    return true;
}

static void value_ended(struct ob_resp_guard *guard)
{
    guard->state = OB_RESP_TYPE;
    if (--guard->pending == 0) {
        guard->pending = 1;
        guard->used = 0;
    }
}

/* The number behind '$' or '*' is whole. -1 is nothing at all. */
static bool count_ended(struct ob_resp_guard *guard)
{
    char *end;
    errno = 0;
    guard->digits[guard->count] = '\0';
    long long number = strtoll(guard->digits, &end, 10);
    if (!guard->count || *end || errno || number < -1)
        return refuse(guard, "a length is not a number");
    if (guard->type == '$' && number >= 0) {
        guard->bulk = (size_t)number;
        guard->state = OB_RESP_BULK;
        if (guard->bulk > guard->limit || !use(guard, guard->bulk + CRLF))
            return refuse(guard, "a reply is longer than expected");
        guard->bulk += CRLF;
        return true;
    }
    if (guard->type == '*' && number > 0) {
        if (number > (long long)(VALUES_MOST - guard->pending))
            return refuse(guard, "a reply has more values than expected");
        guard->pending += (size_t)number;
    }
    value_ended(guard);
    return true;
}

static bool take_type(struct ob_resp_guard *guard, char type)
{
    if (!strchr("+-:$*", type) || !type)
        return refuse(guard, "the server does not speak the Redis protocol");
    guard->type = type;
    guard->count = 0;
    guard->state = type == '$' || type == '*' ? OB_RESP_COUNT : OB_RESP_LINE;
    return use(guard, 1);
}

static bool take_byte(struct ob_resp_guard *guard, char byte)
{
    if (guard->state == OB_RESP_TYPE)
        return take_type(guard, byte);
    if (!use(guard, 1))
        return false;
    if (guard->state == OB_RESP_LINE) {
        if (byte == '\n')
            value_ended(guard);
        return true;
    }
    if (byte == '\n')
        return count_ended(guard);
    if (byte == '\r')
        return true;
    if (guard->count + 1 >= sizeof guard->digits)
        return refuse(guard, "a length is not a number");
    guard->digits[guard->count++] = byte;
    return true;
}

bool ob_resp_guard_pass(struct ob_resp_guard *guard, const char *data, size_t len)
{
    if (guard->why)
        return false;
    for (size_t at = 0; at < len;) {
        if (guard->state != OB_RESP_BULK) {
            if (!take_byte(guard, data[at++]))
                return false;
            continue;
        }
        size_t step = len - at < guard->bulk ? len - at : guard->bulk;
        at += step;
        guard->bulk -= step;
        if (!guard->bulk)
            value_ended(guard);
    }
    return true;
}
