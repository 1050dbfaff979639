/* clock.h - the clocks of the process, in microseconds. Not for src/core, which gets the time as an argument. */
#ifndef OB_BASE_CLOCK_H
#define OB_BASE_CLOCK_H

#include <stdint.h>

enum { OB_CLOCK_TEXT = 32 };

int64_t ob_clock_wall_us(void); /* since 1970; may jump */
int64_t ob_clock_mono_us(void); /* from an arbitrary start; monotonic; for measuring */
int64_t ob_clock_boot_us(void); /* likewise, but keeps running while the computer is suspended: for deadlines */

/* "2024-05-01T12:34:56.789012Z" */
void ob_clock_format(int64_t unix_us, char text[OB_CLOCK_TEXT]);

#endif
