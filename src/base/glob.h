/* glob.h - patterns of names.
 *
 * `*` is any number of characters, dots included; `?` is one character; a backslash takes the next character as it is.
 * Everything else is itself, in its case. The whole name must match. */
#ifndef OB_BASE_GLOB_H
#define OB_BASE_GLOB_H

#include <stdbool.h>

bool ob_glob_match(const char *glob, const char *text);
/* Whether `wide` certainly matches everything that `narrow` does. NULL matches anything. */
bool ob_glob_covers(const char *wide, const char *narrow);

/* Names of topics and namespaces have neither '*' nor '?': a text with one of them is a pattern, any other a name. */
bool ob_glob_is(const char *text);
bool ob_glob_names(const char *pattern, const char *name);

#endif
