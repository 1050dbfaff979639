/* glob.c - see glob.h. */
#include "base/glob.h"

#include "base/utf8.h"

#include <string.h>

static size_t width(const char *text)
{
    size_t wide = ob_utf8_width(text, strlen(text));
    return wide ? wide : 1;
}

/* Matches one pattern character other than a star and advances past it in both; false if it does not match. */
static bool match_one(const char **glob, const char **text)
{
    const char *g = *glob;
    if (*g == '?') {
        *glob = g + 1;
        *text += width(*text);
        return true;
    }
    if (*g == '\\' && g[1])
        g++;
    if (*g != **text)
        return false;
    *glob = g + 1;
    *text += 1;
    return true;
}

bool ob_glob_match(const char *glob, const char *text)
{
    const char *star = NULL, *from = NULL; /* the last star, and where in the text the part after it was last tried */
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            from = text;
        } else if (!*glob || !match_one(&glob, &text)) {
            if (!star)
                return false;
            from += width(from);
            glob = star;
            text = from;
        }
    }
    while (*glob == '*')
        glob++;
    return !*glob;
}

/* A glob without '?' that matches the text of another glob matches everything that the other matches: its literal characters
 * match literal characters, and the other's stars fall within its own. */
bool ob_glob_covers(const char *wide, const char *narrow)
{
    if (!wide || strspn(wide, "*") == strlen(wide))
        return !wide || *wide || (narrow && !*narrow);
    if (!narrow)
        return false;
    if (strcmp(wide, narrow) == 0)
        return true;
    return !strpbrk(wide, "?\\") && !strchr(narrow, '\\') && ob_glob_match(wide, narrow);
}

bool ob_glob_is(const char *text)
{
    return strpbrk(text, "*?") != NULL;
}

bool ob_glob_names(const char *pattern, const char *name)
{
    return ob_glob_is(pattern) ? ob_glob_match(pattern, name) : strcmp(pattern, name) == 0;
}
