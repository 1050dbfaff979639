/* page.h - the files of the dashboard (src/page), embedded by tools/embed-files. They hold no data and need no token. */
#ifndef OB_DAEMON_PAGE_H
#define OB_DAEMON_PAGE_H

#include <stddef.h>

struct ob_page_file {
    const char *name; /* "app.js" */
    const char *type; /* of the content */
    const char *data;
    size_t len;
    const char *etag; /* with its quotes */
};

/* The file of a path: "/" is index.html, "/app.js" app.js. NULL: there is none. */
const struct ob_page_file *ob_page_find(const char *path);

/* Nothing is loaded from anywhere else, nothing is run that is not a file of ours, and no other page may frame it. */
#define OB_PAGE_CSP \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#endif
