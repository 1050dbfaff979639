/* crash.h - crash points for tests: OUTBOX_CRASH_AT=POINT or POINT:N ends the process with SIGKILL when it reaches that point
 * for the Nth time. A point is between two steps with lasting effects; the crash matrix tests every point. */
#ifndef OB_BASE_CRASH_H
#define OB_BASE_CRASH_H

#include <stdbool.h>

extern bool ob_crash_armed;
void ob_crash_arm(void); /* reads the environment; call it once, before starting threads */
void ob_crash_reached(const char *point);

#define OB_CRASH_POINT(point) \
    do { \
        if (__builtin_expect(ob_crash_armed, false)) \
            ob_crash_reached(point); \
    } while (0)

#endif
