/* clock.c - clocks, and the text form of a time. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t ob_clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t ob_clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t ob_clock_boot_us(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

void ob_clock_format(int64_t unix_us, char text[OB_CLOCK_TEXT])
{
    int64_t micros = unix_us % 1000000;
    int64_t seconds = unix_us / 1000000;
    if (micros < 0) {
        micros += 1000000;
        seconds--;
    }
    time_t when = (time_t)seconds;
    struct tm utc;
    if (!gmtime_r(&when, &utc)) {
        snprintf(text, OB_CLOCK_TEXT, "%lld", (long long)unix_us);
        return;
    }
    size_t len = strftime(text, OB_CLOCK_TEXT, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + len, OB_CLOCK_TEXT - len, ".%06dZ", (int)micros);
}
