/* glob.h - patterns of names.
 *
 * `*` matches any number of characters, including dots; `?` matches one character; a backslash makes the next character
 * literal. Every other character matches itself, case-sensitively. The whole name must match. */
#ifndef OB_BASE_GLOB_H
#define OB_BASE_GLOB_H

#include <stdbool.h>

bool ob_glob_match(const char *glob, const char *text);
/* True only if `wide` certainly matches everything that `narrow` matches. NULL matches anything. */
bool ob_glob_covers(const char *wide, const char *narrow);

/* Names of topics and namespaces contain neither '*' nor '?': a text with one of them is a pattern, any other is a name. */
bool ob_glob_is(const char *text);
bool ob_glob_names(const char *pattern, const char *name);

#endif
