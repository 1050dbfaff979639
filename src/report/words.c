/* words.c - ages, in words. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>

void ob_age_text(double seconds, char text[32])
{
    static const struct {
        double upto, unit;
        const char *name;
    } units[] = {{120, 1, "s"}, {7200, 60, "min"}, {172800, 3600, "h"}, {INFINITY, 86400, "days"}};
    size_t i = 0;
    if (seconds < 0)
        seconds = 0;
    while (seconds >= units[i].upto)
        i++;
    snprintf(text, 32, "%.0f %s", floor(seconds / units[i].unit), units[i].name);
}
