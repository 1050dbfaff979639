/* page.c - see page.h. */
#include "daemon/page.h"

#include "page_files.h"

#include <string.h>

const struct ob_page_file *ob_page_find(const char *path)
{
    const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;
    if (path[0] != '/')
        return NULL;
    for (size_t i = 0; i < ob_page_files_count; i++)
        if (strcmp(ob_page_files[i].name, name) == 0)
            return &ob_page_files[i];
    return NULL;
}
