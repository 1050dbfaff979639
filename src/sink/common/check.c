/* check.c - see check.h. */
#include "sink/common/check.h"

#include <stdarg.h>
#include <stdio.h>

void ob_check_problem(const struct outbox_sink_check *check, bool error, const char *setting, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    check->problem(check->ctx, error, setting, text);
}
