/* embed.h - an .sql file that tools/embed-sql embedded in the program. */
#ifndef OB_BASE_EMBED_H
#define OB_BASE_EMBED_H

#include <stddef.h>

struct ob_sql_file {
    const char *name; /* within its folder: "001_tables.sql" */
    const char *text; /* NUL-terminated; limits are filled in, but @schema@ and roles are not */
    size_t len;
    const char *sha256; /* of the text, 64 hex digits */
};

/* By exact name; NULL when there is none. The files are sorted by name. */
const struct ob_sql_file *ob_sql_find(const struct ob_sql_file *files, size_t count, const char *name);

#endif
