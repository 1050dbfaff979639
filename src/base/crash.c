/* crash.c - see crash.h. */
#include "base/crash.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

bool ob_crash_armed;
static char wanted[32];
static long left;

void ob_crash_arm(void)
{
    const char *text = getenv("OUTBOX_CRASH_AT");
    if (!text)
        return;
    size_t len = strcspn(text, ":");
    if (len == 0 || len >= sizeof wanted)
        return;
    memcpy(wanted, text, len);
    left = text[len] ? strtol(text + len + 1, NULL, 10) : 1;
    ob_crash_armed = left > 0;
}

void ob_crash_reached(const char *point)
{
    if (strcmp(point, wanted) == 0 && --left == 0)
        raise(SIGKILL);
}
