/* when.h - times as people type them. */
#ifndef OB_BASE_WHEN_H
#define OB_BASE_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* "2024-05-01T12:00:00Z", "+30s", "-7d"; false when it is not a time. Relative times count from now_us. */
bool ob_when_parse(const char *text, int64_t now_us, int64_t *unix_us);
/* The same for a time to come: "90d" is "+90d". */
bool ob_when_to_come(const char *text, int64_t now_us, int64_t *unix_us);

#endif
