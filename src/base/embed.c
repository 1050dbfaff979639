/* embed.c - lookup in the arrays that tools/embed-sql generates. */
#include "base/embed.h"

#include <string.h>

const struct ob_sql_file *ob_sql_find(const struct ob_sql_file *files, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(files[middle].name, name);
        if (order == 0)
            return &files[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
